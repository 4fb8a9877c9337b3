import platform
import subprocess
import sys

import pytest

SCRIPT = """
import resource, torch
from acclimate.training.loop import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.zeros(12_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

first = faults()
print(keep_freed_memory())
faults()
print(faults() < first / 10)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="no glibc")
def test_a_large_block_that_was_freed_is_there_at_once_when_it_is_needed_again():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]


def test_elsewhere_nothing_is_done(monkeypatch):
    from acclimate.training import loop

    monkeypatch.setattr(loop.platform, "libc_ver", lambda: ("", ""))
    assert not loop.keep_freed_memory()
