"""What a study or race has established, in sentences, and what its scores do not say. The last functions say whether
the claims of a race depend on test items that leaked.

A difference is established if the test over seeds and items, corrected for the number of comparisons, has p < .05. Each
fine-tuning says whether it learnt anything (tasks/chance.py::nothing_learnt): `Score.learnt`. A cell of which half of
the runs or more did not is named, and it is compared with nothing (races/compare.py). The answer of a race
is that of races/answer.py.
"""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from acclimate.core.door import is_python, option
from acclimate.core.figures import listed, points
from acclimate.core.settings import SEEDS
from acclimate.core.types import Label, Score
from acclimate.data.examination import Examination, Leak
from acclimate.races.answer import NAMED, answer_in_words, probe_contrasts, sides, taught_rows, untaught_text
from acclimate.races.compare import Contrast
from acclimate.races.outcome import IN_SCIKIT_LEARN, NEAR, TIME_UP, CellResult, Outcome, rows
from acclimate.reports.page import amount
from acclimate.reports.table import UNADAPTED, UNTOUCHED, ContestantRow
from acclimate.statistics.folds import FEWEST_REPEATS
from acclimate.statistics.power import PowerDesign, design_from_items, measured_in_race, probed
from acclimate.statistics.significance import ONE_ADAPTATION
from acclimate.tasks.metrics import metric_named
from acclimate.tasks.task import Kind, Metric

DOMAIN_TEXT = "corpus, domain"  # what `Facts.hashes` has where a race was given raw text of the domain
GUIDE = "https://github.com/acclimate-nlp/acclimate/blob/main/docs/which-method.md"
SMALLEST = 0.0005  # difference of scores that is not 0.0 points in print
FAR_FROM_DEV = 0.1  # by which the score on test of the model to use may be below that on dev before a warning
MARGIN = 0.02  # a score this little above that of a constant answer is no better than it
COMMON = 20  # labels that are tried as the same answer to every text


def verdict(outcome: Outcome) -> str:
    """Return the result in a sentence or two.

    Raises ValueError for a race in which the untouched model has no score.
    """
    if outcome.race is not None:
        answer = answer_in_words(outcome)
        return " ".join([answer.headline, *answer.evidence])
    names = dict.fromkeys(contrast.against.name for contrast in outcome.compared.contrasts)
    return " ".join(established(outcome, name) for name in names) or "Nothing was compared."


def established(outcome: Outcome, name: str) -> str:
    """Return which differences by the main metrics are established, of the comparisons of this name; "" if none was
    made.
    """
    contrasts = outcome.compared.main_contrasts(name)
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
    """Return the main claims of a race's answer, one clause each. Two outcomes agree if their claims are equal."""
    probes = [
        f"the probe of {outcome.cells[contrast.against.key].contestant} is {contrast.said} than the untouched model's"
        for contrast in probe_contrasts(outcome)
        if contrast.established
    ]
    if outcome.only_probed or outcome.first_impression:
        return probes
    gains = outcome.answer.gains if outcome.answer is not None else ()
    clauses = [f"{gain.contestant} is better than the untouched model" for gain in gains if gain.interval[0] > 0]
    if simple := baseline_ahead(outcome):
        clauses.append(f"no encoder scores above {simple}")
    return [*clauses, *probes]


def baseline_ahead(outcome: Outcome) -> str:
    """Return the name of the baseline that no encoder scores above; "" if there is none."""
    simple, encoders = sides(taught_rows(outcome), outcome.baselines)
    return simple.contestant if simple is not None and _ahead(simple, encoders) else ""


def without_encoder(outcome: Outcome) -> str:
    """Return in a sentence how to make the model that no encoder scores above; "" if there is none, or if it has more
    than scikit-learn's classes, or if nothing was fine-tuned.
    """
    if outcome.race is None or outcome.only_probed:
        return ""
    simple, encoders = sides(taught_rows(outcome), [name for name in outcome.baselines if name not in UNADAPTED])
    encoders = [row for row in encoders if row.contestant not in UNADAPTED]
    if simple is None or not _ahead(simple, encoders):
        return ""
    code = outcome.race.given.get(simple.contestant, {}).get(IN_SCIKIT_LEARN)
    return f"{simple.contestant} as scikit-learn has it, to be fitted on the training rows: {code}." if code else ""


def _ahead(simple: ContestantRow, encoders: Sequence[ContestantRow]) -> bool:
    """Return True if no encoder scores above the baseline. encoders: by falling mean"""
    return not encoders or simple.score.mean >= encoders[0].score.mean


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
    return replace(measured_in_race(drawn), comparisons=len(encoders or comparisons))


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
    for contrast in probe_contrasts(outcome):
        ours, theirs = (outcome.cells[key].scores[0] for key in (contrast.against.key, contrast.reference))
        probe_designs.append(probed(ours, theirs, metric_named(ours.metric), seeds=SEEDS))
    differing = [power for power in probe_designs if power.item_variance > 0]
    if not differing:
        return None
    mean = sum(power.item_variance + power.residual_variance for power in differing) / len(differing)
    return design_from_items(mean, differing[0].items, SEEDS)


def further(outcome: Outcome) -> str:
    """Return in a sentence what else to try where a race has established nothing; "" where it has, or where no encoder
    learnt anything, which no other text mends.
    """
    if outcome.race is None or claims(outcome) or not sides(taught_rows(outcome), outcome.baselines)[1]:
        return ""
    guide = f"See what helped in our runs, by labels, raw text, domain distance and compute: {GUIDE}."
    more = f"Raw text of the domain ({option('corpus')}) adds contestants that adapt on it, which helped most reliably"
    return guide if DOMAIN_TEXT in outcome.race.hashes else f"{more} in our runs. {guide}"


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
            why = "with so few rows this may be chance." if chance else "are both drawn alike?"
            yield (
                f"The model to use has {points(dev)} points on {sizes[0]:,} rows of dev and {points(test)} on "
                f"{sizes[1]:,} of test: {why}"
            )
    taught = taught_rows(outcome)
    gains = outcome.answer.gains if outcome.answer is not None else ()
    established = {gain.contestant: gain.difference for gain in gains if gain.interval[0] > 0}
    better = [row for row in taught if row.contestant in established]
    better.sort(key=lambda row: -established[row.contestant])
    chosen = next((row for row in taught if row.contestant == used), None)
    better = [row for row in better if chosen is not None and row.score.mean > chosen.score.mean]
    if better and chosen is not None and chosen not in better and not outcome.folds:
        means = [points(sum(row.dev) / len(row.dev)) for row in (chosen, better[0])]
        name = better[0].contestant
        way = "give predict a checkpoint of its fine-tunings, under jobs/"
        if outcome.race is not None and name == outcome.race.encoder:
            way = f"add {option('contestant', name if is_python() else shlex.quote(name))} to predict and ship"
        yield (
            f"{name} is better on test, but the model to use is chosen only on dev. It is "
            f"{'the untouched model' if used == UNTOUCHED else used} ({means[0]} against {means[1]} points on dev). "
            f"To use {name} anyway, {way}."
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
    few = ""
    if repeats < FEWEST_REPEATS:
        few = f" Intervals from fewer than {FEWEST_REPEATS} repeats are too narrow: raise seeds."
    return (
        f"Scores are by {outcome.folds}-fold cross-validation, repeated {amount(repeats, 'time')} over {rows:,} "
        "rows: in each repeat, every row is predicted once by a model that was trained on other folds. The score "
        "of a repeat is that of all its predictions. Each repeat has another division and another seed. In plots, "
        f"seed means repeat and test item means row.{few}"
    )


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
    short = outcome.first_impression and outcome.race is not None and outcome.race.stopped == TIME_UP
    for (model, column), results in groups.items():
        name = f"{column} ({model})" if model else column
        sentences += _task_warnings(results, f"{name}: no encoder has learned it" if several else "", short=short)
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
            "The final loss of pretraining from random weights is hardly below that of token frequencies: "
            f"{_some([*near])}. Differences may show which runs have left that plateau rather than which method is "
            "better. Use more steps of pretraining, or another rate or initializer_range."
        )


def _task_warnings(results: Sequence[CellResult], opening: str, *, short: bool) -> Iterator[str]:
    """Yield a warning if none of these cells of one task scores above a constant answer, or if none of them learnt.

    short: True if the time was up before the third round
    """
    task, [first, *_] = results[0].task, results[0].scores
    constant = constant_score(first.gold, task.kind, metric_named(task.metric))
    best = max(sum(score.test for score in result.scores) / len(result.scores) for result in results if result.shown)
    decides = constant < 1.0  # where one answer is right for every text, no score can be better
    above = best > constant + MARGIN or not decides
    if above and any(result.learnt for result in results):
        return
    why = "Differences between such scores, including 0, are meaningless."
    if above:
        why = "On dev or by training loss, none was better than constant answers and guesses, so they are not compared."
    way_out = "Train longer (finetune.epochs) or at another rate (search.rates, finetune.plan.rate)."
    if short:
        way_out = (
            "In little time fine-tuning is shortened, and a race keeps its lengths: set a larger "
            f"{option('budget')} and another {option('out')}; {option('dry_run', True)} estimates the time."
        )
    yield (
        f"{opening or 'No encoder has learned the task'}: the highest has {points(best)} points, the same answer to "
        f"every text {points(constant)}. {why} {way_out}"
    )


def _run_warnings(outcome: Outcome, trained: Sequence[CellResult]) -> Iterator[str]:
    """Yield sentences that count and name the runs that learnt nothing, and those that had a second attempt."""
    nothing = [result for result in trained if not result.learnt]
    if nothing:
        runs, every = sum(result.untaught for result in nothing), sum(len(result.runs) for result in nothing)
        again = sum(run.again and not run.learnt for result in nothing for run in result.runs)
        twice = f", {f'{again} of them' if again < runs else 'each'} in a second attempt too" if again else ""
        consequence = "It is therefore not compared." if len(nothing) == 1 else "They are therefore not compared."
        labels = [outcome.label(result.key) for result in nothing]
        yield f"{_some(labels)} failed to learn: {runs} of {every} fine-tunings{twice}. {consequence}"
    partly = [result for result in trained if result.untaught and result.learnt]
    if partly:
        counts = [f"{outcome.label(result.key)} ({untaught_text(result)})" for result in partly]
        yield f"Some fine-tunings failed to learn but count in the means: {_some(counts)}."
    mended = {result.key: sum(run.again and run.learnt for run in result.runs) for result in trained}
    if any(mended.values()):
        counts = [f"{outcome.label(key)} ({count})" for key, count in mended.items() if count]
        yield (
            "Some fine-tunings first failed to learn and were repeated at another rate with more steps: "
            f"{_some(counts)}."
        )


def _untrained_warnings(outcome: Outcome, results: Sequence[CellResult]) -> Iterator[str]:
    """Yield sentences that name the probes and baselines that do no better on dev than a constant answer or guesses."""
    nothing = [outcome.label(result.key) for result in results if not result.learnt]
    if nothing:
        verb, consequence = ("does", "it is") if len(nothing) == 1 else ("do", "they are")
        yield (
            f"On dev, or by loss, {_some(nothing)} {verb} no better than a constant answer or guesses. Therefore "
            f"{consequence} not compared."
        )
    partly = [result for result in results if result.untaught and result.learnt]
    if partly:
        counts = [f"{outcome.label(result.key)} ({untaught_text(result)})" for result in partly]
        yield (
            f"On some {'folds' if outcome.folds else 'adaptations'} these do no better than a constant answer or "
            f"guesses, which counts in their means: {_some(counts)}."
        )


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


def partner_leakage(examination: Examination, outcome: Outcome) -> Leakage | None:
    """Return the race scored without the test items that have a partner in train, copies included; None if there are
    only copies, or none.
    """
    if not examination.partners:
        return None
    ids = frozenset().union(*(partners.ids for partners in examination.partners))
    return leakage_of((), outcome, ids if examination.dropped else ids | examination.leaked["test"])


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
    changed = [f"only with these items, {claim}" for claim in before if claim not in after]
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
                f"{len(places)} of {len(score.ids)} test items remain without the {len(ids)} leaked ones, but a "
                "score needs at least two. Remove the leaked texts from the training data instead."
            )
        ids_left = tuple(score.ids[place] for place in places)
        gold, predicted = (tuple(labels[place] for place in places) for labels in (score.gold, score.predicted))
        value = metric_named(score.metric).compute(gold, predicted)
        yield replace(score, ids=ids_left, gold=gold, predicted=predicted, test=value)
