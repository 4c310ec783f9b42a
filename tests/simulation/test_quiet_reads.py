"""L20: what is read while all is quiet is found, but what must be read again and again."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from mooring.simulation.checks.quiet_reads import QuietReads
from mooring.simulation.engine.trace import Trace


def _complaints(mode: str, read: str) -> list[str]:
    """What is said of an agent that reads the volume v, or its VolumeAttachment."""
    trace = Trace(lambda: 100.0)
    cluster: Any = SimpleNamespace(trace=trace, silent=set())
    reads = QuietReads(cluster, SimpleNamespace(begins=50.0))  # pyright: ignore[reportArgumentType]
    for resource, name, spec in (
        ("persistentvolumes", "v", {"accessModes": [mode]}),
        ("volumeattachments.storage.k8s.io", "va", {"source": {"persistentVolumeName": "v"}}),
    ):
        body = json.dumps({"metadata": {"name": name, "uid": name}, "spec": spec}).encode()
        trace("store", "store.written", resource=resource, name=name, version=1, _body=body)
    for _ in range(3):
        trace(
            "n1", "asked.read", life="n1 1 ", resource=read, name="v" if read == "persistentvolumes" else "va"
        )
    return [words for _, words in reads.complaints()]


@pytest.mark.parametrize("read", ["persistentvolumes", "volumeattachments"])
def test_of_a_volume_that_only_one_pod_may_use_another_pod_of_the_node_is_tried_again(read: str):
    assert _complaints("ReadWriteOncePod", read) == []
    assert _complaints("ReadWriteOnce", read) == [f"node-agent reads {read} while all is quiet: 3 times"]
