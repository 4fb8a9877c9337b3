"""The finaliser of splitmix64, on numbers in compiled loops and on arrays of NumPy.

Steele, Lea and Flood, Fast splittable pseudorandom number generators, OOPSLA 2014.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# numba turns a signed and an unsigned operand into a float, so each constant that is combined with a hash is unsigned
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
STRIDE = np.uint64(0x9E3779B97F4A7C15)  # between the states of splitmix64
_27, _30, _31 = np.uint64(27), np.uint64(30), np.uint64(31)


def mix(value: Any) -> Any:
    """Return a 64-bit hash of which each bit depends on all bits of the value."""
    value = (value ^ (value >> _30)) * _FIRST
    value = (value ^ (value >> _27)) * _SECOND
    return value ^ (value >> _31)
