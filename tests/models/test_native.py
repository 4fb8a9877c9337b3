"""Linear read-outs in the classes of transformers: the same logits in every family, or None."""

import copy

import pytest
import torch
from transformers import AutoConfig

from acclimate.models.classifier import load_classifier
from acclimate.models.native import native_classifier
from families import CLASSIFIED, VOCABULARY

MEANS = {"eurobert", "modernbert"}  # families whose class reads the mean too


def inputs(rows: int = 6) -> dict[str, torch.Tensor]:
    ids = torch.randint(5, VOCABULARY, (rows, 11), generator=torch.Generator().manual_seed(3))
    mask = torch.ones_like(ids)
    mask[2, 4:] = 0
    return {"input_ids": ids, "attention_mask": mask}


def trained(directory, pooling: str, outputs: int, *, kind: str = "sequence", size: float = 0.2):
    """A classifier whose output layer has weights of this size, which are larger than those it begins with."""
    labels = () if kind == "score" else [f"label {number}" for number in range(outputs)]
    model = load_classifier(directory, labels, seed=1, kind=kind, pooling=pooling)
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(2)
        model.classifier.weight.normal_(std=size)
        model.classifier.bias.normal_(std=size)
    return model.eval()


READ = [*((name, "first") for name in CLASSIFIED), *((name, "mean") for name in (*sorted(MEANS), "bert"))]


@pytest.fixture(scope="module")
def family(request, tmp_path_factory):
    place = tmp_path_factory.mktemp("encoder")
    CLASSIFIED[request.param]().save_pretrained(place)
    return request.param, place


# how a family reads is the same for all kinds
SIZES = {"sequence": (3, 0.2), "multilabel": (7, 0.1), "score": (1, 1.0)}
KINDS = [
    *((*read, "sequence") for read in READ),
    *((*read, kind) for read in (("bert", "first"), ("modernbert", "mean")) for kind in ("multilabel", "score")),
]


@pytest.mark.parametrize(("family", "pooling", "kind"), KINDS, indirect=["family"])
def test_the_class_of_the_family_computes_the_same_probabilities(family, pooling, kind):
    name, directory = family
    outputs, size = SIZES[kind]
    model = trained(directory, pooling, outputs, kind=kind, size=size)
    native = native_classifier(model)
    if pooling == "mean" and name not in MEANS:
        assert native is None
        return
    assert type(native).__module__.startswith("transformers.")
    with torch.no_grad():
        expected, logits = model(**inputs()).logits, native(**inputs()).logits
    assert expected.std() > 0.1 * size
    if kind == "score":
        torch.testing.assert_close(logits, expected, rtol=0, atol=1e-4 * expected.std().item())
    else:
        torch.testing.assert_close(logits.sigmoid(), expected.sigmoid(), rtol=0, atol=3e-5)
        torch.testing.assert_close(logits.softmax(-1), expected.softmax(-1), rtol=0, atol=3e-5)


def test_more_labels_than_the_width_pass_through_tanh_and_not_through_gelu(tmp_path):
    for name, fits in {"bert": True, "electra": False}.items():
        CLASSIFIED[name]().save_pretrained(tmp_path / name)
        model = trained(tmp_path / name, "first", 40)
        native = native_classifier(model)
        assert (native is not None) == fits
        if native is not None:
            with torch.no_grad():
                torch.testing.assert_close(native(**inputs()).logits, model(**inputs()).logits, rtol=1e-4, atol=1e-4)


def test_a_head_is_converted_through_tanh_only_if_float16_holds_its_weights(tmp_path):
    CLASSIFIED["bert"]().save_pretrained(tmp_path / "bert")
    for norm, fits in {7.0: True, 9.0: True, 1000.0: False}.items():
        model = trained(tmp_path / "bert", "first", 3)
        with torch.no_grad():
            model.classifier.weight *= norm / model.classifier.weight.norm(dim=1, keepdim=True)
        native = native_classifier(model)
        assert (native is not None) == fits
        if native is not None:
            assert native.half()(**inputs()).logits.isfinite().all()


@pytest.mark.parametrize(("family", "pooling"), READ, indirect=["family"])
def test_16_bits_are_no_coarser_than_for_the_classifier_itself(family, pooling):
    _, directory = family
    model = trained(directory, pooling, 3)
    if (native := native_classifier(model)) is None:
        return
    with torch.no_grad():
        expected = model(**inputs(40)).logits
        for dtype in (torch.bfloat16, torch.float16):
            own, converted = (copy.deepcopy(each).to(dtype)(**inputs(40)).logits.float() for each in (model, native))
            step = torch.finfo(dtype).eps * expected.abs().max()
            assert (converted - expected).abs().max() <= 1.5 * (own - expected).abs().max() + step


def test_the_native_config_names_nothing_of_acclimate(tmp_path):
    CLASSIFIED["bert"]().save_pretrained(tmp_path / "encoder")
    native_classifier(trained(tmp_path / "encoder", "first", 2)).save_pretrained(tmp_path / "native")
    config = AutoConfig.from_pretrained(tmp_path / "native")
    assert not hasattr(config, "text_pooling")
    assert config.architectures == ["BertForSequenceClassification"]
