"""TLM's studies on the toy task: what varies, what is shared, and that a search tests its best on dev alone."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest

import toys
from acclimate.core import files, settings
from acclimate.core.figures import si
from acclimate.data.gather import Inputs
from acclimate.jobs.job import with_needs
from acclimate.methods import finetune
from acclimate.races.contestants import enter
from acclimate.races.design import Design
from acclimate.races.outcome import Outcome, path_of, read_outcome
from acclimate.races.race import design as race_of
from acclimate.races.recipe import RaceRecipe
from acclimate.races.run import run
from acclimate.races.tables import write
from acclimate.reading.datasets import tlm as datasets
from acclimate.studies import write_tables
from acclimate.studies.inputs import means_over_tasks
from acclimate.studies.tlm import (
    AVERAGE,
    FIGURE_1,
    TlmStudyRecipe,
    design,
    matrix,
    score_by_flop,
    table_b1_recipe,
    variants,
)
from acclimate.tasks.prepared import Prepared
from acclimate.text.corpus import Corpus

SMALL = (
    "seeds=2",
    "ks=[2,10]",
    "rho_1s=[1,3]",
    "rho_2s=[0,20]",
    "retrieval.k=5",
    *(f"tlm.{setting}" for setting in ("vocabulary=300", "layers=1", "hidden=32", "heads=2", "max_tokens=32")),
    *(f"tlm.plan.{setting}" for setting in ("steps=24", "batch=16", "rate=5e-3")),
    *(f"tlm.finetune.{setting}" for setting in ("looks=1", "epochs=0.0")),
    *(f"tlm.finetune.plan.{setting}" for setting in ("steps=12", "batch=16", "rate=1e-2")),
)


def made(vary: str, inputs: Path, out: Path, models: tuple[str, ...] = (), *more: str) -> Design:
    recipe = settings.override(TlmStudyRecipe(), [f"vary={vary}", *SMALL, *more])
    labelled, raw = toys.files_in(inputs)
    return design(recipe, Inputs(out, task=labelled, raw=raw, models=models))


def jobs(made: Design, beginning: str = "") -> set[str]:
    """Names of the jobs, of those that begin so."""
    several = with_needs(job for cell in made.cells for job in cell.jobs_by_seed.values())
    return {job.name for job in several if job.name.startswith(beginning)}


@pytest.mark.parametrize(
    ("vary", "rows"),
    [
        ("retrieval", ["random", "BM25"]),
        ("k", ["task data only", "K = 2", "K = 10"]),
        ("rho_1", ["rho_1 = 1", "rho_1 = 3", "external only"]),
        ("rho_2", ["rho_2 = 0", "rho_2 = 20"]),
        ("stages", ["without stage 2", "two stages"]),
        ("model", ["model", "model + MLM on task data", "TLM"]),
        ("scale", ["model", "TLM"]),
        ("search", [f"rho_1 = {x}, rho_2 = {y}" for x in (1, 3) for y in (0, 20)]),
    ],
)
def test_the_studies_are_those_of_the_papers_tables(vary, rows):
    recipe = settings.override(TlmStudyRecipe(), [f"vary={vary}", *SMALL])
    assert [each.name for each in variants(recipe, "a-model")] == rows


def test_a_smaller_k_is_cut_and_the_first_stages_differ_in_what_they_read(toy_inputs, tmp_path):
    found = made("k", toy_inputs, tmp_path)
    assert len(jobs(found, "retrieve")) == 1
    assert {name.rsplit("-", 1)[0] for name in jobs(found, "cut")} == {"cut-to-2"}
    assert len(jobs(found, "stage-1")) == 3 * 2
    assert {each.references[0][1] for each in found.against} == {"task data only"}


def test_what_two_variants_share_is_done_once(toy_inputs, tmp_path):
    found = made("stages", toy_inputs, tmp_path)
    assert sorted(name.rsplit("-", 1)[0] for name in jobs(found)) == sorted(
        ["retrieve", *(f"{what}-seed-{seed}" for what in ("stage-1", "hand-over", "fine-tune") for seed in (0, 1))]
    )


def test_each_first_stage_has_a_sample_of_its_own_and_bm25_retrieves_once(toy_inputs, tmp_path):
    found = made("retrieval", toy_inputs, tmp_path, (), 'hows=["random", "bm25", "dsir"]')
    draws = {cell.row: [cell.costs["stage 1"][seed][0] for seed in (0, 1)] for cell in found.cells}
    for row, how in (("random", "random"), ("DSIR", "dsir")):
        recipes = [job.settings["recipe"] for job in draws[row]]
        assert [(recipe["how"], recipe["seed"]) for recipe in recipes] == [(how, 0), (how, 1)]
        assert len({job.name for job in draws[row]}) == 2
    assert len({job.name for job in draws["BM25"]}) == 1


def test_a_second_general_corpus_is_two_more_rows_that_retrieve_from_it(toy_inputs, tmp_path):
    words = " ".join(f"word{number}" for number in range(12))
    (tmp_path / "second.txt").write_text("\n".join(f"{words} {line}" for line in range(60)), encoding="utf-8")
    found = made("retrieval", toy_inputs, tmp_path / "run", (), f"second={tmp_path / 'second.txt'}")
    assert [cell.row for cell in found.cells] == ["random", "BM25", "random, second corpus", "BM25, second corpus"]
    read = [cell.costs["stage 1"][0][0].contents["corpus"] for cell in found.cells]
    assert read[0] == read[1] != read[2] == read[3]
    assert {each.references[0][1] for each in found.against} == {"random"}


def test_the_same_corpus_twice_and_a_second_one_that_is_not_read_are_refused(toy_inputs, tmp_path):
    _, raw = toys.files_in(toy_inputs)
    with pytest.raises(ValueError, match="has the same documents as --general"):
        made("retrieval", toy_inputs, tmp_path, (), f"second={raw.general}")
    with pytest.raises(ValueError, match="only to vary=retrieval"):
        settings.override(TlmStudyRecipe(), ["vary=k", "second=texts"])


@pytest.fixture(scope="module")
def two_tasks(toy_inputs, models, tmp_path_factory) -> tuple[Path, Outcome]:
    """The given model and TLM, on test, on two tasks; the second has fewer training rows."""
    place = tmp_path_factory.mktemp("two-tasks")
    labelled, raw = toys.files_in(toy_inputs)
    rows = (toy_inputs / "train.jsonl").read_text("utf-8").splitlines(keepends=True)
    (place / "second.jsonl").write_text("".join(rows[: len(rows) * 3 // 4]), encoding="utf-8")
    second = replace(labelled, train=place / "second.jsonl")
    recipe = settings.override(
        TlmStudyRecipe(), ["vary=scale", *SMALL, "tlm.plan.steps=4", "tlm.k=3", "model_flops=1e15"]
    )
    found = design(
        replace(recipe, tasks=(second,), rivals=models[1:], rival_flops=(2e15,)),
        Inputs(place / "run", task=labelled, raw=raw, models=models[:1]),
    )
    return place / "run", run(replace(found, study="tlm"), place / "run")


def test_several_tasks_are_tested_and_each_row_has_its_mean(two_tasks):
    out, outcome = two_tasks
    assert not outcome.failed
    assert outcome.split == "test"
    columns = list(dict.fromkeys(result.column for result in outcome.results))
    assert len(columns) == 2
    for row in ("model", "two", "TLM"):
        scores = [outcome.interval(("", row, column)).mean for column in columns]
        assert outcome.interval(("", row, AVERAGE)).mean == pytest.approx(sum(scores) / 2)
    assert {each.key[2] for each in outcome.against} == {*columns, AVERAGE}
    retrievals = [files.read_json(path)["settings"]["recipe"]["k"] for path in out.glob("jobs/retrieve-*/job.json")]
    assert retrievals == [3, 3]  # tlm.k, and not retrieval.k = 5


def test_figure_1_has_each_rows_mean_at_its_flop(two_tasks):
    out, outcome = two_tasks
    points = score_by_flop(outcome)
    costs = [files.read_json(path)["paper_flops"] for path in out.glob("jobs/stage-1-*-seed-0-*/joint.json")]
    assert len(costs) == 2
    assert points["TLM"][1] == pytest.approx(sum(costs) / 2)
    assert (points["model"][1], points["two"][1]) == (1e15, 2e15)
    [table, *_] = matrix(outcome)
    facts = {row: [result.facts for result in outcome.results if result.row == row] for row in points}
    assert table.columns == ("", "parameters", "data", "score", "FLOP", "of the most")
    for row, parameters, data, *_ in table.rows:
        assert parameters == si(fmean(each["parameters"] for each in facts[row]))
        assert data == (si(fmean(each["data, characters"] for each in facts[row])) if row == "TLM" else "-")
    retrieved = [Corpus(path) for path in out.glob("jobs/retrieve-*/corpus")]
    assert {each["data, characters"] for each in facts["TLM"]} == {corpus.characters for corpus in retrieved}
    assert {row: score.mean for row, (score, _) in points.items()} == {
        row: outcome.interval(("", row, AVERAGE)).mean for row in points
    }
    text = write_tables(outcome, out)
    assert FIGURE_1 in text
    assert "means-against-flop" in (out / "tlm-scale.html").read_text("utf-8")


def test_each_dataset_of_the_paper_has_its_row_of_table_b1_with_k():
    small, large = table_b1_recipe("ACL-ARC", "small"), table_b1_recipe("rct", "large")
    assert (small.k, small.rho_1, small.rho_2, small.layers) == (5000, 999, 100.0, 12)
    assert (large.k, large.rho_1, large.plan.steps, large.layers) == (100, 7, 500_000, 24)
    assert table_b1_recipe("ChemProt-13", "medium").k == 5000
    assert table_b1_recipe("MNLI-mm", "small") == table_b1_recipe("CoLA", "small")
    for each in datasets.DATASETS:
        assert all(table_b1_recipe(each.name, scale).k for scale in ("small", "medium", "large"))
    for name, scale in (("train.csv", "small"), ("CoLA", "large")):
        with pytest.raises(ValueError, match=f"{name} has no settings at the {scale} scale"):
            table_b1_recipe(name, scale)


def test_scales_train_with_the_recipes_and_retrieve_their_k():
    recipe = settings.override(TlmStudyRecipe(), ["vary=scale", 'scales=["small","large"]', "retrieval.b=0.5"])
    model, small, large = variants(recipe, "a-model", "ACL-ARC")
    assert (model.name, model.tlm) == ("model", None)
    assert [(row.name, row.tlm.k, row.retrieval.k, row.retrieval.b) for row in (small, large)] == [
        ("TLM, small", 5000, 5000, 0.5),
        ("TLM, large", 10_000, 10_000, 0.5),
    ]


def test_at_a_scale_helpfulness_is_asked_for_by_keywords_as_in_the_paper():
    recipe = settings.override(TlmStudyRecipe(), ["vary=k", 'scales=["small"]'])
    queries = {name: {row.retrieval.queries for row in variants(recipe, None, name)} for name in ("Helpfulness", "RCT")}
    assert queries == {"Helpfulness": {"keywords"}, "RCT": {"text"}}


@pytest.mark.parametrize("vary", ["retrieval", "k", "rho_1", "rho_2", "stages", "model", "search"])
def test_at_a_scale_all_that_is_not_varied_is_as_in_the_paper(vary):
    recipe = settings.override(TlmStudyRecipe(), [f"vary={vary}", 'scales=["medium"]', "retrieval.b=0.5"])
    paper = table_b1_recipe("SciERC", "medium")
    varied = {"k": ("rho_1",), "stages": ("stage_2",), "search": ("rho_1", "rho_2")}
    varied |= {"model": ("model", "tokenizer", "rho_1")}
    names = (*varied.get(vary, (vary,)), "external_only")
    rows = [row for row in variants(recipe, "a-model", "SciERC") if row.tlm is not None]
    assert len(rows) >= 2
    for row in rows:
        given = {name: getattr(paper, name) for name in names if hasattr(paper, name)}
        assert replace(row.tlm, **given) == paper
        assert vary == "k" or row.retrieval.k == paper.k
        assert row.retrieval.b == 0.5


def test_both_dev_sets_of_mnli_count_as_one_task():
    [mean] = means_over_tasks(["TLM"], ["CoLA", "MNLI", "MNLI-mm"], AVERAGE)
    assert dict(zip((key[2] for [key] in mean.parts), mean.weights, strict=True)) == {
        "CoLA": 1 / 2,
        "MNLI": 1 / 4,
        "MNLI-mm": 1 / 4,
    }


@pytest.fixture(scope="module")
def searched(toy_inputs, tmp_path_factory) -> tuple[Path, Outcome, str, list[Mapping[str, str]], Prepared]:
    """A search, done twice; its text and the looks at the test set after the first time."""
    out = tmp_path_factory.mktemp("tlm") / "run"
    found = made("search", toy_inputs, out, (), "rho_1s=[3,1]")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(finetune, "nothing_learnt", lambda *looks, **measures: "")  # which nothing does in a few steps
        text = write(run(found, out), out)
    task = next(iter(found.cells)).task
    looks = task.looks()
    return out, run(found, out), text, looks, task


def test_the_setting_with_the_best_mean_on_dev_is_tested_and_nothing_else_opens_the_test_set(searched):
    out, outcome, text, looks, task = searched
    means = {
        row: sum(score.dev for score in cell.scores) / len(cell.scores) for (_, row, _), cell in outcome.cells.items()
    }
    assert len(means) == 4
    best = max(means, key=lambda row: means[row])
    assert best != next(iter(means))  # the reference of the comparisons
    assert f"Chosen on dev: {best}. On test, opened only for this setting:" in " ".join(text.split())
    [key] = [key for key in outcome.cells if key[1] == best]
    tuned = {*outcome.cells[key].jobs}
    tests = [files.read_json(path.parent / "job.json") for path in out.glob("jobs/test-*/result.json")]
    assert {name for about in tests for name in about["needs"].values()} == tuned
    assert len(looks) == len(tests) == 2
    assert task.looks() == looks  # doing it again looks at nothing


def test_of_what_was_not_chosen_only_dev_is_written_and_all_that_was_tried_is_counted(searched):
    out, outcome, text, _, task = searched
    written = read_outcome(path_of(out, "tlm-search"))
    assert written.split == "dev"
    on_dev = {tuple(score.ids) for score in written.scores}
    assert on_dev == {tuple(example.id for example in task.examples("dev"))}
    assert [score.ids for score in written.chosen.result.scores] == [tuple(e.id for e in task.examples("test"))] * 2
    assert "The search over 4 settings took" in " ".join(text.split())
    assert outcome.chosen.tried == 4
    assert 3 < outcome.chosen.whole / outcome.chosen.alone < 5


def test_a_model_is_compared_with_training_from_it_and_from_nothing(toy_inputs, models, tmp_path):
    outcome = run(made("model", toy_inputs, tmp_path, models[:1], "tlm.plan.steps=2"), tmp_path)
    assert not outcome.failed
    by_row = {row: each for (_, row, _), each in outcome.cells.items()}
    adaptations = {row: [score.adaptation for score in each.scores] for row, each in by_row.items()}
    assert adaptations == {"model": [None, None], "model + MLM on task data": [0, 1], "TLM": [0, 1]}
    assert "stage 1" not in by_row["model"].costs or not by_row["model"].costs["stage 1"].tokens
    assert all(by_row[row].costs["stage 1"].tokens > 0 for row in ("model + MLM on task data", "TLM"))
    [column] = outcome.losses
    losses = column.by_row
    assert losses["TLM"].loss is None, "a loss of another vocabulary is no smaller or larger"
    goes_on = losses["model + MLM on task data"]
    assert goes_on.difference == pytest.approx(goes_on.loss - losses["model"].loss)
    found = [files.read_json(path)["loss"] for path in tmp_path.glob("jobs/general-loss-seed-*/result.json")]
    assert len(found) == 2
    assert goes_on.loss == pytest.approx(sum(found) / 2)


def test_the_loss_before_adapting_has_its_own_row_where_every_variant_is_adapted(toy_inputs, models, tmp_path):
    recipe = settings.override(TlmStudyRecipe(), ["vary=stages", *SMALL])
    recipe = replace(recipe, tlm=replace(recipe.tlm, model=models[0]))
    labelled, raw = toys.files_in(toy_inputs)
    [column] = design(recipe, Inputs(tmp_path, task=labelled, raw=raw, models=models[:1])).losses
    assert (column.before[0], [*column.jobs_by_row]) == ("untouched model", ["without stage 2", "two stages"])


def test_general_text_is_needed_where_tlm_retrieves(toy_inputs, tmp_path):
    labelled, _ = toys.files_in(toy_inputs)
    recipe = settings.override(TlmStudyRecipe(), ["vary=k", *SMALL])
    with pytest.raises(ValueError, match="TLM retrieves from general text"):
        design(recipe, Inputs(tmp_path, task=labelled))


def test_a_race_retrieves_as_many_documents_as_tlm_states(toy_race):
    stated = [*toys.SETTINGS, 'contestants=["TLM"]', "retrieval.k=5", "tlm.k=3"]
    entries = enter(settings.override(RaceRecipe(), stated), toy_race.materials)
    job = entries.models["TLM"]
    assert job.needs["retrieved"].settings["recipe"]["k"] == 3
    assert job.settings["recipe"]["k"] == 0


def test_a_contestant_that_does_not_go_on_with_the_given_model_is_noted(toy_race, models):
    recipe = settings.override(RaceRecipe(), [*toys.SETTINGS, 'contestants=["TAPT", "TLM"]', "tlm.max_tokens=32"])
    given = replace(toy_race.materials, model=models[0])
    notes = [note for note in race_of(recipe, given).notes if "starts from random weights" in note]
    assert [note.partition(" ")[0] for note in notes] == ["TLM"]
    assert not any("starts from random weights" in note for note in race_of(recipe, toy_race.materials).notes)


@pytest.mark.parametrize("vary", ["rho_1", "search"])
def test_values_of_rho_1_without_an_internal_batch_are_noted(vary, toy_inputs, tmp_path):
    few = made(vary, toy_inputs, tmp_path / "few", (), "rho_1s=[1,23,24,99]")  # of 24 steps
    [note] = [note for note in few.notes if "gives stage 1 no internal" in note]
    assert "rho_1 = 24, 99 " in note
    assert "at least 100" in note
    enough = made(vary, toy_inputs, tmp_path / "enough", (), "rho_1s=[1,23,24,99]", "tlm.plan.steps=100")
    assert not any("internal" in note for note in enough.notes)
