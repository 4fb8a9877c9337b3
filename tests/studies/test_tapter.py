"""TAPTER's study on made-up questions: what is done once, what is handed on, and what the tables say."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from acclimate import cli
from acclimate.core import files, settings
from acclimate.core.types import Cost, Score
from acclimate.data.inputs import Raw
from acclimate.methods import tapter
from acclimate.models.encoder import new_encoder, save_model
from acclimate.race.cost import Estimate
from acclimate.statistics.significance import holm
from acclimate.studies.compare import judged
from acclimate.studies.tapter import TapterStudyRecipe, foreseen, given, run_two_stages
from acclimate.tasks.labelled import Own
from acclimate.tasks.metrics import METRICS, reported_with
from acclimate.text.corpus import write_corpus
from acclimate.text.documents import read_documents
from acclimate.text.vocabulary import train_tokenizer
from made_up_tasks import WORDS
from squad_files import article, context, pairs, write

SIZES = {"train": 8, "dev": 4, "test": 6}
SMALL = (
    "seeds=2",
    *(f"{name}.plan.{setting}" for name in ("tapt", "tapter") for setting in ("steps=3", "batch=4", "rate=1e-3")),
    *(f"{name}.{setting}" for name in ("tapt", "tapter") for setting in ("epochs=0.0", "max_tokens=32")),
    *(f"tapter.{setting}" for setting in ("looks=1", "skipgram.dim=8", "skipgram.buckets=100", "skipgram.epochs=1")),
    "tapter.scale=given",  # of the 200 pieces one alone has a vector
    *(f"first_stage.{setting}" for setting in ("epochs=0.0", "plan.steps=2", "plan.batch=4", "plan.rate=1e-3")),
    *(f"finetune.{setting}" for setting in ("epochs=0.0", "plan.steps=2", "plan.batch=4", "plan.rate=1e-3")),
)


def stated(*more: str) -> TapterStudyRecipe:
    return settings.override(TapterStudyRecipe(), [*SMALL, *more])


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> Path:
    """A model, files of pairs as BioASQ has them, and one of SQuAD's form to train on first."""
    place = tmp_path_factory.mktemp("inputs")
    (place / "words.txt").write_text(
        "\n".join(WORDS[at : at + 30] and " ".join(WORDS[at : at + 30]) for at in range(0, 900, 30))
    )
    tokenizer = train_tokenizer(write_corpus(read_documents(place / "words.txt"), place / "corpus"), size=200)
    shape = {"layers": 1, "hidden": 16, "heads": 2, "vocabulary_size": 200, "longest": 64}
    save_model(new_encoder(**shape, pad=tokenizer.pad_token_id, seed=0), tokenizer, place / "model")
    for split, size in SIZES.items():
        asked = [pairs(f"{split}{number}", 2, f"What is it, {split} {number}?") for number in range(size)]
        write(place / f"{split}.json", [{"title": "", "paragraphs": [each for own in asked for each in own]}])
    write(place / "first.json", [article("first", 20, 2)])
    return place


def own(inputs: Path, **more) -> Own:
    return Own(**{split: inputs / f"{split}.json" for split in SIZES}, metric="mrr", max_tokens=64, **more)


@pytest.fixture(scope="module")
def ran(inputs, tmp_path_factory):
    out = tmp_path_factory.mktemp("two-stages") / "run"
    recipe = stated(f"first={inputs / 'first.json'}")
    found = given(own(inputs), Raw(), recipe, out, model=str(inputs / "model"))
    before = foreseen(recipe, found, out)
    return recipe, found, out, before, run_two_stages(recipe, found, out)


def names(out: Path) -> list[str]:
    return sorted(path.parent.name.rsplit("-", 1)[0] for path in out.glob("jobs/*/result.json"))


def test_the_defaults_are_table_4s():
    recipe = TapterStudyRecipe()
    assert (recipe.seeds, recipe.contestants) == (10, ("TAPT", "TAPTER"))
    for tuning, epochs in ((recipe.first_stage, 2), (recipe.finetune, 10)):
        plan = tuning.plan
        assert (plan.batch, plan.rate, plan.warmup, plan.weight_decay) == (128, 5e-5, 0.06, 0.01)
        assert (tuning.epochs, tuning.choose) == (epochs, "last")
    for adapting in (recipe.tapt, recipe.tapter):
        plan = adapting.plan
        assert (plan.batch, plan.rate, plan.warmup, plan.weight_decay) == (256, 5e-5, 0.06, 0.01)
        assert (adapting.epochs, adapting.max_tokens) == (100, 512)
    vectors = recipe.tapter.skipgram
    assert (vectors.min_count, vectors.epochs, vectors.dim, vectors.rate) == (2, 10, 300, 0.05)
    assert (recipe.tapter.vectors, tapter.scale_of(recipe.tapter)) == ("", "unit")  # from nothing


def test_each_model_is_adapted_once_and_each_first_stage_is_trained_once_a_seed(ran):
    _, _, out, _, _ = ran
    models = ("untouched", "tapt", "tapter")
    assert names(out) == sorted(
        ["tapt", "tapter", "word-vectors"]
        + [f"fine-tune-{model}-on-first-seed-{seed}" for model in models for seed in (0, 1)]
        + [f"{what}-{model}-seed-{seed}" for what in ("fine-tune", "test") for model in models for seed in (0, 1)]
    )


def test_the_second_stage_goes_on_with_the_first_ones_encoder_and_head(ran):
    _, _, out, _, _ = ran
    for path in out.glob("jobs/fine-tune-*/job.json"):
        job, first = files.read_json(path), "-on-first-" in path.parent.name
        assert job["settings"]["recipe"]["head"] == ("fresh" if first else "kept")
        adapted = "untouched" not in path.parent.name
        assert ("model" in job["needs"]) == (adapted or not first)
        if not first:
            assert "-on-first-" in job["needs"]["model"]


def test_every_metric_of_bioasq_comes_of_one_set_of_predictions(ran):
    _, _, out, _, found = ran
    assert [each.metric for each in found.judged] == ["strict_accuracy", "lenient_accuracy", "mrr"]
    assert (found.first, found.trained_first, found.trained) == ("first", 28, 16)
    scores = files.read_json(out / "tapter.scores.json")
    assert len(scores) == 3 * 2
    assert {score["split"] for score in scores} == {"test"}
    for each in found.judged:
        assert [cell.contestant for cell in each.cells] == ["untouched", "TAPT", "TAPTER"]
        for cell in each.cells:
            mine = [score for score in scores if score["variant"] == cell.contestant]
            values = [
                METRICS[each.metric].compute(
                    [tuple(label) for label in score["gold"]], [tuple(label) for label in score["predicted"]]
                )
                for score in mine
            ]
            assert cell.points == pytest.approx(values)
            assert cell.spread == pytest.approx(np.std(values, ddof=1))
    strict, lenient, mrr = (np.array([cell.points for cell in each.cells]) for each in found.judged)
    assert np.all((strict <= mrr) & (mrr <= lenient))


def test_costs_are_told_stage_by_stage(ran):
    _, _, out, _, found = ran
    untouched, tapt, tapter = found.judged[0].cells
    assert untouched.adapting == Cost()
    assert tapt.adapting.flops > 0
    assert tapter.adapting.seconds > 0
    assert all(found.first_costs[cell.contestant].tokens > 0 for cell in found.judged[0].cells)
    lines = list(csv.DictReader((out / "tapter.csv").read_text().splitlines()))
    assert [(line["metric"], line["contestant"]) for line in lines] == [
        (each.metric, cell.contestant) for each in found.judged for cell in each.cells
    ]
    assert float(lines[-1]["first_flops"]) == found.first_costs["TAPTER"].flops
    assert lines[-1]["against_TAPT_difference"] != ""
    assert lines[0]["against_untouched_difference"] == lines[1]["against_TAPT_difference"] == ""


def test_text_and_page_say_what_was_found(ran):
    _, _, out, _, found = ran
    assert found.text == (out / "tapter.txt").read_text()
    assert "first, then train: model" in found.text
    for words in ("MRR: TAPTER against TAPT", "p, t (Holm)", "strict accuracy: TAPT against untouched", "By MRR, "):
        assert words in found.text
    assert max(map(len, found.text.splitlines())) <= 110
    page = (out / "tapter.html").read_text()
    assert "MRR: TAPTER against TAPT" in page
    assert "Nishida" in page
    assert "BLURB" not in page


def test_doing_it_again_does_nothing_and_more_seeds_do_only_theirs(ran):
    recipe, found, out, _, _ = ran
    before = {path: path.stat().st_mtime_ns for path in out.glob("jobs/*/result.json")}
    run_two_stages(recipe, found, out)
    assert {path: path.stat().st_mtime_ns for path in out.glob("jobs/*/result.json")} == before
    left = foreseen(replace(recipe, seeds=3), found, out)
    assert sorted(stage.label for stage in left.stages) == sorted(
        [f"fine-tune {model} on first, seed 2" for model in ("untouched", "TAPT", "TAPTER")]
        + [f"{what} {model}, seed 2" for what in ("fine-tune", "test") for model in ("untouched", "TAPT", "TAPTER")]
    )


def test_what_it_costs_is_foreseen(ran):
    _, _, out, before, _ = ran
    assert isinstance(before, Estimate)
    assert len(before.stages) == len(names(out))
    assert {stage.label for stage in before.stages} >= {"TAPT", "TAPTER", "fine-tune TAPT on first, seed 0"}
    assert before.seconds > 0


def test_a_task_of_classes_has_one_stage_and_one_metric(inputs, toy_inputs, tmp_path):
    labelled = Own(**{split: toy_inputs / f"{split}.jsonl" for split in SIZES}, max_tokens=32)
    recipe = stated("split=dev", 'contestants=["TAPT"]', "rows=12")
    found = given(labelled, Raw(), recipe, tmp_path, model=str(inputs / "model"))
    assert (found.first, found.materials.task.sizes["train"]) == (None, 12)
    done = run_two_stages(recipe, found, tmp_path)
    assert [each.metric for each in done.judged] == ["macro_f1"]
    assert not [name for name in names(tmp_path) if name.startswith("test")]
    assert "12 of the 60 rows of train were drawn" in done.text
    with pytest.raises(ValueError, match="first: first is of kind 'span' with 0 labels, but train of kind 'sequence'"):
        given(labelled, Raw(), replace(recipe, first=str(inputs / "first.json")), tmp_path, model=str(inputs / "model"))


def made_up(points: dict[str, list[list[int]]]) -> list[Score]:
    """Contestant -> for each seed the rank of the right answer of each question, 0 where none is right."""
    found = []
    for name, seeds in points.items():
        for seed, ranks in enumerate(seeds):
            predicted = tuple(tuple("yes" if at == rank else f"no {at}" for at in range(1, 6)) for rank in ranks)
            gold = (("yes",),) * len(ranks)
            ids = tuple(f"q{number}" for number in range(len(ranks)))
            costs = Cost(10, 1.0, 2.0), Cost(20, 2.0, 4.0)
            found.append(Score(name, "made up", "mrr", seed, 0.5, 0.5, ids, gold, predicted, *costs))
    return found


def test_the_papers_test_is_the_paired_t_test_over_seeds_and_holms_correction_is_within_a_metric():
    ranks = np.random.default_rng(0).integers(0, 6, size=(3, 10, 30))
    ranks[2, :, :8] = 1
    scores = made_up({name: own.tolist() for name, own in zip(("untouched", "TAPT", "TAPTER"), ranks, strict=True)})
    found = judged(scores, METRICS["mrr"])
    means = np.where(ranks > 0, 1 / np.maximum(ranks, 1), 0).mean(axis=-1)
    assert [cell.points for cell in found.cells] == [pytest.approx(own) for own in means]
    compared = {(each.comparison.contestant, each.comparison.reference): each for each in found.pairs}
    assert [*compared] == [("TAPT", "untouched"), ("TAPTER", "untouched"), ("TAPTER", "TAPT")]
    t_tests = [stats.ttest_rel(means[a], means[b]).pvalue for a, b in ((1, 0), (2, 0), (2, 1))]
    assert [each.comparison.p_seeds for each in found.pairs] == pytest.approx(t_tests)
    assert [each.seeds_holm for each in found.pairs] == pytest.approx(holm(t_tests))
    assert [each.p_holm for each in found.pairs] == pytest.approx(holm([each.comparison.p for each in found.pairs]))
    assert compared["TAPTER", "TAPT"].comparison.difference == pytest.approx(means[2].mean() - means[1].mean())


def test_equal_runs_have_no_test_over_seeds():
    same = [[1, 0, 2, 0]] * 3
    found = judged(made_up({"untouched": same, "TAPT": same}), METRICS["strict_accuracy"])
    [pair] = found.pairs
    assert (pair.comparison.p_seeds, pair.seeds_holm, pair.comparison.difference) == (None, None, 0)


def test_what_is_reported_together():
    assert [own.name for own in reported_with(METRICS["f1"])] == ["exact_match", "f1"]
    assert [own.name for own in reported_with(METRICS["lenient_accuracy"])] == [
        "strict_accuracy",
        "lenient_accuracy",
        "mrr",
    ]
    assert reported_with(METRICS["macro_f1"]) == (METRICS["macro_f1"],)


def test_a_first_stage_on_test_questions_is_refused(inputs, tmp_path):
    recipe = stated(f"first={tmp_path / 'leak.json'}")
    content = json.loads((inputs / "first.json").read_text())
    content["data"] += json.loads((inputs / "test.json").read_text())["data"]
    (tmp_path / "leak.json").write_text(json.dumps(content))
    one = replace(own(inputs), test=write(tmp_path / "test.json", [article("first", 20, 1)]))
    with pytest.raises(ValueError, match=r"first: \d+ training rows of leak stand in dev or test of train, such as"):
        given(one, Raw(), recipe, tmp_path / "run", model=str(inputs / "model"))


@pytest.mark.parametrize("same", ["pairs", "questions"])
def test_a_first_stage_on_the_pairs_of_test_questions_is_refused(same, inputs, tmp_path):
    """Test has a question with all of its contexts, train a pair a row."""
    content = json.loads((inputs / "first.json").read_text())
    for number in range(SIZES["test"]):
        seed = f"test{number}" if same == "pairs" else f"other{number}"
        leaked = pairs(seed, 2, f"What is it, test {number}?")[: 1 if same == "pairs" else 2]
        content["data"].append({"title": f"leaked {number}", "paragraphs": leaked})
    (tmp_path / "leak.json").write_text(json.dumps(content))
    recipe = stated(f"first={tmp_path / 'leak.json'}")
    with pytest.raises(ValueError, match=r"first: \d+ training rows of leak stand in dev or test of train, such as"):
        given(own(inputs), Raw(), recipe, tmp_path / "run", model=str(inputs / "model"))


def test_a_question_that_every_context_is_asked_is_no_leak(inputs, tmp_path):
    """Of questions of SQuAD's kind, which are scored on one context each."""
    for name, title in (("train", "a"), ("dev", "b"), ("test", "c"), ("first", "d")):
        made = article(title, 20, 1)
        for paragraph in made["paragraphs"]:
            paragraph["qas"][0]["question"] = "What is treated?"
        write(tmp_path / f"{name}.json", [made])
    alike = Own(**{split: tmp_path / f"{split}.json" for split in SIZES}, max_tokens=64)
    recipe = stated(f"first={tmp_path / 'first.json'}")
    assert given(alike, Raw(), recipe, tmp_path / "run", model=str(inputs / "model")).first is not None


def test_what_is_watched_on_dev_is_each_context_once_and_no_question(ran):
    _, found, _, _, _ = ran
    watched = [document.text for document in found.materials.heldout.documents()]
    assert watched == [context(f"dev{number} {at}") for number in range(SIZES["dev"]) for at in range(2)]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["seeds=1"], "seeds = 1: one seed says nothing"),
        (["contestants=[]"], r"contestants = \[\]: at least one"),
        (["rows=-1"], "rows = -1 is out of range"),
        (["finetune.head=kept"], "finetune.head = 'kept': the study itself keeps"),
    ],
)
def test_settings_out_of_range_are_told(more, message):
    with pytest.raises(ValueError, match=message):
        stated(*more)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([], "the study 'tapter' needs a pretrained model: give --model"),
        (
            ["--model", "MODEL", "first=nowhere.json"],
            "first = 'nowhere.json': there is no such file; to name a dataset",
        ),
        (["--model", "MODEL", "--data", "."], "--data .: names the folder of a dataset, but files are given"),
        (["--model", "MODEL", "--labels-per-class", "3"], "--labels-per-class is for docstrings; rows=N"),
    ],
)
def test_the_command_says_what_it_lacks(more, message, inputs, tmp_path):
    stated_files = [str(inputs / "train.json"), "--dev", str(inputs / "dev.json"), "--test", str(inputs / "test.json")]
    options = [str(inputs / "model") if each == "MODEL" else each for each in more]
    done = CliRunner().invoke(cli.app, ["study", "tapter", *stated_files, *options, "--out", str(tmp_path / "run")])
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())


def test_the_command_runs_it(inputs, tmp_path):
    stated_files = [str(inputs / "train.json"), "--dev", str(inputs / "dev.json"), "--test", str(inputs / "test.json")]
    options = ["--model", str(inputs / "model"), "--max-tokens", "64", "--out", str(tmp_path / "run")]
    few = [*SMALL, 'contestants=["TAPT"]', "split=dev"]
    planned = CliRunner().invoke(cli.app, ["study", "tapter", *stated_files, *options, *few, "--dry-run"])
    assert "fine-tune TAPT, seed 1" in planned.output, planned.output
    assert not (tmp_path / "run").exists()
    done = CliRunner().invoke(cli.app, ["study", "tapter", *stated_files, *options, *few])
    assert done.exit_code == 0, done.output
    assert "exact match: TAPT against untouched" in done.output
