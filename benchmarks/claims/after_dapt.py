"""T2: what TAPTER gains over no adapting, less what it gains where the model went through DAPT before.

python benchmarks/claims/after_dapt.py OUT COMMAND... [--seconds S] [--commit C] [--remark R]

OUT is the directory of `acclimate study tapter` from the model after DAPT. The gain without DAPT is that of the outcome
tapter-ncbi (tapter.py): another run, which shares no chance with this one, so that variances add up.
"""

from __future__ import annotations

import json

from outcomes import OUTCOMES, arguments, commit, from_error, of_cells, write
from scipy import stats

from acclimate.races.outcome import path_of, read_outcome
from acclimate.statistics.variance import LEVEL

GAIN = "TAPTER against untouched"


def main() -> None:
    given = arguments(named=False)
    outcome = read_outcome(path_of(given.out, "tapter"))
    cells = {result.row: result for result in outcome.results}
    after = of_cells(cells["TAPTER"], cells["untouched"], outcome.split)
    before = json.loads((OUTCOMES / "tapter-ncbi.json").read_text("utf-8"))["figures"][GAIN]
    freedom = len(cells["TAPTER"].scores) - 1  # of each, at least: seeds are the fewest of what is drawn
    critical = float(stats.t.isf(LEVEL / 2, freedom))
    errors = [(gain["high"] - gain["low"]) / 2 / critical for gain in (before, after)]
    found = from_error(
        before["difference"] - after["difference"], sum(error**2 for error in errors) ** 0.5, freedom, after["over"]
    )
    scores = {row: [100 * score.test for score in cell.scores] for row, cell in cells.items()}
    means = ", ".join(f"{row} {sum(each) / len(each):.1f}" for row, each in scores.items())
    write(
        "tapter-after-dapt",
        {
            "gain of TAPTER minus its gain after DAPT": found | {"learnt": before["learnt"] and after["learnt"]},
            f"{GAIN}, after DAPT": after,
        },
        commands=given.commands,
        seconds=given.seconds,
        made_by=given.commit or commit(),
        losses=given.losses,
        facts={"scores": scores},
        remark=f"Scores on test after DAPT: {means}. The gain is {before['difference']:+.1f} points from the embedded "
        f"encoder, {after['difference']:+.1f} [{after['low']:+.1f}, {after['high']:+.1f}] after DAPT. {given.remark}",
    )


if __name__ == "__main__":
    main()
