"""Several processes of this machine, for work in Python that holds Python's lock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")


def in_processes(work: Callable[[Given], Made], items: Iterable[Given], processes: int) -> Iterator[Made]:
    """What the work makes of each item, in order; at most two items a process are under way or wait to be taken.

    work       a function of a module, with arguments that can be sent to another process (`functools.partial`)
    processes  1: here, item by item. More are started anew, for a copy of this one could wait for ever for a lock that
               one of its threads held; a script that calls this must guard its own start (`if __name__ == ...`)
    """
    if processes <= 1:
        yield from map(work, items)
        return
    waiting: deque[Future[Made]] = deque()
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > processes + 1:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
