"""The answer of a race: did adapting help, which model to use, what limits the answer, and what to do next.

The rule and its intervals are those of statistics/answer.py; here they become sentences, the same for the terminal, the
page, the model card and Python.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from acclimate.core.door import option
from acclimate.core.figures import has, listed, metric_text, p_text, percent, points, rough_duration
from acclimate.methods.ranking.bm25 import BM25
from acclimate.races.compare import Contrast
from acclimate.races.outcome import INTERRUPTED, TIME_UP, CellResult, Outcome, probe_row, rows
from acclimate.reports.page import amount
from acclimate.reports.table import ALONE, FROZEN, UNADAPTED, UNTOUCHED, ContestantRow, interval_text
from acclimate.statistics.answer import Answer
from acclimate.statistics.limits import Remedy
from acclimate.statistics.sequential import FIRST
from acclimate.statistics.significance import DECIDE, FEWEST_SEEDS

NAMED = 9  # names at most that a sentence lists
PYTHON = "acclimate."  # how a command begins that was called in Python


@dataclass(frozen=True)
class RaceAnswer:
    """The answer of a race, in units of the metric: 0.01 is a point.

    kind        "helped", "harmful", "no gain that matters", "probably" or "not settled"; "first impression" with fewer
                rounds than an interval takes; "none" if nothing was compared
    headline    the answer in a line
    evidence    the difference with its interval, then what else has to be known, in sentences
    model       the contestant that the answer names; "" if it names none
    difference  of this contestant and the untouched model; interval: its simultaneous 95% interval, which never
                contradicts `kind`; single: its interval alone; p: corrected for the number of contestants. None if
                nothing was compared
    limits      which source of variance limits the answer, and what removes it; "" if nothing was compared
    next        a command to continue with
    """

    kind: str
    headline: str
    evidence: tuple[str, ...] = ()
    model: str = ""
    difference: float | None = None
    interval: tuple[float, float] | None = None
    single: tuple[float, float] | None = None
    p: float | None = None
    limits: str = ""
    next: str = ""

    def __str__(self) -> str:
        return "\n".join([self.headline, *self.evidence])


def answer_in_words(outcome: Outcome) -> RaceAnswer:
    """Return the answer of a race. Raises ValueError if the untouched model has no score."""
    assert outcome.race is not None
    raced = rows(outcome)
    if not outcome.first_impression and not any(row.contestant == UNTOUCHED for row in raced):
        raise ValueError(
            "an answer needs a score of the untouched model, the reference of all comparisons. Run the race again."
        )
    remarks = tuple(_remarks(outcome))
    if outcome.first_impression:
        return _impression(outcome, raced)
    if outcome.only_probed:
        [untouched] = [row for row in raced if row.contestant == UNTOUCHED]
        beside = [
            f"; {row.contestant}, {_requirement(row)}, {_figures(row)}"
            for row in raced
            if row.contestant in outcome.baselines
        ]
        model = "frozen model" if outcome.alone else "frozen, untouched model"
        probe_scores = f"A probe of the {model} scores {_figures(untouched)}{''.join(beside)}."
        probes = filter(None, [probe_scores, represented(outcome)])
        return RaceAnswer("none", "Nothing was fine-tuned.", (*probes, *remarks))
    answer = outcome.answer
    if answer is None:
        headline, *evidence = _without_comparison(outcome, raced)
        return RaceAnswer("none", headline, (*evidence, *remarks), next=next_command(outcome))
    evidence = [_difference(outcome, answer), *_others(answer), *_baseline_comparison(outcome)]
    evidence += [reason for reason in answer.caution.splitlines() if DECIDE not in reason]  # few items: in the first
    return RaceAnswer(
        kind=answer.kind,
        headline=_headline(outcome, answer),
        evidence=(*evidence, *remarks),
        model=answer.contestant,
        difference=answer.difference,
        interval=answer.interval,
        single=answer.single,
        p=answer.p,
        limits=_limits(outcome, answer),
        next=next_command(outcome),
    )


def _headline(outcome: Outcome, answer: Answer) -> str:
    name, several = answer.contestant, len(answer.gains) > 1
    subject = "Adapting" if _is_adapted(outcome, name) else "Another checkpoint"
    if answer.kind == "helped":
        return f"{subject} helped: {name} is better than the untouched model."
    if answer.kind == "harmful":
        worse = f"all {len(answer.gains)} contestants are" if several else f"{name} is"
        return f"{subject} was harmful: {worse} worse than the untouched model."
    if answer.kind == "no gain that matters":
        least = f"{100 * answer.margin:g} point{'s' * (100 * answer.margin != 1)}"
        return f"No gain that matters: no contestant is better than the untouched model by {least} or more."
    if answer.kind == "probably" and answer.difference > 0:
        return f"{subject} probably helped: {name} seems better than the untouched model."
    if answer.kind == "probably":
        return f"{subject} was probably harmful: {name} seems worse than the untouched model."
    return f"Not settled: this race cannot tell whether {subject[:1].lower()}{subject[1:]} helps."


def _difference(outcome: Outcome, answer: Answer) -> str:
    """Return the difference of the contestant that the answer names, with its interval."""
    assert outcome.race is not None
    result = _result_of(outcome, answer.contestant)
    contrast = outcome.compared.contrast(result.key, UNTOUCHED)
    assert contrast is not None
    metric = metric_text(result.task.metric)
    number, evaluations = max(len(answer.gains), outcome.race.rivals), evaluations_of(outcome)
    models = "adapted models" if all(_is_adapted(outcome, gain.contestant) for gain in answer.gains) else "models"
    counts = [f"both {models}" if number == 2 else f"all {number:,} {models}"] * (number > 1)
    counts += [amount(evaluations, "evaluation")] * (evaluations > 1)
    several = f", corrected for {' and '.join(counts)}" if counts else ""
    figures = [f"95% interval {_interval(answer.interval)}{several}", f"p {_p(answer.p)}"]
    alone = f"; alone {_interval(answer.single)}" if answer.kind == "probably" else ""
    cautions = [contrast.comparison.one_adaptation]
    cautions += [contrast.comparison.few_items] if answer.kind in ("helped", "harmful") else []
    caution = "".join(f"; {text}" for text in cautions if text)
    gain = f"{points(answer.difference, sign='+')} points of {metric}"
    return f"{answer.contestant}: {gain} ({', '.join(figures)}{alone}{caution})."


def _is_adapted(outcome: Outcome, contestant: str) -> bool:
    """Return False for a checkpoint of the user, which the race does not adapt."""
    scores = _result_of(outcome, contestant).scores
    return any(score.adaptation is not None or score.adapting.flops for score in scores)


def _result_of(outcome: Outcome, contestant: str) -> CellResult:
    return next(result for result in outcome.results if result.row == contestant and not result.probe)


def _others(answer: Answer) -> Iterator[str]:
    """Yield a sentence that names the other contestants that are better than the untouched model."""
    better = [gain for gain in answer.gains if gain.interval[0] > 0 and gain.contestant != answer.contestant]
    if better and answer.kind == "helped":
        better.sort(key=lambda gain: -gain.difference)
        names = [f"{gain.contestant} ({points(gain.difference, sign='+')})" for gain in better[:NAMED]]
        yield f"Also better: {listed(names)}."


def _baseline_comparison(outcome: Outcome) -> Iterator[str]:
    """Yield how the best encoder on dev compares with each baseline that it was compared with."""
    best = outcome.race.encoder if outcome.race is not None else ""
    results = [result for result in outcome.results if result.row == best and not (result.probe or result.failed)]
    for result in results:
        for name in outcome.baselines:
            contrast = outcome.compared.contrast(result.key, name)
            if contrast is None:
                continue
            comparison = contrast.comparison
            encoder = "the untouched model" if best == UNTOUCHED else best
            difference = comparison.mean - comparison.reference_mean
            interval = _interval((comparison.low, comparison.high))
            figures = f"{points(difference, sign='+')} points, 95% interval {interval}, p {_p(contrast.p_adjusted)}"
            word = contrast.said if contrast.established else "not clearly better or worse"
            yield f"The best encoder on dev, {encoder}, is {word} than {name} ({figures})."


def _remarks(outcome: Outcome) -> Iterator[str]:
    """Yield sentences on contestants that learnt nothing or failed, and on why the race stopped early."""
    assert outcome.race is not None
    tuned = [result for result in outcome.results if not result.probe and result.scores]
    encoders = any(result.encoder and result.learnt for result in tuned)
    named = [result.row for result in tuned if not result.learnt and result.row != UNTOUCHED]
    if named and encoders and not outcome.only_probed:
        yield f"{listed(named)} failed to learn and {'is' if len(named) == 1 else 'are'} not compared."
    partly = [result for result in tuned if result.untaught and result.learnt and result.encoder]
    if partly and not outcome.only_probed:
        counts = [f"{result.row} ({untaught_text(result)})" for result in partly]
        yield f"The means of {listed(counts)} include fine-tunings that failed to learn."
    failed = [result for result in outcome.results if result.failed and (outcome.only_probed or not result.probe)]
    if failed:
        names = [result.contestant for result in failed]
        yield f"{listed(names)} failed and {has(names)} no score."
    if outcome.first_impression:
        return
    reason = outcome.race.stopped.rstrip(".")
    if outcome.race.until_settled and outcome.rounds:
        reason = reason or f"all {outcome.rounds} rounds are done"
        yield f"The race ended after {amount(evaluations_of(outcome), 'evaluation')} on test, since {reason}."
    elif reason:
        yield f"The race stopped early, since {reason}."


def evaluations_of(outcome: Outcome) -> int:
    """Return how often a race was evaluated on test that continues until it is settled; 1 for other races."""
    assert outcome.race is not None
    return outcome.rounds - FIRST + 1 if outcome.race.until_settled and outcome.rounds else 1


def untaught_text(result: CellResult) -> str:
    """Return how many of a cell's runs learnt nothing, and on which folds of a cross-validation."""
    count = f"{result.untaught} of {len(result.runs)}"
    which = [
        f"repeat {score.seed + 1}, fold {number}"
        for score in result.scores
        for number, fold in enumerate(score.folds, 1)
        if not fold.learnt
    ]
    return f"{count}: {'; '.join(which[:NAMED])}{' and others' * (len(which) > NAMED)}" if which else count


def _impression(outcome: Outcome, raced: Sequence[ContestantRow]) -> RaceAnswer:
    """Return the answer of a race that was stopped before its third round: the scores, the highest first."""
    raced = sorted(raced, key=lambda row: -row.score.mean)
    tuned = {result.row for result in outcome.results if result.encoder and not result.probe} - {*UNADAPTED}
    if not tuned and any(row.contestant == FROZEN for row in raced):
        raced = [row for row in raced if row.contestant != UNTOUCHED]  # its probe, which FROZEN is
    after = f"after {amount(outcome.rounds, 'round')}" if outcome.rounds else "before the first round was complete"
    model = f"the {ALONE}" if outcome.alone else "the untouched model"
    untouched = model if tuned else f"a probe of {model}"
    evidence = [f"{_scores(raced, untouched)}." if raced else "No contestant has a score."]
    if not tuned:
        evidence.append("Nothing was fine-tuned.")
    evidence.append(
        f"Differences may be chance, because intervals need {FEWEST_SEEDS} rounds. {_continuation(outcome)}"
    )
    return RaceAnswer("first impression", f"First impression {after}.", tuple(evidence), next=next_command(outcome))


def _continuation(outcome: Outcome) -> str:
    """Return how to continue a race that ended before its third round, by why it ended."""
    assert outcome.race is not None
    stopped = outcome.race.stopped
    if stopped == TIME_UP or not (stopped or outcome.rounds):  # not even one fine-tuning fits
        return f"Repeat the command with a larger {option('budget')} to continue the race."
    if not stopped:
        return f"Repeat the command with seeds={FEWEST_SEEDS} or more to continue the race."
    reason = "" if stopped == INTERRUPTED else f"The race stopped early, since {stopped.rstrip('.')}. "
    return f"{reason}Repeat the command to continue the race."


def _scores(raced: Sequence[ContestantRow], untouched: str = "the untouched model") -> str:
    """Return the mean score of each contestant. untouched: name of the untouched model"""
    names = [untouched if row.contestant == UNTOUCHED else row.contestant for row in raced]
    scores = [f"{name} {points(row.score.mean)}" for name, row in zip(names, raced, strict=True)]
    return f"{_capital(listed(scores))} points of {metric_text(raced[0].metric)}"


def represented(outcome: Outcome) -> str:
    """Return in a sentence what adapting did to what the encoders represent, by their probes; "" if no probe of an
    adapted model was compared with that of the untouched model.
    """
    contrasts = probe_contrasts(outcome)
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
            f"untouched model's by {difference} ({_likely(largest)})."
        )
    clauses = []
    for word in ("better", "worse"):
        matches = [contrast for contrast in contrasts if contrast.said == word]
        for contrast in sorted(matches, key=lambda contrast: -abs(contrast.comparison.difference)):
            gap = f"{points(abs(contrast.comparison.difference))} points of {_metric(outcome, contrast)}"
            evidence = _likely(contrast)
            name = outcome.cells[contrast.against.key].contestant
            clauses.append(f"the probe of {name} is {word} than the untouched model's by {gap} ({evidence})")
    if not all(contrast.established for contrast in contrasts):
        clauses.append("the other probes' differences may be chance")
    return f"Before fine-tuning, adapting changed what the encoder represents: {'; '.join(clauses)}."


def probe_contrasts(outcome: Outcome) -> list[Contrast]:
    """Return the comparisons of probes of adapted models with that of the untouched model, by the main metric."""
    compared = outcome.compared.main_contrasts(probe_row(UNTOUCHED))
    return [contrast for contrast in compared if outcome.cells[contrast.against.key].scores[0].adaptation is not None]


def _likely(contrast: Contrast) -> str:
    """Return the interval of a comparison and its corrected p."""
    comparison, p = contrast.comparison, p_text(contrast.p_adjusted)
    interval = f"95% interval {points(comparison.low)} to {points(comparison.high)}"
    few = comparison.few_items if contrast.established else ""
    corrected = f"p {'' if p[0] in '<>' else '= '}{p} after Holm"
    return "; ".join(filter(None, (interval, corrected, comparison.one_adaptation, few)))


def _metric(outcome: Outcome, contrast: Contrast) -> str:
    return metric_text(outcome.cells[contrast.against.key].task.metric)


def _without_comparison(outcome: Outcome, raced: Sequence[ContestantRow]) -> Iterator[str]:
    """Yield the headline, and then evidence, of a race in which no encoder was compared with the untouched model."""
    taught = taught_rows(outcome)
    simple, encoders = sides(taught, outcome.baselines)
    if not encoders:
        fine_tuned = "fine-tuned " if simple is not None and simple.contestant in UNADAPTED else ""
        yield f"No {fine_tuned}encoder has learned the task, so nothing is compared."
        if simple is not None:
            yield f"{_capital(simple.contestant)}, {_requirement(simple)}, scores {_figures(simple)}."
        return
    untouched = next((row for row in taught if row.contestant == UNTOUCHED), None)
    if untouched is None:
        yield "The untouched model failed to learn, so nothing is compared with it."
        yield f"The highest encoder, {encoders[0].contestant}, scores {_figures(encoders[0])}."
        return
    rivals = [row for row in raced if row.contestant != UNTOUCHED and row.contestant not in outcome.baselines]
    if rivals and all(row.comparison is not None for row in rivals):
        yield f"Too few seeds for an answer: each contestant needs at least {FEWEST_SEEDS}."
        yield f"{_scores(raced)}."
        return
    name = "The model" if outcome.alone else "The untouched model"
    yield f"{name} scores {_figures(untouched)}."
    yield "Nothing was compared with it." if outcome.alone else "No adapted model could be compared with it."
    yield from _baseline_comparison(outcome)


def taught_rows(outcome: Outcome) -> list[ContestantRow]:
    """Return the rows of the contestants that learnt something."""
    untaught = {result.row for result in outcome.results if not result.probe and not result.learnt}
    return [row for row in rows(outcome) if row.contestant not in untaught]


def sides(raced: Sequence[ContestantRow], baselines: Sequence[str]) -> tuple[ContestantRow | None, list[ContestantRow]]:
    """Return the best baseline, or None, and the encoders by falling mean."""
    simple = max((row for row in raced if row.contestant in baselines), key=lambda row: row.score.mean, default=None)
    encoders = (row for row in raced if row.contestant not in baselines)
    return simple, sorted(encoders, key=lambda row: row.score.mean, reverse=True)


def _limits(outcome: Outcome, answer: Answer) -> str:
    """Return which source limits the answer, and how many test rows, seeds or adaptations remove the limit."""
    limits, rows_text = answer.limits, "labelled rows" if outcome.folds else "test rows"
    names = {source: rows_text if source == "test rows" else source for source in ("test rows", "seeds", "adaptations")}
    if limits.source == "several":
        parts = [f"{names[part.source]} ({percent(part.share)} of the variance)" for part in limits.remedies]
        return f"What limits the answer: too few {listed(parts)}. More of each may settle it."
    remedy = limits.remedy(limits.source)
    assert remedy is not None
    name = names[remedy.source]
    if answer.settled:
        source = {"seeds": "seed of fine-tuning", "adaptations": "seed of adapting"}.get(remedy.source, name)
        return f"Largest source of uncertainty: the {source} ({percent(remedy.share)} of the variance)."
    sentence = f"What limits the answer: too few {name} ({percent(remedy.share)} of the variance)."
    number, effect = remedy.to_settle, "would probably settle it"
    if number is None:
        number, effect = remedy.to_halve, "would halve the interval, which may not be enough to settle it"
    if number is None:
        return f"{sentence} None of the numbers considered would settle it."
    runs = [part for part in limits.remedies if part.source != "test rows"]
    if remedy.source != "test rows":
        effect += f", in about {rough_duration((number - remedy.now) * round_seconds(outcome))} more"
    elif runs and all(part.to_settle is None for part in runs):
        effect += f"; more {listed([part.source for part in runs])} probably would not"
    return f"{sentence} {number:,} instead of {remedy.now:,} {effect}."


def round_seconds(outcome: Outcome) -> float:
    """Return what a round of the race takes in all: an adaptation and a fine-tuning of each contestant, in seconds."""
    tuned = [result for result in outcome.results if result.encoder and not result.probe and result.scores]
    return sum(
        cost.seconds for result in tuned for stage, cost in result.costs.items() if stage in ("adapting", "tuning")
    )


def next_command(outcome: Outcome) -> str:
    """Return a command to continue with: to predict, or to race again with what would settle the answer."""
    assert outcome.race is not None
    command = outcome.race.commands[0] if outcome.race.commands else ""
    answer = outcome.answer
    remedy: Remedy | None = None
    if answer is not None and not answer.settled and answer.limits.source in ("seeds", "adaptations"):
        remedy = answer.limits.remedy(answer.limits.source)
    if command and remedy is not None and remedy.to_settle is not None:
        assert answer is not None
        number, named = remedy.to_settle, next(gain for gain in answer.gains if gain.contestant == answer.contestant)
        if remedy.source == "adaptations":
            return with_runs(command, seeds=max(number, named.runs), adaptations=number)
        return with_runs(command, seeds=number, adaptations=named.adaptations)
    searches = outcome.results[0].task.kind == "search"
    if searches and outcome.race.use in (BM25, ""):
        return ""
    if command.startswith(PYTHON):
        call = 'embed(["a text"])' if searches else 'predict("new.csv", out="labels.csv")'
        return f"race.{call}" if outcome.race.use else ""
    run = shlex.quote(run_folder(command))
    if searches:
        return f"acclimate embed {run} new.csv --out vectors.npy" if command else ""
    return f"acclimate predict {run} new.csv --out labels.csv" if command and outcome.race.use else ""


def run_folder(command: str) -> str:
    """Return the directory of the race that this command makes, as the command writes it."""
    if command.startswith(PYTHON):
        places = [ast.literal_eval(keyword.value) for keyword in _call(command).keywords if keyword.arg == "out"]
    else:
        words = shlex.split(command)
        places = [after for word, after in pairwise(words) if word == "--out"]
        places += [word.removeprefix("--out=") for word in words if word.startswith("--out=")]
    verb = re.match(r"acclimate[ .](\w+)", command)
    return places[-1] if places else f"runs/{verb[1] if verb else 'race'}"


def _call(command: str) -> ast.Call:
    call = ast.parse(command, mode="eval").body
    assert isinstance(call, ast.Call)
    return call


def with_runs(command: str, *, seeds: int, adaptations: int) -> str:
    """Return the command of a race with so many seeds and adaptations, and no limit of time. Of a call with a value
    that cannot be written, such as a data frame, only the keywords that change are returned.

    adaptations: of each contestant; 0: as the command states
    """
    changes = {"seeds": seeds} | ({"adapt_seeds": adaptations} if adaptations else {})
    if command.startswith(PYTHON):
        call = _call(command)
        if any(isinstance(node, ast.Constant) and node.value is ... for node in ast.walk(call)):
            call = ast.Call(call.func, [ast.Constant(...)], [])
        keywords = [ast.keyword(name, ast.Constant(number)) for name, number in changes.items()]
        keywords.append(ast.keyword("budget", ast.Constant("none")))
        call.keywords = [*(word for word in call.keywords if word.arg not in {*changes, "budget"}), *keywords]
        return ast.unparse(call)
    replaced = ("--budget=", *(f"{name}=" for name in changes))
    arguments: list[str] = []
    words = iter(shlex.split(command))
    for word in words:
        if word == "--budget":
            next(words, None)
        elif not word.startswith(replaced):
            arguments.append(word)
    settings = [f"{name}={number}" for name, number in changes.items()]
    return shlex.join([*arguments, "--budget", "none", *settings])


def _requirement(simple: ContestantRow) -> str:
    """Return what a contestant that is not fine-tuned takes."""
    return "which fine-tunes nothing" if simple.contestant in UNADAPTED else "which needs no encoder"


def _figures(row: ContestantRow) -> str:
    return f"{interval_text(row.score)} points of {metric_text(row.metric)}"


def _interval(ends: tuple[float, float]) -> str:
    return f"{points(ends[0])} to {points(ends[1])}"


def _p(p: float | None) -> str:
    text = p_text(p)
    return text if text[0] in "<>" else f"= {text}"


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
