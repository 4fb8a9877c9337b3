"""Work in this process, and what is said where there is no cluster.

tests/text/bm25/test_shards_ray.py works on a real one.
"""

import subprocess
import sys

import pytest

from acclimate import __version__
from acclimate.core import machines
from acclimate.core.machines import SerialPool, workers


def test_no_cluster_is_this_process_and_calls_are_made_one_by_one():
    called: list[int] = []
    with workers() as work:
        assert work == SerialPool()
        results = work.map(lambda number: called.append(number) or number * 2, [1, 2, 3], home=int)
        assert called == []
        assert next(results) == 2
        assert called == [1]
        assert list(results) == [4, 6]


def test_ray_is_loaded_for_a_cluster_only():
    script = (
        "import sys; from acclimate.core import machines; machines.workers().__enter__(); print('ray' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_ray_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"pip install 'acclimate\[ray\]'"), workers("auto"):
        pass


def test_an_address_where_nobody_answers_is_named_at_once():
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'acclimate[ray]'")
    with (
        pytest.raises(ValueError, match=r"no Ray cluster responds at '127\.0\.0\.1:1'.*Start one"),
        workers("127.0.0.1:1"),
    ):
        pass
    for address in ("local", "host:", ":6379"):
        with pytest.raises(ValueError, match="is not an address"), workers(address):
            pass


def test_a_machine_with_another_release_is_named():
    assert machines._call(len, "four", __version__) == 4
    with pytest.raises(ValueError, match=r"but the command runs 0\.0\.0\. Install the same"):
        machines._call(len, "four", "0.0.0")
