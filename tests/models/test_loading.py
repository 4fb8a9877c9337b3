"""What is asked of a model before any is loaded loads no PyTorch."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pytest
import torch
from huggingface_hub import errors
from typer.testing import CliRunner

from acclimate import cli
from acclimate.cli.race import _without_model
from acclimate.core import files
from acclimate.core.types import Document
from acclimate.models import loading
from acclimate.models.configuration import configuration_of
from acclimate.models.encoder import load_masked_language_model, new_encoder, save_model
from acclimate.models.loading import (
    check_weights,
    hub_answers,
    identity,
    load_tokenizer,
    locate,
    origin,
    origin_facts,
    reading,
    resolved,
    start_of,
)
from acclimate.text.corpus import write_corpus
from acclimate.text.vocabulary import train_tokenizer

ASKED = """
from acclimate.models.directory import require_safetensors
from acclimate.models.loading import identity, locate, resolved
assert resolved("owner/name") == locate("owner/name") == identity("owner/name") == "owner/name"
require_safetensors("owner/name")
"""


@pytest.mark.parametrize("code", [ASKED, "import acclimate.data.gather"])
def test_naming_a_model_and_gathering_a_users_files_load_no_torch(code):
    code += "\nimport sys; print(*sorted({'torch', 'transformers', 'safetensors'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr[-2000:]


def _refused(kind: type[errors.HTTPError]) -> Exception:
    """As the hub's library raises it, with an answer of the server of which only the status is read."""
    error = kind.__new__(kind)
    error.response = SimpleNamespace(status_code=503)
    Exception.__init__(error, "said by the hub")
    return error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (errors.RepositoryNotFoundError, "no such model that you can access. Check the name"),
        (errors.GatedRepoError, "requires you to accept terms"),
        (errors.RemoteEntryNotFoundError, "contains no config.json"),
        (errors.HfHubHTTPError, "the hub answered 503. Try again, or give the path"),
        (errors.HTTPError, "the hub cannot be reached .said by the hub.. Try again, or give the path"),
        (errors.OfflineModeIsEnabled, "HF_HUB_OFFLINE is set. Unset it, or give the path"),
    ],
)
def test_what_the_hub_does_not_give_is_one_error_after_one_question(error, said, monkeypatch):
    asked = []

    def ask(url, **settings):
        asked.append(url)
        raise _refused(error) if issubclass(error, errors.HTTPError) else error("said by the hub")

    monkeypatch.setattr("huggingface_hub.get_hf_file_metadata", ask)
    with pytest.raises(ValueError, match=said), reading("nobody/nothing-of-the-kind"):
        pass
    assert len(asked) == 1
    assert "nobody/nothing-of-the-kind" in asked[0]


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (torch.OutOfMemoryError("full"), torch.OutOfMemoryError, "full"),
        (errors.HTTPError("timed out"), ValueError, "the hub has returned no model"),
    ],
)
def test_a_full_gpu_and_a_hub_that_does_not_answer_are_no_damaged_checkpoint(error, kind, said, monkeypatch):
    monkeypatch.setattr("acclimate.models.loading.require_fetchable", lambda where: None)
    with pytest.raises(kind, match=said), reading("ada/model"):
        raise error


@pytest.mark.parametrize(
    ("about", "said"),
    [
        ({"model_type": "vit"}, "ada/model: no text encoder"),
        ({}, "ada/model: config.json has no model_type"),
        ({"model_type": "bert", "quantization_config": {}}, "ada/model: quantization_config in config.json is empty"),
    ],
)
def test_a_model_of_the_hub_is_refused_as_soon_as_its_config_is_there(about, said, tmp_path, monkeypatch):
    cached = tmp_path / "config.json"
    monkeypatch.setattr("acclimate.models.loading.require_fetchable", lambda where: None)
    monkeypatch.setattr(
        "huggingface_hub.try_to_load_from_cache", lambda where, name: str(cached) if cached.exists() else None
    )
    monkeypatch.setattr(
        "acclimate.models.formats.read_configuration", lambda where: cached.write_text(json.dumps(about))
    )
    for _ in ("fetched", "in the cache"):
        with pytest.raises(ValueError, match=said):
            configuration_of("ada/model")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> Path:
    """A model of one layer with its tokenizer, as the golden run has it."""
    return shutil.copytree(Path(__file__).parents[1] / "golden/run/model", tmp_path_factory.mktemp("model") / "model")


DAMAGES = [
    *({name: value} for name in ("num_hidden_layers", "hidden_size", "vocab_size") for value in (0, "16", -1)),
    *({name: 10**6} for name in ("num_hidden_layers", "hidden_size", "intermediate_size", "vocab_size")),
    *({"hidden_act": value} for value in ("gallu", 3)),
    *({"model_type": value} for value in ("unknown", [])),
    *(
        {name: value}
        for name in ("num_attention_heads", "layer_norm_eps", "hidden_dropout_prob")
        for value in ("x", [])
    ),
    {"max_position_embeddings": 10**9},
    {"pad_token_id": 10**6},
    {"vocab_size": 5},
    {"type_vocab_size": 0},
    {"id2label": 3},
    {"torch_dtype": "float99"},
]


@pytest.mark.parametrize("damage", DAMAGES, ids=str)
def test_a_damaged_config_is_refused_in_one_line_before_memory_is_taken(damage, checkpoint, tmp_path):
    place = shutil.copytree(checkpoint, tmp_path / "damaged")
    config = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps(config | damage))
    _refused_or_read(place)


@pytest.mark.parametrize("content", ["[]", "", "{", '{"a": 1}', "\udcff", "[" * 9999, '{"model": 3}'], ids=ascii)
@pytest.mark.parametrize(
    "name",
    ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors.index.json", "model.safetensors"],
)
def test_a_damaged_file_of_a_model_is_refused_in_one_line(name, content, checkpoint, tmp_path):
    place = shutil.copytree(checkpoint, tmp_path / "damaged")
    (place / name).write_bytes(content.encode("utf-8", "surrogateescape"))
    _refused_or_read(place)


def _refused_or_read(place: Path) -> None:
    """The tokenizer and the model are loaded, or a ValueError of one line names the directory."""
    said = []
    for load in (load_tokenizer, load_masked_language_model):
        try:
            load(place)
        except ValueError as error:
            said.append(str(error))
    for line in said:
        assert str(place) in line
        assert "\n" not in line.strip()


@pytest.fixture
def sealed(checkpoint, tmp_path) -> Path:
    """A model with the manifest that acclimate writes beside its own."""
    place = shutil.copytree(checkpoint, tmp_path / "sealed")
    (place / "README.md").write_text("A card.")
    files.seal(place)
    return place


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(bytes(content))


def test_a_flipped_bit_in_a_model_with_a_manifest_is_refused_wherever_it_is_read(sealed):
    load_masked_language_model(sealed)
    _flip(sealed / "model.safetensors")
    for read in (load_masked_language_model, load_tokenizer, check_weights):
        with pytest.raises(files.DamagedError, match=r"model\.safetensors is damaged.*delete .*manifest\.json"):
            read(sealed)
    (sealed / "manifest.json").unlink()  # the way out for a model that its user has changed
    load_masked_language_model(sealed)


def test_an_edited_card_and_the_manifest_of_another_program_are_no_damage(sealed):
    (sealed / "README.md").write_text("Another card.")
    check_weights(sealed)
    for content in ("{}", "[]", '{"name": "A page", "icons": []}'):
        (sealed / "manifest.json").write_text(content)
        _flip(sealed / "model.safetensors")
        check_weights(sealed)


def test_a_models_files_are_hashed_once_in_a_process(sealed, monkeypatch):
    hashed = []
    real = files.sha256_of
    monkeypatch.setattr(files, "sha256_of", lambda path: hashed.append(path.name) or real(path))
    for _ in range(3):
        check_weights(sealed)
    assert sorted(hashed) == sorted({*hashed})
    assert "model.safetensors" in hashed


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
        assert "the embedded encoder is missing from this installation" in done.output
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


def test_a_model_without_a_task_is_told(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "made" / "checkpoint")
    done = CliRunner().invoke(cli.app, ["evaluate", "made"])
    assert done.exit_code == 2
    assert done.output.startswith("acclimate: made is a model, and no task is given. Add one: evaluate made TASK")


def test_adapt_takes_it_without_a_model_and_names_larger_ones_if_the_hub_answers(folder, tmp_path, monkeypatch):
    """What is made from it keeps its licence and the identity of its weights, also after an upgrade of the package."""
    shutil.copytree(folder, tmp_path / "upgrade")
    (folder / "NOTICE").write_text("of these weights")
    monkeypatch.setattr(loading, "hub_answers", lambda: True)
    (tmp_path / "raw.txt").write_text("\n".join(TEXTS))
    few = ["epochs=0", "plan.steps=1", "plan.batch=2", "max_tokens=16", "--out", "run"]
    done = CliRunner().invoke(cli.app, ["adapt", "mlm", "corpus=raw.txt", *few])
    assert done.exit_code == 0, done.output
    first, *_ = done.output.splitlines()
    assert first.startswith("No model is given: this run uses the embedded encoder, which comes with acclimate. ")
    assert "Larger models may do better: sentence-transformers/all-MiniLM-L6-v2, google-bert/" in first
    made = tmp_path / "run" / "checkpoint"
    assert load_masked_language_model(made).config.hidden_size == 16

    again = CliRunner().invoke(cli.app, ["adapt", "mlm", "model=run", "corpus=raw.txt", *few[:-1], "again"])
    assert again.exit_code == 0, again.output
    facts = {"origin": "embedded", "origin_weights": files.sha256_of(folder / "model.safetensors")}
    monkeypatch.setattr(loading, "FOLDER", tmp_path / "upgrade")
    for checkpoint in (made, tmp_path / "again" / "checkpoint"):
        assert origin_facts(checkpoint) == facts
        assert (checkpoint / "NOTICE").read_text() == "of these weights"
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
