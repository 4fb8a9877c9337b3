"""L6: how much heads look at neighbours and marks after TLM's first stage, and after pretraining on general text.

python benchmarks/claims/heads.py OUT FILE

OUT has a run of pretraining for each seed, and tlm beside it that of `acclimate study tlm vary=retrieval`. FILE has the
texts that the heads read. The figure is Welch's test over checkpoints of the share of maxima that fall on adjacent
tokens, [CLS], [SEP] or a period. The paper counts heads of which 90% do; so small and short a model may have none.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from outcomes import from_error, pretrained, pretrainings, write

from acclimate.analyses.attention import OTHER, analyse_heads
from acclimate.analyses.texts import sample_texts
from acclimate.races.outcome import path_of, read_outcome


def main(out: Path, file: Path) -> None:
    study = out.parent / "tlm"
    cells = [cell for cell in read_outcome(path_of(study, "tlm-retrieval")).results if cell.row == "BM25"]
    runs = {"TLM": pretrainings(study, cells), "pretrained": sorted(out.glob("[0-9]*"))}
    texts = sample_texts(file, column="text", size=200)
    shares: dict[str, list[float]] = {}
    looking: dict[str, list[float]] = {}
    for name, directories in runs.items():
        checkpoints = [str(directory / "checkpoint") for directory in directories]
        heads = [head for head in analyse_heads(checkpoints, texts, source=file.name).heads if not head.twin]
        shares[name] = [float(np.mean(head.kinds != OTHER)) for head in heads]
        looking[name] = [float(np.mean(head.positional + head.vertical)) for head in heads]
    parts = [float(np.var(sums, ddof=1)) / len(sums) for sums in looking.values()]
    freedoms = [len(runs) - 1 for runs in shares.values()]
    squares = sum(part**2 / freedom for part, freedom in zip(parts, freedoms, strict=True))
    if not squares:
        raise ValueError(f"the checkpoints of each kind have equal shares: {looking}. There is no chance to count")
    difference = float(np.mean(looking["TLM"]) - np.mean(looking["pretrained"]))
    over = " and ".join(str(len(directories)) for directories in runs.values()) + " encoders"
    places = {name: ", ".join(f"{share:.0%}" for share in runs) for name, runs in shares.items()}
    maxima = {name: f"{float(np.mean(sums)):.0%}" for name, sums in looking.items()}
    write(
        "tlm-heads",
        {
            "share of maxima on neighbours and marks against a pretrained model": from_error(
                difference, sum(parts) ** 0.5, sum(parts) ** 2 / squares, over
            )
        },
        out=out,
        losses={"pretrained": [pair for directories in runs.values() for pair in pretrained(directories)]},
        facts={"share of heads": shares, "share of maxima": looking},
        remark=f"Share of heads that are positional or vertical: {places['TLM']} after TLM, {places['pretrained']} "
        f"after pretraining. Of all maxima {maxima['TLM']} and {maxima['pretrained']} fall on neighbours, [CLS], [SEP] "
        "or a period.",
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
