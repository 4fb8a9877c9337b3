"""Retrieval in shards on two Ray nodes of this machine: what one process finds, also when a node dies meanwhile."""

import os
import random
import signal
import time

import numpy as np
import pytest

from acclimate.core.machines import RayPool, SerialPool, workers
from acclimate.core.types import Document, Example, Progress
from acclimate.data.corpus_scan import leave_out
from acclimate.data.leaks import Sealed
from acclimate.text.bm25.selection import select
from acclimate.text.bm25.shards import build_shards, open_shards
from acclimate.text.corpus import write_corpus
from ray_nodes import two_nodes

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'acclimate[ray]'")
WORDS = [f"word{number}" for number in range(200)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    generator = random.Random(3)
    texts = (" ".join(generator.choices(WORDS, k=generator.randint(3, 60))) for _ in range(400))
    documents = (Document(f"d{number}", text) for number, text in enumerate(texts))
    return write_corpus(documents, tmp_path_factory.mktemp("ray") / "corpus")


@pytest.fixture(scope="module")
def queries():
    generator = random.Random(5)
    return [*(" ".join(generator.choices(WORDS, k=generator.randint(1, 60))) for _ in range(30)), "", "zebra"]


@pytest.fixture(scope="module")
def cluster():
    with two_nodes() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def work(cluster):
    with workers(cluster.address) as work:
        yield work


def test_tasks_come_back_in_order_from_both_nodes(work):
    def where(number: int) -> tuple[int, str]:
        return number, ray.get_runtime_context().get_node_id()

    found = list(work.map(where, range(9), home=lambda number: number))
    assert [number for number, _ in found] == list(range(9))
    homes = [node for _, node in found]
    assert homes[:2] * 4 == homes[:8]  # the same number, the same node
    assert len(set(homes)) == 2


def test_what_a_task_raises_is_raised(work):
    def fails(number: int) -> int:
        raise ValueError(f"no {number}")

    with pytest.raises(ValueError, match=r"^no 3$"):
        list(work.map(fails, [3, 4]))


def test_shards_on_two_nodes_find_what_one_process_finds(work, corpus, queries, tmp_path):
    assert isinstance(work, RayPool)
    far = build_shards(corpus, tmp_path / "far", shards=5, pool=work)
    near = build_shards(corpus, tmp_path / "near", shards=1, pool=SerialPool())
    found, expected = far.search(queries, 50), near.search(queries, 50)
    for name in ("offsets", "documents", "scores"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    assert far.explain(queries[0], 390) == near.explain(queries[0], 390)
    asked = [(f"q{number}", text) for number, text in enumerate(queries)]
    chosen = [select(index, asked, tmp_path / f"chosen-{index.path.name}", k=9) for index in (far, near)]
    assert np.array_equal(chosen[0].documents, chosen[1].documents)
    assert open_shards(tmp_path / "far", pool=work).shards == open_shards(tmp_path / "far").shards == far.shards


def test_two_nodes_leave_out_what_one_process_leaves_out(work, corpus, tmp_path):
    texts = [document.text for document in corpus.documents()]
    sealed = Sealed({"dev": [Example("a", texts[7], "x")], "test": [Example("b", f"{texts[391]} more", "x")]})
    parts = {"far": {"shards": 5, "pool": work}, "near": {}}
    far, near = (leave_out(corpus, sealed, tmp_path / name, passages=True, **part) for name, part in parts.items())
    assert far.facts == near.facts
    assert {7, 391} <= set(np.flatnonzero(far.mask(copies=False))) == set(np.flatnonzero(near.mask(copies=False)))


def test_a_node_that_dies_does_not_lose_the_build(cluster, work, corpus, queries, tmp_path):
    """The last test of the module: one node is left afterwards."""
    raylet = cluster.second.all_processes["raylet"][0].process.pid

    killed = []

    def killing(progress: Progress) -> None:
        if not killed:
            os.kill(raylet, signal.SIGKILL)
            killed.append(progress.done)

    built = build_shards(corpus, tmp_path / "index", shards=6, pool=work, watch=killing)
    patience = time.monotonic() + 60  # the cluster takes a while to see that a node is gone
    while sum(node["Alive"] for node in ray.nodes()) > 1 and time.monotonic() < patience:
        time.sleep(0.2)
    assert sum(node["Alive"] for node in ray.nodes()) == 1
    one = build_shards(corpus, tmp_path / "one")
    assert np.array_equal(built.search(queries, 20).documents, one.search(queries, 20).documents)
