"""DGA's study: each contestant adapts as its recipe states, and the ensemble averages probabilities."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import toys
from acclimate.core import settings
from acclimate.core.types import Cost
from acclimate.data.gather import Inputs, Raw
from acclimate.jobs.run import do_all
from acclimate.methods import METHODS
from acclimate.races.compare import MAIN
from acclimate.races.outcome import Outcome
from acclimate.races.run import run
from acclimate.races.tables import as_csv, write
from acclimate.reading.labelled_files import LabelledFiles
from acclimate.reading.published import read_task
from acclimate.reports.table import HEADING
from acclimate.studies import STUDIES
from acclimate.studies.dga import ADAPTED, AVERAGE, AVERAGE_ACCURACY, ENSEMBLE, MLM, DgaStudyRecipe, design, reported
from acclimate.studies.inputs import with_dev_rows
from acclimate.tasks.metrics import METRICS
from acclimate.tasks.prepared import open_prepared
from acclimate.training.plan import Plan

RECIPES = Path(__file__).parents[2] / "src" / "acclimate" / "recipes"
PLACES = {  # contestant -> the recipe of its row
    "MLM": "mlm/dapt-dga",
    "adapter": "light/adapter",
    "prompt": "light/prompt",
    "KD": "distil/kd",
    "AdaptedDeiT": "distil/adapted-deit",
    "SimCSE": "sequence_contrast/simcse",
    "TaCL": "token_contrast/tacl",
    "TaCO": "token_contrast/taco",
    "InfoWord": "sequence_contrast/infoword",
    "DGA": "dga/dga",
    "DGA (H, I)": "dga/heads-intermediate",
    "DGA (H, I, O)": "dga/heads-intermediate-output",
    "DGA (H, I, O, E)": "dga/heads-intermediate-output-embeddings",
    "DGA (w/o contrast)": "dga/without-contrast",
    "DGA (random mask)": "dga/random-mask",
    "DGA (domain-specific)": "dga/domain-specific",
    "DGA (update)": "dga/update",
    "DGA (w/o mask)": "dga/without-mask",
}
SMALL = (
    "seeds=2",
    *(f"adapt.{setting}" for setting in ("max_tokens=32", "plan.steps=4", "plan.batch=4", "plan.rate=1e-2")),
    *(f"finetune.{setting}" for setting in ("epochs=0.0", "plan.steps=24", "plan.batch=8", "plan.rate=1e-2")),
)
TOGETHER = f'contestants=["{ENSEMBLE}"]'


def stated(*more: str) -> DgaStudyRecipe:
    return settings.override(DgaStudyRecipe(), [*SMALL, *more])


@pytest.mark.parametrize("name", ADAPTED)
def test_each_contestant_adapts_with_what_its_recipe_states(name):
    method, _ = ADAPTED[name]
    row = settings.from_toml(METHODS[method].recipe, RECIPES / f"{PLACES[name]}.toml")
    if method == "token_contrast":  # none is shared
        row = replace(row, temperature=None)
    clipped = replace(row.plan, clip=1.0)  # the released code does not clip; the study's command states it
    assert row.plan.clip == 0
    if hasattr(row, "subset_tokens"):  # which the study's command states too
        assert (row.subset_tokens == 1_640_000) == (row.importance != "random")
        row = replace(row, subset_tokens=0)
    assert DgaStudyRecipe().stated(name) == replace(row, model="", dropout=0.1, attention_dropout=0.1, plan=clipped)


def test_what_all_share_is_stated_once_and_what_is_a_methods_own_stays_its_own():
    recipe = stated("dga.reading=update", "light.bottleneck=8", "adapt.whole_words=true")
    assert recipe.stated("DGA (H, I)").reading == "update"
    assert recipe.stated("adapter").bottleneck == 8
    ablated = stated("dga.anchor=mlm", "dga.subset=7")  # what an ablation does not read is no part of it
    assert ablated.stated("DGA").anchor == "mlm"
    assert ablated.stated("DGA (w/o contrast)").anchor == "own"
    assert ablated.stated("DGA (random mask)").subset == DgaStudyRecipe().dga.subset
    for name in ADAPTED:
        of_method = recipe.stated(name)
        assert (of_method.plan, of_method.whole_words, of_method.max_tokens) == (recipe.adapt.plan, True, 32)


@pytest.fixture(scope="module")
def ran(toy_inputs, models, tmp_path_factory) -> tuple[Path, Outcome]:
    """The ensemble alone beside the model as it is: MLM is adapted for it, and is no row. Both learn the task."""
    out = tmp_path_factory.mktemp("dga") / "run"
    labelled, raw = toys.files_in(toy_inputs)
    return out, run(
        design(stated(TOGETHER, "finetune.plan.steps=60"), Inputs(out, task=labelled, raw=raw, models=models[:1])), out
    )


def test_the_ensemble_averages_probabilities(ran):
    out, outcome = ran
    assert not outcome.failed
    task = open_prepared(out / "data")
    texts = [example.text for example in task.examples("test")]
    [ensemble] = [each for each in outcome.results if each.row == ENSEMBLE]
    differs = []
    for seed, job in enumerate(ensemble.jobs):
        each = []
        for model in ("untouched", "mlm"):
            [place] = out.glob(f"jobs/fine-tune-{model}-seed-{seed}-*/checkpoint")
            read = AutoTokenizer.from_pretrained(place)(texts, padding=True, truncation=True, return_tensors="pt")
            with torch.no_grad():
                each.append(AutoModelForSequenceClassification.from_pretrained(place)(**read).logits.softmax(-1))
        together, *alone = ([task.labels[code] for code in chances.argmax(-1)] for chances in (sum(each) / 2, *each))
        assert json.loads((out / "jobs" / job / "result.json").read_text())["predicted"] == together
        differs.append([together != each for each in alone])
    assert all(map(any, zip(*differs, strict=True))), "else one of the two models would do"


def test_the_ensemble_takes_what_is_there_and_costs_what_both_cost(ran):
    out, outcome = ran
    assert [key[1] for key in outcome.cells] == ["untouched", ENSEMBLE]
    done = sorted(path.parent.name.rsplit("-", 1)[0] for path in out.glob("jobs/*/result.json"))
    trained = [f"fine-tune-{model}-seed-{seed}" for model in ("mlm", "untouched") for seed in (0, 1)]
    looks = [f"test-{name}-seed-{seed}" for name in ("ensemble-lm-mlm", "untouched") for seed in (0, 1)]
    assert [name for name in done if "loss" not in name] == sorted(["mlm", *trained, *looks])
    untouched, ensemble = outcome.results
    assert [score.adaptation for score in (*untouched.scores, *ensemble.scores)] == [None, None, 0, 0]
    assert untouched.costs["adapting"] == Cost()
    assert ensemble.costs["adapting"].flops > 0
    assert ensemble.costs["tuning"].flops == pytest.approx(2 * untouched.costs["tuning"].flops)


def test_macro_f1_and_accuracy_are_of_the_same_predictions_and_losses_stand_beside_them(ran):
    out, outcome = ran
    assert [metric.name for metric in reported(METRICS["micro_f1"])] == ["micro_f1", "accuracy"]
    lines = list(csv.DictReader(as_csv(outcome).splitlines()))
    assert [(line["contestant"], line["metric"]) for line in lines] == [
        (name, metric) for name in ("untouched", ENSEMBLE) for metric in ("macro_f1", "accuracy")
    ]
    for line, (key, cell) in zip(lines[1::2], outcome.cells.items(), strict=True):
        values = [METRICS["accuracy"].compute(score.gold, score.predicted) for score in cell.scores]
        assert [float(value) for value in line["scores"].split()] == pytest.approx(values)
        assert outcome.interval(key, "accuracy").mean == pytest.approx(sum(values) / 2)
        assert outcome.interval(key, MAIN).mean == pytest.approx(sum(score.test for score in cell.scores) / 2)
    for what, heading in (("general", HEADING), ("domain", "domain loss")):
        [place] = out.glob(f"jobs/{what}-loss-untouched-*/result.json")
        [column] = [each for each in outcome.losses if each.name == heading]
        assert column.by_row["untouched"].loss == json.loads(place.read_text())["loss"]
        assert column.by_row[ENSEMBLE].loss is None


def test_an_ensemble_is_for_one_label_a_row(toy_inputs, models, tmp_path):
    (tmp_path / "scores.csv").write_text("text,label\n" + "".join(f"text {i} of it,{i / 7}\n" for i in range(60)))
    labelled = LabelledFiles(train=tmp_path / "scores.csv", kind="score", max_tokens=32)
    inputs = Inputs(tmp_path / "run", task=labelled, raw=Raw(domain=toy_inputs / "domain.txt"), models=models[:1])
    with pytest.raises(ValueError, match="needs one label per row, but scores is of kind"):
        design(stated(TOGETHER), inputs)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["adapt.max_tokens=64", 'contestants=["AdaptedDeiT"]'], "1 more after them, but the model reads at most 64"),
        (["light.prompt_tokens=9", 'contestants=["prompt"]', "adapt.max_tokens=60"], "and a prompt of 9 after them"),
    ],
)
def test_what_the_model_cannot_read_is_told_before_anything_is_done(more, message, toy_inputs, models, tmp_path):
    labelled, raw = toys.files_in(toy_inputs)
    with pytest.raises(ValueError, match=message):
        design(stated(*more), Inputs(tmp_path / "run", task=labelled, raw=raw, models=models[:1]))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("study", ["dga", "tapter"])
def test_a_dev_set_that_was_drawn_from_train_trains_where_nothing_is_chosen_on_it(study, toy_inputs, models, tmp_path):
    labelled, raw = toys.files_in(toy_inputs)
    rows = {}
    for all_rows, divided in ((False, True), (True, True), (True, False)):
        recipe = STUDIES[study].recipe(all_rows=all_rows)
        task = replace(labelled, dev=None) if divided else labelled
        inputs = Inputs(tmp_path / f"{all_rows}-{divided}", task=task, raw=raw, models=models[:1])
        if study == "dga":
            recipe = replace(recipe, contestants=("MLM",), adapt=replace(recipe.adapt, max_tokens=32))
        else:
            recipe = replace(recipe, contestants=("TAPT",), tapt=replace(recipe.tapt, max_tokens=32))
        task = STUDIES[study].design(recipe, inputs).cells[0].task
        rows[all_rows, divided] = task.sizes["train"], task.sizes["dev"]
    train, dev = rows[False, True]
    assert rows[True, True] == (train + dev, dev)
    assert rows[True, False] == (toys.SIZES["train"], toys.SIZES["dev"])


@pytest.mark.parametrize(("sizes", "more"), [({}, 12), ({"dev": 12}, 0)])
def test_a_published_dataset_says_whether_its_dev_set_was_drawn_from_train(sizes, more, data, catalogue, monkeypatch):
    read = read_task(LabelledFiles(train=Path("Topics")), data)
    entries = tuple(replace(entry, sizes=sizes) for entry in catalogue)
    monkeypatch.setattr("acclimate.studies.inputs.CATALOGUES", {"blurb": ("", entries)})
    train = read.splits["train"]
    assert len(with_dev_rows(read).splits["train"]) == len(train) + more


def test_raw_text_is_needed(toy_inputs, tmp_path):
    labelled, _ = toys.files_in(toy_inputs)
    with pytest.raises(ValueError, match=r"the study 'dga' adapts on raw text of the domain\. Add --corpus"):
        design(stated(), Inputs(tmp_path, task=labelled, raw=Raw(), models=("somewhere",)))


def test_mlm_is_compared_with_where_it_is_a_row(toy_inputs, models, tmp_path):
    labelled, raw = toys.files_in(toy_inputs)
    recipe = stated(f'contestants=["adapter", "{MLM}", "{ENSEMBLE}"]')
    made = design(recipe, Inputs(tmp_path, task=labelled, raw=raw, models=models[:1]))
    found = [(each.key[1], each.references[0][1]) for each in made.against]
    assert found == [
        *((name, "untouched") for name in (MLM, "adapter", ENSEMBLE)),
        *((name, MLM) for name in ("adapter", ENSEMBLE)),
    ]
    assert len({each.family for each in made.against}) == 1


def other_task(toy_inputs, place):
    """The toy task again, with fewer training rows, and raw text of its own."""
    place.mkdir()
    rows = (toy_inputs / "train.jsonl").read_text("utf-8").splitlines(keepends=True)
    (place / "second.jsonl").write_text("".join(rows[: len(rows) * 3 // 4]), encoding="utf-8")
    lines = (toy_inputs / "domain.txt").read_text("utf-8").splitlines(keepends=True)
    (place / "domain.txt").write_text("".join(lines[: len(lines) // 2]), encoding="utf-8")
    held = {split: str(toy_inputs / f"{split}.jsonl") for split in ("dev", "test")}
    return LabelledFiles(
        train=place / "second.jsonl", dev=Path(held["dev"]), test=Path(held["test"]), max_tokens=32
    ), place / "domain.txt"


def test_several_tasks_have_their_corpora_and_epochs_and_each_row_its_mean(toy_inputs, models, tmp_path):
    labelled, raw = toys.files_in(toy_inputs)
    second, corpus = other_task(toy_inputs, tmp_path / "second")
    out = tmp_path / "run"
    small = stated(f'contestants=["{MLM}"]', "adapt.plan.steps=2")
    recipe = replace(
        small,
        finetune=replace(small.finetune, epochs=1.0, plan=replace(small.finetune.plan, steps=Plan().steps)),
        tasks=(second,),
        corpora=(str(corpus),),
        epochs=(1.0, 2.0),
    )
    found = design(recipe, Inputs(out, task=labelled, raw=raw, models=models[:1]))
    columns = list(dict.fromkeys(cell.column for cell in found.cells))
    assert len(columns) == 2
    assert found.examination is None
    by_column = {column: [cell for cell in found.cells if cell.column == column] for column in columns}
    epochs = [
        {
            job.settings["recipe"]["epochs"]
            for cell in by_column[name]
            for jobs in cell.costs["tuning"].values()
            for job in jobs
        }
        for name in columns
    ]
    assert epochs == [{1.0}, {2.0}]
    corpora = [by_column[name][1].costs["adapting"][0][0].contents["corpus"] for name in columns]
    assert corpora[0] != corpora[1]
    assert {each.family for each in found.against if each.key[2] == AVERAGE} != {
        each.family for each in found.against if each.key[2] != AVERAGE
    }
    outcome = run(found, out)
    assert not outcome.failed
    for row in ("untouched", MLM):
        scores = [outcome.interval(("", row, column)).mean for column in columns]
        assert outcome.interval(("", row, AVERAGE)).mean == pytest.approx(sum(scores) / 2)
        accuracies = [outcome.interval(("", row, column), "accuracy").mean for column in columns]
        assert outcome.interval(("", row, AVERAGE_ACCURACY)).mean == pytest.approx(sum(accuracies) / 2)
    assert "Avg" in write(outcome, out)


def test_a_task_twice_is_refused(toy_inputs, models, tmp_path):
    labelled, raw = toys.files_in(toy_inputs)
    recipe = replace(stated(f'contestants=["{MLM}"]'), tasks=(labelled,))
    with pytest.raises(ValueError, match="two tasks are named"):
        design(recipe, Inputs(tmp_path, task=labelled, raw=raw, models=models[:1]))


def test_how_far_heads_moved_stands_beside_the_run_without_a_mask(toy_inputs, models, tmp_path):
    labelled, raw = toys.files_in(toy_inputs)
    inputs = Inputs(tmp_path, task=labelled, raw=raw, models=models[:1])
    several = 'contestants=["MLM", "DGA (update)", "DGA (w/o mask)"]'
    asked = design(stated(several), inputs)
    adapting = [job for [job] in (cell.costs["adapting"][0] for cell in asked.cells if cell.costs["adapting"][0])]
    assert not do_all(adapting, tmp_path)
    facts = {cell.row: asked.measured(cell, tmp_path) for cell in asked.cells}
    assert facts["untouched"] == facts["MLM"] == {}
    moved, free = (float(facts[row]["heads moved"]) for row in ("DGA (update)", "DGA (w/o mask)"))
    assert 0 < moved < free
    assert "beside no mask" not in facts["DGA (w/o mask)"]
    assert 0 < float(facts["DGA (update)"]["beside no mask"]) < 0.9
    assert facts["DGA (update)"].keys() >= {"beside no mask, I > 0.9"}
