"""Frozen encoders in races: probes, and the linear layer that is used and shipped, alone and with terms beside it."""

import random
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import transformers
from scipy import stats
from typer.testing import CliRunner

import acclimate
import studies
import toys
from acclimate import cli
from acclimate.core import files
from acclimate.data.gather import Inputs
from acclimate.jobs.job import missing
from acclimate.jobs.lock import differences
from acclimate.methods.baselines import TfidfRecipe
from acclimate.methods.finetune import PAPERS, FinetuneRecipe
from acclimate.methods.probe import probe
from acclimate.races import race, terms_and_states
from acclimate.races.answer import represented
from acclimate.races.compare import MAIN
from acclimate.races.contestants import enter, threshold_of
from acclimate.races.facts import probe_facts, task_facts
from acclimate.races.outcome import Facts, Outcome, best_on_dev, probe_row
from acclimate.races.planning.dry_run import dry_run, foreseen_jobs
from acclimate.races.planning.lengths import Lengths
from acclimate.races.race import probes_against_untouched
from acclimate.races.recipe import RaceRecipe
from acclimate.races.report import report_of
from acclimate.races.rounds import shortened
from acclimate.races.tables import as_csv, sections
from acclimate.races.verdict import claims, warnings
from acclimate.reports.table import COMBINED
from acclimate.shipping.predict import predict
from acclimate.shipping.ship import ship
from acclimate.statistics.significance import ONE_ADAPTATION, compare, holm
from acclimate.tasks.metrics import METRICS
from acclimate.tasks.prepared import open_prepared
from toys import outcome_without_seconds

NAMES = ("untouched", "TAPT", "random weights")


@pytest.fixture(scope="module")
def asked(toy_race, pretrained) -> dict[str, Any]:
    """What `race` is given."""
    files = {split: toy_race.inputs / f"{split}.jsonl" for split in ("dev", "test")}
    names = [*NAMES[1:], "TF-IDF"]
    return {**files, "model": str(pretrained), "contestants": names, "recipe": toy_race.recipe, "max_tokens": 32}


@pytest.fixture(scope="module")
def probed(toy_race, asked, tmp_path_factory):
    """(directory, report) of a race that only probes."""
    out = tmp_path_factory.mktemp("probed") / "run"
    return out, toys.raced(toy_race.inputs / "train.jsonl", **asked, out=out, probe_only=True)


def test_without_fine_tuning_there_are_probes_the_baseline_and_the_usual_files(probed):
    out, report = probed
    assert [result.row for result in report.outcome.results] == ["TF-IDF", *(row for row in _rows(report.outcome))]
    assert {probe_row(name) for name in NAMES} == set(_rows(report.outcome))
    assert report.verdict.startswith("Nothing was fine-tuned. A probe of the frozen, untouched model scores ")
    assert "TF-IDF, which needs no encoder, " in report.verdict
    assert "Before fine-tuning, it is not established that TAPT changed what the encoder represents" in report.verdict
    assert not list((out / "jobs").glob("fine-tune*"))
    assert files.read_json(out / "use" / "race.json") == files.read_json(out / "baseline" / "race.json")
    assert not (out / "encoder").exists()
    assert files.read_json(out / "baseline" / "race.json")["contestant"] == "TF-IDF"
    told = CliRunner().invoke(cli.app, ["report", str(out)]).output
    said = " ".join(told.split())
    assert "/use. TF-IDF is used, because nothing was fine-tuned." in said
    page, table = ((out / name).read_text() for name in ("report.html", "table.txt"))
    assert all(row in page and row in table for row in _rows(report.outcome))
    assert len((out / "table.csv").read_text().splitlines()) == 5
    alone = replace(report.outcome, results=report.outcome.results[1:2], against=())
    assert report_of(alone).verdict.startswith("Nothing was fine-tuned. A probe of the frozen model scores ")
    looks = report.facts.looks
    assert [line for line in looks.lines if "probe" in line] == [f"test probe {name}" for name in NAMES]


def test_the_same_again_does_nothing_and_the_whole_race_goes_on_from_there(probed, toy_race, asked):
    out, _ = probed
    before, jobs = outcome_without_seconds(out), {path.name for path in (out / "jobs").iterdir()}
    toys.raced(toy_race.inputs / "train.jsonl", **asked, out=out, probe_only=True)
    assert (outcome_without_seconds(out), {path.name for path in (out / "jobs").iterdir()}) == (before, jobs)
    labelled, _ = toys.files_in(toy_race.inputs)
    inputs = Inputs(out, task=labelled, models=(asked["model"],))
    recipe = replace(asked["recipe"], contestants=tuple(asked["contestants"]))
    foreseen = foreseen_jobs(enter(recipe, race.materials_for(inputs, recipe)), out)
    labels = {job.label for job in missing(foreseen, out)}
    assert labels
    assert all(label.startswith(("fine-tune ", "test ")) and "probe" not in label for label in labels)


def test_a_dry_run_of_probes_alone_fine_tunes_nothing(toy_race, pretrained, tmp_path):
    materials = replace(toy_race.materials, general=None, general_heldout=None, model=str(pretrained))
    found = dry_run(race.design(toy_race.recipe, materials, probe_only=True), tmp_path)
    assert sum(line.fine_tunings for line in found.lines) == 0
    assert found.seconds > 0


def test_a_failed_probe_is_named_and_its_contestant_races(toy_race, probed, asked, tmp_path, monkeypatch):
    from acclimate.methods import probe

    def broken(model, task, **more):
        if "tapt" in model:
            raise ValueError("no states")
        return whole(model, task, **more)

    whole = probe.probe
    monkeypatch.setattr(probe, "probe", broken)
    report = toys.raced(toy_race.inputs / "train.jsonl", **asked, out=tmp_path / "run", probe_only=True)
    assert report.failed == {"TAPT, probe": "probe TAPT: no states"}
    assert "TAPT failed and has no score" in report.verdict


def _rows(outcome: Outcome) -> list[str]:
    return [result.row for result in outcome.results if result.probe]


def probe_of(name: str, level: float, *, adaptations: int = 0, learnt: bool = True) -> Any:
    """The result of a made-up probe: of the given model, or one score for each adaptation."""
    scores = studies.made_up_scores(probe_row(name), level=level, seeds=max(1, adaptations))
    stated = [replace(score, adaptation=score.seed if adaptations else None, learnt=learnt) for score in scores]
    return replace(studies.result(name, level), row=probe_row(name), scores=tuple(stated), probe=True, jobs=())


def raced(*probes: Any, facts: Facts = Facts()) -> Outcome:  # noqa: B008
    tuned = [studies.result("untouched", 1.2), studies.result("TAPT", 1.3)]
    names = [each.contestant for each in probes]
    against = (*race.against_untouched(["TAPT"], "Genes"), *probes_against_untouched(names, "Genes"))
    return Outcome("race", "Race", "", (*tuned, *probes), against, race=facts)


def test_probes_are_compared_by_items_alone_and_are_a_family_of_their_own():
    untouched, tapt, dapt = (
        probe_of(*stated, adaptations=number)
        for *stated, number in (("untouched", 1.2, 0), ("TAPT", 1.5, 1), ("DAPT", 1.3, 1))
    )
    outcome = raced(untouched, tapt, dapt)
    found = {each.against.key[1]: each for each in outcome.compared.contrasts if each.metric == MAIN}
    right = {each.row: np.equal(each.scores[0].gold, each.scores[0].predicted) for each in (untouched, tapt, dapt)}
    for name in ("TAPT, probe", "DAPT, probe"):
        naive = stats.ttest_rel(right[name].astype(float), right["untouched, probe"].astype(float))
        comparison = found[name].comparison
        assert comparison.p == pytest.approx(naive.pvalue)
        assert (comparison.low, comparison.high) == pytest.approx(naive.confidence_interval())
        assert (comparison.p_seeds, comparison.p_permutation, comparison.adaptations) == (None, None, 1)
        assert "seed" not in comparison.test + comparison.caution
    p_of_probes = [found[name].comparison.p for name in ("TAPT, probe", "DAPT, probe")]
    assert [found[name].p_adjusted for name in ("TAPT, probe", "DAPT, probe")] == holm(p_of_probes)
    assert found["TAPT"].p_adjusted == pytest.approx(found["TAPT"].comparison.p)
    assert ONE_ADAPTATION in represented(outcome)


def test_with_several_adaptations_their_chance_counts_too():
    untouched, tapt = probe_of("untouched", 1.2), probe_of("TAPT", 1.5, adaptations=3)
    outcome = raced(untouched, tapt)
    contrast = outcome.compared.contrast(tapt.key, "untouched, probe")
    equal = [replace(untouched.scores[0], seed=number) for number in range(3)]
    naive = compare(tapt.scores, equal, METRICS["accuracy"])
    assert (contrast.comparison.p, contrast.comparison.low) == (naive.p, naive.low)
    assert contrast.comparison.adaptations == 3
    assert ONE_ADAPTATION not in represented(outcome)
    [section] = [each for each in sections(outcome) if each.title == "Frozen probes"]
    assert "each adaptation" in section.columns


def test_the_verdict_says_what_adapting_did_to_the_representation_and_a_probe_never_wins():
    outcome = raced(probe_of("untouched", 1.2), probe_of("TAPT", 2.5, adaptations=1))
    sentence = "Before fine-tuning, adapting changed what the encoder represents: the probe of TAPT is better"
    assert sentence in represented(outcome)
    assert "the probe of TAPT is better than the untouched model's" in claims(outcome)
    best = best_on_dev(outcome.results)
    assert not best.probe
    control = raced(probe_of("untouched", 1.2), probe_of("random weights", 0.1))
    assert represented(control) == ""  # nothing adapted it
    assert "probe" in as_csv(control).splitlines()[0].split(",")


def test_a_probe_no_better_than_a_constant_answer_is_named_and_compared_with_nothing():
    outcome = raced(probe_of("untouched", 1.2), probe_of("TAPT", 1.5, adaptations=1, learnt=False))
    assert warnings(outcome) == [
        "On dev, or by loss, TAPT, probe does no better than a constant answer or guesses. Therefore it is not "
        "compared."
    ]
    assert outcome.compared.contrast(("", "TAPT, probe", "Genes"), "untouched, probe") is None
    assert represented(outcome) == ""


@pytest.mark.parametrize(
    ("asked", "said"),
    [("pairs", "which words belong to which of the two texts"), ("mentions", "which mentions are meant"), ("", "")],
)
def test_the_page_says_what_a_probe_of_pairs_and_relations_cannot_see(asked, said):
    facts = {"read-out": "mean", **({"asked of": asked} if asked else {})}
    outcome = raced(*(replace(probe_of(name, 1.2), facts=facts) for name in ("untouched", "TAPT")))
    [section] = [each for each in sections(outcome) if each.title == "Frozen probes"]
    told = [line for line in section.lines if "one vector of the whole text" in line]
    assert len(told) == bool(asked)
    assert all(said in line for line in told)


@pytest.mark.parametrize(("two", "asked"), [("pair", "pairs"), ("mentions", "mentions"), (None, None)])
def test_a_probe_knows_whether_its_task_asks_of_pairs_or_of_mentions(two, asked):
    task = SimpleNamespace(two_places=two)
    cell = SimpleNamespace(probe=True, jobs_by_seed={}, materials=SimpleNamespace(task=task))
    assert probe_facts(cell, Path()).get("asked of") == asked


def test_a_task_of_numbers_has_no_empty_place_for_labels_on_the_page():
    about = {"name": "Pairs", "source": "pairs.csv", "metric": METRICS["pearson"], "sizes": {"train": 7}}
    assert "labels" not in task_facts(SimpleNamespace(labels=(), max_tokens=9, **about))
    assert task_facts(SimpleNamespace(labels=("a", "b"), max_tokens=9, **about))["labels"] == "a, b"


def test_where_no_probe_exists_the_page_says_why_and_probes_alone_are_refused():
    outcome = raced(facts=Facts(unprobed="A task of kind 'span' cannot be probed."))
    [section] = [each for each in sections(outcome) if each.title == "Frozen probes"]
    assert section.lines == ("A task of kind 'span' cannot be probed.",)
    materials: Any = SimpleNamespace(task=SimpleNamespace(kind="span"), unread={})
    with pytest.raises(ValueError, match=r"--probe-only: a task of kind 'span' cannot be probed\. These can: sequence"):
        race.design(RaceRecipe(), materials, probe_only=True)


@pytest.mark.parametrize(
    ("kind", "tuning", "stated"),
    [
        ("multilabel", FinetuneRecipe(), {"threshold": "dev"}),
        ("multilabel", PAPERS, {}),
        ("score", FinetuneRecipe(), {}),
    ],
)
def test_a_probe_of_several_labels_chooses_its_threshold_as_fine_tuning_does(kind, tuning, stated):
    task = SimpleNamespace(kind=kind, has_threshold=kind == "multilabel")
    assert threshold_of(tuning, task) == stated


def row(kind: str, number: int) -> dict[str, Any]:
    """A labelled text, whose label its words decide."""
    generator = random.Random(number)
    topic = generator.choice([*toys.TOPICS])
    text = toys.text(topic, 12, generator).rstrip(".")
    label: Any = {
        "sequence": topic,
        "pair": topic,
        "multilabel": [topic, "long"] if len(text) > 70 else [topic],
        "score": [*toys.TOPICS].index(topic) + len(text) / 100,
        "tokens": ["B-long" if len(word) > 5 else "O" for word in text.split()],
    }[kind]
    return {"text": text.split() if kind == "tokens" else text, "label": label} | (
        {"pair": toys.text(topic, 5, generator)} if kind == "pair" else {}
    )


def slow(*kinds: str) -> list[Any]:
    return [pytest.param(kind, marks=pytest.mark.slow) for kind in kinds]


WEIGHTS = "ab" * 32


@pytest.fixture
def used(toy_race, tmp_path):
    """A function that races a contestant on rows of a kind without fine-tuning: run, study, scores and test texts."""

    def used(kind, name):
        run, rows = tmp_path / "run", [row(kind, number) for number in range(160)]
        columns = {"text": "text", "label": "label"} | ({"pair": "pair"} if kind == "pair" else {})
        columns |= {} if kind in ("sequence", "pair") else {"kind": kind}
        model = tmp_path / "model"
        with files.new_directory(model) as place:  # as if it had been made from the embedded encoder
            shutil.copytree(toy_race.base, place, ignore=shutil.ignore_patterns("manifest.json"), dirs_exist_ok=True)
            files.write_json(place / "provenance.json", {"origin": "embedded", "origin_weights": WEIGHTS})
            for file in ("LICENSE", "NOTICE"):
                files.write_text(place / file, f"{file} of these weights")
        asked = {
            "model": tmp_path / "model",
            "contestants": [name],
            "max_tokens": 32,
            "probe_only": True,
            "progress": False,
        }
        study = acclimate.race(rows, **asked, **columns, out=run)
        assert study.use == name
        [result] = [result for result in study.report.outcome.results if result.row == name]
        test = open_prepared(run / "data").examples("test")
        texts = [(each.text, each.pair) if each.pair else each.text for each in test]
        return SimpleNamespace(run=run, study=study, result=result, scored=result.scores[0], texts=texts)

    return used


def assert_licensed(shipment: Path, handed_over: Path) -> None:
    """Both directories have the embedded encoder's licence, and the card names the encoder."""
    for place in (shipment, handed_over):
        assert all((place / file).read_text() == f"{file} of these weights" for file in ("LICENSE", "NOTICE"))
    card = (shipment / "README.md").read_text()
    assert f"the embedded encoder of acclimate (SHA-256 of its weights: {WEIGHTS})" in card
    assert "is under the Apache License 2.0: keep LICENSE and NOTICE." in card


def assert_predicted(directory: Path, race: SimpleNamespace, kind: str) -> None:
    predicted = [each.label for each in predict(str(directory), race.texts)]
    expected = list(race.scored.predicted)
    found = [tuple(label) if isinstance(label, list) else label for label in predicted]
    assert found == (pytest.approx(expected, rel=1e-4) if kind == "score" else expected)


@pytest.mark.parametrize("kind", ["pair", "tokens", *slow("sequence", "multilabel", "score")])
def test_it_is_used_and_shipped_and_predicts_as_it_was_scored(kind, used, tmp_path):
    race = used(kind, "frozen")
    assert files.read_json(race.run / "use" / "race.json")["contestant"] == "frozen"
    [probe] = [result for result in race.study.report.outcome.results if result.row == "untouched, probe"]
    [fitted] = probe.scores
    assert race.scored.test == pytest.approx(fitted.test, abs=0.05), "up to the precision in which a probe reads"
    assert_predicted(race.run / "use", race, kind)
    shipped = ship(race.run, tmp_path / "shipped")
    assert {way.name for way in shipped.ways if way.takes} >= {"acclimate predict"}
    assert (shipped.path / "model.safetensors").exists() or (shipped.path / "modules.json").exists()
    assert_licensed(shipped.path, race.run / "use")


@pytest.mark.parametrize("kind", ["sequence", *slow("multilabel", "pair", "score")])
def test_with_terms_it_is_used_and_shipped_and_predicts_as_it_was_scored(kind, used, tmp_path):
    race = used(kind, COMBINED)
    assert len(race.scored.predicted) == len(race.scored.ids) > 0
    assert race.result.costs["tuning"].seconds > 0
    given = race.study.report.facts.given[COMBINED]["fine-tuning"]
    assert re.search(r"on terms, the best of \d+ settings on dev: ", given)
    shipped = ship(race.run, tmp_path / "shipped")
    assert [way.name for way in shipped.ways if way.takes] == ["acclimate predict"]
    for place in (race.run / "use", shipped.path):
        assert_predicted(place, race, kind)
        assert not (place / "config.json").exists()
        for auto in (transformers.AutoModel, transformers.AutoModelForSequenceClassification):
            with pytest.raises((OSError, ValueError)):
                auto.from_pretrained(place)
    if kind == "pair":  # a row without its second text is read as the race read rows
        first, second = ((race.texts[0][0], ""), race.texts[1])
        alone, _ = predict(str(race.run / "use"), [first, second])
        assert predict(str(race.run / "use"), [first])[0].probabilities == pytest.approx(alone.probabilities, abs=1e-5)
    assert differences(race.run) == []
    assert_licensed(shipped.path, race.run / "use" / "encoder")
    card = (shipped.path / "README.md").read_text()
    assert "in one linear model" in card
    assert f"| {COMBINED} (shipped) |" in card
    with pytest.raises(ValueError, match=r"--onnx needs a model of transformers, but TF-IDF \+ encoder is not"):
        ship(race.run, tmp_path / "other", onnx=True)


def test_a_damaged_or_incomplete_model_is_refused_by_the_name_of_its_file(toy_race, tmp_path):
    task = open_prepared(toy_race.run / "data")
    layer = probe(str(toy_race.base), task).layer
    fitted = terms_and_states.fit(TfidfRecipe(), task, str(toy_race.base), layer).model
    assert fitted.states_CD.shape == (len(task.labels), layer.weight_CD.shape[1])

    def written(name, **changes):
        directory = tmp_path / name
        directory.mkdir()
        terms_and_states.write(replace(fitted, **changes), directory)
        terms_and_states.write_encoder(str(toy_race.base), directory)
        return directory

    sound = written("sound")
    model, encoder, tokenizer = terms_and_states.read_with_encoder(sound)
    dev = task.examples("dev")
    states_RD = terms_and_states.read_states(model, encoder, tokenizer, dev)
    assert np.array_equal(model.outputs(dev, states_RD), fitted.outputs(dev, states_RD))
    with_nan = fitted.states_CD.copy()
    with_nan[0, 0] = np.nan
    cases = {
        r"combined\.safetensors is damaged: states has values that are NaN": {"states_CD": with_nan},
        r"its sizes do not match combined\.safetensors": {"states_CD": fitted.states_CD[:1]},
        r"states has 5 columns, but the encoder in encoder/ has \d+ numbers": {"states_CD": fitted.states_CD[:, :5]},
        r"combined\.json is damaged: read_out = 'last' is not a read-out": {"read_out": "last"},
        r"combined\.json is damaged: max_tokens = 0 is not": {"max_tokens": 0},
    }
    for number, (message, changes) in enumerate(cases.items()):
        with pytest.raises(files.DamagedError, match=message):
            terms_and_states.read_with_encoder(written(str(number), **changes))
    for name, message in {
        "combined.safetensors": r"combined\.safetensors is damaged: is missing",
        "encoder/config.json": r"encoder is damaged: it holds no encoder",
    }.items():
        directory = shutil.copytree(sound, tmp_path / name.replace("/", "-"))
        (directory / name).unlink()
        with pytest.raises(files.DamagedError, match=message):
            terms_and_states.read_with_encoder(directory)


def test_it_stands_in_every_race_that_names_no_contestants(toy_race):
    recipe = replace(toy_race.recipe, contestants=None)
    assert recipe.names(domain=True, general=False) == ("TAPT", "DAPT", "frozen", COMBINED, "TF-IDF")
    assert recipe.names(domain=False, general=False, kind="tokens") == ("TAPT", "frozen", "TF-IDF")
    assert not {"frozen", COMBINED} & {*recipe.names(domain=False, general=False, kind="span")}
    with pytest.raises(ValueError, match=r"TF-IDF \+ encoder does not support tasks of kind 'tokens'"):
        replace(recipe, contestants=(COMBINED,)).names(domain=False, general=False, kind="tokens")


def test_in_a_shortened_race_it_is_the_model_that_the_race_pretrains(toy_race):
    entries = enter(replace(toy_race.recipe, contestants=None), toy_race.materials)
    for share in (1.0, 0.5):
        cut = shortened(entries, Lengths(adapting=share))
        assert [*cut.unadapted] == ["frozen", COMBINED]
        for job in cut.unadapted.values():
            assert job.needs["model"].name == job.needs["fitted"].needs["model"].name == cut.base.name


def test_with_a_budget_it_is_fitted_before_the_first_round_and_compared_with_the_untouched_model(toy_race, tmp_path):
    given = {split: toy_race.inputs / f"{split}.jsonl" for split in ("dev", "test")}
    heard: list[str] = []
    study = acclimate.race(
        toy_race.inputs / "train.jsonl", **given, model=toy_race.base, contestants=["frozen", COMBINED, "TF-IDF"],
        recipe=toy_race.recipe, max_tokens=32, out=tmp_path / "run", budget="20min", progress=False,
        watch=lambda progress: heard.append(progress.stage),
    )  # fmt: skip
    order = [heard.index(stage) for stage in ("TF-IDF", "frozen", COMBINED, "fine-tune untouched, seed 0")]
    assert order == sorted(order)
    rows = {result.row: result for result in study.report.outcome.results}
    assert {"untouched", "frozen", COMBINED, "TF-IDF"} <= rows.keys()
    assert rows["frozen"].costs["tuning"].seconds > 0, "that of the probe"
    table = (tmp_path / "run" / "table.txt").read_text()
    assert "against untouched" in table.partition("Frozen probes")[0], "beside the scores"
    assert "Against TF-IDF" in table
