"""Compile loops over arrays with numba: functions that release Python's global lock."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

from acclimate.core import mixing

Kernel = TypeVar("Kernel", bound=Callable[..., Any])
BARE: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # saves a sixth of the time to compile


def compiled(function: Kernel, *, fastmath: bool | set[str] = False) -> Kernel:
    """Compile a function that Python calls, on its first call, and cache it on disk if the place is writable.

    numba's cache holds pickles. So it is used only where `only_ours` is True.

    numba renews a cached function when its file changes; after a change of this file, `touch` those that import it.
    fastmath: as in numba; "reassoc" allows sums in any order, so that vector instructions can take them
    """
    compiler = partial(numba.njit, nogil=True, fastmath=fastmath, no_cfunc_wrapper=True)
    try:
        cached = compiler(cache=True)(function)
    except RuntimeError as error:
        if "cannot cache function" not in str(error):
            raise  # else no cache directory is writable
    else:
        place = str(cached.stats.cache_path)
        if only_ours(Path(place), Path(function.__code__.co_filename)):
            return cast(Kernel, cached)
        _warn(place)
    return cast(Kernel, compiler()(function))  # every process compiles for itself


def only_ours(place: Path, source: Path) -> bool:
    """True if the folder of a cache is of this user, root or the owner of the source file, and not all can write it.

    A folder that its group can write is used: a umask of 002, with a group for each user, is common.

    The folder above it counts, too: one who may rename a folder can put another in its place.
    """
    trusted = {0, os.getuid(), source.stat().st_uid if source.exists() else 0}
    for folder in (place, place.parent):
        if not folder.exists():
            continue
        about = folder.stat()
        shared = about.st_mode & stat.S_IWOTH and not (folder != place and about.st_mode & stat.S_ISVTX)
        if about.st_uid not in trusted or shared:
            return False
    return True


@cache  # once for each folder
def _warn(place: str) -> None:
    logging.getLogger(__name__).warning(
        f"{place}: others can write to this folder, so its compiled code is not used and each process compiles "
        "again. Set NUMBA_CACHE_DIR to a folder that only you can write"
    )


def part(function: Kernel, *, fastmath: bool | set[str] = False) -> Kernel:
    """Compile a function that only compiled functions call; a call from Python would crash."""
    return cast(Kernel, numba.njit(nogil=True, fastmath=fastmath, **BARE)(function))


def run_threads(loop: Callable[..., Any], bounds: Sequence[int], *arguments: Any) -> None:
    """Call loop(begin, end, *arguments) for each pair of neighbours in `bounds`, ascending, in threads of their own."""
    parts = [(int(begin), int(end)) for begin, end in pairwise(bounds) if begin < end]
    if len(parts) == 1:
        loop(*parts[0], *arguments)
        return
    for running in [_pool(len(bounds) - 1).submit(loop, *span, *arguments) for span in parts]:
        running.result()


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="compiled")


os.register_at_fork(after_in_child=_pool.cache_clear)  # a child process has no threads of its parent


mix = part(mixing.mix)
