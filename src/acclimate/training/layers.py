"""An encoder's layers: what `plan.recompute` computes again, and what `plan.shard` gathers at once.

A layer is a member of the longest list of modules of an encoder, whatever its family.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

# where torch keeps the hooks of a module
HOOKS = (
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
)

Hooks = list[tuple[nn.Module, dict[str, Any]]]


def layers_of(module: nn.Module) -> list[nn.Module]:
    """The layers of all encoders in the module, each encoder's from the lowest; [] where there are none."""
    if isinstance(module, PreTrainedModel):
        lists = [list(each) for each in module.modules() if isinstance(each, nn.ModuleList)]
        return max(lists, key=len, default=[])
    return [layer for child in module.children() for layer in layers_of(child)]


@contextmanager
def recomputed(objective: nn.Module) -> Iterator[None]:
    """In the block, of a layer's forward pass with gradient only the input is kept; on the way back it is run again,
    under the same dropout, precision and hooks (Chen et al., 2016, "Training Deep Nets with Sublinear Memory Cost").

    Raises ValueError where there are no layers.
    """
    layers = layers_of(objective)
    if not layers:
        raise ValueError(
            f"plan.recompute = true computes layers again, but {type(objective).__name__} has no encoder with a list "
            "of them. Set plan.recompute=false"
        )
    for layer in layers:
        layer.forward = _run_again(layer)
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


def _run_again(layer: nn.Module) -> Any:
    forward = layer.forward

    def run(*given: Any, **named: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*given, **named)
        if torch.compiler.is_compiling():
            return checkpoint(forward, *given, use_reentrant=False, **named)
        met = hooks_of(layer)

        def under_hooks(*given: Any, **named: Any) -> Any:
            with hooked(met):
                return forward(*given, **named)

        return checkpoint(under_hooks, *given, use_reentrant=False, **named)

    return run


def hooks_of(module: nn.Module) -> Hooks:
    """The forward hooks of all that is in the module, as they are now."""
    return [(each, {name: getattr(each, name).copy() for name in HOOKS}) for each in module.modules()]


@contextmanager
def hooked(hooks: Hooks) -> Iterator[None]:
    """In the block, modules have these hooks in place of their own: gates of a pass that is over are back."""
    own = [(module, {name: getattr(module, name) for name in kept}) for module, kept in hooks]
    _put(hooks)
    try:
        yield
    finally:
        _put(own)


def _put(hooks: Hooks) -> None:
    for module, kept in hooks:
        for name, values in kept.items():
            setattr(module, name, values)
