from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

import studies
from acclimate.core import files
from acclimate.core.types import Cost, Score
from acclimate.races.outcome import leakage_of, read_scores, study_of, untaught, write_outcome, write_pages
from acclimate.races.report import Facts, Looks
from acclimate.reports.table import rows, without
from acclimate.tasks.metrics import METRICS

BARE = Facts(
    title="Race",
    task={},
    kind="sequence",
    winner="DAPT",
    baselines=[studies.SIMPLE],
    commands=["acclimate race"],
)


def several(level: float = 1.7) -> list[Score]:
    return studies.of_several("untouched", level=1.0) + studies.of_several("DAPT", level=level)


def numbers() -> list[Score]:
    return studies.of_numbers("untouched", level=1.0) + studies.of_numbers("DAPT", level=2.0)


def test_labels_of_every_kind_come_back_as_they_were(tmp_path: Path, field: list[Score]) -> None:
    for scores in (field, several(), numbers()):
        write_outcome(tmp_path, scores, BARE)
        assert read_scores(tmp_path) == scores


def test_a_race_that_has_not_ended_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no race there has come to its end"):
        read_scores(tmp_path)


def test_facts_without_any_of_the_optional_entries_make_a_page(tmp_path: Path, field: list[Score]) -> None:
    write_outcome(tmp_path, field, BARE)
    study = write_pages(tmp_path)
    assert study.verdict in (tmp_path / "table.txt").read_text()
    assert (study.leakage, study.looks, study.examination, study.alerts) == (None, None, None, [])
    assert [confusion.contestant for confusion in study.confusions] == ["untouched", "DAPT"]


def test_what_is_shown_depends_on_the_kind_of_labels(tmp_path: Path) -> None:
    write_outcome(tmp_path, several(), replace(BARE, kind="multilabel"))
    study = write_pages(tmp_path)
    assert study.labels
    assert not study.confusions
    write_outcome(tmp_path, several(), replace(BARE, kind="span"))
    assert not study_of(tmp_path).labels
    write_outcome(tmp_path, numbers(), replace(BARE, kind="score"))
    study = write_pages(tmp_path)
    assert not study.labels
    assert {name: len(pairs) for name, pairs in study.predictions.items()} == {"untouched": 120, "DAPT": 120}


def test_every_entry_reaches_the_page(tmp_path: Path, field: list[Score]) -> None:
    examination = studies.examination()
    facts = replace(
        BARE,
        search=studies.trials(["untouched", "DAPT", "TLM"]),
        search_note="Two rungs.",
        chosen={"DAPT": "rate 5e-05"},
        stopped="nothing could win any more",
        pretraining={"DAPT": Cost(1000, 2e9, 754.0)},
        looks=Looks(30, 5, lines=["2026-11-02, race runs/first"]),
        examination=examination,
        leaked_test_ids=[f"test-{i}" for i in range(12)],
    )
    write_outcome(tmp_path, field, facts)
    study = write_pages(tmp_path)
    assert study.examination == examination
    assert "; TLM was given up on dev and not tested; the race stopped early, since nothing could win" in study.verdict
    assert study.alerts[0].startswith("These test labels were opened by 5 earlier races on this machine.")
    assert study.remarks[-1].startswith("Each contestant had 4 settings tried")
    assert study.leakage is not None
    assert (study.leakage.items, study.leakage.leaked, study.leakage.changed) == (400, 12, [])
    assert study.leakage.rows == rows(without(field, set(facts.leaked_test_ids)), METRICS["macro_f1"])
    said = (tmp_path / "table.txt").read_text()
    assert all(told in said for told in (*study.alerts, *study.remarks))
    assert "12 min 34 s" not in said
    assert (tmp_path / "report.html").read_text().count("12 min 34 s") == 2
    assert "1000,2000000000.0,754.0" in (tmp_path / "table.csv").read_text()
    assert (tmp_path / "report.html").stat().st_size < 2_000_000


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"leeks": []}, "Facts has no leeks: another release"),
        (
            {"looks": {"in_this_run": 1, "earlier_runs": 0, "earlier_looks": 0, "lines": [], "by": ""}},
            "Looks has no by",
        ),
        ({"looks": {"in_this_run": 1}}, "earlier_looks and earlier_runs and lines of Looks is missing"),
    ],
)
def test_facts_of_another_release_are_refused(tmp_path: Path, field: list[Score], change: Any, said: str) -> None:
    write_outcome(tmp_path, field, BARE)
    files.write_json(tmp_path / "facts.json", files.read_json(tmp_path / "facts.json") | change)
    with pytest.raises(ValueError, match=rf"facts\.json: {said}"):
        study_of(tmp_path)


def test_a_gain_that_rests_on_leaked_items_is_found_out() -> None:
    """DAPT knows 60 of 400 test items by heart and is otherwise the untouched model."""
    plain = studies.made_up_scores("untouched", level=1.0)
    known = frozenset(plain[0].ids[:60])
    by_heart = []
    for score in plain:
        predicted = tuple(
            right if id in known else guess
            for id, right, guess in zip(score.ids, score.gold, score.predicted, strict=True)
        )
        test = METRICS["accuracy"].compute(score.gold, predicted)
        by_heart.append(replace(score, contestant="DAPT", predicted=predicted, test=test))
    scores = plain + by_heart
    leakage = leakage_of([], scores, rows(scores, METRICS["accuracy"]), known)
    assert leakage.changed == ["only with the leaked items, DAPT is better than the untouched model"]
    assert "level with it" in leakage.verdict
    assert len(leakage.rows[0].scores) == 5


def test_the_verdict_says_that_it_rests_on_leaked_items_and_the_page_once(tmp_path: Path) -> None:
    plain = studies.made_up_scores("untouched", level=1.0)
    better = [replace(score, contestant="DAPT", predicted=score.gold[:60] + score.predicted[60:]) for score in plain]
    scores = plain + [replace(s, test=METRICS["accuracy"].compute(s.gold, s.predicted)) for s in better]
    leaked = list(scores[0].ids[:60])
    facts = replace(BARE, examination=studies.examination(), leaked_test_ids=leaked)
    write_outcome(tmp_path, scores, facts)
    study = write_pages(tmp_path)
    told = (
        "But this depends on leaked test items (60 of 400 stand in the training data too): only with the leaked items, "
        "DAPT is better than the untouched model."
    )
    assert study.verdict.endswith(f". {told}")
    assert study.alerts == []
    for page in ("report.html", "table.txt"):
        assert (tmp_path / page).read_text().count("only with the leaked items") == 1


def test_where_everything_leaked_there_is_nothing_to_score_twice(field: list[Score]) -> None:
    table = rows(field, METRICS["macro_f1"])
    leakage = leakage_of([], field, table, field[0].ids[1:])
    assert (leakage.leaked, leakage.rows, leakage.verdict) == (399, (), "")
    assert leakage_of([], field, table, ["an id of another split"]).leaked == 0


def test_facts_come_back_from_json_as_they_were(tmp_path: Path, field: list[Score]) -> None:
    study = studies.study_of_six(field)
    facts = Facts(**{each.name: getattr(study, each.name) for each in fields(Facts)})
    write_outcome(tmp_path, field, facts)
    again = Facts.from_json(files.read_json(tmp_path / "facts.json"))
    assert again.to_json() == facts.to_json()
    assert again.examination == facts.examination
    assert again.search == tuple(facts.search)


@pytest.mark.parametrize(("predicted", "warned"), [("a", True), ("right", False)])
def test_encoders_that_learnt_nothing_are_called_that(predicted, warned):
    gold = ("a",) * 6 + ("b",) * 4
    own = gold if predicted == "right" else ("a",) * 10
    value = METRICS["accuracy"].compute(gold, own)
    ids = tuple(map(str, range(10)))
    field = [
        Score("untouched", "toy", "accuracy", seed, value, value, ids, gold, own, Cost(), Cost()) for seed in (0, 1)
    ]
    told = untaught(rows(field, METRICS["accuracy"]), field, "sequence", baselines=())
    assert bool(told) is warned
    assert not warned or "60.0 points, the same answer to every text 60.0" in told[0]
