"""Train an encoder through low-rank adapters that are merged into its weights afterwards, by the package PEFT.

Hu et al. (2021), "LoRA: Low-Rank Adaptation of Large Language Models" (2106.09685), section 4.1. The weights W of a
linear layer stay as they are, and beside them a product of two narrow matrices is learnt:

    h = W x + b + (alpha / r) B A dropout(x)      A (r, D_in) is drawn, B (D_out, r) starts at 0

All other weights of the encoder stay as they are, too; the head, a pooler included, is trained in full. Afterwards W
becomes W + (alpha / r) B A: an ordinary checkpoint, that differs from the start by matrices of rank r.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from acclimate.core.randomness import seeded
from acclimate.models.families import LoraLayers

if TYPE_CHECKING:
    from transformers import PreTrainedModel

ADAPTER = "default"  # PEFT's name of the one adapter of a layer


class LoraAdapters:
    """The low-rank adapters of an encoder in training.

    layers  "attention": the linear layers of attention (queries, keys, values and output); "all": those of the
            feed-forward part as well

    Raises ImportError if PEFT is not installed, and ValueError for a family without such layers.
    """

    def __init__(
        self, model: PreTrainedModel, *, rank: int, alpha: float, dropout: float, layers: LoraLayers, seed: int
    ) -> None:
        require_peft()
        from peft import LoraConfig, LoraModel
        from peft.tuners.lora import LoraLayer

        names = adapted_layers(model, layers)
        if not names:
            raise ValueError(
                f"no linear layer of attention was found in a '{model.config.model_type}', so LoRA cannot be used. "
                "Set lora_rank=0, or use another model"
            )
        settings: dict[str, Any] = {"r": rank, "lora_alpha": alpha, "lora_dropout": dropout, "target_modules": names}
        with seeded(seed):
            # replaces the layers in the model, in place
            self.tuner: Any = LoraModel(model, LoraConfig(**settings), ADAPTER)
        self.model = model
        self.places: list[Any] = [place for place in model.modules() if isinstance(place, LoraLayer)]
        for name, weight in model.named_parameters():
            if not name.startswith(f"{model.base_model_prefix}.") or ".pooler." in name:
                weight.requires_grad_(True)

    @contextmanager
    @torch.no_grad()
    def merged(self) -> Iterator[None]:
        """In the block, the layers compute with W + (alpha / r) B A; their weights are restored bit by bit after it."""
        before = [place.get_base_layer().weight.detach().clone() for place in self.places]
        for place in self.places:
            place.merge()
        try:
            yield
        finally:
            for place, weight in zip(self.places, before, strict=True):
                place.merged_adapters.clear()
                place.get_base_layer().weight.copy_(weight)

    def merge(self) -> None:
        """Merge the adapters into the weights for good. The model is of its plain layers again."""
        self.tuner.merge_and_unload()
        self.model.requires_grad_(True)


def require_peft() -> None:
    """Raise ImportError, with the command to run, if PEFT is not installed."""
    if importlib.util.find_spec("peft") is None:
        raise ImportError(
            "LoRA (lora_rank) needs the package 'peft', which is not installed: run `pip install acclimate[lora]`, or "
            "set lora_rank=0"
        )


def adapted_layers(model: PreTrainedModel, layers: LoraLayers) -> list[str]:
    """Return the names of the linear layers that get adapters, of every layer of the encoder.

    In all families the name of a part of attention has "attn" or "attention" in it, after the number of its layer.
    """
    names = []
    for name, module in model.named_modules():
        parts = name.lower().split(".")
        in_layer = name.startswith(f"{model.base_model_prefix}.") and any(part.isdigit() for part in parts)
        if not isinstance(module, nn.Linear) or not in_layer or "adapter" in parts:  # the last is of models/light.py
            continue
        if layers == "all" or any("attn" in part or "attention" in part for part in parts):
            names.append(name)
    return names
