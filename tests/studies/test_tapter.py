"""TAPTER's study in two stages of made-up questions: what is handed on, and which first stages are refused."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from acclimate.core import settings
from acclimate.core.types import Cost
from acclimate.data.gather import Inputs, Raw
from acclimate.models.encoder import new_encoder, save_model
from acclimate.races.design import Design
from acclimate.races.outcome import Outcome
from acclimate.races.run import run
from acclimate.races.tables import as_csv
from acclimate.reading.labelled_files import LabelledFiles
from acclimate.reports.table import DOMAIN_HEADING, HEADING
from acclimate.studies.tapter import TapterStudyRecipe, design
from acclimate.tasks.metrics import METRICS, reported_with
from acclimate.text.corpus import Corpus, write_corpus
from acclimate.text.documents import read_documents
from acclimate.text.vocabulary import train_tokenizer
from made_up_tasks import WORDS
from squad_files import article, context, pairs, write

HEADINGS = (HEADING, DOMAIN_HEADING)
SIZES = {"train": 8, "dev": 4, "test": 6}
SMALL = (
    "seeds=2",
    'contestants=["TAPT"]',
    *(f"tapt.{setting}" for setting in ("epochs=0.0", "max_tokens=32", "plan.steps=3", "plan.batch=4")),
    *(f"first_stage.{setting}" for setting in ("epochs=0.0", "plan.steps=2", "plan.batch=4", "plan.rate=1e-3")),
    *(f"finetune.{setting}" for setting in ("epochs=0.0", "plan.steps=2", "plan.batch=4", "plan.rate=1e-3")),
)


def stated(*more: str) -> TapterStudyRecipe:
    return settings.override(TapterStudyRecipe(), [*SMALL, *more])


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """A model, files of pairs as BioASQ has them, and one of SQuAD's form to train on first."""
    place = tmp_path_factory.mktemp("questions")
    (place / "words.txt").write_text("\n".join(" ".join(WORDS[at : at + 30]) for at in range(0, 900, 30)))
    tokenizer = train_tokenizer(write_corpus(read_documents(place / "words.txt"), place / "corpus"), size=200)
    shape = {"layers": 1, "hidden": 16, "heads": 2, "vocabulary_size": 200, "longest": 64}
    save_model(new_encoder(**shape, pad=tokenizer.pad_token_id, seed=0), tokenizer, place / "model")
    for split, size in SIZES.items():
        asked = [pairs(f"{split}{number}", 2, f"What is it, {split} {number}?") for number in range(size)]
        write(place / f"{split}.json", [{"title": "", "paragraphs": [each for several in asked for each in several]}])
    write(place / "first.json", [article("first", 20, 2)])
    return place


def labelled(files: Path, **more: Path) -> LabelledFiles:
    return LabelledFiles(**({split: files / f"{split}.json" for split in SIZES} | more), metric="mrr", max_tokens=64)


def made(files: Path, first: Path, out: Path, task: LabelledFiles | None = None) -> Design:
    inputs = Inputs(out, task=task or labelled(files), models=(str(files / "model"),))
    return design(stated(f"first={first}"), inputs)


@pytest.fixture(scope="module")
def ran(files, tmp_path_factory) -> tuple[Path, Outcome]:
    out = tmp_path_factory.mktemp("tapter") / "run"
    return out, run(made(files, files / "first.json", out), out)


def test_each_model_is_adapted_once_and_each_first_stage_is_trained_once_a_seed(ran):
    out, outcome = ran
    assert not outcome.failed
    models = ("untouched", "tapt")
    done = sorted(path.parent.name.rsplit("-", 1)[0] for path in out.glob("jobs/*/result.json"))
    assert done == sorted(
        ["tapt", *(f"fine-tune-{model}-on-first-seed-{seed}" for model in models for seed in (0, 1))]
        + [f"{what}-{model}-seed-{seed}" for what in ("fine-tune", "test") for model in models for seed in (0, 1)]
        + [f"domain-loss-{model}" for model in models]
    )


def test_losses_on_held_out_general_text_and_on_the_domain_stand_beside_the_scores(files, tmp_path):
    for name in ("domain", "general"):
        (tmp_path / f"{name}.txt").write_text("\n".join(context(f"{name} {number}") for number in range(150)))
    raw = Raw(domain=tmp_path / "domain.txt", general=tmp_path / "general.txt")
    inputs = Inputs(tmp_path / "run", task=labelled(files), raw=raw, models=(str(files / "model"),))
    more = ('contestants=["TAPT", "TAPTER"]', "tapter.epochs=0.0", "tapter.max_tokens=32", "tapter.plan.steps=3")
    more += ("tapter.plan.batch=4", "tapter.skipgram.dim=8", "tapter.scale=given")
    recipe = stated(*more, "adapt_seeds=2")
    made = design(recipe, inputs)
    assert [(each.name, [*each.jobs_by_row]) for each in made.losses] == [
        (heading, ["TAPT", "TAPTER"]) for heading in HEADINGS
    ]
    assert {job.label for each in made.losses for job in each.jobs} == {
        *(f"{heading}, untouched" for heading in HEADINGS),
        *(
            f"{heading}, {name}{again}"
            for heading in HEADINGS
            for name in ("TAPT", "TAPTER")
            for again in ("", ", adaptation 1")
        ),
    }


def test_without_raw_text_the_domain_loss_is_on_texts_of_dev_that_train_has_not(files, tmp_path):
    both = labelled(files, dev=tmp_path / "dev.json")
    asked = [pairs(f"{name}{number}", 2, f"What of {name} {number}?") for name in ("train", "dev") for number in (0, 1)]
    paragraphs = [each for several in asked for each in several]
    for paragraph in paragraphs:
        paragraph["qas"][0]["id"] = "dev-" + paragraph["qas"][0]["id"]
    write(tmp_path / "dev.json", [{"title": "", "paragraphs": paragraphs}])
    [column] = made(files, files / "first.json", tmp_path / "run", both).losses
    assert column.name == DOMAIN_HEADING
    measured = Corpus(column.before[1].places["corpus"])
    unseen = [context(f"dev{number} {at}") for number in (0, 1) for at in range(2)]
    assert [document.text for document in measured.documents()] == unseen


def test_the_second_stage_goes_on_with_the_first_ones_encoder_and_head(ran):
    out, _ = ran
    written = [*out.glob("jobs/fine-tune-*/job.json")]
    assert len(written) == 8  # two stages of two models, with two seeds
    for path in written:
        job, first = json.loads(path.read_text()), "-on-first-" in path.parent.name
        assert job["settings"]["recipe"]["head"] == ("fresh" if first else "kept")
        adapted = "untouched" not in path.parent.name
        assert ("model" in job["needs"]) == (adapted or not first)
        if not first:
            assert "-on-first-" in job["needs"]["model"]


def test_every_metric_of_bioasq_is_of_one_set_of_predictions_and_costs_stand_stage_by_stage(ran):
    _, outcome = ran
    lines = list(csv.DictReader(as_csv(outcome).splitlines()))
    told = {(line["contestant"], line["metric"]): float(line["mean"]) for line in lines}
    names = ("strict_accuracy", "lenient_accuracy", "mrr")
    assert {metric for _, metric in told} == {*names}
    for (_, row, _), each in outcome.cells.items():
        for metric in names:
            values = [METRICS[metric].compute(score.gold, score.predicted) for score in each.scores]
            assert told[row, metric] == pytest.approx(sum(values) / 2)
        strict, lenient, mrr = (told[row, metric] for metric in names)
        assert strict <= mrr <= lenient
        assert each.costs["first stage"].flops > 0
    untouched, tapt = outcome.results
    assert untouched.costs["adapting"] == Cost()
    assert tapt.costs["adapting"].flops > 0


def test_what_is_reported_together():
    assert [each.name for each in reported_with(METRICS["f1"])] == ["exact_match", "f1"]
    together = ["strict_accuracy", "lenient_accuracy", "mrr"]
    assert [each.name for each in reported_with(METRICS["lenient_accuracy"])] == together
    assert reported_with(METRICS["macro_f1"]) == (METRICS["macro_f1"],)


def test_what_is_watched_on_dev_is_each_context_once_and_no_question(files, ran):
    out, _ = ran
    [materials, _] = (cell.materials for cell in made(files, files / "first.json", out).cells)
    watched = [document.text for document in materials.heldout.documents()]
    assert watched == [context(f"dev{number} {at}") for number in range(SIZES["dev"]) for at in range(2)]


LEAK = r"first: \d+ training rows of leak are also in dev or test of train, such as"


def leaking(files: Path, place: Path, paragraphs: Sequence[dict]) -> Path:
    """The first stage's file with more questions."""
    content = json.loads((files / "first.json").read_text())
    added = [{"title": f"leaked {number}", "paragraphs": [each]} for number, each in enumerate(paragraphs)]
    return write(place / "leak.json", [*content["data"], *added])


@pytest.mark.parametrize("split", ["dev", "test"])
def test_a_first_stage_on_dev_or_test_items_is_refused(split, files, tmp_path):
    """Of questions of SQuAD's kind, which are scored on one context each."""
    sealed = article("sealed", 20, 1)
    one = labelled(files, **{split: write(tmp_path / "sealed.json", [sealed])})
    with pytest.raises(ValueError, match=LEAK):
        made(files, leaking(files, tmp_path, sealed["paragraphs"]), tmp_path / "run", one)


@pytest.mark.parametrize("same", ["pairs", "questions"])
def test_a_first_stage_on_the_pairs_of_test_questions_is_refused(same, files, tmp_path):
    """Test has a question with all of its contexts, train a pair a row."""
    leaked = []
    for number in range(SIZES["test"]):
        seed = f"test{number}" if same == "pairs" else f"other{number}"
        leaked += pairs(seed, 2, f"What is it, test {number}?")[: 1 if same == "pairs" else 2]
    with pytest.raises(ValueError, match=LEAK):
        made(files, leaking(files, tmp_path, leaked), tmp_path / "run")


def test_a_question_that_every_context_is_asked_is_no_leak(files, tmp_path):
    for name, title in (("train", "a"), ("dev", "b"), ("test", "c"), ("first", "d")):
        asked = article(title, 20, 1)
        for paragraph in asked["paragraphs"]:
            paragraph["qas"][0]["question"] = "What is treated?"
        write(tmp_path / f"{name}.json", [asked])
    alike = LabelledFiles(**{split: tmp_path / f"{split}.json" for split in SIZES}, max_tokens=64)
    found = made(files, tmp_path / "first.json", tmp_path / "run", alike)
    assert all("first stage" in cell.costs for cell in found.cells)


def test_a_first_stage_of_another_kind_or_of_other_labels_is_refused(files, toy_inputs, tmp_path):
    classes = LabelledFiles(**{split: toy_inputs / f"{split}.jsonl" for split in SIZES}, max_tokens=32)
    with pytest.raises(ValueError, match="first: first is of kind 'span' with 0 labels, but train of kind 'sequence'"):
        made(files, files / "first.json", tmp_path / "run", classes)
    others = [{"text": f"text {number} of another task", "label": "ab"[number % 2]} for number in range(40)]
    (tmp_path / "other.jsonl").write_text("".join(json.dumps(row) + "\n" for row in others))
    with pytest.raises(ValueError, match="with 2 labels, but train of kind 'sequence' with 3"):
        made(files, tmp_path / "other.jsonl", tmp_path / "run", classes)


def test_the_rows_of_both_stages_are_drawn_and_told(files, tmp_path):
    recipe = stated(f"first={files / 'first.json'}", "rows=6", "first_rows=9")
    found = design(recipe, Inputs(tmp_path, task=labelled(files), models=(str(files / "model"),)))
    assert {cell.task.sizes["train"] for cell in found.cells} == {6}
    assert found.notes[0] == "Trained on 6 rows after 9 of first."


def test_what_does_not_go_together_is_told(files, tmp_path):
    inputs = Inputs(tmp_path, task=labelled(files), models=(str(files / "model"),), data=Path())
    with pytest.raises(ValueError, match=r"--data \.: names the folder of a dataset, but files are given"):
        design(stated("first="), inputs)
