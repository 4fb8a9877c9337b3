"""A sentence-transformers model that a method adapts stays one: the same modules, pooling, prompts and length."""

from pathlib import Path
from typing import Any

import pytest
import torch

import acclimate
from acclimate.core import files
from acclimate.methods import METHODS, scratch
from acclimate.models.loading import identity
from acclimate.models.sentence_modules import OMITTED, sentence_modules
from sentence_model import Sentences, make_sentence_model

TEXTS = ["the pulse of the heart", "an orbit", "a text that is longer than the length that the settings state, by far"]
NO_RATE = 1e-30  # changes a weight by less than float32 can store
PLAN = {"steps": 2, "batch": 4, "rate": NO_RATE}
MASKED: dict[str, Any] = {"epochs": 0.0, "max_tokens": 32, "plan": PLAN}
WITH_DROPOUT = {**MASKED, "dropout": 0.1}
SKIPGRAM = {"dim": 8, "epochs": 1, "min_count": 1, "buckets": 1000}
# method -> settings with which no weight of the encoder changes
UNCHANGED: dict[str, dict[str, Any]] = {
    "mlm": MASKED,
    "tapter": {**MASKED, "skipgram": SKIPGRAM, "looks": 1},
    "dga": {**WITH_DROPOUT, "subset": 8},
    "distil": WITH_DROPOUT,
    "sequence_contrast": WITH_DROPOUT,
    "token_contrast": WITH_DROPOUT,
    "tsdae": MASKED,
    "adversarial": MASKED,
    "scratch": MASKED,
}
# methods that write another encoder or a classifier, or whose encoder has new words or a prompt
OTHERS = {"light", "extend", "tlm", "stilt", "finetune"}


@pytest.fixture(scope="module", params=["new", "old"])
def sentences(request: pytest.FixtureRequest, pretrained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sentence-transformers model around the toy's encoder, in new and in old spellings."""
    return make_sentence_model(pretrained, tmp_path_factory.mktemp(request.param) / "model", old=request.param == "old")


@pytest.fixture
def current(pretrained: Path, tmp_path: Path) -> Path:
    return make_sentence_model(pretrained, tmp_path / "model", old=False, pooling="max")


def test_every_method_is_tried_here():
    assert UNCHANGED.keys() | OTHERS == METHODS.keys()


@pytest.mark.parametrize("method", UNCHANGED)
def test_an_adaptation_that_changes_no_weight_gives_the_same_vectors(method, sentences, toy_inputs, tmp_path):
    settings = UNCHANGED[method]
    found = adapted(method, sentences, toy_inputs, tmp_path, **settings)
    before, after = Sentences(sentences), Sentences(found.path)
    assert after.configuration == before.configuration
    torch.testing.assert_close(after.vectors(TEXTS), before.vectors(TEXTS), atol=1e-6, rtol=0)


def test_an_adaptation_changes_the_vectors_and_nothing_else(sentences, toy_inputs, tmp_path):
    found = adapted("mlm", sentences, toy_inputs, tmp_path, **{**MASKED, "plan": {**PLAN, "rate": 1e-2}})
    before, after = Sentences(sentences), Sentences(found.path)
    assert after.configuration == before.configuration
    assert (after.vectors(TEXTS) - before.vectors(TEXTS)).abs().max() > 1e-3


def test_new_words_and_a_prompt_keep_the_modules(current, tmp_path):
    (tmp_path / "domain.txt").write_text("the cardiomyopathy of the heart\n" * 8)
    given = {"extend": {"words": 3, "least": 1}, "light": {**MASKED, "kind": "prompt", "prompt_tokens": 2}}
    for method, settings in given.items():
        found = adapted(method, current, tmp_path, tmp_path / method, **settings)
        assert Sentences(found.path).configuration == Sentences(current).configuration
        assert Sentences(found.path).vectors(TEXTS).shape == (3, 8)


def test_modules_go_through_a_chain_of_adaptations(current, toy_inputs, tmp_path):
    first = adapted("mlm", current, toy_inputs, tmp_path / "first", **MASKED)
    second = adapted("adversarial", first, toy_inputs, tmp_path / "second", **MASKED)
    assert Sentences(second.path).configuration == Sentences(current).configuration


def test_a_checkpoint_without_modules_says_why(current, toy_inputs, tmp_path, toy_task):
    notes: list[str] = []
    light = adapted("light", current, toy_inputs, tmp_path / "light", notes=notes, **MASKED)
    random = scratch.untrained(str(current), tmp_path / "random", seed=0)
    reasons = {light.path: "without its adapters", random.path: "its weights are random"}
    for path, reason in reasons.items():
        assert not (path / "modules.json").exists()
        assert reason in files.read_json(path / "provenance.json")[OMITTED]
    [note] = [note for note in notes if "sentence-transformers" in note]
    assert note.startswith(f"{light.path} lacks the sentence-transformers modules of {current}")
    task = toy_task("sequence").path
    tuned = acclimate.adapt(
        "finetune", model=current, task=task, out=tmp_path / "tuned", epochs=0, plan__steps=2, looks=1, retry=False,
        averaged=1, least_steps=0, head="fresh", pooling="first", progress=False,
    )  # fmt: skip
    names = {path.name for path in tuned.path.iterdir()}
    assert not names & {"modules.json", "1_Pooling", "2_Dense", "sentence_bert_config.json"}


def test_pickled_modules_and_code_are_named_and_not_copied(current, toy_inputs, tmp_path):
    weights = current / "2_Dense" / "model.safetensors"
    weights.rename(weights.with_name("pytorch_model.bin"))
    notes: list[str] = []
    found = adapted("mlm", current, toy_inputs, tmp_path / "pickled", notes=notes, **MASKED)
    assert not [*found.path.rglob("*.bin")]
    assert not (found.path / "modules.json").exists()
    assert any("2_Dense/pytorch_model.bin is pickled" in note for note in notes)
    spelt = (current / "modules.json").read_text()
    (current / "modules.json").write_text(spelt.replace("sentence_transformers.base.modules.Dense", "custom_st.Dense"))
    found = adapted("mlm", current, toy_inputs, tmp_path / "custom", notes=notes, **MASKED)
    assert any("names custom_st.Dense, custom code" in note for note in notes)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[{", "modules.json:1: not valid JSON"),
        ("{}", "modules.json: is not a list of modules"),
        ('[{"path": ""}]', "type of module 0 is None"),
        ('[{"path": "", "type": "T"}, {"path": "../other", "type": "P"}]', "not a folder below it"),
        ('[{"path": "", "type": "T"}, {"path": "/etc", "type": "P"}]', "not a folder below it"),
        ('[{"path": "", "type": "T"}, {"path": "", "type": "P"}]', "not a folder below it"),
    ],
)
def test_damaged_modules_are_refused_before_any_training(content, message, current, toy_inputs, tmp_path):
    (current / "modules.json").write_text(content)
    with pytest.raises(ValueError, match=message):
        adapted("mlm", current, toy_inputs, tmp_path / "out", **MASKED)
    assert not (tmp_path / "out" / "log.jsonl").exists()


@pytest.mark.parametrize("content", ['{"name": "app"}', '[{"path": "src"}]', '["src"]'])
def test_modules_of_a_stranger_in_the_folder_above_are_not_read(content, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "modules.json").write_text(content)
    assert sentence_modules(tmp_path / "model") is None
    assert identity("~nobody-of-this-name/model") == "~nobody-of-this-name/model"


def test_a_change_of_a_module_makes_another_model_of_it(current, pretrained):
    before = identity(current)
    config = current / "1_Pooling" / "config.json"
    config.write_text(config.read_text().replace("max", "mean"))
    assert identity(current) != before
    assert sentence_modules(pretrained) is None


def test_a_model_of_the_hub_is_asked_for_its_modules(current, monkeypatch):
    asked: list[str] = []

    def download(hub_id: str, name: str) -> str:
        asked.append(name)
        return str(current / name)

    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda hub_id, name: None)
    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda hub_id, allow_patterns: str(current))
    found = sentence_modules("owner/sentences")
    assert found.root == current
    assert asked == ["modules.json"]
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda hub_id, name: object())
    assert sentence_modules("owner/plain") is None


def test_a_hub_that_does_not_answer_is_named_unless_its_cache_has_the_encoder(current, monkeypatch):
    from huggingface_hub.errors import LocalEntryNotFoundError

    def unreachable(hub_id: str, name: str) -> str:
        raise LocalEntryNotFoundError("no")

    cached = {"config.json": str(current / "config.json")}
    monkeypatch.setattr("huggingface_hub.hf_hub_download", unreachable)
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda hub_id, name: cached.get(name))
    assert sentence_modules("owner/plain") is None
    cached.clear()
    with pytest.raises(ValueError, match="owner/plain: a file is missing from the hub's cache"):
        sentence_modules("owner/plain")


def adapted(
    method: str, model: Any, inputs: Path, out: Path, notes: list[str] | None = None, **settings: Any
) -> acclimate.Checkpoint:
    """Adapt on the toy's raw text."""
    heard = [] if notes is None else notes
    return acclimate.adapt(
        method,
        model=model,
        corpus=inputs / "domain.txt",
        out=out,
        progress=False,
        watch=lambda progress: heard.extend([progress.values["note"]] if "note" in progress.values else []),
        **settings,
    )
