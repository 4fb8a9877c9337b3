"""G3: whether the ways of adapting come in the order that DGA's paper has, on the task AI.

python benchmarks/claims/order.py OUT

OUT is the directory of `acclimate study dga AI` with all contestants of Table 2. The figure is Spearman's correlation,
with the interval of Fisher's transformation (Bonett and Wright, 2000), which counts contestants as chance.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

from outcomes import POWER, adapted, write
from scipy import stats

from acclimate.races.outcome import path_of, read_outcome
from acclimate.statistics.variance import LEVEL

# macro-F1 on AI, Ke et al. (2022), Table 2
PAPER = {
    "untouched": 60.98,
    "MLM": 68.97,
    "adapter": 60.55,
    "prompt": 61.47,
    "KD": 67.76,
    "AdaptedDeiT": 69.72,
    "SimCSE": 69.10,
    "TaCL": 64.04,
    "TaCO": 59.73,
    "InfoWord": 68.29,
    "DGA": 71.99,
}


def main(out: Path) -> None:
    outcome = read_outcome(path_of(out, "dga"))
    cells = {result.row: result for result in outcome.results if result.row in PAPER}
    means = {row: 100 * sum(score.test for score in cells[row].scores) / len(cells[row].scores) for row in PAPER}
    correlation = float(stats.spearmanr([*PAPER.values()], [*means.values()]).statistic)
    error = math.sqrt((1 + correlation**2 / 2) / (len(PAPER) - 3))  # of atanh(correlation)
    null = math.sqrt(1 / (len(PAPER) - 3))
    critical = float(stats.norm.isf(LEVEL / 2))
    said = ", ".join(f"{row} {mean:.1f}" for row, mean in sorted(means.items(), key=lambda each: -each[1]))
    write(
        "dga-baselines",
        {
            "rank correlation with the paper's order": {
                "difference": correlation,
                "low": math.tanh(math.atanh(correlation) - critical * error),
                "high": math.tanh(math.atanh(correlation) + critical * error),
                "p": float(2 * stats.norm.sf(abs(math.atanh(correlation)) / null)),
                "smallest": math.tanh((critical + float(stats.norm.ppf(POWER))) * null),
                "over": f"{len(PAPER)} contestants",
                "learnt": all(cell.learnt for cell in cells.values()),
            }
        },
        out=out,
        losses={"adapted": adapted(outcome)},
        facts={"scores": {row: [100 * score.test for score in cell.scores] for row, cell in cells.items()}},
        remark=f"Scores: {said}; {sum(cell.untaught for cell in cells.values())} runs no better than a constant "
        "answer.",
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
