"""Store a classifier so that plain transformers and sentence-transformers predict the same, or refuse it.

In the order of preference: the class of its family in transformers, with converted weights (models/native.py); the
sentence-transformers form, for a linear layer on the mean or first state; acclimate's own files, which transformers
refuses (models/formats.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

from acclimate.core import files
from acclimate.models import formats
from acclimate.models.loading import quiet
from acclimate.models.native import native_classifier
from acclimate.shipping.check import Loaded, native_obstacle
from acclimate.tasks.prepared import Prepared

MODES = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
SENTENCES = {"text_pooling=first": "cls_token", "text_pooling=mean": "mean_tokens"}  # own parts -> mode of pooling

OTHER_TAGS = "tags of another scheme"


@dataclass(frozen=True)
class Form:
    """How a classifier is stored.

    obstacle     why no class of transformers computes it, as the end of a sentence; "": one does
    has_modules  whether it has the form of sentence-transformers
    """

    obstacle: str
    has_modules: bool


def write_form(directory: Path, classifier: Loaded, task: Prepared) -> Form:
    """Store a classifier in the form that most tools load. directory: holds it as acclimate saves checkpoints"""
    config = classifier.model.config
    if (native := native_classifier(classifier.model)) is not None:
        (directory / formats.OWN_WEIGHTS).unlink(missing_ok=True)
        with quiet():
            formats.save_weights(native, directory)
        return Form("", False)
    obstacle = native_obstacle(config, task)
    has_modules = formats.own_parts(config) in SENTENCES
    if has_modules:
        _write_modules(directory, classifier)
    if obstacle:
        ways = f"{formats.PREDICT} or SentenceTransformer" if has_modules else formats.PREDICT
        formats.refuse_transformers(directory, formats.own_parts(config) or OTHER_TAGS, ways=ways)
    return Form(obstacle, has_modules)


def _write_modules(directory: Path, classifier: Loaded) -> None:
    """Write what sentence-transformers reads: the encoder, the pooling, and the last layer, whose output are logits.

    The encoder's weights move to its folder; models/formats.py finds them there.
    """
    model = classifier.model
    for place in (formats.ENCODER, "1_Pooling", "2_Dense"):
        (directory / place).mkdir()
    encoder: Any = model.base_model
    with quiet():
        encoder.save_pretrained(directory / formats.ENCODER)
        classifier.tokenizer.save_pretrained(directory / formats.ENCODER)
    formats.remove_own_fields(directory / formats.ENCODER)
    own_weights = directory / formats.OWN_WEIGHTS
    weights_file = own_weights if own_weights.exists() else directory / formats.WEIGHTS
    prefix = f"{model.base_model_prefix}."
    head = {name: weight for name, weight in load_file(weights_file).items() if not name.startswith(prefix)}
    weights_file.unlink()
    save_file(head, own_weights, metadata={"format": "pt"})
    modules = {formats.ENCODER: "Transformer", "1_Pooling": "Pooling", "2_Dense": "Dense"}
    entries = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (path, kind) in enumerate(modules.items())
    ]
    files.write_json(directory / "modules.json", entries)
    length_config = {"max_seq_length": classifier.tokenizer.model_max_length, "do_lower_case": False}
    files.write_json(directory / formats.ENCODER / "sentence_bert_config.json", length_config)
    modes = {f"pooling_mode_{mode}": mode == SENTENCES[formats.own_parts(model.config)] for mode in MODES}
    pooling = {"word_embedding_dimension": model.config.hidden_size, **modes}
    files.write_json(directory / "1_Pooling" / "config.json", pooling)
    weight, bias = head["classifier.weight"], head["classifier.bias"]
    dense = {"in_features": weight.shape[1], "out_features": weight.shape[0], "bias": True}
    identity = {"activation_function": "torch.nn.modules.linear.Identity"}
    files.write_json(directory / "2_Dense" / "config.json", dense | identity)
    layer = {"linear.weight": weight, "linear.bias": bias}
    save_file(layer, directory / "2_Dense" / formats.WEIGHTS, metadata={"format": "pt"})
