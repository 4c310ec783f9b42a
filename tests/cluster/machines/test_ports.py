"""Disks of the array are plugged into machines with a kernel of their own, and taken out when those let them
go."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.cluster.machines.interface import DiskInUse
from mooring.cluster.machines.ports import serving
from mooring.mounts.blocking import blocking
from mooring.mounts.errors import DeviceBusy
from mooring.mounts.machine_ports import SOCKET, MachineDoesNotAnswer, plug, short_path, unplug
from mooring.volumes.plugins.disk_array import DiskArray
from mooring.volumes.plugins.disk_devices import DirectoryDevices, PluggedDevices


class PlayedMachine:
    """Remembers what is plugged in; refuses what is open."""

    name = "n"

    def __init__(self) -> None:
        self.disks: dict[str, str] = {}
        self.open: set[str] = set()

    async def add_disk(self, disk: str, device: str, link: str) -> None:
        self.disks[disk] = device

    async def remove_disk(self, disk: str) -> None:
        if disk in self.open:
            raise DiskInUse("the kernel of n has it open")
        self.disks.pop(disk, None)


async def test_a_disk_follows_its_attachment_and_stays_while_it_is_open(tmp_path: Path) -> None:
    machine = PlayedMachine()
    array = DiskArray(tmp_path, DirectoryDevices())
    array.create("d", 1 << 20)
    async with serving(tmp_path / "nodes" / "n", machine):  # type: ignore[arg-type]
        await blocking(array.attach, "d", "n")
        assert list(machine.disks) == ["d"]
        machine.open = {"d"}
        with pytest.raises(Exception, match="the kernel of n has it open"):
            await blocking(array.detach, "d", "n")
        assert array.attachments()["d"] == ("n",)
        machine.open = set()
        await blocking(array.detach, "d", "n")
        assert machine.disks == {}
        assert array.attachments()["d"] == ()


async def test_a_machine_whose_supervisor_is_away_makes_the_attach_fail_and_not_be_forgotten(
    tmp_path: Path,
) -> None:
    array = DiskArray(tmp_path, DirectoryDevices())
    array.create("d", 1 << 20)
    async with serving(tmp_path / "nodes" / "n", PlayedMachine()):  # type: ignore[arg-type]
        (tmp_path / "nodes" / "n" / SOCKET).rename(tmp_path / "nodes" / "n" / "away")
    (tmp_path / "nodes" / "n" / "away").rename(tmp_path / "nodes" / "n" / SOCKET)
    with pytest.raises(MachineDoesNotAnswer, match="the machine of n does not answer"):
        await blocking(array.attach, "d", "n")
    assert array.attachments()["d"] == ("n",)  # it may have been plugged in


async def test_a_node_that_shares_the_kernel_needs_no_port(tmp_path: Path) -> None:
    plug(tmp_path, "d", "/dev/loop0", "/d")
    unplug(tmp_path, "d")


@given(st.binary(max_size=200).filter(lambda line: b"\n" not in line))
def test_whatever_is_asked_is_answered_and_the_next_is_served(line: bytes) -> None:
    async def story() -> None:
        machine = PlayedMachine()
        with tempfile.TemporaryDirectory() as directory:
            node = Path(directory) / "n"
            async with serving(node, machine):  # type: ignore[arg-type]
                with short_path(node / SOCKET) as address:
                    reader, writer = await asyncio.open_unix_connection(address)
                writer.write(line + b"\n")
                assert (await reader.readline()).startswith(b"{")
                writer.close()
                await blocking(plug, node, "d", "/dev/loop0", "/d")
                machine.open = {"d"}
                with pytest.raises(DeviceBusy):
                    await blocking(unplug, node, "d")

    asyncio.run(story())


def test_inside_a_machine_a_device_is_the_disk_s_only_by_the_name_that_the_host_said(tmp_path: Path) -> None:
    class Here(PluggedDevices):
        known = tmp_path / "known"

    device = tmp_path / "ubdb"
    device.touch()
    link = tmp_path / "mooring-d"
    link.symlink_to(device)
    medium = tmp_path / "disks" / "d" / "disk.img"
    assert not Here().shows(str(link), medium)
    Here.known.mkdir()
    (Here.known / "ubdb").write_text("other")
    assert not Here().shows(str(link), medium)
    (Here.known / "ubdb").write_text("d")
    assert Here().shows(str(link), medium)
    device.unlink()
    assert not Here().shows(str(link), medium)
    with pytest.raises(Exception, match="outside of this machine"):
        Here().create(medium)
