"""G5: how far the importance of heads agrees between domains, with a jackknife over domains.

python benchmarks/claims/importance.py OUT

OUT has importance-heads.csv and importance.csv, which `acclimate analyse importance --out OUT/importance.html` writes.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from outcomes import from_error, write

from acclimate.analyses.head_agreement import correlate_others


def mean_agreement(seen_KLH: torch.Tensor) -> float:
    return float(correlate_others(seen_KLH).mean())


def jackknifed(seen_KLH: torch.Tensor, chance: float) -> dict[str, Any]:
    """Return the mean agreement above chance, with the standard error of leaving out one domain at a time."""
    count = len(seen_KLH)
    whole = mean_agreement(seen_KLH)
    without = [torch.cat([seen_KLH[:number], seen_KLH[number + 1 :]]) for number in range(count)]
    pseudo = [count * whole - (count - 1) * mean_agreement(others_KLH) for others_KLH in without]
    error = float(np.std(pseudo, ddof=1)) / count**0.5
    return from_error(whole - chance, error, count - 1, f"{count} domains")


def main(out: Path) -> None:
    with (out / "importance-heads.csv").open(encoding="utf-8", newline="") as lines:
        heads = list(csv.DictReader(lines))
    with (out / "importance.csv").open(encoding="utf-8", newline="") as lines:
        views = list(csv.DictReader(lines))
    domains = list(dict.fromkeys(row["domain"] for row in heads))

    def table(column: str) -> torch.Tensor:
        layers, each = (max(int(row[name]) for row in heads) for name in ("layer", "head"))
        values = [[float(row[column]) for row in heads if row["domain"] == domain] for domain in domains]
        return torch.tensor(values, dtype=torch.float64).reshape(len(domains), layers, each)

    def of(view: str, column: str) -> list[float]:
        return [float(row[column]) for row in views if row["view"] == view]

    importance_KLH = table("importance")
    ranks_KLH = importance_KLH.flatten(1).argsort(-1).argsort(-1).double().reshape(importance_KLH.shape)
    ranks_KLH -= ranks_KLH.mean((1, 2), keepdim=True)
    shuffled = float(np.mean(of("normalised", "shuffled")))
    others, halves = (float(np.mean(of("normalised", column))) for column in ("others", "halves"))
    write(
        "importance",
        {
            "cosine above that of shuffled importance": jackknifed(table("normalised"), shuffled),
            "rank correlation": jackknifed(ranks_KLH, 0.0),
        },
        out=out,
        remark=f"The mean cosine is {others:.2f}; shuffled importance has {shuffled:.2f} by chance, and two halves of "
        f"a domain's texts have {halves:.2f}: domains agree, but less than two samples of one domain do.",
        facts={
            view: {
                column: dict(zip(domains, of(view, column), strict=True)) for column in ("others", "shuffled", "halves")
            }
            for view in dict.fromkeys(row["view"] for row in views)
        },
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
