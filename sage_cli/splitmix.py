"""SplitMix64, a random number for each counter (Steele, Lea and Flood 2014, Fig. 17).

Numbers are signed 64-bit, in tensors or in arrays of NumPy: torch has no unsigned products.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

Numbers = TypeVar("Numbers", "Tensor", "NDArray[np.int64]")
"""int64, of which products wrap around."""
GOLDEN = -0x61C8864680B583EB
"""The step of a stream: its t-th state is the seed + t times this (0x9E3779B97F4A7C15)."""
_MIX_1, _MIX_2 = -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15
"""0xBF58476D1CE4E5B9 and 0x94D049BB133111EB as signed numbers."""


def mixed(z: Numbers) -> Numbers:
    """Return SplitMix64's outputs of its states."""
    # products wrap modulo 2^64, in numpy as in torch; signed and unsigned products have the same 64
    # bits
    z = (z ^ shifted(z, 30)) * _MIX_1
    z = (z ^ shifted(z, 27)) * _MIX_2
    return z ^ shifted(z, 31)


def shifted(z: Numbers, bits: int) -> Numbers:
    """Return z shifted to the right as an unsigned number."""
    # `>>` of a negative number fills with ones from the left; the mask removes them
    return (z >> bits) & ((1 << (64 - bits)) - 1)
