"""T2: what TAPTER gains over no adapting, less what it gains where the model went through DAPT before.

python benchmarks/claims/after_dapt.py OUT

OUT is the directory of `acclimate study tapter` from the model after DAPT, and dapt beside it that of DAPT. The gain
without DAPT is that of the outcome tapter-ncbi (tapter.py): another run, which shares no chance with this one, so that
variances add up.
"""

from __future__ import annotations

import sys
from pathlib import Path

import outcomes
from outcomes import RUN, adapted_once, from_error, of_cells, write
from scipy import stats

from acclimate.core.files import read_json
from acclimate.races.outcome import path_of, read_outcome
from acclimate.statistics.variance import LEVEL

GAIN = "TAPTER against untouched"


def main(out: Path) -> None:
    outcome = read_outcome(path_of(out, "tapter"))
    cells = {result.row: result for result in outcome.results}
    after = of_cells(cells["TAPTER"], cells["untouched"], outcome.split)
    directly = read_json(outcomes.OUTCOMES / "tapter-ncbi.json")
    if directly["encoder"] != (encoder := read_json(out / RUN)["encoder"]):
        raise ValueError(f"tapter-ncbi is from encoder {directly['encoder']}, not from {encoder}: run it first")
    before = directly["figures"][GAIN]
    freedom = len(cells["TAPTER"].scores) - 1  # of each, at least: seeds are the fewest of what is drawn
    critical = float(stats.t.isf(LEVEL / 2, freedom))
    errors = [(gain["high"] - gain["low"]) / 2 / critical for gain in (before, after)]
    found = from_error(
        before["difference"] - after["difference"], sum(error**2 for error in errors) ** 0.5, freedom, after["over"]
    )
    scores = {row: [100 * score.test for score in cell.scores] for row, cell in cells.items()}
    means = ", ".join(f"{row} {sum(points) / len(points):.1f}" for row, points in scores.items())
    write(
        "tapter-after-dapt",
        {
            "gain of TAPTER minus its gain after DAPT": found | {"learnt": before["learnt"] and after["learnt"]},
            f"{GAIN}, after DAPT": after,
        },
        out=out,
        losses={"adapted": adapted_once(out.parent / "dapt")},
        facts={"scores": scores},
        remark=f"Scores on test after DAPT: {means}. The gain is {before['difference']:+.1f} points from the embedded "
        f"encoder, {after['difference']:+.1f} [{after['low']:+.1f}, {after['high']:+.1f}] after DAPT.",
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
