"""The examples of network storage do on real servers what the comments at their heads say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.machines.iscsi import need_iscsi, server_of
from tests.machines.pods import running

from mooring.cluster import control
from mooring.cluster.demo.scene import examples
from mooring.cluster.layout import ClusterError
from mooring.cluster.stage import Stage
from mooring.cluster.storage import programs
from mooring.cluster.storage.record import Kind
from mooring.kube.objects import Pod

pytestmark = [pytest.mark.root, pytest.mark.timeout(400), pytest.mark.soak]


async def applied(stage: Stage, name: str, directory: Path, **changes: str) -> None:
    """The example, in which these words are replaced."""
    text = (examples() / name).read_text()
    for word, other in changes.items():
        assert word in text, f"{name} has no {word} any more"
        text = text.replace(word, other)
    file = directory / name
    file.write_text(text)
    await stage.kubectl_do("apply", "-f", str(file))


async def phase(stage: Stage, name: str, wanted: str) -> None:
    async def reached() -> bool:
        return (await stage.client.get(Pod, name, "default")).status.phase == wanted

    await stage.until(f"pod {name} is {wanted}", reached, patience=120)


async def test_an_export_for_many_pods(stage: Stage, data_dir: Path, tmp_path: Path) -> None:
    try:
        programs.check(Kind.NFS)
    except ClusterError as error:
        pytest.skip(str(error))
    status, answer = await stage.command("storage", "nfs", "files", "--size", "64Mi")
    assert status == 0, answer
    (server,) = json.loads(await control.say(stage.layout.control, "storage-list", ""))
    await applied(stage, "nfs.yaml", tmp_path, SERVER=server["address"].partition(":")[0])
    await phase(stage, "writer", "Succeeded")
    await running(stage, "reader")
    assert await stage.kubectl_do("exec", "reader", "--", "cat", "/data/stamp") == "written"


async def test_a_lun_for_one_node(stage: Stage, data_dir: Path, tmp_path: Path) -> None:
    need_iscsi()
    server = await server_of(stage)
    portal, target = {"10.88.0.2:3260": f"{server['address']}"}, server["target"]
    await applied(
        stage, "iscsi.yaml", tmp_path, **portal, **{"iqn.2026-01.dev.mooring:storage.disks": target}
    )
    await running(stage, "iscsi-writer")

    async def written() -> bool:
        return "written" in await stage.kubectl_do("logs", "iscsi-writer")

    await stage.until("it says that it has written", written)
