"""BLURB's study: its score over made-up scores, and what a search chooses."""

import csv
import json
import random
import shutil
from dataclasses import dataclass, replace
from typing import Any

import pytest

import toys
from acclimate.core import settings
from acclimate.core.types import Example
from acclimate.data.gather import Inputs
from acclimate.jobs.job import with_needs
from acclimate.methods import finetune
from acclimate.races.compare import MAIN, Mean, compare
from acclimate.races.outcome import Outcome
from acclimate.races.planning.dry_run import dry_run
from acclimate.races.run import run
from acclimate.races.tables import as_csv, write
from acclimate.reading.datasets import blurb
from acclimate.reading.datasets.catalogue import Form
from acclimate.statistics.means import mean_interval
from acclimate.studies.blurb import BLURB_SCORE, BlurbRecipe, _means, _refused, design
from acclimate.studies.inputs import fitted, models_of
from acclimate.tasks.metrics import BLURB, blurb_score, metric_for
from acclimate.tasks.prepared import prepare
from acclimate.tasks.task import Task
from studies import result

SMALL = (
    *("seeds=2", "max_tokens=32", "rows=9", 'datasets=["Topics"]'),
    *("search.rates=[1e-2,1e-9]", "search.epochs=[]", "search.batches=[8,16]"),
    *(f"finetune.{setting}" for setting in ("looks=2", "epochs=0.0", "plan.steps=4")),
)
TUNINGS = 4 + 1  # of each model: all settings with the first seed, the best with the second too


def of_all(rows: tuple[str, ...] = ("m", "n")) -> tuple[dict[Any, Any], list[Mean]]:
    """Made-up scores of all thirteen datasets, and the means over them."""
    places = [(row, dataset.name) for dataset in blurb.DATASETS for row in rows]
    cells = [result(row, 0.4 + 0.1 * at, column, seeds=2) for at, (row, column) in enumerate(places)]
    found = {cell.key: cell for cell in cells}
    return found, [*_means(list(blurb.DATASETS), list(rows), _refused(list(blurb.DATASETS)))]


def test_the_blurb_score_is_the_mean_over_types_of_the_means_over_their_datasets():
    found, means = of_all()
    compared = compare(found, [], means)
    points = {place: interval.mean for (place, _), interval in compared.intervals.items()}
    for model in ("m", "n"):
        assert points["", model, BLURB_SCORE] == pytest.approx(
            blurb_score({dataset.name: points["", model, dataset.name] for dataset in blurb.DATASETS})
        )
        for kind, names in BLURB.items():
            naive = sum(points["", model, name] for name in names) / len(names)
            assert points["", model, kind] == pytest.approx(naive)
        whole = compared.intervals[("", model, BLURB_SCORE), MAIN]
        assert whole.low < whole.mean < whole.high
        pico = compared.draws[("", model, "EBM PICO"), MAIN]  # a type of one dataset
        assert compared.intervals[("", model, "PICO"), MAIN] == mean_interval([pico], [1.0])


def test_there_is_no_blurb_score_where_a_dataset_lacks_or_failed():
    found, means = of_all()
    lost = "", "m", "BioASQ"
    found[lost] = replace(found[lost], scores=(), failed="seed 1: out of memory")
    compared = compare(found, [], means)
    assert (("", "m", BLURB_SCORE), MAIN) not in compared.intervals
    assert (("", "n", BLURB_SCORE), MAIN) in compared.intervals
    fewer = [dataset for dataset in blurb.DATASETS if dataset.name != "BioASQ"]
    assert _refused(fewer).startswith("no score for BioASQ: ")
    assert BLURB_SCORE not in {mean.key[2] for mean in _means(fewer, ["m"], _refused(fewer))}


def test_datasets_that_are_not_there_are_named(models, tmp_path):
    (tmp_path / "blurb" / "biosses").mkdir(parents=True)
    for split, size in (("train", 24), ("dev", 12), ("test", 14)):
        rows = [f"{split} {at}\t{toys.text('soil', 6, random.Random(at))}\tclay\t{at % 5}\n" for at in range(size)]
        text = "".join(["pair_id\tsent1\tsent2\tscore\n", *rows])
        (tmp_path / "blurb" / "biosses" / f"{split}.tsv").write_text(text)
    recipe = settings.override(BlurbRecipe(), ["max_tokens=32", "seeds=2"])
    inputs = Inputs(tmp_path / "run", models=models, data=tmp_path / "blurb")
    made = design(recipe, inputs)
    assert made.absent.keys() == {dataset.name for dataset in blurb.DATASETS} - {"BIOSSES"}
    assert any(note.startswith("There is no BLURB score: no score for ") for note in made.notes)
    assert all("there is no folder" in why for why in made.absent.values())
    assert [*design(replace(recipe, datasets=("BIOSSES", "HoC")), inputs).absent] == ["HoC"]
    with pytest.raises(ValueError, match=r"contains none of the datasets.*HoC: there is no folder"):
        design(replace(recipe, datasets=("HoC",)), inputs)
    inside = replace(inputs, data=tmp_path, out=tmp_path / "again")  # the folder that has the catalogue's folder
    assert made.absent.keys() == design(recipe, inside).absent.keys()


@dataclass
class Run:
    recipe: BlurbRecipe
    inputs: Inputs
    outcome: Outcome


@pytest.fixture(scope="module")
def benchmark(models, data, catalogue, tmp_path_factory) -> Run:
    """Two models on one dataset."""
    inputs = Inputs(tmp_path_factory.mktemp("blurb") / "run", models=models, data=data)
    recipe = settings.override(BlurbRecipe(), SMALL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(finetune, "nothing_learnt", lambda *looks, **measures: "")  # which nothing does in a few steps
        outcome = run(design(recipe, inputs), inputs.out)
    write(outcome, inputs.out)
    return Run(recipe, inputs, outcome)


def test_all_settings_are_tried_on_dev_and_the_best_alone_is_tested(benchmark):
    out = benchmark.inputs.out
    looks = [json.loads(line)["by"] for line in (out / "topics" / "looks.jsonl").read_text().splitlines()]
    expected = ["test constant", "test TF-IDF"]
    for model in models_of(benchmark.inputs.models):
        [trials] = [
            each.trials for each in benchmark.outcome.searches if (each.row, each.column) == (model.name, "Topics")
        ]
        assert len({trial.setting for trial in trials}) == 4
        last = max(trial.rung for trial in trials)
        best = max((trial for trial in trials if trial.rung == last), key=lambda trial: trial.dev)
        cell = benchmark.outcome.cells["", model.name, "Topics"]
        assert cell.facts["setting"] == best.setting
        assert cell.facts["fine-tunings"] == TUNINGS
        assert cell.costs["with the search"].flops > cell.costs["tuning"].flops > 0
        expected += [f"test {model.key} on Topics, {best.setting}, seed {seed}" for seed in (0, 1)]
    assert sorted(looks) == sorted(expected)
    tuned, tested = ([*out.rglob(f"{stage}-*/result.json")] for stage in ("fine-tune", "test"))
    assert max(path.stat().st_mtime_ns for path in tuned) <= min(path.stat().st_mtime_ns for path in tested)


def test_with_a_common_search_all_models_get_the_setting_with_the_best_mean_over_them(benchmark, tmp_path):
    out = shutil.copytree(benchmark.inputs.out, tmp_path / "run")
    recipe = replace(benchmark.recipe, search=replace(benchmark.recipe.search, common=True))
    common = design(recipe, replace(benchmark.inputs, out=out))
    outcome = run(common, out)
    models = models_of(benchmark.inputs.models)
    cells = [outcome.cells["", model.name, "Topics"] for model in models]
    [setting] = {cell.facts["setting"] for cell in cells}
    assert [cell.facts["fine-tunings"] for cell in cells] == [TUNINGS, TUNINGS]
    dev = {}
    for each in outcome.searches:
        assert {trial.contestant for trial in each.trials} == {each.row}
        last = max(trial.rung for trial in each.trials)
        dev[each.row] = {trial.setting: trial.dev for trial in each.trials if trial.rung == last - 1}
    both = {name: dev["one"][name] + dev["two"][name] for name in dev["one"]}
    assert both[setting] == max(both.values())
    left = dry_run(common, out)
    assert (left.jobs_left, [line.label for line in left.lines][:2]) == (0, ["Topics, one", "Topics, two"])


def test_a_row_has_the_better_baseline_and_the_first_model_beside_it(benchmark):
    outcome = benchmark.outcome
    told = [line for line in csv.DictReader(as_csv(outcome).splitlines()) if line["dataset"] == "Topics"]
    lines = {line["model"]: line for line in told}
    score = {row: float(line["mean"]) for row, line in lines.items()}
    better = max(("constant", "no encoder"), key=lambda row: score[row])
    for row in ("one", "two"):
        assert lines[row]["against_the_better_baseline_reference"] == better
        found = float(lines[row]["against_the_better_baseline_difference"])
        assert found == pytest.approx(score[row] - score[better])
    assert lines["one"]["against_one_reference"] == ""
    assert float(lines["two"]["against_one_difference"]) == pytest.approx(score["two"] - score["one"])


def test_settings_for_tags_and_mentions_reach_only_what_has_them(tmp_path):
    stated = settings.override(BlurbRecipe(), ["finetune.pooling=starts", "finetune.tag_layer=crf"]).finetune
    form = Form("made up", (), lambda *_: iter(()), special=("[E1]",))

    def tuning(kind: Any, spans: tuple[tuple[int, int], ...]) -> Any:
        label = {"tokens": ("O", "B-soil"), "sequence": "a", "score": 1.0}[kind]
        labels = {"tokens": ("O", "B-soil"), "sequence": ("a",), "score": ()}[kind]
        rows = {split: [Example(split, "two words", label, spans=spans)] for split in toys.SIZES}
        task = Task("task", kind, lambda _, split: rows[split], labels, metric_for(kind, ""), 32)
        return fitted(stated, prepare(task, tmp_path, tmp_path / f"{kind}-{len(spans)}"), form, special=True)

    both = ((0, 3), (4, 9))
    kinds = ("tokens", "sequence", "score")
    found = {(kind, len(spans)): tuning(kind, spans) for kind in kinds for spans in ((), both)}
    assert [key for key, stated in found.items() if stated.pooling == "starts"] == [("sequence", 2)]
    assert {key[0] for key, stated in found.items() if stated.tag_layer == "crf"} == {"tokens"}
    assert {recipe.special_tokens for recipe in found.values()} == {("[E1]",)}


def test_seeds_are_the_papers_where_none_are_stated(models, data, catalogue, tmp_path):
    recipe = settings.override(BlurbRecipe(), [*SMALL, "seeds=0"])
    made = design(recipe, Inputs(tmp_path, models=models[:1], data=data))
    [search] = made.searches
    assert search.entries.recipe.seeds == next(dataset.runs for dataset in catalogue if dataset.name == "Topics")
    assert len(with_needs(made.cells[0].jobs_by_seed.values())) == 1  # the constant answer has no seed


def test_the_defaults_are_the_papers():
    recipe = BlurbRecipe()
    assert recipe.search.rates == (1e-5, 3e-5, 5e-5)
    assert recipe.search.batches == (16, 32)
    assert (min(recipe.search.epochs), max(recipe.search.epochs)) == (2, 60)
    assert (recipe.finetune.dropout, recipe.finetune.plan.warmup) == (blurb.SEARCH.dropout, blurb.SEARCH.warmup)


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ("max_tokens=0", r"Topics has examples of up to 80 tokens, but one reads at most 64\. Add max_tokens=64"),
        ("rows=2", "2 rows requested, but 3 are needed for one of every class"),
    ],
)
def test_what_cannot_be_done_is_told(stated, message, *, models, data, catalogue, tmp_path, monkeypatch):
    monkeypatch.setattr(blurb, "DATASETS", tuple(replace(dataset, max_tokens=80) for dataset in catalogue))
    with pytest.raises(ValueError, match=message):
        design(settings.override(BlurbRecipe(), [*SMALL, stated]), Inputs(tmp_path, models=models, data=data))


@pytest.mark.parametrize("name", ["constant", "TF-IDF", "no encoder"])
def test_a_model_that_is_called_as_a_baseline_has_a_name_of_its_own(name, tmp_path):
    (tmp_path / name).mkdir()
    (tmp_path / name / "config.json").write_text("{}")
    assert models_of([str(tmp_path / name)])[0].name == f"{name} (model)"
