import json
import shutil

import pytest
import torch
from tests.families import FAMILIES
from transformers import (
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    BertConfig,
)

from acclimate.models.classifier import (
    KINDS,
    PROBLEM_TYPES,
    classifier_kind,
    kind_in,
    labels_of,
    load_classifier,
    load_finetuned,
)
from acclimate.models.configuration import dropout_known
from acclimate.models.encoder import save_model
from acclimate.models.scale import Scale, fold, folded, output_layer

LABELS = ("no", "yes", "perhaps")
IDS = torch.tensor([[2, 7, 9, 30, 3], [2, 50, 51, 8, 3]])


def outputs(model) -> torch.Tensor:
    with torch.no_grad():
        return model.eval()(input_ids=IDS).logits


@pytest.mark.parametrize("name", [*FAMILIES])
def test_the_unit_of_a_score_is_folded_into_the_last_layer_of_every_family(name, tmp_path, tokenizer):
    save_model(FAMILIES[name](), tokenizer, tmp_path / "pretrained")
    model = load_classifier(tmp_path / "pretrained", (), kind="score", seed=1)
    before, weights = outputs(model), {key: value.clone() for key, value in model.state_dict().items()}
    scale = Scale(2000.0, 7.5)
    with folded(model, scale):
        torch.testing.assert_close(outputs(model), before * 7.5 + 2000, rtol=1e-6, atol=1e-3)
        assert not torch.equal(outputs(model), before)
    assert all(torch.equal(value, weights[key]) for key, value in model.state_dict().items())
    fold(model, scale)
    save_model(model, tokenizer, tmp_path / "score")
    plain = AutoModelForSequenceClassification.from_pretrained(tmp_path / "score")
    assert (plain.config.problem_type, plain.config.num_labels) == ("regression", 1)
    torch.testing.assert_close(outputs(plain), outputs(model))
    assert torch.equal(outputs(load_finetuned(tmp_path / "score")), outputs(model))


@pytest.mark.parametrize("kind", [*KINDS])
def test_a_checkpoint_says_what_its_outputs_mean(kind, checkpoint, tmp_path, tokenizer):
    labels = () if kind in ("score", "span") else LABELS
    save_model(load_classifier(checkpoint, labels, kind=kind, seed=1), tokenizer, tmp_path / "tuned")
    model = load_finetuned(tmp_path / "tuned")
    assert (classifier_kind(model), labels_of(model)) == (kind, labels)
    assert model.config.problem_type == PROBLEM_TYPES.get(kind)


def test_a_checkpoint_without_a_problem_type_has_one_label_a_text(checkpoint):
    model = load_classifier(checkpoint, LABELS, seed=1)
    model.config.problem_type = None
    assert classifier_kind(model) == "sequence"


def ends(model) -> torch.Tensor:
    with torch.no_grad():
        said = model.eval()(input_ids=IDS)
    return torch.stack([said.start_logits, said.end_logits], dim=-1)


@pytest.mark.parametrize("name", [*FAMILIES])
@pytest.mark.parametrize(
    ("kind", "labels", "said", "auto"),
    [("tokens", LABELS, outputs, AutoModelForTokenClassification), ("span", (), ends, AutoModelForQuestionAnswering)],
)
def test_taggers_and_readers_of_every_family_are_ordinary_checkpoints(
    name, kind, labels, said, *, auto, tmp_path, tokenizer
):
    before, after = tmp_path / "pretrained", tmp_path / "tuned"
    save_model(FAMILIES[name](), tokenizer, before)
    dropout = 0.1 if labels and dropout_known(before) else None
    made = [load_classifier(before, labels, kind=kind, seed=seed, dropout=dropout) for seed in (1, 1, 2)]
    assert torch.equal(said(made[0]), said(made[1]))
    assert not torch.equal(said(made[0]), said(made[2]))
    assert said(made[0]).shape == (*IDS.shape, len(labels) or 2)
    save_model(made[0], tokenizer, after)
    plain, tuned = auto.from_pretrained(after), load_finetuned(after)
    torch.testing.assert_close(said(plain), said(made[0]))
    assert torch.equal(said(tuned), said(made[0]))
    assert (classifier_kind(tuned), labels_of(tuned)) == (kind, labels)
    if labels:
        assert plain.config.id2label == dict(enumerate(labels))
        again = load_classifier(after, labels, seed=1)
        assert (classifier_kind(again), again.config.problem_type) == ("sequence", "single_label_classification")
    else:
        again = load_classifier(after, labels, kind=kind, seed=2)
        assert torch.equal(output_layer(again).weight, output_layer(made[2]).weight), "a trained head was taken over"


def test_one_label_and_several_have_the_same_head_and_other_kinds_are_refused(checkpoint):
    one, several = (load_classifier(checkpoint, LABELS, kind=kind, seed=1) for kind in ("sequence", "multilabel"))
    assert torch.equal(one.classifier.weight, several.classifier.weight)
    with pytest.raises(ValueError, match="kind 'pairs' cannot be fine-tuned"):
        load_classifier(checkpoint, LABELS, kind="pairs", seed=1)


@pytest.mark.parametrize("problem", [1.5, ["x"], "x"])
def test_a_problem_type_that_no_task_has_is_named_with_its_file(problem):
    config = BertConfig(architectures=["BertForSequenceClassification"], name_or_path="there")
    config.problem_type = problem
    with pytest.raises(ValueError, match=r"there/config\.json: problem_type is .*; supported are .*\. Restore the"):
        kind_in(config)


@pytest.mark.parametrize(
    "damage", [{"architectures": 3}, {"architectures": [1]}, {"hidden_dropout_prob": float("nan")}]
)
def test_what_transformers_takes_from_a_config_and_cannot_use_is_named_with_its_file(damage, checkpoint, tmp_path):
    shutil.copytree(checkpoint, tmp_path / "damaged")
    file = tmp_path / "damaged" / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | damage))
    with pytest.raises(ValueError, match=rf"config\.json: {next(iter(damage))} is .*\. Restore the file"):
        load_classifier(tmp_path / "damaged", LABELS, seed=1)
