"""Save memory layer by layer: shard weights over processes (`plan.shard`), or recompute layers (`plan.recompute`).

Sharded, by `fully_shard` of torch.distributed, each process holds its rows of every weight, of its gradient and of the
optimiser's state, and gathers a layer's whole weights only while the layer works. Everything outside the loop (hooks of
an objective, looks at dev, states, checkpoints) uses the objective within `unsharded`, where its weights are whole.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeGuard, cast

import torch
import torch.distributed as dist
import transformers
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from acclimate.core import ranks
from acclimate.training.plan import device

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor

# the attributes in which torch keeps the hooks of a module
HOOKS = (
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
)

Hooks = list[tuple[nn.Module, dict[str, Any]]]
_KEPT = (*HOOKS, "_state_dict_pre_hooks", "_load_state_dict_pre_hooks")  # what `fully_shard` adds to
_all_gather: Any = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)  # torch is renaming it
_NAME = "_acclimate_shards"  # in a sharded module's __dict__, where the garbage collector finds the circle


def shard(objective: nn.Module) -> None:
    """Cut the objective's weights over the processes, in place: its parameters become DTensors of the same names.

    On one process the objective stays as it is.
    """
    if ranks.world() > 1 and not is_sharded(objective):
        vars(objective)[_NAME] = ShardedModule(objective)


def is_sharded(objective: nn.Module) -> bool:
    return _NAME in vars(objective)


def let_go(objective: nn.Module) -> None:
    """Drop the whole weights of a sharded objective after a step's backward passes: its update makes them stale."""
    if is_sharded(objective):
        vars(objective)[_NAME].let_go()


@contextmanager
def unsharded(objective: nn.Module, *, gradients: bool = False) -> Iterator[None]:
    """In the block, make a sharded objective an ordinary one with whole weights; changes to them last.

    All processes enter the block together. An objective that is not sharded is always whole.
    gradients: gather the gradients too
    """
    shards: ShardedModule | None = vars(objective).get(_NAME)
    if shards is None:
        yield
        return
    shards.gather(gradients=gradients)
    try:
        yield
    finally:
        shards.scatter(gradients=gradients)


def end(objective: nn.Module) -> None:
    """Make a sharded objective an ordinary one for good. All processes call it together, after the last step."""
    if shards := vars(objective).pop(_NAME, None):
        shards.gather()


@torch.no_grad()
def gathered(value: Tensor) -> Tensor:
    """Return the whole tensor. All processes call it together if the tensor is cut over them."""
    if not _is_cut(value):
        return value
    # not `full_tensor`: torch's cache of it would keep the group of processes alive beyond its end
    part, rows, world = value.to_local(), len(value), ranks.world()
    padded = part.new_zeros(-(-rows // world), *value.shape[1:])
    padded[: len(part)] = part
    joined = part.new_empty(world * len(padded), *value.shape[1:])
    _all_gather(joined, padded)
    return joined[:rows].clone()


@torch.no_grad()
def clip(parameters: Iterable[nn.Parameter], most: float) -> float:
    """Shorten the gradient to the length `most`; return its L2 norm before that, over all processes.

    Where there are no shards, this calls `nn.utils.clip_grad_norm_`.
    """
    with_gradient = [parameter for parameter in parameters if parameter.grad is not None]
    gradients: list[Any] = [parameter.grad for parameter in with_gradient]
    if not any(map(_is_cut, gradients)):
        return float(nn.utils.clip_grad_norm_(with_gradient, most))
    parts = [gradient.to_local() for gradient in gradients]
    norm = ranks.added(nn.utils.get_total_norm(parts) ** 2).sqrt()
    for part in parts:
        part.mul_((most / (norm + 1e-6)).clamp(max=1.0))
    return float(norm)


def _is_cut(value: Any) -> TypeGuard[DTensor]:
    """Return True for a tensor that is cut over the processes.

    Importing its class takes half a second, and only what cuts tensors imports it.
    """
    tensors = sys.modules.get("torch.distributed.tensor")
    return tensors is not None and isinstance(value, tensors.DTensor)


def cut_like(value: Tensor, like: Tensor) -> Tensor:
    """Return this process's part of a whole tensor if `like`, of the same shape, is cut; else the tensor.

    It does not communicate.
    """
    if not _is_cut(like) or value.shape != like.shape:
        return value
    part = torch.empty_like(like.to_local(), dtype=value.dtype)
    _copy_part(value, part)
    from torch.distributed.tensor import DTensor

    return DTensor.from_local(
        part, like.device_mesh, like.placements, run_check=False, shape=value.shape, stride=like.stride()
    )


class ShardedModule:
    """A module in two states: cut, with what `fully_shard` made of it, or whole, as it was before."""

    def __init__(self, module: nn.Module) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

        module.to(device())
        self.module = module
        self.modules = list(module.modules())
        self.places = [
            (module, name)
            for module in self.modules
            for name in module._parameters
            if module._parameters[name] is not None
        ]
        self.wholes: list[Any] = [module._parameters[name] for module, name in self.places]
        self.plain = [_shape(module) for module in self.modules]
        mesh = init_device_mesh(device().type, (ranks.world(),))
        for layer in layers_in(module):
            fully_shard(layer, mesh=mesh)
        fully_shard(module, mesh=mesh)
        # an objective may differentiate within its forward pass; the rest of that pass still needs the whole weights
        cast(Any, module).set_reshard_after_backward(False, recurse=False)
        register_fsdp_forward_method(module, "views")
        self.cut: list[Any] = [module._parameters[name] for module, name in self.places]
        self.pairs = list({id(one): (one, other) for one, other in zip(self.wholes, self.cut, strict=True)}.values())
        self._forget()

    def let_go(self) -> None:
        from torch.distributed.fsdp import FSDPModule

        for module in self.modules:
            if isinstance(module, FSDPModule):
                module.reshard()

    @torch.no_grad()
    def gather(self, *, gradients: bool = False) -> None:
        self.let_go()
        for entire, part in self.pairs:
            entire.data = gathered(part).detach()
            if gradients and part.grad is not None:
                entire.grad = gathered(part.grad)
        self.working = [_shape(module) for module in self.modules]
        self._become(self.plain, self.wholes)
        self.views: Any = vars(self.module).pop("views")

    @torch.no_grad()
    def scatter(self, *, gradients: bool = False) -> None:
        for entire, part in self.pairs:
            _copy_part(entire, part.to_local())
            if gradients and entire.grad is not None:
                _copy_part(entire.grad, part.grad.to_local())
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
        for entire, _ in self.pairs:
            entire.data, entire.grad = entire.data.new_empty(0), None


def _shape(module: nn.Module) -> dict[str, Any]:
    """Return what `fully_shard` changes in a module besides its parameters."""
    return {"class": type(module), **{name: getattr(module, name).copy() for name in _KEPT}}


def _copy_part(entire: Tensor, part: Tensor) -> None:
    """Copy this process's rows of a whole tensor into `part`."""
    parts = entire.chunk(ranks.world())
    if ranks.rank() < len(parts):
        part.copy_(parts[ranks.rank()])


def layers_in(module: nn.Module) -> list[nn.Module]:
    """Return the layers of all encoders in the module, each encoder's from the lowest; [] if there are none.

    The layers of an encoder, whatever its family, are its longest list of modules.
    """
    if isinstance(module, transformers.PreTrainedModel):
        lists = [list(module_list) for module_list in module.modules() if isinstance(module_list, nn.ModuleList)]
        return max(lists, key=len, default=[])
    return [layer for child in module.children() for layer in layers_in(child)]


@contextmanager
def recomputed(objective: nn.Module, within: Callable[[], AbstractContextManager[Any]] = nullcontext) -> Iterator[None]:
    """In the block, let each layer keep only its input and run again in the backward pass (`plan.recompute`).

    The second run has the same dropout, precision and hooks (Chen et al., 2016, "Training Deep Nets with Sublinear
    Memory Cost").

    within  makes the block in which layers run, both times

    Raises ValueError if the objective has no layers.
    """
    layers = layers_in(objective)
    if not layers:
        raise ValueError(
            f"plan.recompute = true recomputes layers, but {type(objective).__name__} has no encoder with a list of "
            "layers. Set plan.recompute=false"
        )
    for layer in layers:
        layer.forward = _recomputing_forward(layer, within)
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


def _recomputing_forward(layer: nn.Module, within: Callable[[], AbstractContextManager[Any]]) -> Any:
    forward = layer.forward

    def run(*arguments: Any, **named: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*arguments, **named)
        if torch.compiler.is_compiling():
            return checkpoint(forward, *arguments, use_reentrant=False, **named)
        hooks = hooks_of(layer)

        def call_hooked(*inputs: Any, **named: Any) -> Any:
            with hooked(hooks), within():
                return forward(*inputs, **named)

        return checkpoint(call_hooked, *arguments, use_reentrant=False, **named)

    return run


def hooks_of(module: nn.Module) -> Hooks:
    """Return the present forward hooks of the module and of all modules in it."""
    return [(child, {name: getattr(child, name).copy() for name in HOOKS}) for child in module.modules()]


@contextmanager
def hooked(hooks: Hooks) -> Iterator[None]:
    """In the block, give modules these hooks, not their present ones, so that gates of an earlier pass work again."""

    def put(hooks: Hooks) -> None:
        for module, attributes in hooks:
            for name, values in attributes.items():
                setattr(module, name, values)

    present = [(module, {name: getattr(module, name) for name in attributes}) for module, attributes in hooks]
    put(hooks)
    try:
        yield
    finally:
        put(present)
