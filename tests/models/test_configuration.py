"""What is kept of a model's configuration once the model was checked."""

import shutil
from pathlib import Path

import pytest

from acclimate.core.files import read_json, write_json
from acclimate.models.configuration import (
    configuration_of,
    longest_of_config,
    transformers_configuration,
    usable_configuration,
)
from acclimate.models.loading import FOLDER


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the embedded encoder, and an empty cache."""
    monkeypatch.setenv("ACCLIMATE_CACHE", str(tmp_path / "cache"))
    names = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
    (tmp_path / "model").mkdir()
    for name in names:
        shutil.copy(FOLDER / name, tmp_path / "model" / name)
    return tmp_path / "model"


def test_a_model_is_checked_once_as_long_as_its_files_stay(model, monkeypatch):
    found, config = usable_configuration(model), configuration_of(model)
    assert (found.model_type, found.hidden_size) == (config.model_type, config.hidden_size)
    assert found.hidden_dropout_prob == config.hidden_dropout_prob
    assert longest_of_config(found) == longest_of_config(config)
    assert transformers_configuration(found).to_diff_dict() == config.to_diff_dict()
    monkeypatch.setattr("acclimate.models.configuration.load_tokenizer", None)  # a check would call it
    assert vars(usable_configuration(model)) == vars(found)


def test_other_files_are_checked_again(model):
    usable_configuration(model)
    write_json(model / "config.json", read_json(model / "config.json") | {"hidden_dropout_prob": 2.0})
    with pytest.raises(ValueError, match=r"hidden_dropout_prob is 2\.0, but must be a probability"):
        usable_configuration(model)


def test_a_damaged_record_is_no_answer(model, tmp_path):
    found = usable_configuration(model)
    [record] = (tmp_path / "cache" / "configurations").iterdir()
    record.write_text("{")
    assert vars(usable_configuration(model)) == vars(found)
