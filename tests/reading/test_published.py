"""A dataset of a catalogue as the task of a race: what it brings along, and what it does not take."""

from dataclasses import replace
from pathlib import Path

import pytest
from transformers import BertConfig, BertForMaskedLM
from typer.testing import CliRunner

import toys
from acclimate.cli import app
from acclimate.core.types import Example
from acclimate.data.gather import Inputs, Raw
from acclimate.data.materials import Materials
from acclimate.models.loading import load_tokenizer
from acclimate.races.contestants import enter
from acclimate.races.recipe import RaceRecipe
from acclimate.reading.datasets.catalogue import Dataset, split_form
from acclimate.reading.formats.delimited import jsonl_examples
from acclimate.reading.labelled_files import LabelledFiles
from acclimate.reading.published import CATALOGUES, published
from acclimate.tasks.metrics import metric_named
from acclimate.tasks.prepared import prepare
from acclimate.tasks.task import Task


def _read(path, split):
    return jsonl_examples(path, split, label_of=str)


TOPICS = Dataset(
    name="Topics",
    type="classification",
    folder="topics",
    kind="sequence",
    labels=("soil", "orbit", "heart", "sea"),
    metric=metric_named("micro_f1"),
    max_tokens=24,
    counted="instances",
    sizes={},
    forms=(
        split_form("missing", {"train": "nowhere"}, _read),
        split_form("lines", {split: f"{split}.jsonl" for split in toys.SIZES}, _read, note="Made up."),
    ),
    citation="Nobody (2020).",
    licence="none",
    untaught=("sea",),
)


@pytest.fixture
def data(tmp_path, monkeypatch) -> Path:
    toys.write_inputs(tmp_path / "data" / "topics")
    monkeypatch.setitem(CATALOGUES, "toys", ("Table 1", (TOPICS,)))
    return tmp_path / "data"


def gathered(labelled: LabelledFiles, data: Path, run: Path, **stated) -> Materials:
    raw = Raw(general=data / "topics" / "general.txt")
    return toys.gathered(Inputs(run, task=labelled, raw=raw, data=data, **stated), seeds=3, comparisons=4)


def test_a_dataset_brings_its_splits_labels_metric_and_length_which_may_be_less(data, tmp_path):
    found = gathered(LabelledFiles(train=Path("tOPICS")), data, tmp_path / "run")
    task = found.task
    assert (task.name, task.kind, task.labels, task.max_tokens) == ("Topics", "sequence", TOPICS.labels, 24)
    assert (task.metric.name, dict(task.sizes)) == ("micro_f1", toys.SIZES)
    assert task.source == "Nobody (2020). Licence: none"
    assert "Made up." in found.notes
    assert any("in the format 'lines'" in note for note in found.notes)
    assert len(found.task_text) == toys.SIZES["train"]
    assert gathered(LabelledFiles(train=Path("Topics")), data, tmp_path / "run").task.hashes == task.hashes
    shorter = LabelledFiles(train=Path("Topics"), max_tokens=16)
    assert gathered(shorter, data, tmp_path / "shorter").task.max_tokens == 16


def test_a_form_is_named_after_a_comma(data):
    assert published("topics, lines", data).name == "Topics, lines"
    with pytest.raises(ValueError, match=r"Topics: no format is named 'liens'\. Known: missing, lines"):
        published("topics, liens", data)
    with pytest.raises(ValueError, match=r"Topics: .* has no nowhere, compressed or not\. Fetch it"):
        published("topics, missing", data)


def test_what_is_no_dataset_is_told_the_nearest_and_a_wrong_folder_the_right_one(data, tmp_path):
    with pytest.raises(ValueError, match="no dataset is named 'Topcis'; the nearest is 'Topics'"):
        published("Topcis", data)
    for given in (data / "topics", tmp_path):
        with pytest.raises(ValueError, match=f"there is no folder {given}/topics. But {data} has .* --data {data}"):
            published("Topics", given)
    with pytest.raises(ValueError, match=f"Fetch it: acclimate data fetch blurb --to {data}"):
        published("GAD", data)
    with pytest.raises(ValueError, match=r"there is no folder .*/glue/cola. Get it from https://gluebenchmark.com"):
        published("CoLA", data)


def test_a_task_before_its_model_is_told(data, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    (tmp_path / "train.csv").write_text("text,label")
    for task in ("Topics", str(tmp_path / "train.csv")):
        words = ["evaluate", task, str(tmp_path / "model"), "--data", str(data), "--out", str(tmp_path / "run")]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 2
        assert "the model first" in " ".join(done.output.split())
        assert not (tmp_path / "run").exists()


def test_options_of_own_files_are_refused_beside_a_dataset(data, tmp_path):
    for stated in ({"label": "topic"}, {"dev": Path("dev.csv")}, {"metric": "accuracy"}):
        with pytest.raises(ValueError, match=r"'Topics' already defines its splits, columns, kind and metric\. With"):
            gathered(replace(LabelledFiles(train=Path("Topics")), **stated), data, tmp_path / "run")


def test_a_dataset_without_its_folder_is_told_what_is_missing(data, tmp_path):
    for name, told in (
        ("topics, given", "'topics, given' is a published dataset. Add --data"),
        ("blurb", "a catalogue"),
    ):
        with pytest.raises(ValueError, match=told):
            toys.gathered(Inputs(tmp_path / "run", task=LabelledFiles(train=Path(name))), seeds=3, comparisons=4)
    with pytest.raises(ValueError, match="there is no such folder"):
        published("Topics", tmp_path / "nowhere")


@pytest.mark.parametrize("verb", [["race"], ["evaluate", "model"], ["study", "tlm"]])
def test_every_verb_with_a_task_takes_a_dataset(verb, data, tmp_path):
    done = CliRunner().invoke(app, [*verb, "topcis", "--data", str(data), "--out", str(tmp_path / "run")])
    assert done.exit_code == 2
    assert "the nearest is 'Topics'" in " ".join(done.output.split())


def test_in_a_race_on_questions_nobody_runs_who_has_no_answers(tmp_path):
    spans = ((0, 1),)
    task = Task(
        "questions",
        "span",
        lambda path, split: [Example(f"{split}-{at}", "a b", ("a",), "which?", "", spans) for at in range(3)],
        (),
        metric_named("f1"),
        32,
    )
    shape = {"vocab_size": 8192, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    BertForMaskedLM(BertConfig(max_position_embeddings=64, **shape)).save_pretrained(tmp_path / "model")
    load_tokenizer("embedded").save_pretrained(tmp_path / "model")
    materials = Materials(task=prepare(task, Path(), tmp_path / "data"), model=str(tmp_path / "model"))
    entries = enter(RaceRecipe(contestants=("random weights",)), materials)
    assert entries.baseline is None
    assert RaceRecipe().names(domain=True, general=True, kind="span") == ("TAPT", "DAPT")
    with pytest.raises(ValueError, match="TF-IDF does not support tasks of kind 'span'"):
        enter(RaceRecipe(contestants=("TF-IDF",)), materials)
    kept = RaceRecipe(finetune=toys.papers(head="kept"))
    with pytest.raises(ValueError, match="the head of the start model, which TAPT lacks"):
        enter(kept, materials)
    assert enter(replace(kept, contestants=()), materials).models == {"untouched": None}
