"""An objective whose weights, gradients and optimiser's state are cut over the processes (`plan.shard`).

`fully_shard` of torch.distributed, layer by layer: each process holds its rows of every weight, and gathers a layer's
whole weights only while the layer works. What is not the loop's business (hooks of an objective, looks at dev, states,
checkpoints) finds the objective whole, as if it were on one process: see `whole`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from acclimate.core import ranks
from acclimate.training.plan import device

# -------------------- layers
# An encoder's layers: what `plan.recompute` computes again, and what `plan.shard` gathers at once.
#
# A layer is a member of the longest list of modules of an encoder, whatever its family.


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


_KEPT = (*HOOKS, "_state_dict_pre_hooks", "_load_state_dict_pre_hooks")
_all_gather: Any = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)  # torch is renaming it
_NAME = "_acclimate_shards"  # in a sharded module's __dict__: there the garbage collector finds the circle


def shard(objective: nn.Module) -> None:
    """Cut the objective's weights over the processes, in place; from now on its parameters are DTensors, by the same
    names. Alone there is nothing to cut.
    """
    if ranks.world() > 1 and not is_sharded(objective):
        vars(objective)[_NAME] = Shards(objective)


def is_sharded(objective: nn.Module) -> bool:
    return _NAME in vars(objective)


def let_go(objective: nn.Module) -> None:
    """Keep no whole weights of a sharded objective behind the backward passes of a step: its update makes them old."""
    if is_sharded(objective):
        vars(objective)[_NAME].let_go()


@contextmanager
def whole(objective: nn.Module, *, gradients: bool = False) -> Iterator[None]:
    """In the block, which all processes enter together, a sharded objective is an ordinary one with whole weights; what
    is changed of them lasts. Others are whole always.

    gradients: so are the gradients
    """
    shards: Shards | None = vars(objective).get(_NAME)
    if shards is None:
        yield
        return
    shards.gather(gradients=gradients)
    try:
        yield
    finally:
        shards.scatter(gradients=gradients)


def end(objective: nn.Module) -> None:
    """Make a sharded objective an ordinary one for good. All processes call it together; its optimiser is done with."""
    if shards := vars(objective).pop(_NAME, None):
        shards.gather()


@torch.no_grad()
def gathered(value: Tensor) -> Tensor:
    """The whole of a tensor, which all processes ask for together where it is cut over them."""
    if not isinstance(value, DTensor):
        return value
    # not `full_tensor`: what torch remembers of that holds the group of processes beyond its end
    own, rows, world = value.to_local(), len(value), ranks.world()
    padded = own.new_zeros(-(-rows // world), *value.shape[1:])
    padded[: len(own)] = own
    found = own.new_empty(world * len(padded), *value.shape[1:])
    _all_gather(found, padded)
    return found[:rows].clone()


@torch.no_grad()
def clip(parameters: Iterable[nn.Parameter], most: float) -> float:
    """Shorten the gradient to `most`, as `nn.utils.clip_grad_norm_`; its L2 norm before that, over all processes."""
    with_gradient = [parameter for parameter in parameters if parameter.grad is not None]
    gradients = [parameter.grad for parameter in with_gradient]
    if not any(isinstance(gradient, DTensor) for gradient in gradients):
        return float(nn.utils.clip_grad_norm_(with_gradient, most))
    own = [cast(DTensor, gradient).to_local() for gradient in gradients]
    norm = ranks.added(nn.utils.get_total_norm(own) ** 2).sqrt()
    for gradient in own:
        gradient.mul_((most / (norm + 1e-6)).clamp(max=1.0))
    return float(norm)


def cut_like(value: Tensor, like: Tensor) -> Tensor:
    """This process's part of a whole tensor, if `like`, of the same shape, is cut; without a word to the others."""
    if not isinstance(like, DTensor) or value.shape != like.shape:
        return value
    own = torch.empty_like(like.to_local(), dtype=value.dtype)
    _copy_part(value, own)
    return DTensor.from_local(
        own, like.device_mesh, like.placements, run_check=False, shape=value.shape, stride=like.stride()
    )


class Shards:
    """A module in two states: cut, with what `fully_shard` made of it, or whole, as it was before."""

    def __init__(self, module: nn.Module) -> None:
        module.to(device())
        self.module = module
        self.modules = list(module.modules())
        self.places = [
            (each, name) for each in self.modules for name in each._parameters if each._parameters[name] is not None
        ]
        self.wholes: list[Any] = [each._parameters[name] for each, name in self.places]
        self.plain = [_shape(each) for each in self.modules]
        mesh = init_device_mesh(device().type, (ranks.world(),))
        for layer in layers_of(module):
            fully_shard(layer, mesh=mesh)
        fully_shard(module, mesh=mesh)
        # an objective may differentiate within its forward pass: what is left of that needs the whole weights still
        cast(FSDPModule, module).set_reshard_after_backward(False, recurse=False)
        register_fsdp_forward_method(module, "views")
        self.cut: list[Any] = [each._parameters[name] for each, name in self.places]
        self.pairs = list({id(one): (one, other) for one, other in zip(self.wholes, self.cut, strict=True)}.values())
        self._forget()

    def let_go(self) -> None:
        for each in self.modules:
            if isinstance(each, FSDPModule):
                each.reshard()

    @torch.no_grad()
    def gather(self, *, gradients: bool = False) -> None:
        self.let_go()
        for own, part in self.pairs:
            own.data = gathered(part).detach()
            if gradients and part.grad is not None:
                own.grad = gathered(part.grad)
        self.working = [_shape(each) for each in self.modules]
        self._become(self.plain, self.wholes)
        self.views: Any = vars(self.module).pop("views")

    @torch.no_grad()
    def scatter(self, *, gradients: bool = False) -> None:
        for own, part in self.pairs:
            _copy_part(own, part.to_local())
            if gradients and own.grad is not None:
                _copy_part(own.grad, part.grad.to_local())
        self._forget()
        self._become(self.working, self.cut)
        vars(self.module)["views"] = self.views

    def _become(self, shapes: list[dict[str, Any]], parameters: list[Any]) -> None:
        for module, shape in zip(self.modules, shapes, strict=True):
            module.__class__ = shape["class"]
            for name in _KEPT:
                setattr(module, name, shape[name])
        for (module, name), parameter in zip(self.places, parameters, strict=True):
            module._parameters[name] = parameter

    def _forget(self) -> None:
        for own, _ in self.pairs:
            own.data, own.grad = own.data.new_empty(0), None


def _shape(module: nn.Module) -> dict[str, Any]:
    """What `fully_shard` changes of a module beside its parameters."""
    return {"class": type(module), **{name: getattr(module, name).copy() for name in _KEPT}}


def _copy_part(value: Tensor, own: Tensor) -> None:
    """Of the rows of a whole tensor those of this process."""
    parts = value.chunk(ranks.world())
    if ranks.rank() < len(parts):
        own.copy_(parts[ranks.rank()])
