"""A Ray cluster of two nodes on this machine, which notices within seconds that one of them died."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest


@contextlib.contextmanager
def two_nodes(**environment: str) -> Iterator[Any]:
    """Two nodes with a processor each, of which `second` may be killed; environment: of their processes, and more."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        for name, value in ({"RAY_USAGE_STATS_ENABLED": "0"} | environment).items():
            patch.setenv(name, value)
        size = {"num_cpus": 1, "object_store_memory": 80 << 20}
        noticed = {
            "health_check_initial_delay_ms": 0,
            "health_check_period_ms": 500,
            "health_check_failure_threshold": 4,
        }
        first = {**size, "include_dashboard": False, "_system_config": noticed}
        cluster = Cluster(initialize_head=True, head_node_args=first)
        cluster.second = cluster.add_node(**size)
        yield cluster
        cluster.shutdown()
