"""Memory that the C library keeps between steps: on a CPU a tenth of a step of a small model was page faults.

glibc hands blocks above some 32 MB back to the system when they are freed, and gets them anew, page by page and zeroed,
in the next step: the gradient of a word embedding is one. Kept, they are there at once. A process then holds what it
held at its peak until it ends, which a training process does anyway.
"""

from __future__ import annotations

import ctypes
import platform

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # of mallopt(3)
_MOST = 2**31 - 1


def keep_freed_memory() -> bool:
    """For the rest of this process, free memory is reused before it is given back. False where there is no glibc."""
    if platform.libc_ver()[0] != "glibc":
        return False
    library = ctypes.CDLL(None)
    return bool(library.mallopt(_MMAP_MAX, 0)) and bool(library.mallopt(_TRIM_THRESHOLD, _MOST))
