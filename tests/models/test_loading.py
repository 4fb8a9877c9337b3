"""What is asked of a model before any is loaded loads no PyTorch."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from huggingface_hub import errors

from acclimate.core import files
from acclimate.models.configuration import configuration_of
from acclimate.models.loading import check_weights, reading

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
def test_what_the_hub_does_not_give_is_one_error_after_one_question(
    error: type[Exception], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def ask(url: str, **settings: object) -> None:
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
        "acclimate.models.loading.read_configuration", lambda where: cached.write_text(json.dumps(about))
    )
    for _ in ("fetched", "in the cache"):
        with pytest.raises(ValueError, match=said):
            configuration_of("ada/model")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of one layer with its tokenizer, as the golden run has it."""
    return shutil.copytree(Path(__file__).parents[1] / "golden/run/model", tmp_path_factory.mktemp("model") / "model")


DAMAGES = [
    *({name: value} for name in ("num_hidden_layers", "hidden_size", "vocab_size") for value in (0, "16", [], 1.5, -1)),
    *({name: 10**6} for name in ("num_hidden_layers", "hidden_size", "intermediate_size", "vocab_size")),
    *({"hidden_act": value} for value in ("gallu", None, 3, {})),
    *({"model_type": value} for value in ("unknown", None, 3, [])),
    *(
        {name: value}
        for name in ("num_attention_heads", "layer_norm_eps", "hidden_dropout_prob")
        for value in ("x", [])
    ),
    {"max_position_embeddings": 10**9},
    {"pad_token_id": 10**6},
    {"vocab_size": 5},
    {"id2label": 3},
    {"torch_dtype": "float99"},
]


@pytest.mark.parametrize("damage", DAMAGES, ids=str)
def test_a_damaged_config_is_refused_in_one_line_before_memory_is_taken(damage, checkpoint, tmp_path):
    place = shutil.copytree(checkpoint, tmp_path / "damaged")
    config = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps(config | damage))
    _refused_or_read(place)


@pytest.mark.parametrize(
    "content", ["[]", "null", "3", "", "{", '{"a": 1}', "\udcff", "[" * 9999, '{"model": 3}'], ids=ascii
)
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
    from acclimate.models.encoder import load_masked_language_model
    from acclimate.models.loading import load_tokenizer

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
def sealed(checkpoint: Path, tmp_path: Path) -> Path:
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
    from acclimate.models.encoder import load_masked_language_model
    from acclimate.models.loading import load_tokenizer

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
