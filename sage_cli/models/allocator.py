"""The allocator's handling of freed memory."""

from __future__ import annotations

import ctypes
import os
import sys

_SAID = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_MAX_", "GLIBC_TUNABLES")
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""malloc.h's M_TRIM_THRESHOLD and M_MMAP_THRESHOLD."""
_KEPT_BLOCK, _KEPT = 2**28, 2**30
"""Bytes of the largest block that is kept, and of all that is kept at the heap's end."""


def keep_freed_memory() -> bool:
    """Have freed blocks of up to 256 MB wait in this process for the next tensor, if that can be.

    As it comes, glibc gives every block above 32 MB back to the system at once. A training step
    frees and asks for the same logits dozens of times, and is given fresh pages to be cleared each
    time: a tenth of a small model's step (docs/results/speed.md). Larger blocks go back as
    before, since some of each size may be kept. What the environment says of glibc's allocator
    stays, and other systems' allocators are left alone. Returns whether it was done; mallopt(3).
    """
    if sys.platform != "linux" or any(name in os.environ for name in _SAID):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # musl
        return False
    return all([mallopt(_MMAP_THRESHOLD, _KEPT_BLOCK) == 1, mallopt(_TRIM_THRESHOLD, _KEPT) == 1])
