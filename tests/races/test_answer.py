"""The answer of a race in words: a headline, its evidence, what limits it, and what to do next."""

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import studies
from acclimate.api.study import Study
from acclimate.core.door import python_call
from acclimate.core.types import Cost
from acclimate.races import report as race_report
from acclimate.races.answer import RaceAnswer, answer_in_words, run_folder, with_runs
from acclimate.races.outcome import INTERRUPTED, TIME_UP, Outcome, write_outcome
from acclimate.shipping import baseline_card
from acclimate.statistics.limits import Limits, Remedy
from acclimate.statistics.significance import cautions
from acclimate.studies import documents_of
from acclimate.tasks.prepared import Prepared
from made_up_races import race_of, rival, untouched

SIMPLE = "TF-IDF"
NONE = (None, None)  # of a remedy: neither a number that halves the interval nor one that settles the answer


def answer(outcome: Outcome) -> RaceAnswer:
    """The answer in words, whose headline has at most 20 words."""
    said = answer_in_words(outcome)
    assert len(said.headline.split()) <= 20
    return said


@pytest.fixture
def views(report, tmp_path, monkeypatch):
    """Returns wherever an answer is shown, in a race with this answer."""

    def views_of(said: RaceAnswer) -> dict[str, str]:
        shown = replace(report, answer=said)
        monkeypatch.setattr(race_report, "report_of", lambda outcome: shown)
        monkeypatch.setattr(baseline_card, "report_of", lambda outcome: shown)
        write_outcome(shown.outcome, tmp_path)
        [document] = documents_of(tmp_path)
        simple = next(score for score in shown.outcome.scores if score.contestant == studies.SIMPLE)
        about = {"name": "Genes", "kind": "sequence", "labels": ("a", "b"), "examples": lambda split: ()}
        task = cast(Prepared, SimpleNamespace(sizes={"train": 9, "dev": 3, "test": 4}, **about))
        words: dict[str, Any] = {"calibration": "", "origin": "", "license": "", "encoder_license": "", "language": ()}
        return {
            "text": race_report.text_of(shown, 200),
            "page": race_report.race_page(shown).as_html(),
            "notebook": race_report.notebook_view(shown, place=tmp_path),
            "JSON": document["answer"]["headline"],
            "Python": str(Study(tmp_path, "", shown)),
            "card": baseline_card.render_baseline(shown.outcome, simple, task, dev=0.8, **words),
        }

    return views_of


@pytest.mark.parametrize(
    ("rivals", "kind", "headline", "evidence"),
    [
        ([("DAPT", 0.031, 0.002)], "helped", "DAPT is better", "DAPT: +3.1 .*interval 1.2 to 5.0, p = .002"),
        ([("TAPT", -0.024, 0.02)], "harmful", "TAPT is worse", "TAPT: -2.4 .*interval -4.3 to -0.5, p = .020"),
        (
            [("TAPT", -0.024, 0.02), ("DAPT", -0.04, 0.003)],
            "harmful",
            "all 2",
            "TAPT: -2.4 .*corrected for both adapted models",
        ),
        ([("TAPT", -0.012, 0.3)], "no gain that matters", "1 point or more", "TAPT: -1.2 .* -3.1 to 0.7, p = .30"),
        ([("DAPT", 0.02, 0.12), ("TAPT", 0.001, 0.9)], "probably", "DAPT seems", "-0.2 to 3.9, .*alone 0.1 to 3.9"),
        ([("DAPT", 0.008, 0.34)], "not settled", "cannot tell", "DAPT: +0.8 .*interval -1.1 to 2.7, p = .34"),
    ],
)
def test_each_answer_has_its_words_wherever_it_is_shown(rivals, kind, headline, evidence, views):
    said = answer(race_of([untouched(), *(rival(name, gain, p=p) for name, gain, p in rivals)]))
    assert said.kind == kind
    assert headline in said.headline
    [line] = said.evidence
    assert re.search(evidence.replace("+", r"\+"), line), line
    assert said.difference == pytest.approx(max(gain for _, gain, _ in rivals))
    assert (said.p is not None and said.p < 0.05) == (said.interval[0] > 0 or said.interval[1] < 0)
    assert [name for name, view in views(said).items() if said.headline not in view] == []


def test_a_checkpoint_is_not_called_adapting():
    ours = replace(rival("ours", 0.031, p=0.002), adapting=Cost())
    assert answer(race_of([untouched(), ours])).headline == (
        "Another checkpoint helped: ours is better than the untouched model."
    )


def test_others_that_are_better_are_named_and_few_deciding_items_said():
    dapt = rival("DAPT", 0.04, p=0.001)
    caution = cautions(3, np.array([[1.0] * 4 + [0.0] * 96]), spread=0.08)
    few = replace(dapt, comparison=replace(dapt.comparison, caution=caution))
    said = answer(race_of([untouched(), few, rival("TAPT", 0.03, p=0.01)]))
    assert said.evidence[0].endswith("p = .001; fewer than 10 items decide it).")
    assert said.evidence[1] == "Also better: TAPT (+3.0)."
    assert said.evidence[2].startswith("The correlation of one contestant has a standard deviation of 8 points over ")


@pytest.mark.parametrize(
    ("limit", "remedies", "said"),
    [
        ("test rows", [(400, 0.7, 1600, 900), (3, 0.3, *NONE)], "few test rows (70% | 900 instead of 400 | more seeds"),
        ("seeds", [(400, 0.3, *NONE), (3, 0.7, 10, 8)], "few seeds (70% | 8 instead of 3 | about 3.4 min more"),
        ("test rows", [(400, 1.0, 1600, None)], "too few test rows (100% | 1,600 instead of 400 | halve the interval"),
        ("several", [(400, 0.5, *NONE), (3, 0.5, *NONE)], "test rows (50% | and seeds (50% | More of each may settle"),
    ],
)
def test_what_limits_an_open_answer_is_named_with_what_removes_it(limit, remedies, said):
    found = Limits(
        limit, tuple(Remedy(name, *each) for name, each in zip(("test rows", "seeds"), remedies, strict=False))
    )
    text = answer(race_of([untouched(), rival("DAPT", 0.008, p=0.34)], limits=found)).limits
    assert text.startswith("What limits the answer: ")
    assert [words for words in said.split(" | ") if words not in text] == []


def test_a_settled_answer_names_the_source_of_most_variance():
    assert answer(race_of([untouched(), rival("DAPT", 0.03, p=0.01)])).limits == (
        "Largest source of uncertainty: the test rows (70% of the variance)."
    )


def with_facts(outcome: Outcome, **facts: Any) -> Outcome:
    changed = replace(outcome, race=replace(outcome.race, **facts))
    vars(changed).update({name: vars(outcome)[name] for name in ("compared", "answer")})
    return changed


def test_the_next_command_predicts_or_races_with_more_seeds():
    settled, open_race = (race_of([untouched(), rival("DAPT", gain, p=p)]) for gain, p in ((0.03, 0.01), (0.008, 0.34)))
    command = "acclimate race rows.csv --budget '20min 5s' --out 'my runs/a' seeds=3"
    assert answer(with_facts(settled, commands=[command], use="DAPT")).next == (
        "acclimate predict 'my runs/a' new.csv --out labels.csv"
    )
    assert answer(with_facts(settled, commands=["acclimate.race('rows.csv')"], use="DAPT")).next == (
        'race.predict("new.csv", out="labels.csv")'
    )
    seeds = Limits("seeds", (Remedy("seeds", 3, 1.0, 10, 8),))
    vars(open_race)["answer"] = replace(open_race.answer, limits=seeds)  # type: ignore[type-var]
    assert answer(with_facts(open_race, commands=[command], use="DAPT")).next == (
        "acclimate race rows.csv --out 'my runs/a' --budget none seeds=8"
    )


@pytest.mark.parametrize(
    ("now", "named", "later"),
    [
        (("seeds", 5, 8), {"runs": 5, "adaptations": 1}, "seeds=8 adapt_seeds=1"),
        (("adaptations", 2, 5), {"runs": 6, "adaptations": 2}, "seeds=6 adapt_seeds=5"),
        (("adaptations", 5, 9), {"runs": 5, "adaptations": 5}, "seeds=9 adapt_seeds=9"),
    ],
)
def test_the_next_race_has_the_runs_for_which_the_number_was_computed(now, named, later):
    outcome, (source, number, enough) = race_of([untouched(), rival("DAPT", 0.008, p=0.34)]), now
    assert outcome.answer is not None
    limits = Limits(source, (Remedy(source, number, 1.0, 20, enough),))
    gains = (replace(outcome.answer.gains[0], **named),)
    vars(outcome)["answer"] = replace(outcome.answer, limits=limits, gains=gains)
    command = "acclimate race rows.csv seeds=6 adapt_seeds=2"
    assert answer(with_facts(outcome, commands=[command])).next == f"acclimate race rows.csv --budget none {later}"


@pytest.mark.parametrize(
    ("call", "later"),
    [
        ("'rows, seeds=3.csv', budget='20min', seeds=3, out='x'", "'rows, seeds=3.csv', out='x', seeds=8"),
        ("..., text='body', seeds=3", "..., seeds=8"),
    ],
)
def test_a_call_keeps_its_strings_and_one_with_a_table_names_what_changes(call, later):
    assert with_runs(f"acclimate.race({call})", seeds=8, adaptations=0) == f"acclimate.race({later}, budget='none')"


def test_the_best_encoder_is_compared_with_the_baseline():
    outcome = with_facts(
        race_of([untouched(), rival("DAPT", 0.03, p=0.01), rival(SIMPLE, -0.1, p=0.01)], baselines=[SIMPLE]),
        encoder="DAPT",
    )
    contrast = replace(
        outcome.compared.contrasts[0], against=replace(outcome.compared.contrasts[0].against, name=SIMPLE)
    )
    vars(outcome)["compared"] = replace(outcome.compared, contrasts=(*outcome.compared.contrasts, contrast))
    assert answer(outcome).evidence[1] == (
        f"The best encoder on dev, DAPT, is better than {SIMPLE} (+3.0 points, 95% interval 1.1 to 4.9, p = .010)."
    )


def test_an_answer_needs_the_untouched_model_whose_score_alone_is_one():
    for raced in ([], [rival("DAPT", 0.1, p=0.01)], [replace(untouched(), contestant="other")]):
        with pytest.raises(ValueError, match="needs a score of the untouched model"):
            answer_in_words(race_of(raced))
    said = answer(race_of([untouched()]))
    assert re.fullmatch(r"The model scores \d+\.\d \[\d+\.\d, \d+\.\d\] points of [\w-]+\.", said.headline)
    assert (said.kind, said.evidence) == ("none", ("Nothing was compared with it.",))


def test_who_failed_or_learnt_nothing_is_named_and_why_the_race_ended():
    raced = [untouched(), rival("DAPT", 0.031, p=0.002)]
    lost = replace(rival("DGA", -0.3, p=0.001), comparison=None, p_adjusted=None)

    def last(outcome: Outcome) -> str:
        said = answer(outcome)
        assert said.kind == "helped"
        return said.evidence[-1]

    assert last(race_of(raced, failed={"DGA": "out of memory"})) == "DGA failed and has no score."
    assert last(race_of(raced, stopped="its time was up.")) == "The race stopped early, since its time was up."
    assert last(race_of([*raced, lost], untaught={"DGA"})) == "DGA failed to learn and is not compared."
    partly = race_of(raced, failing={"untouched": 1})
    assert last(partly) == "The means of untouched (1 of 3) include fine-tunings that failed to learn."


def test_without_an_encoder_that_learnt_the_task_nothing_is_compared():
    others = [replace(rival(name, 0.1, p=0.001), comparison=None, p_adjusted=None) for name in ("DAPT", SIMPLE)]
    said = answer(race_of([untouched(), *others], untaught={"untouched"}, baselines={SIMPLE}))
    assert (said.kind, said.headline) == (
        "none",
        "The untouched model failed to learn, so nothing is compared with it.",
    )
    assert said.evidence == ("The highest encoder, DAPT, scores 90.0 [90.0, 90.0] points of macro-F1.",)
    said = answer(race_of([untouched(), *others], untaught={"untouched", "DAPT"}, baselines={SIMPLE}))
    assert said.headline == "No encoder has learned the task, so nothing is compared."
    assert said.evidence == ("TF-IDF, which needs no encoder, scores 90.0 [90.0, 90.0] points of macro-F1.",)


@pytest.mark.parametrize(
    ("stopped", "rounds", "way"),
    [
        (TIME_UP, 1, "Repeat the command with a larger budget to"),
        ("", 0, "Repeat the command with a larger budget to"),
        (INTERRUPTED, 1, "Repeat the command to"),
        ("", 1, "Repeat the command with seeds=3 or more to"),
        ("in round 2 untouched failed: no memory", 1, "untouched failed: no memory. Repeat the command to"),
    ],
)
def test_a_first_impression_names_what_continues_the_race(stopped, rounds, way):
    raced = race_of([untouched()], stopped=stopped)
    with python_call():
        said = answer(replace(raced, rounds=rounds, first_impression=True))
    assert said.evidence[-1].endswith(f"{way} continue the race.")
    assert said.evidence[0].startswith("The model "), "a model that is alone is not called untouched"


def test_two_seeds_give_no_answer():
    outcome = race_of([untouched(), rival("DAPT", 0.031, p=0.002)])
    vars(outcome)["answer"] = None
    said = answer(outcome)
    assert said.kind == "none"
    assert said.headline == "Too few seeds for an answer: each contestant needs at least 3."
    assert said.evidence == ("The untouched model 80.0 and DAPT 83.1 points of macro-F1.",)


@pytest.mark.parametrize(
    ("command", "folder"),
    [
        ("acclimate race train.csv", "runs/race"),
        ("acclimate race train.csv --out 'my run'", "my run"),
        ("acclimate evaluate model train.csv --out=scored", "scored"),
        ("acclimate evaluate model train.csv", "runs/evaluate"),
        ("acclimate.evaluate('model', 'train.csv')", "runs/evaluate"),
        ("""acclimate.race('a, out="b".csv', out="it's", seeds=3)""", "it's"),
    ],
)
def test_the_directory_of_a_race_is_read_from_its_command(command, folder):
    assert run_folder(command) == folder
