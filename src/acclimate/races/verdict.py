"""The verdict: the outcome of a race in one sentence."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from acclimate.core.figures import duration, listed, metric_text, p_text, points
from acclimate.races.compare import Outcome, rows
from acclimate.reports.table import Row, interval_text
from acclimate.statistics.significance import LEVEL, Comparison


def verdict(outcome: Outcome, *, baselines: Collection[str] = (), cut: Sequence[str] = (), stopped: str = "") -> str:
    """Return the outcome of a race in one sentence, and which contestants have no score.

    It says "better" only if the Holm-corrected test is significant, and gives the score itself if there are no rivals.

    baselines  contestants without an encoder, such as TF-IDF. If no encoder beats them, the sentence begins with that
    cut        contestants that the search dropped on dev, so that they were not tested
    stopped    why the race ended before its budget, as a clause such as "nothing could win any more"

    Raises ValueError unless there is exactly one untouched model.
    """
    raced, failed = rows(outcome), [row for _, row, _ in outcome.failed]
    rivals = _rivals(raced)
    if len(raced) - len(rivals) != 1:
        raise ValueError("a verdict needs the untouched model, once, to compare others with.")
    clauses = [_result(raced, rivals, baselines, all_cut=bool(cut) and not failed)]
    if cut:
        clauses.append(f"{listed(cut)} {'was' if len(cut) == 1 else 'were'} given up on dev and not tested")
    if failed:
        clauses.append(f"{listed(failed)} failed and {'has' if len(failed) == 1 else 'have'} no score")
    if stopped:
        clauses.append(f"the race stopped early, since {stopped.rstrip('.')}")
    return "; ".join(clauses) + "."


def claims(outcome: Outcome, *, baselines: Collection[str] = ()) -> list[str]:
    """Return the main claims of `verdict`, one clause each. Two outcomes agree if their claims are equal."""
    raced = rows(outcome)
    said = [f"{row.contestant} is better than the untouched model" for row in _rivals(raced) if _supported(row)]
    simple, encoders = _sides(raced, baselines)
    if simple is not None and encoders and _mean(simple) >= _mean(encoders[0]):
        said.append(f"no encoder scores above {simple.contestant}")
    return said


def _rivals(rows: Sequence[Row]) -> list[Row]:
    return sorted((row for row in rows if row.comparison is not None), key=_gain, reverse=True)


def _sides(rows: Sequence[Row], baselines: Collection[str]) -> tuple[Row | None, list[Row]]:
    """Return the best baseline, or None, and the encoders by falling mean."""
    simple = max((row for row in rows if row.contestant in baselines), key=_mean, default=None)
    return simple, sorted((row for row in rows if row.contestant not in baselines), key=_mean, reverse=True)


def _result(rows: Sequence[Row], rivals: Sequence[Row], baselines: Collection[str], *, all_cut: bool) -> str:
    if not rivals:
        [alone] = rows
        figures = f"{interval_text(alone.score)} points of {metric_text(alone.metric)}"
        if all_cut:
            return f"No contestant came up to the untouched model on dev: it scores {figures} on the test set"
        return f"The model scores {figures}; nothing was compared with it"
    simple, encoders = _sides(rows, baselines)
    if simple is not None and encoders and _mean(simple) >= _mean(encoders[0]):
        return _baseline_wins(simple, encoders[0])
    better = [row for row in rivals if _supported(row)]
    return _winner(better, rivals) if better else _nothing_better(rivals[0])


def _baseline_wins(simple: Row, encoder: Row) -> str:
    unit = metric_text(simple.metric)
    figures = f"{points(_mean(encoder))} against {points(_mean(simple))} points of {unit}"
    if _supported(simple):
        return (
            f"{simple.contestant}, which needs no encoder, is better than the untouched model by {_evidence(simple)}, "
            f"and no encoder here scores above it: the highest, {_called(encoder)}, has {figures}"
        )
    return (
        f"No encoder here scores above {simple.contestant}, which needs none: "
        f"the highest, {_called(encoder)}, has {figures}"
    )


def _winner(better: Sequence[Row], rivals: Sequence[Row]) -> str:
    best, *others = better
    seconds = best.adapting.seconds
    cost = f"at {duration(seconds)} of extra training" if seconds else "with no extra training"
    sentence = f"{best.contestant} is better than the untouched model by {_evidence(best)}, {cost}"
    if others:
        also = [f"{row.contestant} (by {points(_gain(row))})" for row in others]
        sentence += f"; {listed(also)} {'is' if len(also) == 1 else 'are'} better too"
    doubtful = [row for row in rivals if _gain(row) > _gain(best)]
    if doubtful:
        gain, p = points(_gain(doubtful[0]), sign="+"), _p(doubtful[0].p_holm)
        sentence += f"; {doubtful[0].contestant}'s larger difference, {gain}, is not established ({p} after Holm)"
    return sentence


def _nothing_better(nearest: Row) -> str:
    gain, unit = _gain(nearest), f"points of {metric_text(nearest.metric)}"
    opening = "Nothing here beats plain fine-tuning of the untouched model"
    if gain > 0:
        # one interval may exclude zero although the test over all comparisons is not significant
        doubt = "is within noise" if _comparison(nearest).low <= 0 else "may be chance, all comparisons counted"
        said = f"the largest difference, {nearest.contestant}'s {points(gain, sign='+')} {unit}, {doubt}"
    else:
        where = f"is {points(-gain)} {unit} below" if gain < 0 else "is level with it"
        said = f"no contestant scores above it, and the nearest, {nearest.contestant}, {where}"
    return f"{opening}: {said} ({_chance(nearest)})"


def _evidence(row: Row) -> str:
    return f"{points(_gain(row))} points of {metric_text(row.metric)} ({_chance(row)})"


def _chance(row: Row) -> str:
    other = _comparison(row)
    return f"95% interval {points(other.low)} to {points(other.high)}; {_p(row.p_holm)} after Holm"


def _p(p: float | None) -> str:
    text = p_text(p)
    return f"p {text}" if text[0] in "<>" else f"p = {text}"


def _called(row: Row) -> str:
    return "the untouched model" if row.comparison is None else row.contestant


def _mean(row: Row) -> float:
    return row.score.mean


def _comparison(row: Row) -> Comparison:
    assert row.comparison is not None  # only called for rivals
    return row.comparison


def _gain(row: Row) -> float:
    return _comparison(row).difference


def _supported(row: Row) -> bool:
    return row.p_holm is not None and row.p_holm < LEVEL and _gain(row) > 0
