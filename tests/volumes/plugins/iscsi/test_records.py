"""open-iscsi's text, read and written."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from played_iscsi import PlayedKernel

from mooring.volumes.errors import InvalidSpec, VolumeError
from mooring.volumes.plugins.iscsi.devices import Devices
from mooring.volumes.plugins.iscsi.records import SESSION_AUTH, changed, chap, offers, rewrite
from mooring.volumes.plugins.iscsi.source import Portal
from mooring.volumes.plugins.programs import OUTPUT_BYTES, run

IQN = "iqn.2026-01.dev.mooring:storage.a"


def test_the_portals_of_the_target_are_found_among_others():
    text = f"10.0.0.1:3260,1 {IQN}\n[fd00::1]:3261,2 {IQN}\n10.0.0.1:3260,1 {IQN}.b\n"
    text += f"host:1,1 {IQN}\n10.0.0.9:1,-1 {IQN}\n?\n"
    assert offers(text, IQN) == {Portal("10.0.0.1"): 1, Portal("fd00::1", 3261): 2}


def test_a_record_keeps_its_other_lines():
    record = "# BEGIN RECORD\na.b = 1\na.bc = 2\n# END RECORD\n"
    assert changed(record, {"a.b": "3"}) == "# BEGIN RECORD\na.bc = 2\na.b = 3\n# END RECORD\n"
    with pytest.raises(VolumeError):
        changed("a.b = 1\n", {"a.b": "3"})


def test_a_record_that_others_could_read_cannot_be_read_by_them_any_more(tmp_path: Path):
    record = tmp_path / "default"
    record.write_text("# BEGIN RECORD\nlong = value\n# END RECORD\n")
    record.chmod(0o644)
    rewrite(record, {"long": "x"})
    assert record.stat().st_mode & 0o777 == 0o600
    assert record.read_text() == "# BEGIN RECORD\nlong = x\n# END RECORD\n"


@pytest.mark.parametrize(
    "value", [b"", b"a\nnode.startup = automatic", b" a", b"a ", b"\xff", "é".encode(), b"a" * 256, b"a\0"]
)
def test_a_secret_that_a_record_cannot_hold_is_refused_and_not_shown(value: bytes):
    data = {"node.session.auth.username": b"u", "node.session.auth.password": value}
    with pytest.raises(InvalidSpec, match=r"node\.session\.auth\.password of Secret a/b") as refused:
        chap(data, SESSION_AUTH, "Secret a/b")
    assert "automatic" not in str(refused.value)


def test_chap_needs_a_name_and_a_password():
    with pytest.raises(InvalidSpec, match="password"):
        chap({"node.session.auth.username": b"u"}, SESSION_AUTH, "Secret a/b")


async def test_a_program_that_does_not_end_is_killed_and_one_that_talks_for_ever_is_cut():
    assert (await run("sleep", "600", deadline_s=0.1)).status is None
    ended = await run(sys.executable, "-c", f"print('a' * {3 * OUTPUT_BYTES})", deadline_s=60)
    assert (ended.status, len(ended.output)) == (0, OUTPUT_BYTES)


def test_sessions_and_disks_are_read_from_the_kernels_tables(tmp_path: Path):
    kernel = PlayedKernel(tmp_path)
    kernel.disk(kernel.session(IQN, Portal("fd00::1", 3261)), 1, "naa.1")
    kernel.session("iqn.2026-01.dev.mooring:other", Portal("10.0.0.1"))
    seen = Devices(tmp_path / "sys", tmp_path / "dev")
    (session,) = seen.sessions(IQN)
    assert (session.portal, session.interface, session.state, session.host) == (
        Portal("fd00::1", 3261),
        "default",
        "LOGGED_IN",
        "host1",
    )
    (unit,) = seen.units([session])
    assert (unit.name, unit.lun, unit.wwid, unit.size, unit.number) == ("sda", 1, "naa.1", 64 << 20, (8, 0))
    assert seen.units([session], 2) == []
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/sda").write_text("")
    assert seen.path(unit) is None, "no device of that number"


def test_what_is_damaged_or_going_is_left_out(tmp_path: Path):
    kernel = PlayedKernel(tmp_path)
    directory = kernel.session(IQN, Portal("10.0.0.1"))
    kernel.disk(directory, 1, "naa.1")
    (size,) = directory.glob("*/*/block/sda/size")
    size.unlink()
    seen = Devices(tmp_path / "sys", tmp_path / "dev")
    assert seen.units(seen.sessions(IQN)) == []
    (tmp_path / "sys/class/iscsi_session/session1/targetname").unlink()
    assert seen.sessions(IQN) == []


def test_a_scan_looks_for_one_lun_and_a_disk_is_dropped_by_its_own_device(tmp_path: Path):
    kernel = PlayedKernel(tmp_path)
    kernel.disk(kernel.session(IQN, Portal("10.0.0.1")), 3, "naa.3")
    seen = Devices(tmp_path / "sys", tmp_path / "dev")
    (session,) = seen.sessions(IQN)
    (tmp_path / "sys/class/scsi_host/host1").mkdir(parents=True)
    seen.scan(session, 3)
    assert (tmp_path / "sys/class/scsi_host/host1/scan").read_text() == "- - 3"
    (unit,) = seen.units([session])
    seen.forget(unit)
    assert (unit.directory / "delete").read_text() == "1"
