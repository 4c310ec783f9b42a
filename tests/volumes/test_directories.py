"""A uid or a volume's name never leads out of the directory in which it is an entry."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.mounts.host import HostMounts
from mooring.node.process_runtime import ProcessRuntime
from mooring.node.runtime import ContainerSpec
from mooring.volumes.directories import entry
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.host import NodeVolumeHost

ELSEWHERE = ["", ".", "..", "../x", "/etc", "a/b", "a\0b", "n" * 256, "é" * 128]


async def nothing(namespace: str, name: str) -> None: ...


@given(st.text("ab./\0é~-", max_size=8) | st.text(max_size=20))
def test_an_entry_is_directly_below_its_directory(name: str):
    try:
        path = Path("/base") / entry(name)
    except (InvalidSpec, UnicodeEncodeError):
        return
    assert os.path.normpath(path) == f"/base/{name}"
    assert path.parent == Path("/base")


@pytest.mark.parametrize("name", ELSEWHERE)
@pytest.mark.parametrize("ask", [
    lambda host, name: host.pod_dir(name),
    lambda host, name: host.get_pod_volume_dir(name, "kubernetes.io/csi", "pv"),
    lambda host, name: host.get_pod_volume_dir("uid", "kubernetes.io/csi", name),
    lambda host, name: host.get_pod_device_path("uid", "kubernetes.io/csi", name),
])  # fmt: skip
def test_a_node_makes_no_path_of_a_name_that_leads_elsewhere(
    ask: Callable[[NodeVolumeHost, str], Path], name: str, tmp_path: Path
):
    host = NodeVolumeHost("n", tmp_path, HostMounts(), lambda: datetime.now(UTC), nothing, nothing)
    with pytest.raises(InvalidSpec):
        ask(host, name)


@pytest.mark.parametrize("name", ELSEWHERE)
async def test_the_runtime_makes_no_file_of_a_name_that_leads_elsewhere(name: str, tmp_path: Path):
    runtime = ProcessRuntime(tmp_path, "boot")
    with pytest.raises(InvalidSpec):
        runtime.log_files(name, "main", 0)
    with pytest.raises(InvalidSpec):
        await runtime.remove_sandbox(name)
    if name:
        with pytest.raises(InvalidSpec):
            await runtime.start_container("uid", ContainerSpec(name=name, attempt=0, argv=("true",), env={}))
