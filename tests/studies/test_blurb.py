"""A benchmark of three tiny datasets: what is chosen, repeated and told, on made-up words."""

from __future__ import annotations

import csv
import json
import random
import shutil
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import toys
from acclimate import cli
from acclimate.core import settings
from acclimate.core.types import Cost, Example, Score
from acclimate.models.encoder import new_encoder, save_model
from acclimate.race import work
from acclimate.race.report import Trial
from acclimate.statistics.significance import compare, holm
from acclimate.studies.blurb import (
    Benchmark,
    BlurbRecipe,
    Result,
    as_csv,
    as_text,
    contestants_of,
    plan,
    run_benchmark,
    sections,
)
from acclimate.tasks.datasets import blurb
from acclimate.tasks.datasets.catalogue import Dataset, split_form
from acclimate.tasks.formats.delimited import delimited_examples, iob_examples, number, one_of
from acclimate.tasks.metrics import BLURB, METRICS, blurb_score, default_metric
from acclimate.tasks.prepared import prepare
from acclimate.tasks.task import Task, drawn
from acclimate.text.corpus import write_corpus
from acclimate.text.documents import read_documents
from acclimate.text.vocabulary import train_tokenizer

SIZES = {"train": 24, "dev": 12, "test": 14}
TOPICS = [*toys.TOPICS]
SMALL = (
    "seeds=2",
    "max_tokens=32",
    "search.rates=[1e-2]",
    "search.epochs=[]",
    "search.batches=[8]",
    *(f"finetune.{setting}" for setting in ("looks=2", "epochs=0.0", "plan.steps=4")),
)


def dataset(name: str, type: str, kind: Any, *, labels: tuple[str, ...], metric: str, reader: Any) -> Dataset:
    return Dataset(
        name=name,
        type=type,
        folder=name.lower(),
        kind=kind,
        labels=labels,
        metric=METRICS[metric],
        averaging="",
        max_tokens=64,
        counted="instances",
        sizes={},
        forms=(split_form("made up", {split: f"{split}.tsv" for split in SIZES}, reader),),
        citation="Made up.",
        licence="none",
        obtain="Make it up",
    )


CATALOGUE = (
    dataset("Words", "NER", "tokens", labels=("B-soil", "O"), metric="entity_f1", reader=iob_examples),
    dataset(
        "Topics",
        "Question Answering",
        "sequence",
        labels=tuple(TOPICS),
        metric="accuracy",
        reader=partial(delimited_examples, text="text", label="label", label_of=one_of(tuple(TOPICS))),
    ),
    dataset(
        "Numbers",
        "Sentence Similarity",
        "score",
        labels=(),
        metric="pearson",
        reader=partial(delimited_examples, text="text", label="label", label_of=number),
    ),
)


def tag(word: str) -> str:
    return "B-soil" if word.strip(".") in toys.TOPICS["soil"] else "O"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root, generator = tmp_path_factory.mktemp("catalogue"), random.Random(3)
    for name in ("words", "topics", "numbers"):
        (root / name).mkdir()
    for split, size in SIZES.items():
        texts = [(topic, toys.text(topic, 12, generator)) for topic in TOPICS * size][:size]
        tagged = ["".join(f"{word}\t{tag(word)}\n" for word in text.split()) for _, text in texts]
        (root / "words" / f"{split}.tsv").write_text("\n".join(tagged))
        rows = [f"{text}\t{topic}" for topic, text in texts]
        (root / "topics" / f"{split}.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
        rows = [f"{text}\t{sum(tag(word) != 'O' for word in text.split())}" for _, text in texts]
        (root / "numbers" / f"{split}.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    return root


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, toy_inputs: Path) -> list[str]:
    place = tmp_path_factory.mktemp("models")
    tokenizer = train_tokenizer(write_corpus(read_documents(toy_inputs / "domain.txt"), place / "corpus"), size=200)
    shape = {"layers": 1, "hidden": 16, "heads": 2, "vocabulary_size": 200, "longest": 48}
    for name, seed in (("one", 0), ("two", 1)):
        save_model(new_encoder(**shape, pad=tokenizer.pad_token_id, seed=seed), tokenizer, place / name)
    return [str(place / "one"), str(place / "two")]


@pytest.fixture(scope="module")
def recipe() -> BlurbRecipe:
    return settings.override(BlurbRecipe(), SMALL)


@pytest.fixture(scope="module")
def run(recipe, models, data, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("benchmark")
    run_benchmark(recipe, models, data, out, datasets=CATALOGUE)
    return out


def looks(run: Path) -> list[str]:
    return [json.loads(line)["by"] for file in run.glob("*/looks.jsonl") for line in file.read_text().splitlines()]


def scores(place: Path) -> list[dict[str, Any]]:
    """Without seconds, in an order that does not depend on that of the models."""
    found: list[dict[str, Any]] = json.loads((place / "scores.json").read_text())
    for score in found:
        for stage in ("adapting", "finetuning"):
            del score[stage]["seconds"]
    return sorted(found, key=lambda score: (score["contestant"], score["seed"]))


def test_each_model_and_seed_looks_once_at_each_test_set_and_each_baseline_once(run):
    assert len(looks(run)) == 3 * (2 * 2 + 2)
    found = [(score["contestant"], score["seed"]) for score in scores(run / "words")]
    assert found == [(name, seed) for name in ("constant", "one", "two", "word list") for seed in (0, 1)]


def test_the_table_has_a_row_a_dataset_and_a_column_a_model(run):
    text, rows = (run / "table.txt").read_text(), list(csv.DictReader((run / "table.csv").read_text().splitlines()))
    assert "no encoder" in text
    assert "There is no BLURB score: no score for BC5-chem" in text
    cells = [row for row in rows if not row["dataset"].startswith("mean")]
    assert [(row["dataset"], row["model"]) for row in cells] == [
        (name, model)
        for name, baseline in (("Words", "word list"), ("Topics", "TF-IDF"), ("Numbers", "TF-IDF"))
        for model in ("constant", "one", baseline, "two")
    ]
    for row in cells:
        assert float(row["low"]) <= float(row["mean"]) <= float(row["high"])
        assert float(row["mean"]) == pytest.approx(sum(map(float, row["scores"].split())) / 2)
        assert row["train_rows"] == "24"
    means = {row["model"]: row["mean"] for row in rows if row["dataset"] == "mean: 3 types, no BLURB score"}
    assert float(means["one"]) == pytest.approx(sum(float(row["mean"]) for row in cells if row["model"] == "one") / 3)
    assert "Topics (accuracy)" in (run / "report.html").read_text()


def test_what_is_finished_is_not_repeated_and_the_order_of_the_models_changes_no_score(
    run, recipe, models, data, *, tmp_path
):
    again = shutil.copytree(run, tmp_path / "again")
    before = {path: path.stat().st_mtime_ns for path in again.rglob("result.json")}
    run_benchmark(recipe, models[::-1], data, again, datasets=CATALOGUE)
    assert {path: path.stat().st_mtime_ns for path in again.rglob("result.json")} == before
    both = [(place / "table.csv").read_text().splitlines() for place in (run, again)]
    told = [
        sorted(
            tuple(value for name, value in row.items() if not name.startswith("first")) for row in csv.DictReader(lines)
        )
        for lines in both
    ]
    assert told[0] == told[1]


def test_a_run_that_was_stopped_goes_on_to_the_same_scores(run, recipe, models, data, *, tmp_path, monkeypatch):
    calls, fine_tune = [], work.FINE_TUNE.do

    def stopped(**given: Any) -> Any:
        calls.append(given)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return fine_tune(**given)

    monkeypatch.setitem(vars(work.FINE_TUNE), "do", stopped)
    stated = replace(recipe, datasets=("topics", "Numbers"))
    with pytest.raises(KeyboardInterrupt):
        run_benchmark(stated, models, data, tmp_path, datasets=CATALOGUE)
    assert not looks(tmp_path)
    run_benchmark(stated, models, data, tmp_path, datasets=CATALOGUE)
    assert len(calls) == 2 * 2 * 2 + 1
    for name in ("topics", "numbers"):
        assert scores(tmp_path / name) == scores(run / name)


def test_all_settings_are_tried_on_dev_and_the_best_alone_is_tested(recipe, models, data, tmp_path):
    search = replace(recipe.search, rates=(1e-2, 1e-9), batches=(8, 16))
    stated = replace(recipe, datasets=("Topics",), search=search, rows=9, baseline=False)
    found = run_benchmark(stated, models[:1], data, tmp_path, datasets=CATALOGUE)
    [result] = found.results
    assert result.trained == 9
    assert len({trial.setting for trial in result.trials["one"]}) == 4
    assert result.tunings("one") == 3 + 2
    best = max((trial for trial in result.trials["one"] if trial.rung == 1), key=lambda trial: trial.dev)
    assert result.settings["one"] == best.setting
    assert looks(tmp_path) == [f"test {contestants_of(models[:1])[0].key}, {best.setting}, seed {n}" for n in (0, 1)]
    assert "Topics, one" in as_text(found)
    with pytest.raises(ValueError, match=r"holds other data than .* Choose another --out"):
        run_benchmark(replace(stated, rows=12), models[:1], data, tmp_path, datasets=CATALOGUE)


def made_up(name: str, kind: str, *, scores: dict[str, float], items: int = 100) -> Result:
    """Of accuracies of the items, twice each; "TF-IDF" and "constant" are baselines."""
    ids, gold = tuple(map(str, range(items))), ("a",) * items
    own = replace(CATALOGUE[1], name=name, type=kind)
    result = Result(own, own.forms[0], 1, 1)
    for model, mean in scores.items():
        right = round(items * mean)
        predicted = ("a",) * right + ("b",) * (items - right)
        result.scores[model] = [
            Score(model, name, "accuracy", seed, 0.5, right / items, ids, gold, predicted, Cost(), Cost(10, 2e6, 3.0))
            for seed in (0, 1)
        ]
        if model not in ("TF-IDF", "constant"):
            result.trials[model] = [Trial(model, "rate 1e-05", 0, 1, 2, 0.5, True)]
            result.settings[model], result.taken[model] = "rate 1e-05", Cost(40, 8e6, 12.0)
    return result


def test_the_blurb_score_stands_where_all_thirteen_do_and_nowhere_else():
    names = [(name, kind) for kind, own in BLURB.items() for name in own]
    means = {name: (50 + at) / 100 for at, (name, _) in enumerate(names)}
    results = tuple(made_up(name, kind, scores={"m": means[name]}) for name, kind in names)
    found = Benchmark(("m",), results, {})
    assert found.means["BLURB score"]["m"].mean == pytest.approx(blurb_score(means))
    assert found.means["BLURB score"]["m"].low < blurb_score(means) < found.means["BLURB score"]["m"].high
    assert found.means["NER"]["m"].mean == pytest.approx(0.52)
    assert found.means["PICO"]["m"] == results[5].intervals["m"]
    assert not found.refused()
    less = Benchmark(("m",), results[:-1], {"BioASQ": "it asks for registration"})
    assert "BLURB score" not in less.means
    assert "no score for BioASQ" in as_text(less)
    assert "BioASQ is left out: it asks for registration" in as_text(less)


@pytest.fixture
def compared() -> Benchmark:
    """Of two models: clearly, hardly and not above the baselines."""
    scores = [
        {"constant": 0.2, "m": 0.9, "TF-IDF": 0.4, "n": 0.91},
        {"constant": 0.6, "m": 0.63, "TF-IDF": 0.4, "n": 0.9},
        {"constant": 0.2, "m": 0.3, "TF-IDF": 0.7, "n": 0.3},
    ]
    results = tuple(made_up(f"D{at}", "NER", scores=own) for at, own in enumerate(scores))
    return Benchmark(("m", "n"), results, {})


def test_a_model_is_compared_with_the_baseline_that_scores_higher(compared):
    found = {(own.dataset, own.model): own for own in compared.against_baseline}
    assert [own.reference for own in compared.against_baseline[::2]] == ["no encoder", "constant", "no encoder"]
    assert [found[f"D{at}", "m"].said for at in range(3)] == ["higher", "not established", "lower"]
    assert found["D0", "m"].comparison.difference == pytest.approx(0.5)
    for at, result in enumerate(compared.results):
        names = {"no encoder": "TF-IDF"}
        own = found[f"D{at}", "m"]
        told = compare(result.scores["m"], result.scores[names.get(own.reference, own.reference)], METRICS["accuracy"])
        assert (own.comparison.low, own.comparison.p) == (told.low, told.p)
    ps = [found[f"D{at}", "m"].comparison.p for at in range(3)]
    assert [found[f"D{at}", "m"].p_holm for at in range(3)] == holm(ps)
    assert "m is higher on 1 of 3 datasets; not on D1 and D2." in " ".join(as_text(compared).split())


def test_the_other_models_are_compared_with_the_first(compared):
    assert [(own.dataset, own.model, own.reference, own.said) for own in compared.against_first] == [
        ("D0", "n", "m", "not established"),
        ("D1", "n", "m", "higher"),
        ("D2", "n", "m", "not established"),
    ]
    alone = Benchmark(("m",), compared.results, {})
    assert not alone.against_first
    assert "Against m" not in [section.title for section in sections(alone)]
    assert "NER: n against m +9.3 [" in " ".join(as_text(compared).split())


def test_the_csv_has_the_comparisons_and_the_costs(compared):
    rows = {(row["dataset"], row["model"]): row for row in csv.DictReader(as_csv(compared).splitlines())}
    one = rows["D1", "n"]
    assert (one["baseline"], one["first"]) == ("constant", "m")
    assert float(one["baseline_difference"]) == pytest.approx(0.3)
    assert float(one["first_difference"]) == pytest.approx(0.27)
    for reference in ("baseline", "first"):
        assert float(one[f"{reference}_low"]) <= float(one[f"{reference}_difference"])
        assert float(one[f"{reference}_p"]) <= float(one[f"{reference}_p_holm"])
    assert (float(one["finetuning_seconds"]), float(one["all_flops"])) == (3.0, 8e6)
    assert rows["D1", "m"]["first"] == rows["D1", "TF-IDF"]["baseline"] == ""
    mean = rows["mean: NER", "n"]
    assert float(mean["low"]) < float(mean["mean"]) < float(mean["high"])
    assert float(mean["first_difference"]) == pytest.approx((0.01 + 0.27) / 3)
    assert all(len(line) <= 110 for line in as_text(compared).splitlines())


def test_a_page_tells_what_each_score_cost(run):
    page = (run / "report.html").read_text()
    for title in ("Test scores", "Means", "Against the baseline", "Against one", "Settings", "Costs"):
        assert f">{title}</h2>" in page
    rows = list(csv.DictReader((run / "table.csv").read_text().splitlines()))
    for row in rows:
        if row["model"] in ("one", "two") and row["setting"]:
            assert float(row["all_flops"]) == pytest.approx(2 * float(row["finetuning_flops"]), rel=0.01)
            assert float(row["all_tokens"]) > float(row["finetuning_tokens"]) > 0


def test_a_plan_says_what_is_left_and_leaves_no_trace(recipe, models, data, run, tmp_path):
    before = sorted(path for path in run.rglob("*"))
    stated = replace(recipe, datasets=("Words",))
    new = plan(stated, models, data, tmp_path / "new", datasets=CATALOGUE)
    assert not (tmp_path / "new").exists()
    found = [(cell.dataset, cell.model, cell.trained, cell.tunings) for cell in new.cells]
    assert found == [("Words", model, 24, 2) for model in ("one", "two")]
    assert new.constants == 1
    assert "Words, one" in new.as_text()
    done = plan(stated, models[:1], data, run, datasets=CATALOGUE)
    assert (done.seconds, done.constants, done.cells[0].tunings) == (0, 0, 0)
    more = plan(replace(stated, seeds=3), models[:1], data, run, datasets=CATALOGUE)
    assert [cell.tunings for cell in more.cells] == [1]
    assert sorted(path for path in run.rglob("*")) == before


def test_the_verb_takes_models_and_settings_together_and_leaves_out_what_is_not_there(recipe, models, tmp_path):
    (tmp_path / "blurb" / "biosses").mkdir(parents=True)
    for split, size in SIZES.items():
        rows = [f"{split} {at}\t{toys.text('soil', 6, random.Random(at))}\tclay\t{at % 5}\n" for at in range(size)]
        text = "".join(["pair_id\tsent1\tsent2\tscore\n", *rows])
        (tmp_path / "blurb" / "biosses" / f"{split}.tsv").write_text(text)
    out = tmp_path / "out"
    given = ["study", "blurb", models[0], *SMALL, "--data", str(tmp_path / "blurb"), "--out", str(out)]
    done = CliRunner().invoke(cli.app, given)
    assert done.exit_code == 0, done.output
    assert "BIOSSES (Pearson's r)" in done.output
    assert "HoC is left out" in done.output
    assert len(looks(out)) == 4
    planned = CliRunner().invoke(cli.app, [*given, "--dry-run"])
    assert planned.exit_code == 0, planned.output
    assert "Together 0 s" in planned.output
    refused = CliRunner().invoke(
        cli.app, ["study", "blurb", "rows=3", "--data", str(tmp_path / "blurb"), "--out", str(out)]
    )
    assert refused.exit_code == 2
    assert "no model given" in refused.output


def test_settings_for_tags_and_mentions_reach_only_what_has_them(recipe, tmp_path):
    stated = settings.override(recipe, ["finetune.pooling=starts", "finetune.tag_layer=crf", "special=true"])

    def tuning(kind: Any, spans: tuple[tuple[int, int], ...]) -> Any:
        label = {"tokens": ("O", "B-soil"), "sequence": "a", "score": 1.0}[kind]
        labels = {"tokens": ("O", "B-soil"), "sequence": ("a",), "score": ()}[kind]
        rows = {split: [Example(split, "two words", label, spans=spans)] for split in SIZES}
        metric = METRICS[default_metric(kind)]
        task = Task("task", kind, lambda _, split: rows[split], labels, metric, 32)
        form = replace(CATALOGUE[1].forms[0], special=("[E1]",))
        place = tmp_path / f"{kind}-{len(spans)}"
        return stated.race(CATALOGUE[1], form, prepare(task, tmp_path, place)).finetune

    both = ((0, 3), (4, 9))
    found = {
        (kind, len(spans)): tuning(kind, spans) for kind in ("tokens", "sequence", "score") for spans in ((), both)
    }
    assert [key for key, own in found.items() if own.pooling == "starts"] == [("sequence", 2)]
    assert {key[0] for key, own in found.items() if own.tag_layer == "crf"} == {"tokens"}
    assert {own.special_tokens for own in found.values()} == {("[E1]",)}


def test_the_defaults_are_the_papers():
    recipe = BlurbRecipe()
    assert recipe.search.rates == (1e-5, 3e-5, 5e-5)
    assert recipe.search.batches == (16, 32)
    assert (min(recipe.search.epochs), max(recipe.search.epochs)) == (2, 60)
    assert (recipe.finetune.dropout, recipe.finetune.plan.warmup) == (blurb.SEARCH.dropout, blurb.SEARCH.warmup)


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ('datasets=["Topic"]', "no dataset is called 'Topic'; the nearest is 'Topics'"),
        ("max_tokens=0", "Words has examples of up to 64 tokens, but one reads at most 48. Add max_tokens=48"),
        ("rows=2", "2 rows asked for, but 3 are drawn until every class is there"),
    ],
)
def test_what_cannot_be_done_is_told(stated, message, recipe, models, data, *, tmp_path):
    datasets = CATALOGUE if stated != "rows=2" else CATALOGUE[1:]
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        run_benchmark(settings.override(recipe, [stated]), models, data, tmp_path, datasets=datasets)


def test_datasets_that_are_not_there_are_left_out_unless_they_were_asked_for(recipe, models, data, tmp_path):
    gone = replace(CATALOGUE[0], name="Gone", folder="gone")
    with pytest.raises(ValueError, match=r"Gone: .*Make it up"):
        run_benchmark(replace(recipe, datasets=("Gone",)), models, data, tmp_path, datasets=(gone, *CATALOGUE))
    with pytest.raises(ValueError, match=r"none of the datasets is there\. The first: Gone"):
        run_benchmark(recipe, models, data, tmp_path, datasets=(gone,))
    with pytest.raises(ValueError, match=r"one and .*one are the same model"):
        contestants_of([models[0], models[0]])
    for seeds in (-1, 1):
        with pytest.raises(ValueError, match="one seed says nothing about chance"):
            replace(recipe, seeds=seeds)


@pytest.mark.parametrize("name", ["constant", "TF-IDF"])
def test_a_model_that_is_called_as_a_baseline_has_a_name_of_its_own(name, tmp_path):
    (tmp_path / name).mkdir()
    (tmp_path / name / "config.json").write_text("{}")
    assert contestants_of([str(tmp_path / name)])[0].name == f"{name} (model)"


def test_a_draw_has_every_class_and_holds_the_smaller_ones():
    examples = [Example(str(at), "text", "rare" if at == 70 else "common") for at in range(100)]
    draws = [drawn(examples, count, 0) for count in (2, 10, 50)]
    assert all("70" in {example.id for example in draw} for draw in draws)
    for smaller, larger in pairwise(draws):
        assert {example.id for example in smaller} < {example.id for example in larger}
    assert [int(example.id) for example in draws[2]] == sorted(int(example.id) for example in draws[2])
    assert drawn(examples, 1000, 0) == examples
    assert drawn(examples, 10, 1) != draws[1]
