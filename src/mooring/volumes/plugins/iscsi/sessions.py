"""Connects this node with a disk of a target, and lets go of it: what is looked up, ordered and written down,
in which order.

Guarantees:
- A volume, and each login, is written down before it is tried; what may exist is undone, whatever had
  crashed.
- A session that was there before, or whose other disks are in use, is used and never ended.
- Before a session ends, its disk has been flushed and dropped by the kernel: a LUN that becomes another
  disk's is never taken for the old one.
- Operations on one target go one by one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import structlog

from mooring.key_locks import KeyLocks
from mooring.mounts.blocking import blocking
from mooring.mounts.errors import MountsError
from mooring.volumes.errors import (
    DeviceNotAttached,
    InvalidSpec,
    OutcomeUnknown,
    VolumeError,
    WrongDevice,
)
from mooring.volumes.plugins.iscsi.devices import LOGGED_IN, Devices, Session
from mooring.volumes.plugins.iscsi.iscsiadm import Iscsiadm
from mooring.volumes.plugins.iscsi.notes import Login, Note, Notes
from mooring.volumes.plugins.iscsi.source import Disk, Portal, portal
from mooring.volumes.plugins.programs import Run, run
from mooring.volumes.plugins.scsi.disks import Unit, multipathd_runs
from mooring.volumes.plugins.scsi.paths import grow_maps, let_go
from mooring.volumes.plugins.scsi.reservations import take

APPEAR_S = 30.0
MULTIPATH_S = 10.0
POLL_S = 0.1

log = structlog.get_logger("node-agent")


@dataclass(frozen=True)
class Chap:
    """Lines for open-iscsi's records; empty: no CHAP."""

    discovery: Mapping[str, str]
    session: Mapping[str, str]


class Sessions:
    """Those of one node, for this plugin."""

    def __init__(
        self, notes: Notes, iscsiadm: Iscsiadm, devices: Devices, node_name: str = "", run: Run = run
    ) -> None:
        self._notes, self._iscsiadm, self._devices = notes, iscsiadm, devices
        self._node_name, self._run = node_name, run
        self._locks = KeyLocks()

    # --- connect

    async def connect(
        self, disk: Disk, path: str, chap: Chap, *, block: bool, in_use: bool, key: int = 0
    ) -> str:
        """The device of the disk, for the volume at that global path. `in_use`: it is mounted there already,
        or pods have it; then it must be the same disk still. `key`: it is reserved for this node alone, under
        that. Idempotent. Raises VolumeError: no portal lets us in, DeviceNotAttached, WrongDevice, or
        OutcomeUnknown."""
        _has_one_path(disk, key)
        async with self._locks[disk.target]:
            try:
                return await self._connected(disk, path, chap, block=block, in_use=in_use, key=key)
            except Exception:
                if (
                    block and not in_use
                ):  # the caller has no record of it yet: it will not ask for its release
                    await self._undo(path)
                raise

    async def _connected(
        self, disk: Disk, path: str, chap: Chap, *, block: bool, in_use: bool, key: int
    ) -> str:
        known = await blocking(self._notes.find, path)
        before = known.wwid if known is not None and in_use else ""
        given = known.device if known is not None and in_use else ""
        await blocking(self._notes.save, Note(path, disk, block, given, before, key))
        sessions = await self._log_in(disk, chap)
        device, wwid = await self._appears(disk, sessions)
        if before and wwid != before:
            raise WrongDevice(f"{disk} is another disk now ({wwid}) than the one in use ({before}): {device}")
        note = Note(path, disk, block, device if block else "", wwid, key)
        if block:
            await blocking(self._must_be_its_own, note)
        if key:
            await take(device, key, str(disk), self._run)
        await blocking(self._notes.save, note)
        return device

    async def _undo(self, path: str) -> None:
        try:
            await self._let_go(path)
        except Exception as error:
            log.error("what was begun is not undone yet", path=path, problem=str(error))

    def _must_be_its_own(self, note: Note) -> None:
        """A name of a device can be given again while a pod is still said to have the old one."""
        for other in self._notes.all():
            if other.path != note.path and other.device == note.device and other.wwid != note.wwid:
                raise VolumeError(
                    f"{note.device} is {note.disk} now, and pods of this node were given it as {other.disk}, which has "
                    f"gone: delete those pods first"
                )

    async def _log_in(self, disk: Disk, chap: Chap) -> list[Session]:
        if not await blocking(self._devices.sessions_of, disk):
            await self._iscsiadm.make_interface(disk)
        tries = (self._reach(disk, at, chap) for at in disk.portals)
        answers = await asyncio.gather(*tries, return_exceptions=True)
        problems = [each for each in answers if isinstance(each, BaseException)]
        for problem in problems:
            if not isinstance(problem, (VolumeError, MountsError)):
                raise problem
        sessions = [
            each for each in await blocking(self._devices.sessions_of, disk) if each.state == LOGGED_IN
        ]
        if not sessions:
            unknown = any(isinstance(each, OutcomeUnknown) for each in problems)
            raise (OutcomeUnknown if unknown else VolumeError)(
                f"this node has no session for {disk}: {'; '.join(map(str, problems)) or 'it has just ended'}"
            )
        for problem in problems:
            log.warning("a portal is not used", disk=str(disk), problem=str(problem))
        return sessions

    async def _reach(self, disk: Disk, at: Portal, chap: Chap) -> None:
        there = [each for each in await blocking(self._devices.sessions_of, disk) if each.portal == at]
        if there:
            if there[0].state != LOGGED_IN:
                raise VolumeError(
                    f"the session with {at} has lost its connection: the portal does not answer"
                )
            return
        group = await self._iscsiadm.discover(disk, at, chap.discovery)
        await blocking(self._notes.begin, Login(disk.target, str(at), disk.interface))
        await self._iscsiadm.login(disk, at, group, chap.session)

    async def _appears(self, disk: Disk, sessions: Sequence[Session]) -> tuple[str, str]:
        """The device and its identity, once it is there."""
        for each in sessions:
            await blocking(self._devices.scan, each, disk.lun)
        for unit in await blocking(self._devices.units, sessions, disk.lun):
            await blocking(self._devices.rescan, unit)
        clock = asyncio.get_running_loop().time
        started = clock()
        while True:
            units = await blocking(self._devices.units, sessions, disk.lun)
            ready = [(path, unit) for unit in units if unit.size and (path := self._devices.path(unit))]
            if ready and (clock() - started > MULTIPATH_S or not self._needs_map(sessions, units)):
                return _one(disk, ready)
            if clock() - started > APPEAR_S:
                raise DeviceNotAttached(
                    f"{disk} did not appear on this node within {APPEAR_S:g} s: does the target map it to this node?"
                )
            await asyncio.sleep(POLL_S)

    def _needs_map(self, sessions: Sequence[Session], units: Sequence[Unit]) -> bool:
        return len(sessions) > 1 and multipathd_runs() and not all(unit.map for unit in units)

    # --- let go

    async def release(self, path: str) -> None:
        """Undoes `connect` for the volume at that path. Idempotent. Raises DeviceStillInUse, OutcomeUnknown,
        VolumeError: then what is left is still written down."""
        note = await blocking(self._notes.find, path)
        if note is None:
            raise VolumeError(
                f"{path} does not say which iSCSI disk was used there: look at `iscsiadm -m session`"
            )
        async with self._locks[note.disk.target]:
            await self._let_go(path)

    async def _let_go(self, path: str) -> None:
        note = await blocking(self._notes.find, path)
        if note is None:
            return
        notes = [each for each in await blocking(self._notes.all) if each.path != path]
        same = [each for each in notes if _session_of(each.disk) == _session_of(note.disk)]
        for each in filter(_is_abandoned, same):
            await blocking(self._notes.remove, each.path)
        same = [each for each in same if not _is_abandoned(each)]
        if not any(each.disk.lun == note.disk.lun for each in same):
            await self._drop(note.disk, note.key)
        if not same:
            await self._log_out(note.disk)
        await blocking(self._notes.remove, path)

    async def _drop(self, disk: Disk, key: int) -> None:
        sessions = await self._all_sessions(disk)
        units = await blocking(self._devices.units, sessions, disk.lun)
        await let_go(self._devices, units, str(disk), self._node_name, self._run, key)

    async def _log_out(self, disk: Disk) -> None:
        sessions = await blocking(self._devices.sessions, disk.target)
        for login in await blocking(self._notes.logins, disk.target, disk.interface):
            at = portal(login.portal, "a login that was written down")
            mine = [each for each in sessions if each.interface == disk.interface and each.portal == at]
            if not await self._is_used(mine):
                await self._iscsiadm.logout(disk, at)
                await self._iscsiadm.forget(disk, at)
            await blocking(self._notes.end, login)
        if not await self._all_sessions(disk):
            await self._iscsiadm.remove_interface(disk)

    async def _is_used(self, sessions: Sequence[Session]) -> bool:
        """Whether another program uses a disk of theirs: then they stay, and are not ours any more."""
        for unit in await blocking(self._devices.units, sessions):
            path = self._devices.path(unit)
            if path is not None and await blocking(self._devices.in_use, path):
                log.warning("a session stays, because its disks are in use", device=path)
                return True
        return False

    async def _all_sessions(self, disk: Disk) -> list[Session]:
        sessions = await blocking(self._devices.sessions, disk.target)
        return [each for each in sessions if each.interface == disk.interface]

    # --- look again

    async def refresh(self, disk: Disk, path: str) -> tuple[str, int]:
        """Asks the disk for its size anew; its device and that size in bytes. Raises VolumeError,
        WrongDevice."""
        async with self._locks[disk.target]:
            sessions = await self._all_sessions(disk)
            for unit in await blocking(self._devices.units, sessions, disk.lun):
                await blocking(self._devices.rescan, unit)
            units = await blocking(self._devices.units, sessions, disk.lun)
            ready = [(found, unit) for unit in units if unit.size and (found := self._devices.path(unit))]
            if not ready:
                raise VolumeError(f"{disk} has no device on this node")
            device, wwid = _one(disk, ready)
            note = await blocking(self._notes.find, path)
            if note is not None and note.wwid not in ("", wwid):
                raise WrongDevice(
                    f"{disk} is another disk now ({wwid}) than the one in use ({note.wwid}): {device}"
                )
            await grow_maps(units, str(disk), self._run)
            return device, min(unit.size for unit in units)

    async def block_path(self, device: str) -> str | None:
        """The path under which a raw device was written down; one that was not given to pods yet is known by
        that path."""
        notes = await blocking(self._notes.all)
        return next((each.path for each in notes if each.block and device in (each.path, each.device)), None)

    async def has(self, path: str) -> bool:
        """Whether the raw device of that path was given to pods."""
        note = await blocking(self._notes.find, path)
        return note is not None and bool(note.device)


def _has_one_path(disk: Disk, key: int) -> None:
    """A path that comes back later has not registered, and writes by it would fail."""
    if key and len(disk.portals) > 1:
        raise InvalidSpec(
            f"{disk} has {len(disk.portals)} portals, and its PersistentVolume asks for a reservation, which is made "
            "for one: name one portal, or ask for none"
        )


def _is_abandoned(note: Note) -> bool:
    """Whether an agent was killed before a raw device was given to pods: no record asks for its release.
    Under the target's lock: nothing is being connected."""
    return note.block and not note.device


def _session_of(disk: Disk) -> tuple[str, str]:
    return disk.target, disk.interface


def _one(disk: Disk, ready: Sequence[tuple[str, Unit]]) -> tuple[str, str]:
    identities = {unit.wwid for _, unit in ready}
    if len(identities) != 1:
        raise WrongDevice(
            f"the portals of {disk} show different disks ({', '.join(sorted(identities))}): mend portals"
        )
    return ready[0][0], identities.pop()
