"""A node logs in to a target with its first volume and out with its last, whatever fails on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from played_iscsi import PlayedIscsiadm, PlayedKernel

from mooring.volumes.errors import (
    DeviceNotAttached,
    DeviceStillInUse,
    InvalidSpec,
    OutcomeUnknown,
    VolumeError,
    WrongDevice,
)
from mooring.volumes.plugins.iscsi import sessions as sessions_module
from mooring.volumes.plugins.iscsi.iscsiadm import Iscsiadm
from mooring.volumes.plugins.iscsi.notes import Note, Notes
from mooring.volumes.plugins.iscsi.sessions import Chap, Sessions
from mooring.volumes.plugins.iscsi.source import Disk, Portal
from mooring.volumes.plugins.programs import Ended

TARGET = "iqn.2026-01.dev.mooring:storage.a"
ONE, TWO = Portal("10.88.0.2"), Portal("fd00::2", 3261)
DISK = Disk(TARGET, 1, (ONE,))
BOTH = Disk(TARGET, 1, (ONE, TWO))
SECOND = Disk(TARGET, 2, (ONE,))
NONE = Chap({}, {})
PATH, OTHER = "/p/iface-default/10.88.0.2:3260-a-lun-1", "/p/iface-default/10.88.0.2:3260-a-lun-2"
UNREACHABLE = Ended(8, errors="connect to 10.88.0.2 timed out")


class Killed(Exception):
    """The agent ends here; nothing that it does after that happens."""


class Node:
    """A node with its agent, which can be started anew."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.kernel = PlayedKernel(root)
        self.iscsiadm = PlayedIscsiadm(self.kernel, TARGET)
        self.steps = 0
        self.dies_at: int | None = None
        self.start()

    def start(self, boot: str = "boot-1") -> None:
        """An agent that knows nothing but what is written down."""
        self.dies_at = None
        notes = Notes(self.root / "plugin", boot)
        for each in ("save", "remove", "begin", "end"):
            setattr(notes, each, self._step(getattr(notes, each)))
        run: Any = self._run
        self.notes = notes
        self.sessions = Sessions(notes, Iscsiadm(run, (self.iscsiadm.records,)), self.kernel, "a", run)

    def _step(self, act: Callable[..., None]) -> Callable[..., None]:
        def stepped(*given: Any) -> None:
            self._count()
            act(*given)

        return stepped

    async def _run(self, *words: str, deadline_s: float) -> Ended:
        self._count()
        return await self.iscsiadm(*words, deadline_s=deadline_s)

    def _count(self) -> None:
        if self.dies_at is not None and self.steps >= self.dies_at:
            raise Killed
        self.steps += 1

    async def connect(self, disk: Disk = DISK, path: str = PATH, chap: Chap = NONE, **how: Any) -> str:
        return await self.sessions.connect(disk, path, chap, **{"block": False, "in_use": False, **how})

    def left(self) -> list[str]:
        """What is left on the node: sessions, records of open-iscsi, notes, and keys at the
        disk."""
        records = [str(each) for each in self.iscsiadm.records.rglob("*") if each.is_file()]
        written = [str(each) for each in (self.root / "plugin").rglob("*.json")]
        keys = map(hex, self.iscsiadm.disk.keys.values())
        return [*(each.name for each in self.kernel.sessions(TARGET)), *records, *written, *keys]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    monkeypatch.setattr(sessions_module, "APPEAR_S", 0.05)
    monkeypatch.setattr(sessions_module, "POLL_S", 0.01)
    return Node(tmp_path)


async def test_a_volume_is_connected_and_nothing_is_left_of_it_when_it_is_released(node: Node):
    assert await node.connect() == "/dev/sda"
    await node.sessions.release(PATH)
    assert node.left() == []
    assert node.kernel.flushed == ["/dev/sda"]


async def test_to_connect_or_release_again_changes_nothing(node: Node):
    assert await node.connect() == await node.connect() == "/dev/sda"
    assert node.iscsiadm.asked("--login") == 1
    await node.sessions.release(PATH)
    with pytest.raises(VolumeError, match="does not say"):
        await node.sessions.release(PATH)


async def test_a_login_is_only_of_the_luns_that_volumes_use_and_never_made_anew_at_boot(node: Node):
    await node.connect()
    (record,) = (each for each in node.iscsiadm.records.rglob("default"))
    lines = record.read_text().splitlines()
    assert "node.session.scan = manual" in lines
    assert "node.startup = manual" in lines
    assert "node.startup = automatic" not in lines
    assert lines[-1] == "# END RECORD"


async def test_the_session_stays_as_long_as_another_volume_of_the_target_is_connected(node: Node):
    await node.connect()
    await node.connect(SECOND, OTHER)
    await node.sessions.release(PATH)
    assert node.iscsiadm.asked("--logout") == 0
    assert [unit.lun for unit in node.kernel.units(node.kernel.sessions(TARGET))] == [2]
    await node.sessions.release(OTHER)
    assert node.left() == []


async def test_volumes_of_one_target_at_once_share_one_login(node: Node):
    await asyncio.gather(node.connect(), node.connect(SECOND, OTHER))
    assert node.iscsiadm.asked("--login") == 1
    await asyncio.gather(node.sessions.release(PATH), node.sessions.release(OTHER))
    assert node.left() == []


async def test_a_session_that_was_there_before_is_used_and_stays(node: Node):
    node.kernel.session(TARGET, ONE)
    await node.connect()
    await node.sessions.release(PATH)
    assert node.iscsiadm.asked("--login") == node.iscsiadm.asked("--logout") == 0
    assert node.left() == ["session1"]


async def test_a_session_whose_other_disks_are_in_use_is_not_ended(node: Node):
    await node.connect()
    (session,) = node.kernel.sessions(TARGET)
    node.kernel.used.add(f"/dev/{node.kernel.disk(session.directory, 7, 'naa.07')}")
    await node.sessions.release(PATH)
    assert node.iscsiadm.asked("--logout") == 0
    assert len(node.kernel.sessions(TARGET)) == 1


async def test_a_disk_that_somebody_uses_is_not_let_go_of(node: Node):
    node.kernel.used.add(await node.connect())
    with pytest.raises(DeviceStillInUse):
        await node.sessions.release(PATH)
    assert len(node.kernel.sessions(TARGET)) == 1
    node.kernel.used.clear()
    await node.sessions.release(PATH)
    assert node.left() == []


async def test_all_portals_are_used_and_left(node: Node):
    await node.connect(BOTH)
    assert {each.portal for each in node.kernel.sessions(TARGET)} == {ONE, TWO}
    await node.sessions.release(PATH)
    assert node.left() == []


async def test_one_portal_that_does_not_answer_does_not_keep_the_volume_away(node: Node):
    node.iscsiadm.fails[("sendtargets", str(ONE))] = UNREACHABLE
    await node.connect(BOTH)
    assert [each.portal for each in node.kernel.sessions(TARGET)] == [TWO]
    await node.sessions.release(PATH)
    assert node.left() == []


async def test_a_portal_that_does_not_answer_is_named_and_leaves_nothing_after_release(node: Node):
    node.iscsiadm.fails[("sendtargets",)] = UNREACHABLE
    with pytest.raises(VolumeError, match=r"10\.88\.0\.2:3260.*does not answer"):
        await node.connect()
    await node.sessions.release(PATH)
    assert node.left() == []


async def test_a_session_that_has_lost_its_connection_is_not_mounted_from(node: Node):
    node.kernel.session(TARGET, ONE, state="FAILED")
    with pytest.raises(VolumeError, match="lost its connection"):
        await node.connect()


async def test_a_target_that_is_offered_elsewhere_only_is_said_to_be(node: Node):
    node.iscsiadm.fails[("sendtargets",)] = Ended(0, f"10.0.0.9:3260,1 {TARGET}\n")
    with pytest.raises(VolumeError, match=r"at 10\.0\.0\.9:3260"):
        await node.connect()
    assert node.iscsiadm.asked("--login") == 0


async def test_wrong_credentials_are_said_to_be(node: Node):
    node.iscsiadm.fails[("--login",)] = Ended(24, errors="login failed due to authorization failure")
    with pytest.raises(VolumeError, match="refuses the login"):
        await node.connect()
    await node.sessions.release(PATH)
    assert node.left() == []


async def test_a_secret_is_in_a_record_that_only_root_reads_and_in_no_argument(node: Node):
    auth = {"node.session.auth.authmethod": "CHAP", "node.session.auth.password": "s3cret"}
    found = {"discovery.sendtargets.auth.password": "s3cret"}
    await node.connect(chap=Chap(found, auth))
    (record,) = (each for each in node.iscsiadm.records.rglob("default"))
    assert "node.session.auth.password = s3cret" in record.read_text().splitlines()
    assert record.stat().st_mode & 0o777 == 0o600
    assert not list(node.iscsiadm.records.rglob("st_config"))
    assert not any("s3cret" in word for call in node.iscsiadm.calls for word in call)
    assert not any("s3cret" in each.read_text() for each in (node.root / "plugin").rglob("*.json"))
    await node.sessions.release(PATH)
    assert node.left() == []


@pytest.mark.parametrize("happened", [True, False])
async def test_a_login_of_unknown_outcome_is_said_to_be_and_undone(node: Node, happened: bool):
    node.iscsiadm.fails[("--login",)] = Ended(None)
    if happened:
        node.iscsiadm.late.add(("--login",))
        assert await node.connect() == "/dev/sda"
    else:
        with pytest.raises(OutcomeUnknown):
            await node.connect()
    await node.sessions.release(PATH)
    assert node.left() == []


async def test_a_login_that_happens_after_it_was_given_up_is_found_and_ended(node: Node):
    node.iscsiadm.fails[("--login",)] = Ended(None)
    with pytest.raises(OutcomeUnknown):
        await node.connect()
    node.kernel.session(TARGET, ONE)
    await node.sessions.release(PATH)
    assert node.left() == []


async def test_a_logout_of_unknown_outcome_is_tried_again(node: Node):
    await node.connect()
    node.iscsiadm.fails[("--logout",)] = Ended(None)
    with pytest.raises(OutcomeUnknown):
        await node.sessions.release(PATH)
    node.iscsiadm.fails.clear()
    node.start()
    await node.sessions.release(PATH)
    assert node.left() == []


async def test_writes_that_cannot_be_flushed_do_not_keep_the_session_for_ever(
    node: Node, monkeypatch: pytest.MonkeyPatch
):
    await node.connect()

    def broken(path: str) -> None:
        raise OSError(5, "Input/output error", path)

    monkeypatch.setattr(node.kernel, "flush", broken)
    await node.sessions.release(PATH)
    assert node.left() == []


async def test_a_lun_that_the_target_does_not_map_does_not_appear(node: Node):
    node.kernel.luns = {}
    with pytest.raises(DeviceNotAttached, match="LUN 1"):
        await node.connect()


async def test_a_lun_that_has_become_another_disk_is_that_disk_at_the_next_mount(node: Node):
    await node.connect()
    await node.connect(SECOND, OTHER)
    await node.sessions.release(PATH)
    node.kernel.luns[1] = "naa.99"
    assert await node.connect() == "/dev/sdc"
    assert node.notes.find(PATH).wwid == "naa.99"  # type: ignore[union-attr]


async def test_a_lun_that_becomes_another_disk_while_it_is_mounted_is_found_out(node: Node):
    await node.connect()
    node.kernel.luns[1] = "naa.99"
    with pytest.raises(WrongDevice, match=r"naa\.99.*naa\.01"):
        await node.connect(in_use=True)
    with pytest.raises(WrongDevice):
        await node.sessions.refresh(DISK, PATH)


async def test_portals_that_show_different_disks_are_refused(node: Node):
    node.kernel.disk(node.kernel.session(TARGET, ONE), 1, "naa.01")
    node.kernel.disk(node.kernel.session(TARGET, TWO), 1, "naa.02")
    node.kernel.rescan = lambda unit: None  # type: ignore[method-assign, assignment]
    with pytest.raises(WrongDevice, match="different disks"):
        await node.connect(BOTH)


async def test_a_disk_that_comes_back_under_another_name_is_found_by_its_lun(node: Node):
    await node.connect()
    node.kernel.end(TARGET, ONE, "default")
    node.start()
    assert await node.connect(in_use=True) == "/dev/sdb"
    await node.sessions.release(PATH)
    assert node.kernel.flushed == ["/dev/sdb"]
    assert node.left() == []


async def test_a_name_of_a_device_that_pods_have_as_another_disk_is_not_given_again(node: Node):
    await node.connect(block=True)
    node.kernel.end(TARGET, ONE, "default")
    node.kernel.disks = 0
    with pytest.raises(VolumeError, match="delete those pods"):
        await node.connect(SECOND, OTHER, block=True)


async def given_again(node: Node, disk: Disk, path: str) -> str:
    """As the plugin sets a raw device up."""
    return await node.connect(disk, path, block=True, in_use=await node.sessions.has(path))


async def test_raw_devices_that_have_changed_names_with_a_new_boot_are_given_all_the_same(node: Node):
    await given_again(node, DISK, PATH)
    await given_again(node, SECOND, OTHER)
    node.kernel.end(TARGET, ONE, "default")
    node.kernel.disks = 0
    node.start(boot="boot-2")
    assert await given_again(node, SECOND, OTHER) == "/dev/sda"
    assert await given_again(node, DISK, PATH) == "/dev/sdb"


async def test_a_raw_device_stays_known_when_the_agent_alone_is_a_newer_one(node: Node):
    """Its note is of a version whose notes named no boot."""
    device = await node.connect(block=True)
    (note,) = (node.root / "plugin/notes").glob("*.json")
    note.write_text(note.read_text().replace('"boot":"boot-1"', '"boot":""'))
    node.start()
    assert await node.sessions.block_path(device) == PATH


async def test_a_raw_device_of_before_the_last_boot_does_not_keep_its_name_for_ever(node: Node):
    await node.connect(block=True)
    node.kernel.end(TARGET, ONE, "default")
    node.kernel.disks = 0
    node.start(boot="boot-2")
    assert await node.sessions.block_path("/dev/sda") is None
    assert await node.connect(SECOND, OTHER, block=True) == "/dev/sda"
    await node.sessions.release(OTHER)
    assert node.left() == []


async def test_a_raw_device_that_could_not_be_given_leaves_nothing(node: Node):
    node.kernel.luns = {}
    with pytest.raises(DeviceNotAttached):
        await node.connect(block=True)
    assert node.left() == []


async def test_a_raw_device_that_pods_have_keeps_its_session_when_it_has_become_another_disk(node: Node):
    await node.connect(block=True)
    node.kernel.luns[1] = "naa.99"
    with pytest.raises(WrongDevice):
        await node.connect(block=True, in_use=True)
    assert len(node.kernel.sessions(TARGET)) == 1
    assert await node.sessions.has(PATH)


async def test_a_raw_device_whose_agent_was_killed_does_not_keep_the_session_of_others(node: Node):
    node.notes.save(Note(OTHER, SECOND, block=True))
    await node.connect()
    await node.sessions.release(PATH)
    assert node.left() == []


async def test_a_raw_device_is_found_by_its_name(node: Node):
    device = await node.connect(block=True)
    assert await node.sessions.block_path(device) == PATH
    assert await node.sessions.block_path("/dev/sdx") is None
    assert await node.sessions.has(PATH)


async def test_the_multipath_device_is_used_where_there_is_one(node: Node):
    for at in (ONE, TWO):
        name = node.kernel.disk(node.kernel.session(TARGET, at), 1, "naa.01")
        (block,) = node.root.glob(f"sys/devices/platform/*/*/*/*/block/{name}")
        (block / "holders/dm-0").mkdir(parents=True)
    uuid = node.root / "sys/block/dm-0/dm/uuid"
    uuid.parent.mkdir(parents=True)
    uuid.write_text("mpath-naa.01\n")
    assert await node.connect(BOTH) == "/dev/dm-0"
    await node.sessions.release(PATH)
    assert node.iscsiadm.asked("multipath", "-f", "/dev/dm-0") == 1
    assert node.kernel.units(node.kernel.sessions(TARGET)) == []


async def test_a_volume_with_an_initiators_name_has_an_interface_that_goes_with_it(node: Node):
    own = Disk(TARGET, 1, (ONE,), f"{ONE}:pv", "default", "iqn.2026-01.dev.mooring:me")
    await node.connect(own)
    assert node.iscsiadm.asked("iface.initiatorname", own.initiator, own.interface) == 1
    assert [each.interface for each in node.kernel.sessions(TARGET)] == [own.interface]
    await node.sessions.release(PATH)
    assert node.iscsiadm.asked("iface", own.interface, "delete") == 1
    assert node.left() == []


async def test_a_disk_is_reserved_before_it_is_given_and_no_key_is_left_when_it_is_released(node: Node):
    disk = node.iscsiadm.disk
    disk.keys, disk.holder = {"another node": 0xB}, "another node"
    await node.connect(key=0xA)
    assert (disk.keys, disk.holder) == ({"node": 0xA}, "node")
    node.start()
    await node.connect(key=0xA, in_use=True)
    assert disk.keys == {"node": 0xA}
    await node.sessions.release(PATH)
    assert node.left() == []


@pytest.mark.parametrize("block", [False, True])
async def test_a_disk_that_cannot_be_reserved_is_not_given(node: Node, block: bool):
    node.iscsiadm.fails[("sg_persist", "--reserve")] = Ended(24, errors="reservation conflict")
    with pytest.raises(VolumeError, match="could not be reserved"):
        await node.connect(key=0xA, block=block)
    if not block:
        await node.sessions.release(PATH)
    assert node.left() == []


async def test_a_disk_at_several_portals_is_not_reserved(node: Node):
    with pytest.raises(InvalidSpec, match="2 portals"):
        await node.connect(BOTH, key=0xA)
    assert node.left() == []


@pytest.mark.parametrize("key", [0, 0xA])
async def test_an_agent_that_is_killed_at_any_step_of_connecting_leaves_what_the_next_one_can_undo(
    tmp_path: Path,
    key: int,
):
    for step in range(100):
        node = Node(tmp_path / str(step))
        node.dies_at = step
        try:
            await node.connect(key=key)
            break
        except Killed:
            node.start()
        if node.notes.all():  # else nothing has been tried
            await node.sessions.release(PATH)
        assert node.left() == [], f"killed before step {step}"
    assert step > 4


async def test_a_raw_device_whose_agent_was_killed_at_any_step_of_connecting_is_let_go_of(tmp_path: Path):
    """Its record names the path by which it was to be connected."""
    for step in range(100):
        node = Node(tmp_path / str(step))
        node.dies_at = step
        try:
            await node.connect(block=True)
            break
        except Killed:
            node.start()
        if (path := await node.sessions.block_path(PATH)) is not None:
            await node.sessions.release(path)
        assert node.left() == [], f"killed before step {step}"
    assert step > 2


@pytest.mark.parametrize("key", [0, 0xA])
async def test_an_agent_that_is_killed_at_any_step_of_connecting_connects_when_it_is_back(
    tmp_path: Path, key: int
):
    for step in range(100):
        node = Node(tmp_path / str(step))
        node.dies_at = step
        try:
            await node.connect(key=key)
            break
        except Killed:
            node.start()
        assert await node.connect(key=key) == "/dev/sda"
        await node.sessions.release(PATH)
        assert node.left() == [], f"killed before step {step}"
    assert step > 4


@pytest.mark.parametrize("key", [0, 0xA])
async def test_an_agent_that_is_killed_at_any_step_of_releasing_releases_when_it_is_back(
    tmp_path: Path, key: int
):
    for step in range(100):
        node = Node(tmp_path / str(step))
        await node.connect(key=key)
        before = node.steps
        node.dies_at = before + step
        try:
            await node.sessions.release(PATH)
            break
        except Killed:
            node.start()
        await node.sessions.release(PATH)
        assert node.left() == [], f"killed before step {step}"
    assert step > 2


@pytest.mark.parametrize("left", [b"{", b'{"path": "\xff"}'])
async def test_a_damaged_note_ends_no_session(node: Node, left: bytes):
    await node.connect()
    await node.connect(SECOND, OTHER)
    (found, _) = (node.root / "plugin/notes").glob("*.json")
    found.write_bytes(left)
    for path in (PATH, OTHER):
        with pytest.raises(VolumeError, match="damaged"):
            await node.sessions.release(path)
    assert node.iscsiadm.asked("--logout") == 0
