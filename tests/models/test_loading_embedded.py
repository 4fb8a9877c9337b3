"""`embedded`, the name of the encoder that comes with the package. Its folder is here that of a toy."""

import shutil

import huggingface_hub
import pytest
from typer.testing import CliRunner

from acclimate import cli
from acclimate.cli.race import _without_model
from acclimate.core.types import Document
from acclimate.models import loading
from acclimate.models.encoder import load_masked_language_model, new_encoder, save_model
from acclimate.models.loading import hub_answers, identity, load_tokenizer, locate, origin, resolved, start_of
from acclimate.text.corpus import write_corpus
from acclimate.text.vocabulary import train_tokenizer

TEXTS = [f"the dose was measured {number} times in rats" for number in range(40)]


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    place = tmp_path_factory.mktemp("toy")
    tokenizer = train_tokenizer(write_corpus([Document(text, text) for text in TEXTS], place / "corpus"), size=200)
    shape = {"layers": 1, "hidden": 16, "heads": 2, "vocabulary_size": len(tokenizer), "longest": 64}
    (place / "toy").mkdir()
    save_model(new_encoder(**shape, pad=tokenizer.pad_token_id, seed=0), tokenizer, place / "toy")
    return place / "toy"


@pytest.fixture
def folder(toy, tmp_path, monkeypatch):
    """The folder of the embedded encoder, in which the toy lies; the working folder is another."""
    monkeypatch.setattr(loading, "FOLDER", toy)
    monkeypatch.chdir(tmp_path)
    return toy


def test_the_name_means_the_encoder_of_the_package_and_its_content(folder, tmp_path):
    assert resolved("embedded") == locate("embedded") == str(folder)
    assert load_masked_language_model("embedded").config.hidden_size == 16
    assert load_tokenizer("embedded").get_vocab() == load_tokenizer(folder).get_vocab()
    copied = shutil.copytree(folder, tmp_path / "elsewhere")
    assert identity("embedded") == identity(copied)
    (copied / "embedded.json").write_text("{}")  # what was measured of it is no part of it
    assert identity("embedded") == identity(copied)
    with open(copied / "model.safetensors", "ab") as file:
        file.write(b" ")
    assert identity("embedded") != identity(copied)


def test_a_directory_of_that_name_is_meant_by_its_path_and_a_message_says_so(folder, tmp_path, caplog):
    (tmp_path / "embedded").mkdir()
    assert resolved("embedded") == str(folder)
    assert [record.getMessage() for record in caplog.records] == [
        "'embedded' names the encoder that comes with acclimate. For your directory write ./embedded"
    ]
    assert resolved("./embedded") == str(tmp_path / "embedded")
    assert locate(resolved("./embedded")) == str(tmp_path / "embedded")


def test_without_weights_there_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setattr(loading, "FOLDER", tmp_path / "nothing")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "raw.txt").write_text("\n".join(TEXTS))
    for arguments in (["adapt", "mlm", "corpus=raw.txt"], ["adapt", "mlm", "corpus=raw.txt", "model=embedded"]):
        done = CliRunner().invoke(cli.app, arguments)
        assert done.exit_code == 2
        assert "the embedded encoder is not in this installation" in done.output
        assert len(done.output.splitlines()) == 1


def test_what_a_race_starts_from(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    starts = {None: "embedded", "embedded": "embedded", "scratch": None, "path": "path"}
    assert {stated: start_of(stated) for stated in starts} == starts
    assert not caplog.records
    (tmp_path / "scratch").mkdir()
    assert start_of("scratch") is None
    assert [record.getMessage() for record in caplog.records] == [
        "'scratch' pretrains a small encoder first. For your directory write ./scratch"
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ["doctor", "task.csv", "--model", "scratch"],
        ["evaluate", "scratch", "task.csv"],
        ["adapt", "mlm", "model=scratch", "corpus=task.csv"],
        ["study", "tlm", "task.csv", "--model", "scratch", "--general", "raw.txt"],
    ],
)
def test_where_nothing_is_pretrained_scratch_is_no_model(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "task.csv").write_text("text,label\na dose,1\n")
    (tmp_path / "raw.txt").write_text("a dose\n")
    done = CliRunner().invoke(cli.app, arguments)
    assert done.exit_code == 2
    assert done.output.startswith("acclimate: 'scratch' is no model: race --model scratch pretrains a small encoder")
    assert len(done.output.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["evaluate", "made"], "made is a model, and no task is stated. Add one: evaluate made TASK"),
        (["race", "arxiv", "pretrain.layers=3"], "settings of pretrain do nothing here: add --model scratch, or "),
    ],
)
def test_a_command_that_lacks_something_says_what(arguments, said, folder, tmp_path):
    shutil.copytree(folder, tmp_path / "made" / "checkpoint")
    done = CliRunner().invoke(cli.app, arguments)
    assert done.exit_code == 2
    assert done.output.startswith(f"acclimate: {said}")


def test_adapt_takes_it_without_a_model_and_names_larger_ones_if_the_hub_answers(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(loading, "hub_answers", lambda: True)
    (tmp_path / "raw.txt").write_text("\n".join(TEXTS))
    few = ["epochs=0", "plan.steps=1", "plan.batch=2", "max_tokens=16", "--out", "run"]
    done = CliRunner().invoke(cli.app, ["adapt", "mlm", "corpus=raw.txt", *few])
    assert done.exit_code == 0, done.output
    first, *_ = done.output.splitlines()
    assert first.startswith("No model is stated: this run uses the embedded encoder, which comes with acclimate. ")
    assert "Larger ones are worth trying: sentence-transformers/all-MiniLM-L6-v2, google-bert/" in first
    made = tmp_path / "run" / "checkpoint"
    assert load_masked_language_model(made).config.hidden_size == 16

    again = CliRunner().invoke(cli.app, ["adapt", "mlm", "model=run", "corpus=raw.txt", *few[:-1], "again"])
    assert again.exit_code == 0, again.output
    monkeypatch.setattr(loading, "FOLDER", tmp_path / "an upgrade")
    assert origin(made) == origin(tmp_path / "again" / "checkpoint") == "embedded"
    assert (origin("owner/name"), origin(folder), origin("")) == ("owner/name", "", "")


def test_the_hub_is_not_asked_offline(monkeypatch):
    asked = []
    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", lambda *_, **__: asked.append(1))
    assert not hub_answers()
    assert not asked
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    assert hub_answers()
    assert asked


@pytest.mark.parametrize("proxy", ["foo://127.0.0.1:9", "socks5://127.0.0.1:9", "http://x:abc", "http://127.0.0.1:9"])
def test_a_proxy_that_cannot_be_used_gives_no_answer_and_no_traceback(proxy, monkeypatch, capfd):
    huggingface_hub.close_session()  # it keeps the proxy that it began with
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    assert not hub_answers()
    assert capfd.readouterr().err == ""
    huggingface_hub.close_session()


@pytest.mark.parametrize(
    ("typed", "arranged"),
    [
        (("model", "task.csv", ["seeds=2"]), ("model", "task.csv", ["seeds=2"])),
        (("task.csv", None, None), (None, "task.csv", None)),
        (("task.csv", "seeds=2", None), (None, "task.csv", ["seeds=2"])),
        (("task.csv", "seeds=2", ["rows=3"]), (None, "task.csv", ["seeds=2", "rows=3"])),
    ],
)
def test_evaluate_takes_a_task_alone(typed, arranged):
    names = ("model", "task", "assignments")
    assert _without_model(dict(zip(names, typed, strict=True))) == dict(zip(names, arranged, strict=True))
