"""Sizes of encoders by name. Imports nothing that loads torch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Architecture = Literal["bert", "modernbert"]
Size = Literal["", "tiny", "mini", "small", "medium", "base", "large"]


@dataclass(frozen=True)
class Shape:
    """intermediate: width of the feed-forward layers; None: what `new_encoder` takes for the width."""

    layers: int
    hidden: int
    heads: int
    intermediate: int | None = None


# Devlin et al. (2019), section 3, for base and large; Turc et al. (2019), "Well-Read Students Learn Better", the rest.
_BERT = {
    "tiny": Shape(2, 128, 2),
    "mini": Shape(4, 256, 4),
    "small": Shape(4, 512, 8),
    "medium": Shape(8, 512, 8),
    "base": Shape(12, 768, 12),
    "large": Shape(24, 1024, 16),
}
# Warner et al. (2024), "Smarter, Better, Faster, Longer", table 4, has two; below them there are BERT's.
SIZES: dict[Architecture, dict[str, Shape]] = {
    "bert": _BERT,
    "modernbert": {**_BERT, "base": Shape(22, 768, 12, 1152), "large": Shape(28, 1024, 16, 2624)},
}


def shape_of(
    size: Size, architecture: Architecture, *, layers: int | None, hidden: int | None, heads: int | None
) -> Shape:
    """The shape of this name, or as stated number by number, where what is None is BERT-base's.

    Raises ValueError where a stated number is not that of the name.
    """
    stated = {
        name: value for name, value in (("layers", layers), ("hidden", hidden), ("heads", heads)) if value is not None
    }
    if not size:
        return replace(_BERT["base"], **stated)
    named = SIZES[architecture][size]
    for name, value in stated.items():
        if value != getattr(named, name):
            raise ValueError(
                f"size = '{size}' of {architecture} has {name} = {getattr(named, name)}, but {name} = {value} is "
                f"stated too. Leave one of them out, or state layers={named.layers} hidden={named.hidden} "
                f"heads={named.heads}"
            )
    return named
