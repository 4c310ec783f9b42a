"""The driver's process ends at every await of every node operation, or its caller gives up: the next call
goes on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest
from crashes import ended_at
from ebs_machine import TIMEOUT_S, VOLUME, EbsMachine, mounted, raw

from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.rpc import Node, Rpc
from mooring.mounts import filesystem
from mooring.mounts.host import HostMounts

pytestmark = pytest.mark.root


@pytest.fixture
def machine(tmp_path: Path) -> Generator[EbsMachine]:
    made = EbsMachine(tmp_path)
    made.attach()
    yield made
    made.clean_up()


def requests(machine: EbsMachine, use: csi.VolumeCapability) -> list[tuple[Rpc[Any, Any], Any]]:
    staging, target = str(machine.staging()), str(machine.target())
    publish = {"devicePath": "/dev/xvdba"}
    return [
        (
            Node.node_stage_volume,
            csi.NodeStageVolumeRequest(
                volume_id=VOLUME, staging_target_path=staging, volume_capability=use, publish_context=publish
            ),
        ),
        (
            Node.node_publish_volume,
            csi.NodePublishVolumeRequest(
                volume_id=VOLUME,
                staging_target_path=staging,
                target_path=target,
                volume_capability=use,
                publish_context=publish,
            ),
        ),
        (Node.node_expand_volume, csi.NodeExpandVolumeRequest(volume_id=VOLUME, volume_path=target)),
        (Node.node_unpublish_volume, csi.NodeUnpublishVolumeRequest(volume_id=VOLUME, target_path=target)),
        (
            Node.node_unstage_volume,
            csi.NodeUnstageVolumeRequest(volume_id=VOLUME, staging_target_path=staging),
        ),
    ]


@pytest.mark.parametrize("use", [mounted(), raw()], ids=["mounted", "raw"])
async def test_whenever_it_ends_the_next_call_completes_what_was_begun(
    machine: EbsMachine, use: csi.VolumeCapability
):
    after: list[list[str]] = []
    for rpc, request in requests(machine, use):
        await machine.client.call(rpc, request, TIMEOUT_S)
        after.append(machine.mounts())
    deaths, steps = 1, 0
    while deaths:
        deaths = 0
        _blank(machine)
        for (rpc, request), there in zip(requests(machine, use), after, strict=True):
            deaths += await ended_at(getattr(machine.service, rpc.attribute)(request), steps)
            machine.restart(HostMounts())
            await machine.client.call(rpc, request, TIMEOUT_S)
            assert machine.mounts() == there, (rpc.name, steps)
        steps += 1
    assert steps > 5


def _blank(machine: EbsMachine) -> None:
    """A new volume, so that each round formats."""
    machine.detach()
    os.unlink(machine.root / f"{VOLUME}.img")
    machine.attach()


class Gated(HostMounts):
    """Waits at a gate before it mounts, with the device formatted and checked already."""

    def __init__(self) -> None:
        self.reached, self.gate = asyncio.Event(), asyncio.Event()

    async def mount(self, source: str, target: str, fs_type: str, options: Sequence[str] = ()) -> None:
        self.reached.set()
        await self.gate.wait()
        await super().mount(source, target, fs_type, options)


async def test_a_caller_that_gives_up_ends_its_call_and_not_the_work(
    machine: EbsMachine, monkeypatch: pytest.MonkeyPatch
):
    formats: list[str] = []
    real = filesystem.make_filesystem

    async def counted(device: str, fs_type: str, options: Sequence[str] = ()) -> None:
        formats.append(device)
        await real(device, fs_type, options)

    monkeypatch.setattr(filesystem, "make_filesystem", counted)
    mounts = Gated()
    machine.restart(mounts)
    call = asyncio.create_task(machine.stage())
    await mounts.reached.wait()
    call.cancel()
    await asyncio.wait({call})
    with pytest.raises(CsiError) as caught:
        await machine.stage()
    assert caught.value.code is Code.ABORTED
    mounts.gate.set()
    await machine.dispatcher.finish()
    await machine.stage()
    assert machine.mounts() == [str(machine.staging())]
    assert len(formats) == 1


@pytest.mark.parametrize("seam", ["make_filesystem", "check_filesystem"])
async def test_a_process_that_ended_right_after_a_tool_leaves_a_volume_that_can_be_staged(
    machine: EbsMachine, monkeypatch: pytest.MonkeyPatch, seam: str
):
    if seam == "check_filesystem":
        await machine.stage()
        await machine.unstage()
    real = getattr(filesystem, seam)

    async def dying(*given: Any) -> None:
        await real(*given)
        raise asyncio.CancelledError

    monkeypatch.setattr(filesystem, seam, dying)
    with pytest.raises((CsiError, asyncio.CancelledError)):
        await machine.stage()
    assert machine.mounts() == []
    monkeypatch.undo()
    machine.restart(HostMounts())
    await machine.stage()
    assert machine.mounts() == [str(machine.staging())]
