"""What a study or race has established, in sentences, and what its scores do not say. The last functions say whether
the claims of a race depend on test items that leaked.

A difference is established if the test over seeds and items, corrected by Holm's method, has p < .05. Each fine-tuning
says whether it learnt anything (tasks/chance.py::nothing_learnt): `Score.learnt`. A cell of which half of
the runs or more did not is named, and it is compared with nothing (races/compare.py).
"""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from acclimate.core.figures import duration, has, listed, metric_text, p_text, points
from acclimate.core.settings import SEEDS
from acclimate.core.types import Label, Score
from acclimate.data.examination import Leak
from acclimate.races.compare import MAIN, Contrast
from acclimate.races.outcome import IN_SCIKIT_LEARN, NEAR, CellResult, Outcome, probe_row, rows
from acclimate.reports.page import amount
from acclimate.reports.table import FROZEN, UNADAPTED, UNTOUCHED, ContestantRow, interval_text
from acclimate.statistics.folds import FEWEST_REPEATS
from acclimate.statistics.power import POWER, PowerDesign, design_from_items, measured_in_race, probed
from acclimate.statistics.significance import FEWEST_SEEDS, LEVEL, ONE_ADAPTATION, Comparison
from acclimate.tasks.metrics import metric_named
from acclimate.tasks.task import Kind, Metric

DOMAIN_TEXT = "corpus, domain"  # what `Facts.hashes` has where a race was given raw text of the domain
GUIDE = "https://github.com/acclimate-nlp/acclimate/blob/main/docs/which-method.md"
NAMED = 9  # names at most that a sentence lists
SMALLEST = 0.0005  # difference of scores that is not 0.0 points in print
FAR_FROM_DEV = 0.1  # by which the score on test of the model to use may be below that on dev before a warning
MARGIN = 0.02  # a score this little above that of a constant answer is no better than it
COMMON = 20  # labels that are tried as the same answer to every text


def verdict(outcome: Outcome) -> str:
    """Return the result in a sentence or two.

    Raises ValueError for a race in which the untouched model has no score.
    """
    if outcome.race is not None:
        return _race_sentence(outcome)
    names = dict.fromkeys(contrast.against.name for contrast in outcome.compared.contrasts)
    return " ".join(established(outcome, name) for name in names) or "Nothing was compared."


def established(outcome: Outcome, name: str) -> str:
    """Return which differences by the main metrics are established, of the comparisons of this name; "" if none was
    made.
    """
    contrasts = [
        contrast for contrast in outcome.compared.contrasts if contrast.against.name == name and contrast.metric == MAIN
    ]
    if not contrasts:
        return ""
    clauses = []
    for word in ("better", "worse"):
        labels = [outcome.label(contrast.against.key) for contrast in contrasts if contrast.said == word]
        if labels:
            which = f": {listed(labels)}" if len(labels) <= NAMED else ""
            clauses.append(f"{len(labels)} of {len(contrasts)} {word}{which}")
    if not clauses:
        opening = f"Against {name} no difference is established"
        return f"{opening}: all {len(contrasts)} may be chance{_adaptations(contrasts)}."
    clear = sum(contrast.established for contrast in contrasts)
    remainder = "" if clear == len(contrasts) else " The rest may be chance."
    return f"Against {name}, established: {'; '.join(clauses)}{_adaptations(contrasts)}.{remainder}"


def _adaptations(contrasts: Sequence[Contrast]) -> str:
    """Return the end of a sentence that says how many of the differences rest on one adaptation; "" if none does."""
    alone = sum(bool(contrast.comparison.one_adaptation) for contrast in contrasts)
    if not alone:
        return ""
    which = "each difference" if alone == len(contrasts) else f"{alone} of the {len(contrasts)} differences"
    return f"; {which} {ONE_ADAPTATION if alone in (1, len(contrasts)) else ONE_ADAPTATION.replace('rests', 'rest', 1)}"


def claims(outcome: Outcome) -> list[str]:
    """Return the main claims of a race's verdict, one clause each. Two outcomes agree if their claims are equal."""
    probes = [
        f"the probe of {outcome.cells[contrast.against.key].contestant} is {contrast.said} than the untouched model's"
        for contrast in _probe_contrasts(outcome)
        if contrast.established
    ]
    if outcome.only_probed:
        return probes
    taught = _taught(outcome)
    clauses = [f"{row.contestant} is better than the untouched model" for row in _rivals(taught) if _supported(row)]
    if simple := baseline_ahead(outcome):
        clauses.append(f"no encoder scores above {simple}")
    return [*clauses, *probes]


def baseline_ahead(outcome: Outcome) -> str:
    """Return the name of the baseline that no encoder scores above; "" if there is none."""
    simple = _ahead(*_sides(_taught(outcome), outcome.baselines))
    return simple.contestant if simple is not None else ""


def without_encoder(outcome: Outcome) -> str:
    """Return in a sentence how to make the model that no encoder scores above; "" if there is none, or if it has more
    than scikit-learn's classes, or if nothing was fine-tuned.
    """
    if outcome.race is None or outcome.only_probed:
        return ""
    simple, encoders = _sides(_taught(outcome), [name for name in outcome.baselines if name not in UNADAPTED])
    encoders = [row for row in encoders if row.contestant not in UNADAPTED]
    best = _ahead(simple, encoders) if encoders else simple
    code = outcome.race.given.get(best.contestant, {}).get(IN_SCIKIT_LEARN) if best is not None else None
    return (
        f"{best.contestant} as scikit-learn has it, to be fitted on the training rows: {code}."
        if best is not None and code
        else ""
    )


def next_race(outcome: Outcome) -> PowerDesign | None:
    """Return the design of another race with the same contestants, test items and seeds; None if this one compared
    nothing with the untouched model, or some contestants on fewer seeds, or probed only. Its spread is that of the
    contestants that were adapted several times, where some were, else that of the encoders.
    """
    if outcome.only_probed:
        return None
    by_name = {row.contestant: row.comparison for row in rows(outcome) if row.comparison is not None}
    comparisons = list(by_name.values())
    # TF-IDF has no chance over adaptations or seeds, and would hide that of the others
    encoders = [comparison for name, comparison in by_name.items() if name not in outcome.baselines]
    drawn = [comparison for comparison in comparisons if comparison.adaptations > 1] or encoders or comparisons
    if len({(comparison.items, comparison.seeds) for comparison in drawn}) != 1:
        return None
    return replace(measured_in_race(drawn), comparisons=len(comparisons))


def spread(outcome: Outcome) -> PowerDesign | None:
    """Return the design of a race with the spread of this one's scores: of its runs, or over items alone of its probes
    or of a cross-validation. None if nothing differs between contestants.
    """
    design = next_race(outcome)
    if design is not None and not outcome.folds:
        return design
    if design is not None:  # of a repeat's rows, the factor of by-rows cross-validation taken out again
        return design_from_items(design.item_variance * (outcome.folds - 1) / outcome.folds, design.items, SEEDS)
    probe_designs: list[PowerDesign] = []
    for contrast in _probe_contrasts(outcome):
        ours, theirs = (outcome.cells[key].scores[0] for key in (contrast.against.key, contrast.reference))
        probe_designs.append(probed(ours, theirs, metric_named(ours.metric), seeds=SEEDS))
    differing = [power for power in probe_designs if power.item_variance > 0]
    if not differing:
        return None
    mean = sum(power.item_variance + power.residual_variance for power in differing) / len(differing)
    return design_from_items(mean, differing[0].items, SEEDS)


def reach(outcome: Outcome) -> str:
    """Return in a sentence which difference another such race would detect; "" if this one does not show it."""
    design = next_race(outcome)
    least = _detectable(outcome)
    if design is None or least is None:
        return ""
    if few := _few(outcome):
        return f"{few} seldom establish a difference. Take {FEWEST_SEEDS}, or a larger budget."
    if least >= 1:
        between = " between encoders" if outcome.baselines else ""
        return (
            f"Another race with these contestants, seeds and test items could not tell even the largest possible "
            f"difference{between} from chance. Take more seeds, or a larger budget."
        )
    return (
        f"Another race with these contestants and seeds would detect a true difference of {100 * least:.1f} points "
        f"from the untouched model with a probability of {POWER:.0%}."
    )


def further(outcome: Outcome) -> str:
    """Return in a sentence what else to try where a race has established nothing; "" where it has, or where no encoder
    learnt anything, which no other text mends.
    """
    if outcome.race is None or claims(outcome) or not _sides(_taught(outcome), outcome.baselines)[1]:
        return ""
    guide = f"What helped in our own runs, by labels, raw text, distance of the domain and compute: {GUIDE}."
    if DOMAIN_TEXT in outcome.race.hashes:
        return guide
    more = "Raw text of the domain (--corpus) adds contestants that read it, which helped most surely in our own runs."
    return f"{more} {guide}"


def _detectable(outcome: Outcome) -> float | None:
    """Return the true difference that a race like this one detects with a probability of POWER; None if it is not
    known, or if no contestant differs from the untouched model on any item with any seed.
    """
    design = next_race(outcome)
    least = design.detectable() if design is not None else 0.0
    return least if least >= SMALLEST else None


def _few(outcome: Outcome) -> str:
    """Return "2 seeds", or "2 adaptations" where the nearest encoder was adapted several times: so few seldom establish
    a difference, and what they detect is not worth naming. "" where there are more, and of a cross-validation, whose
    repeats are not seeds.
    """
    encoders = [row for row in _rivals(_taught(outcome)) if row.contestant not in outcome.baselines]
    if outcome.folds or not encoders:
        return ""
    nearest = _comparison(encoders[0])
    several = nearest.adaptations > 1
    drawn, what = (nearest.adaptations, "adaptation") if several else (nearest.seeds, "seed")
    return amount(drawn, what) if drawn < FEWEST_SEEDS else ""


def one_sided(outcome: Outcome) -> Iterator[str]:
    """Yield sentences that name what gives every test text the same answer, a model to use that is far worse on test
    than on dev or is none of those that are better on test, and the labels that it misses.
    """
    scored = [result for result in outcome.results if result.task.kind == "sequence" and result.scores]
    same: dict[str, list[str]] = {}
    for result in scored:
        answers = {label for score in result.scores for label in score.predicted}
        if len(answers) == 1 and len({*result.scores[0].gold}) > 1:
            same.setdefault(str(*answers), []).append(outcome.label(result.key))
    for answer, names in same.items():
        yield f"{_some(names)} {'gives' if len(names) == 1 else 'give'} every test text the same answer, {answer!r}."
    used = outcome.race.use if outcome.race is not None else ""
    of_used = [result for result in outcome.results if result.scores and _is_of(used, result, outcome)]
    for result in of_used:
        dev, test = (
            sum(getattr(one, split) for one in result.scores) / len(result.scores) for split in ("dev", "test")
        )
        if not outcome.folds and dev - test > FAR_FROM_DEV:
            sizes = [result.task.sizes["dev"], result.task.sizes["test"]]
            chance = dev - test < math.sqrt(sum(1 / size for size in sizes))  # twice the error of a share of .5
            why = "so few rows may do that by chance." if chance else "are both drawn alike?"
            yield (
                f"The model to use has {points(dev)} points on {sizes[0]:,} rows of dev and {points(test)} on "
                f"{sizes[1]:,} of test: {why}"
            )
    taught = _taught(outcome)
    better = [row for row in _rivals(taught) if _supported(row) and row.contestant not in outcome.baselines]
    chosen = next((row for row in taught if row.contestant == used), None)
    better = [row for row in better if chosen is not None and row.score.mean > chosen.score.mean]
    if better and chosen is not None and chosen not in better and not outcome.folds:
        means = [points(sum(row.dev) / len(row.dev)) for row in (chosen, better[0])]
        name = better[0].contestant
        way = "give predict a checkpoint of its fine-tunings, under jobs/"
        if outcome.race is not None and name == outcome.race.encoder:
            way = f"add --contestant {shlex.quote(name)} to predict and ship"
        yield (
            f"{name} is better on test, but only dev may choose the model to use, which is "
            f"{'the untouched model' if used == UNTOUCHED else used} ({means[0]} against {means[1]} points on dev). To "
            f"use {name} all the same, {way}."
        )
    for result in of_used:
        if result.task.kind != "sequence":
            continue
        handed_over = max(result.scores, key=lambda score: score.dev)
        predictions = {*handed_over.predicted}
        missed = Counter(label for label in handed_over.gold if label not in predictions and len(predictions) > 1)
        if missed:
            counts = [f"{label} ({amount(count, 'test text')})" for label, count in missed.most_common()]
            yield (
                f"On the test set the model to use never predicts {_some(counts)}. More training rows with such "
                "labels may help."
            )


def _is_of(used: str, result: CellResult, outcome: Outcome) -> bool:
    """Return whether the result is that of the model to use, whose row has another name if it ran alone."""
    return not result.probe and bool(result.row == used or (used and outcome.alone and result.encoder))


def cross_validation_sentence(outcome: Outcome) -> str:
    """Return in sentences how a race by cross-validation scores, and what few repeats mean; "" for one test set."""
    scored = [result for result in outcome.results if not result.failed]
    if not outcome.folds or not scored:
        return ""
    repeats, rows = len(scored[0].scores), scored[0].task.sizes["test"]
    few = (
        f" Fewer than {FEWEST_REPEATS} repeats give intervals that cover too seldom: raise seeds."
        if repeats < FEWEST_REPEATS
        else ""
    )
    return (
        f"Scores are by {outcome.folds}-fold cross-validation, repeated {amount(repeats, 'time')} over {rows:,} rows: "
        f"each row is predicted once a repeat, by a model that was trained on other folds, and a repeat's score is "
        f"that of all its predictions. A repeat has another division and another seed; where a plot says seed or test "
        f"item, it is a repeat or a row.{few}"
    )


def _race_sentence(outcome: Outcome) -> str:
    """Return the result of a race in one sentence, and which contestants have no score or learnt nothing.

    It says "better" only if the difference is established, and gives the score itself if there are no rivals. If no
    encoder scores above the baseline, it begins with that.
    """
    assert outcome.race is not None
    if outcome.first_impression:
        return impression(outcome)
    raced = rows(outcome)
    failed = [
        result.contestant for result in outcome.results if result.failed and (outcome.only_probed or not result.probe)
    ]
    if not any(row.contestant == UNTOUCHED for row in raced):
        raise ValueError("a verdict needs the untouched model, once, to compare others with.")
    if outcome.only_probed:
        clauses = [_probed_only(raced, outcome.baselines, alone=outcome.alone)]
        if failed:
            clauses.append(f"{listed(failed)} failed and {has(failed)} no score")
        return " ".join([f"{'; '.join(clauses)}.", *filter(None, [represented(outcome)])])
    taught = _taught(outcome)
    least = _detectable(outcome)
    clauses = [_result(raced, taught, outcome.baselines, least=least, few=_few(outcome))]
    clauses += [above] if (above := _above_baseline(outcome)) else []
    named = [row.contestant for row in raced if row not in taught and row.contestant != UNTOUCHED]
    if named and any(row.contestant not in outcome.baselines for row in taught):
        clauses.append(f"{listed(named)} learnt nothing and {has(named)} no verdict")
    contestants = {row.contestant for row in taught}
    judged = [
        result
        for result in outcome.results
        if result.row in contestants and result.encoder and not result.probe and result.learnt
    ]
    if partly := [f"{result.row} ({_untaught(result)})" for result in judged if result.untaught]:
        clauses.append(f"fine-tunings that learnt nothing count in the means of {listed(partly)}")
    if failed:
        clauses.append(f"{listed(failed)} failed and {has(failed)} no score")
    if outcome.race.stopped:
        clauses.append(f"the race stopped early, since {outcome.race.stopped.rstrip('.')}")
    return " ".join([f"{'; '.join(clauses)}.", *filter(None, [represented(outcome)])])


def impression(outcome: Outcome) -> str:
    """Return the result of a race that was stopped before its third round: the scores, the highest first."""
    assert outcome.race is not None
    raced = sorted(rows(outcome), key=lambda row: -row.score.mean)
    tuned = {result.row for result in outcome.results if result.encoder and not result.probe} - {*UNADAPTED}
    probed = "" if tuned else "; nothing was fine-tuned"
    if not tuned and any(row.contestant == FROZEN for row in raced):
        raced = [row for row in raced if row.contestant != UNTOUCHED]  # its probe, which FROZEN is
    after = f"after {amount(outcome.rounds, 'round')}" if outcome.rounds else "before the first round was complete"
    untouched = "the untouched model" if tuned else "a probe of the untouched model"
    names = [untouched if row.contestant == UNTOUCHED else row.contestant for row in raced]
    scores = [f"{name} {points(row.score.mean)}" for name, row in zip(names, raced, strict=True)]
    unit = f" points of {metric_text(raced[0].metric)}" if raced else "no contestant has a score"
    return (
        f"First impression {after}: {listed(scores)}{unit}{probed}. Differences may be chance: intervals take "
        f"{FEWEST_SEEDS} rounds. The same command with a larger --budget goes on."
    )


def _probed_only(raced: Sequence[ContestantRow], baselines: Collection[str], *, alone: bool) -> str:
    """Return the first clause where nothing was fine-tuned."""
    [untouched] = [row for row in raced if row.contestant == UNTOUCHED]
    beside = [
        f"; {row.contestant}, {_requirement(row)}, {_figures(row)}" for row in raced if row.contestant in baselines
    ]
    model = "frozen model" if alone else "frozen, untouched model"
    return f"Nothing was fine-tuned. A probe of the {model} scores {_figures(untouched)}{''.join(beside)}"


def represented(outcome: Outcome) -> str:
    """Return in a sentence what adapting did to what the encoders represent, by their probes; "" if no probe of an
    adapted model was compared with that of the untouched model.
    """
    contrasts = _probe_contrasts(outcome)
    if not contrasts:
        return ""
    largest = max(contrasts, key=lambda contrast: abs(contrast.comparison.difference))
    if not any(contrast.established for contrast in contrasts):
        difference = f"{points(largest.comparison.difference, sign='+')} points of {_metric(outcome, largest)}"
        name = outcome.cells[largest.against.key].contestant
        which = "its probe differs" if len(contrasts) == 1 else f"the probe of {name} differs most"
        subject = f"{name} changed" if len(contrasts) == 1 else "adapting changed"
        return (
            f"Before fine-tuning, it is not established that {subject} what the encoder represents: {which} from the "
            f"untouched model's by {difference} ({_likely(largest.comparison, largest.p_holm)})."
        )
    clauses = []
    for word in ("better", "worse"):
        matches = [contrast for contrast in contrasts if contrast.said == word]
        for contrast in sorted(matches, key=lambda contrast: -abs(contrast.comparison.difference)):
            gap = f"{points(abs(contrast.comparison.difference))} points of {_metric(outcome, contrast)}"
            evidence = _likely(contrast.comparison, contrast.p_holm)
            name = outcome.cells[contrast.against.key].contestant
            clauses.append(f"the probe of {name} is {word} than the untouched model's by {gap} ({evidence})")
    remainder = (
        "" if all(contrast.established for contrast in contrasts) else "; the other probes' differences may be chance"
    )
    return f"Before fine-tuning, adapting changed what the encoder represents: {'; '.join(clauses)}{remainder}."


def _probe_contrasts(outcome: Outcome) -> list[Contrast]:
    """Return the comparisons of probes of adapted models with that of the untouched model, by the main metric."""
    name = probe_row(UNTOUCHED)
    compared = [
        contrast for contrast in outcome.compared.contrasts if contrast.against.name == name and contrast.metric == MAIN
    ]
    return [contrast for contrast in compared if outcome.cells[contrast.against.key].scores[0].adaptation is not None]


def _metric(outcome: Outcome, contrast: Contrast) -> str:
    return metric_text(outcome.cells[contrast.against.key].task.metric)


def _taught(outcome: Outcome) -> list[ContestantRow]:
    """Return the rows of the contestants that learnt something."""
    judged = [result for result in outcome.results if not result.probe]
    untaught = {result.row for result in judged if not result.learnt}
    return [row for row in rows(outcome) if row.contestant not in untaught]


def _result(
    raced: Sequence[ContestantRow],
    taught: Sequence[ContestantRow],
    baselines: Collection[str],
    *,
    least: float | None,
    few: str,
) -> str:
    """Return the first clause.

    taught: the rows of contestants that learnt something, baselines included; least, few: as of `_nothing_better`
    """
    simple, encoders = _sides(taught, baselines)
    if not encoders:
        needs = "which fine-tunes nothing" if simple and simple.contestant in UNADAPTED else "which needs none"
        figures = f"; {simple.contestant}, {needs}, scores {_figures(simple)}" if simple else ""
        fine_tuned = "fine-tuned " if simple is not None and simple.contestant in UNADAPTED else ""
        return f"No {fine_tuned}encoder here has learnt the task, so nothing is compared{figures}"
    untouched = next((row for row in taught if row.contestant == UNTOUCHED), None)
    if untouched is None:
        best = encoders[0]
        return (
            f"The untouched model learnt nothing, so nothing is compared with it; the highest encoder, "
            f"{best.contestant}, scores {_figures(best)}"
        )
    rivals = _rivals(taught)
    if not rivals:
        figures = _figures(untouched)
        if len(raced) > 1:
            return f"The untouched model scores {figures}; nothing could be compared with it"
        return f"The model scores {figures}; nothing was compared with it"
    if ahead := _ahead(simple, encoders):
        return _baseline_wins(ahead, encoders[0])
    better = [row for row in rivals if _supported(row)]
    return _better(better, rivals) if better else _nothing_better(rivals, least, few)


def _rivals(raced: Sequence[ContestantRow]) -> list[ContestantRow]:
    return sorted((row for row in raced if row.comparison is not None), key=_gain, reverse=True)


def _sides(
    raced: Sequence[ContestantRow], baselines: Collection[str]
) -> tuple[ContestantRow | None, list[ContestantRow]]:
    """Return the best baseline, or None, and the encoders by falling mean."""
    simple = max((row for row in raced if row.contestant in baselines), key=lambda row: row.score.mean, default=None)
    encoders = (row for row in raced if row.contestant not in baselines)
    return simple, sorted(encoders, key=lambda row: row.score.mean, reverse=True)


def _ahead(simple: ContestantRow | None, encoders: Sequence[ContestantRow]) -> ContestantRow | None:
    """Return the best baseline if no encoder scores above it, else None. encoders: by falling mean"""
    behind = simple is None or not encoders or simple.score.mean < encoders[0].score.mean
    return None if behind else simple


def _above_baseline(outcome: Outcome) -> str:
    """Return what the comparison of the best encoder on dev with the baseline found; "" if it does not score above the
    baseline, or was not compared.
    """
    best = outcome.race.encoder if outcome.race is not None else ""
    for result in outcome.results:
        if result.row != best or result.probe or result.failed:
            continue
        for name in outcome.baselines:
            contrast = outcome.compared.contrast(result.key, name)
            gain = 0.0 if contrast is None else contrast.comparison.mean - contrast.comparison.reference_mean
            if contrast is None or gain <= 0:
                continue
            encoder = "the untouched model" if best == UNTOUCHED else best
            word = "is" if contrast.said == "better" else "may be"
            evidence = _likely(contrast.comparison, contrast.p_holm)
            by = f"{points(gain)} points ({evidence})"
            return f"the best encoder on dev, {encoder}, {word} better than {name} by {by}"
    return ""


def _requirement(simple: ContestantRow) -> str:
    """Return what a contestant that is not fine-tuned takes."""
    return "which fine-tunes nothing" if simple.contestant in UNADAPTED else "which needs no encoder"


def _baseline_wins(simple: ContestantRow, encoder: ContestantRow) -> str:
    name = "the untouched model" if encoder.contestant == UNTOUCHED else encoder.contestant
    unit, caution = f"points of {metric_text(simple.metric)}", ""
    if encoder.score.adaptations == 1:
        caution = "; its score rests on one adaptation: another draw may give another score"
    means = f"{points(encoder.score.mean)} against {points(simple.score.mean)} {unit}{caution}"
    if _supported(simple):
        return (
            f"{simple.contestant[:1].upper()}{simple.contestant[1:]}, {_requirement(simple)}, is better than the "
            f"untouched model by {_evidence(simple)}, and no encoder here scores above it: the highest, {name}, has "
            f"{means}"
        )
    opening = f"No encoder here scores above {simple.contestant}, which needs none: the highest, {name}"
    if simple.contestant in UNADAPTED:
        model = "the frozen one with a linear layer" if simple.contestant == FROZEN else simple.contestant
        opening = f"No fine-tuned encoder scores above {model}: the highest, {name}"
    if encoder.score.mean == simple.score.mean:
        return f"{opening}, scores the same, {points(simple.score.mean)} {unit}{caution}"
    ahead = f"{opening}, has {means}"
    if simple.comparison is None or simple.p_holm is None or encoder.contestant != UNTOUCHED:
        return ahead
    return f"{ahead}, which is not established ({_chance(simple)})"


def _better(better: Sequence[ContestantRow], rivals: Sequence[ContestantRow]) -> str:
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


def _nothing_better(rivals: Sequence[ContestantRow], least: float | None, few: str) -> str:
    """Return the clause of a race in which no contestant is better. Where one may be, it is not said that none is: the
    race could not tell.

    least: the true difference that such a race detects; None: not known. few: as `_few` returns it
    """
    nearest = rivals[0]
    gain, unit = _gain(nearest), f"points of {metric_text(nearest.metric)}"
    doubtful = [_comparison(row).high for row in rivals if not _worse(row) and _comparison(row).high >= SMALLEST]
    opening = "Nothing here beats plain fine-tuning of the untouched model"
    if doubtful:
        opening = "This race could not tell whether anything here beats plain fine-tuning of the untouched model"
        if few:
            opening += f": {few} seldom establish a difference"
        elif least is None:
            opening += f", by up to {points(max(doubtful))} points"
        elif least < 1:
            seeds = amount(_comparison(nearest).seeds, "seed")
            detected = f"a true difference of {points(least)} points with a probability of {POWER:.0%}"
            opening += f": with {seeds} it detects {detected}"
        else:
            opening += ": it could not detect even the largest possible difference"
    if gain > 0:
        # one interval may exclude zero although the test over all comparisons is not significant
        doubt = "is within noise" if _comparison(nearest).low <= 0 else "may be chance, all comparisons counted"
        finding = f"the largest gain, {nearest.contestant}'s {points(gain, sign='+')} {unit}, {doubt}"
    else:
        where = f"is {points(-gain)} {unit} below" if gain < 0 else "is level with it"
        finding = f"no contestant that learnt the task scores above it, and the nearest, {nearest.contestant}, {where}"
    return f"{opening}{';' if ':' in opening else ':'} {finding} ({_chance(nearest)})"


def _figures(row: ContestantRow) -> str:
    return f"{interval_text(row.score)} points of {metric_text(row.metric)}"


def _evidence(row: ContestantRow) -> str:
    return f"{points(_gain(row))} points of {metric_text(row.metric)} ({_chance(row)})"


def _chance(row: ContestantRow) -> str:
    return _likely(_comparison(row), row.p_holm)


def _likely(comparison: Comparison, p_holm: float | None) -> str:
    interval = f"95% interval {points(comparison.low)} to {points(comparison.high)}"
    p = f"{_p(p_holm)} after Holm"
    few = comparison.few_items if p_holm is not None and p_holm < LEVEL else ""
    return "; ".join(filter(None, (interval, p, comparison.one_adaptation, few)))


def _p(p: float | None) -> str:
    text = p_text(p)
    return f"p {text}" if text[0] in "<>" else f"p = {text}"


def _comparison(row: ContestantRow) -> Comparison:
    assert row.comparison is not None  # only called for rivals
    return row.comparison


def _gain(row: ContestantRow) -> float:
    return _comparison(row).difference


def _supported(row: ContestantRow) -> bool:
    return row.p_holm is not None and row.p_holm < LEVEL and _gain(row) > 0


def _worse(row: ContestantRow) -> bool:
    return row.p_holm is not None and row.p_holm < LEVEL and _gain(row) < 0


def warnings(outcome: Outcome) -> list[str]:
    """Return a sentence for each task that no encoder has learnt, then sentences on runs that learnt nothing, on probes
    and baselines that do no better than a constant answer or guesses, and on pretraining that ended before it had
    learnt context.
    """
    scored = [result for result in outcome.results if result.scores and not result.failed]
    judged = [result for result in scored if result.encoder]
    trained = [result for result in judged if not result.probe]
    groups: dict[tuple[str, str], list[CellResult]] = {}
    for result in trained:
        groups.setdefault((result.model, result.column), []).append(result)
    several = len({(result.model, result.column) for result in outcome.results}) > 1
    sentences: list[str] = []
    cut = outcome.first_impression
    for (model, column), results in groups.items():
        name = f"{column} ({model})" if model else column
        sentences += _task_warnings(results, f"{name}: no encoder here has learnt it" if several else "", cut=cut)
    untrained = [result for result in scored if result.probe or not result.encoder]
    return [
        *sentences,
        *_run_warnings(outcome, trained),
        *_untrained_warnings(outcome, untrained),
        *_pretraining_warnings(judged),
    ]


def _pretraining_warnings(results: Sequence[CellResult]) -> Iterator[str]:
    """Yield a sentence that names the rows whose pretraining has learnt little more than frequencies of pieces."""
    near = dict.fromkeys(f"{result.row} ({result.facts[NEAR]})" for result in results if NEAR in result.facts)
    if near:
        yield (
            "Pretraining from random weights ended little below what knowing the frequencies of pieces alone would "
            f"lose: {_some([*near])}. Differences here may be about which run has left that plateau, not about what is "
            "compared. Give pretraining more steps, or another rate or initializer_range."
        )


def _task_warnings(results: Sequence[CellResult], opening: str, *, cut: bool) -> Iterator[str]:
    """Yield a warning if none of these cells of one task scores above a constant answer, or if none of them learnt.

    cut: True if a budget shortened fine-tuning
    """
    task, [first, *_] = results[0].task, results[0].scores
    constant = constant_score(first.gold, task.kind, metric_named(task.metric))
    best = max(sum(score.test for score in result.scores) / len(result.scores) for result in results if result.shown)
    decides = constant < 1.0  # where one answer is right for every text, no score can be better
    above = best > constant + MARGIN or not decides
    if above and any(result.learnt for result in results):
        return
    why = "Differences between such scores, those of 0 too, say nothing."
    if above:
        why = (
            "On dev, or by the loss in training, none was better than constant answers and guesses, so they are not "
            "compared."
        )
    way_out = "Train longer (finetune.epochs) or at another rate (search.rates, finetune.plan.rate)."
    if cut:
        way_out = "The budget cut fine-tuning short: give a larger --budget or none, for which --dry-run says how long."
    yield (
        f"{opening or 'No encoder here has learnt the task'}: the highest has {points(best)} points, the same answer "
        f"to every text {points(constant)}. {why} {way_out}"
    )


def _run_warnings(outcome: Outcome, trained: Sequence[CellResult]) -> Iterator[str]:
    """Yield sentences that count and name the runs that learnt nothing, and those that had a second attempt."""
    nothing = [result for result in trained if not result.learnt]
    if nothing:
        runs, every = sum(result.untaught for result in nothing), sum(len(result.runs) for result in nothing)
        again = sum(run.again and not run.learnt for result in nothing for run in result.runs)
        twice = f", {f'{again} of them' if again < runs else 'each'} in a second attempt too" if again else ""
        consequence = "So it is compared with nothing." if len(nothing) == 1 else "So they are compared with nothing."
        labels = [outcome.label(result.key) for result in nothing]
        yield f"{_some(labels)} learnt nothing: {runs} of {every} fine-tunings{twice}. {consequence}"
    partly = [result for result in trained if result.untaught and result.learnt]
    if partly:
        counts = [f"{outcome.label(result.key)} ({_untaught(result)})" for result in partly]
        yield f"Some fine-tunings learnt nothing, and count in the means: {_some(counts)}."
    mended = {result.key: sum(run.again and run.learnt for run in result.runs) for result in trained}
    if any(mended.values()):
        counts = [f"{outcome.label(key)} ({count})" for key, count in mended.items() if count]
        yield (
            f"Some fine-tunings learnt nothing at first, and were done once more at another rate with more steps: "
            f"{_some(counts)}."
        )


def _untrained_warnings(outcome: Outcome, results: Sequence[CellResult]) -> Iterator[str]:
    """Yield sentences that name the probes and baselines that do no better on dev than a constant answer or guesses."""
    nothing = [outcome.label(result.key) for result in results if not result.learnt]
    if nothing:
        verb, consequence = ("does", "it is") if len(nothing) == 1 else ("do", "they are")
        yield (
            f"On dev, or by loss, {_some(nothing)} {verb} no better than a constant answer or guesses. "
            f"So {consequence} compared with nothing."
        )
    partly = [result for result in results if result.untaught and result.learnt]
    if partly:
        counts = [f"{outcome.label(result.key)} ({_untaught(result)})" for result in partly]
        yield (
            f"On some {'folds' if outcome.folds else 'adaptations'} these do no better than a constant answer or "
            f"guesses, which counts in their means: {_some(counts)}."
        )


def _untaught(result: CellResult) -> str:
    """Return how many of a cell's runs learnt nothing, and on which folds of a cross-validation."""
    count = f"{result.untaught} of {len(result.runs)}"
    which = [
        f"repeat {score.seed + 1}, fold {number}"
        for score in result.scores
        for number, fold in enumerate(score.folds, 1)
        if not fold.learnt
    ]
    return f"{count}: {'; '.join(which[:NAMED])}{' and others' * (len(which) > NAMED)}" if which else count


def _some(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return listed([*names[:NAMED], *([f"{more} others"] if more > 0 else [])])


def constant_score(gold: Sequence[Label], kind: Kind, metric: Metric) -> float:
    """Return the score of the best answer that is the same for every text: one of the COMMON commonest labels (the
    commonest may not count, as with `micro_f1 without false`), of tags for every word; 0 for numbers.
    """
    if kind == "score":
        return 0.0
    if kind == "tokens":
        tags = [label for label in gold if isinstance(label, tuple)]
        common = Counter(tag for label in tags for tag in label).most_common(COMMON)
        return max(metric.compute(gold, [(tag,) * len(label) for label in tags]) for tag, _ in common)
    return max(metric.compute(gold, [label] * len(gold)) for label, _ in Counter(gold).most_common(COMMON))


@dataclass(frozen=True)
class Leakage:
    """All leaks that were found, and the scores without the `leaked` of `items` test items that train contains.

    outcome, verdict   as on the rest of the page, on the other items; empty where no test item leaked, or too many did
    changed         in words, what is claimed on all items only or on the others only; empty where nothing is
    dropped         True if training rows that contain a test text were taken out before the race
    """

    leaks: Sequence[Leak]
    items: int
    leaked: int = 0
    outcome: Outcome | None = None
    verdict: str = ""
    changed: Sequence[str] = ()
    dropped: bool = False


def leakage_of(leaks: Sequence[Leak], outcome: Outcome, leaked: Collection[str]) -> Leakage:
    """Return the leaks, and the race scored again without the leaked test items if at least two others are left.

    leaked: ids of the test items that the training data contains
    """
    scored = next(score.ids for result in outcome.results for score in result.scores)
    ids, items = frozenset(leaked).intersection(scored), len(scored)
    if not ids or items - len(ids) < 2:
        return Leakage(leaks, items, len(ids))
    others = without_items(outcome, ids)
    before, after = claims(outcome), claims(others)
    changed = [f"only with the leaked items, {claim}" for claim in before if claim not in after]
    changed += [f"only without them, {claim}" for claim in after if claim not in before]
    return Leakage(leaks, items, len(ids), others, verdict(others), changed)


def without_items(outcome: Outcome, ids: Collection[str]) -> Outcome:
    """Return the outcome on the test items that are not among `ids`, scored again; dev and costs stay.

    Raises ValueError where fewer than two items are left: a score of one says nothing.
    """
    results = (replace(result, scores=tuple(_scores_without_items(result.scores, ids))) for result in outcome.results)
    return replace(outcome, results=tuple(results))


def _scores_without_items(scores: Sequence[Score], ids: Collection[str]) -> Iterator[Score]:
    for score in scores:
        places = [place for place, id in enumerate(score.ids) if id not in ids]
        if len(places) < 2:
            raise ValueError(
                f"{len(places)} of {len(score.ids)} test items are left without the {len(ids)} to leave out; a score "
                "needs two at least. Take them out of the training data instead."
            )
        gold, predicted = (tuple(labels[place] for place in places) for labels in (score.gold, score.predicted))
        value = metric_named(score.metric).compute(gold, predicted)
        yield replace(
            score, ids=tuple(score.ids[place] for place in places), gold=gold, predicted=predicted, test=value
        )
