"""Operations that fail or hang by a disk's fault settings; and the command that sets them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner

from mooring.cli.main import cli
from mooring.volumes.errors import VolumeNotFound
from mooring.volumes.plugins import disk_faults as disk_trouble
from mooring.volumes.plugins.disk_array import NO_TROUBLE, Delays, DiskArray, Trouble
from mooring.volumes.plugins.disk_faults import DiskTrouble, meet_trouble

MIB = 1024 * 1024


@pytest.fixture
def array(tmp_path: Path) -> DiskArray:
    made = DiskArray(tmp_path / "array", "directory")
    made.create("d", MIB)
    return made


async def test_what_is_to_fail_fails_and_nothing_else(array: DiskArray):
    array.set_trouble("d", Trouble(fail=("attach",)))
    with pytest.raises(DiskTrouble, match="attach of disk d fails"):
        await meet_trouble(array, "d", "attach")
    await meet_trouble(array, "d", "detach")


async def test_what_sticks_ends_when_it_is_let_go(array: DiskArray, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(disk_trouble, "POLL_S", 0.001)
    array.set_trouble("d", Trouble(stick=("detach",)))
    waiting = asyncio.create_task(meet_trouble(array, "d", "detach"))
    _, pending = await asyncio.wait({waiting}, timeout=0.05)
    assert pending == {waiting}
    array.set_trouble("d", NO_TROUBLE)
    await waiting


async def test_a_disk_that_does_not_exist_makes_no_trouble_of_its_own(array: DiskArray):
    with pytest.raises(VolumeNotFound):
        await meet_trouble(array, "none", "attach")


def test_the_command_tells_a_disk_and_takes_it_back(array: DiskArray, tmp_path: Path):
    def mooring(*words: str) -> str:
        done = CliRunner().invoke(cli, ["disk", *words, "--data-dir", str(tmp_path)])
        return f"{done.exit_code} {done.output}"

    assert mooring("d", "--fail", "attach", "--stick", "detach", "--delay", "attachReply=1.5").startswith("0")
    assert array.get("d").trouble == Trouble(fail=("attach",), stick=("detach",))
    assert array.get("d").delays == Delays(attach_reply=1.5)
    assert mooring() == "0 d  1 MiB  detached  attach fails  detach sticks\n"
    assert mooring("d").startswith("0")
    assert (array.get("d").trouble, array.get("d").delays) == (NO_TROUBLE, Delays())
    assert "has the form" in mooring("d", "--delay", "attach=soon")
    assert "`mooring disk` lists them" in mooring("none")
