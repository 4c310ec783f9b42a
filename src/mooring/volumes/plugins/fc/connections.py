"""Finds a disk of a Fibre Channel storage on this node, and lets go of it: what is looked up, ordered and
written down, in which order.

Guarantees:
- A volume is written down before anything is tried for it; what may exist is undone, whatever had crashed.
- One disk is used by one device of this node: not by two of its paths at once, whatever uses the other, and
  whatever two volumes call it.
- A disk that no volume needs any more is flushed, and dropped by the kernel: a LUN that becomes another
  disk's is never taken for the old one.
- Operations on one volume go one by one; no call waits for a disk longer than its deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path

import structlog

from mooring.key_locks import KeyLocks
from mooring.mounts.blocking import blocking
from mooring.volumes.errors import (
    DeviceNotAttached,
    DeviceStillInUse,
    OutcomeUnknown,
    VolumeError,
    WrongDevice,
)
from mooring.volumes.plugins.fc.devices import Devices
from mooring.volumes.plugins.fc.notes import Note, Notes
from mooring.volumes.plugins.fc.source import Disk
from mooring.volumes.plugins.orders import ordered
from mooring.volumes.plugins.programs import Run, run
from mooring.volumes.plugins.scsi.disks import RUNNING, Unit, multipathd_runs
from mooring.volumes.plugins.scsi.paths import LOOK_S, grow_maps, let_go, maps

SCAN_S, RESCAN_S = 60.0, 30.0
APPEAR_S = 30.0
MULTIPATH_S = 10.0
POLL_S = 0.1

Ready = Sequence[tuple[str, Unit]]
"""Paths to one disk, each with the device by which it is used."""

log = structlog.get_logger("node-agent")


class Connections:
    """Those of one node, for this plugin."""

    def __init__(self, notes: Notes, devices: Devices, node_name: str = "", run: Run = run) -> None:
        self._notes, self._devices = notes, devices
        self._node_name, self._run = node_name, run
        self._locks = KeyLocks()
        self._choice = asyncio.Lock()
        self._connecting: set[str] = set()
        self._leaving: set[str] = set()

    # --- connect

    async def connect(self, disk: Disk, path: str, *, block: bool, in_use: bool) -> str:
        """The device of the disk, for the volume at that global path. `in_use`: it is mounted there already,
        or pods have it; then it must be the same disk still. Idempotent. Raises VolumeError:
        DeviceNotAttached, WrongDevice, DeviceStillInUse, OutcomeUnknown."""
        async with self._locks[path]:
            self._connecting.add(path)
            try:
                return await self._connected(disk, path, block=block, in_use=in_use)
            except Exception:
                if block and not in_use:  # no record asks for its release
                    await self._undo(path)
                raise
            finally:
                self._connecting.discard(path)

    async def _connected(self, disk: Disk, path: str, *, block: bool, in_use: bool) -> str:
        known = await blocking(self._notes.find, path)
        before = known.wwid if known is not None and in_use else ""
        given = known.device if known is not None and in_use else ""
        await blocking(self._notes.save, Note(path, disk, block, given, before))
        ready = await self._appears(disk)
        async with self._choice:
            device, wwid = await blocking(self._chosen, disk, ready, given)
            if before and wwid != before:
                raise WrongDevice(
                    f"{disk} is another disk now ({wwid}) than the one in use ({before}): {device}"
                )
            note = Note(path, disk, block, device, wwid)
            await self._must_be_free(note, ready, in_use=in_use)
            await blocking(self._notes.save, note)
        log.info("fibre channel disk found", disk=str(disk), device=device, wwid=wwid, paths=len(ready))
        return device

    async def _undo(self, path: str) -> None:
        try:
            await self._let_go(path)
        except Exception as error:
            log.error("what was begun is not undone yet", path=path, problem=str(error))

    async def _appears(self, disk: Disk) -> Ready:
        """Paths that can be used, once there is one, and the multipath device where one is made."""
        if problem := await blocking(self._devices.why_unreachable, disk):
            raise DeviceNotAttached(f"{disk} cannot be reached: {problem}")
        silent = await self._ask_anew(disk)
        await self._scan(disk)
        clock = asyncio.get_running_loop().time
        started = clock()
        while True:
            ready = await blocking(self._ready, disk, silent)
            if ready and (clock() - started > MULTIPATH_S or not _needs_map(ready)):
                return ready
            if clock() - started > APPEAR_S:
                raise DeviceNotAttached(
                    f"{disk} did not appear on this node within {APPEAR_S:g} s: does the storage show it to "
                    f"this node's ports (/sys/class/fc_host/*/port_name)?"
                )
            await asyncio.sleep(POLL_S)

    def _ready(self, disk: Disk, silent: Collection[Path]) -> Ready:
        units = [each for each in self._devices.units(disk) if each.directory not in silent]
        usable = [each for each in units if each.size and each.state == RUNNING]
        return [(path, unit) for unit in usable if (path := self._devices.path(unit))]

    async def _ask_anew(self, disk: Disk) -> set[Path]:
        """Has each path ask its disk what it is; those that do not answer, which are not used."""
        units = await blocking(self._devices.units, disk)
        told = [
            (f"ask {each.name}, {each.directory.name}, what it is", partial(self._devices.rescan, each))
            for each in units
        ]
        answers = await self._each(told, RESCAN_S, "a path is not used")
        return {unit.directory for unit, fine in zip(units, answers, strict=True) if not fine}

    async def _scan(self, disk: Disk) -> None:
        scans = await blocking(self._devices.scans, disk)
        told = [(f"look for {each.what} at {each.host}", partial(self._devices.scan, each)) for each in scans]
        await self._each(told, SCAN_S, "a host adapter was not scanned")

    async def _each(
        self, orders: Sequence[tuple[str, Callable[[], None]]], deadline_s: float, otherwise: str
    ) -> list[bool]:
        """Gives the orders at once; which of them were carried out. One path must not keep the others."""
        told = (ordered(what, act, deadline_s) for what, act in orders)
        answers = await asyncio.gather(*told, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, (OSError, OutcomeUnknown)):
                log.warning(otherwise, problem=str(answer))
            elif isinstance(answer, BaseException):
                raise answer
        return [not isinstance(answer, BaseException) for answer in answers]

    def _chosen(self, disk: Disk, ready: Ready, given: str) -> tuple[str, str]:
        """The device to be used, and its disk's identity: the device that is in use already; else the
        multipath device, if all of which it is made is this disk; else a path."""
        found = {unit.wwid for _, unit in ready}
        made_of = maps([unit for _, unit in ready])
        if len(found) != 1 or (found == {""} and len(ready) > 1):
            said = ", ".join(sorted(each or "nothing" for each in found))
            raise WrongDevice(f"the paths to {disk} are not known to lead to one disk: they say {said}")
        wwid = found.pop()
        for name in made_of:
            others = {unit.name for unit in self._devices.slaves(name) if unit.wwid != wwid}
            if others or len(made_of) > 1:
                wrong = (
                    f"is made of other disks, too ({', '.join(sorted(others))})"
                    if others
                    else "is not the only one"
                )
                raise WrongDevice(f"the multipath device {name} of {disk} {wrong}: look at `multipath -ll`")
        devices = [path for path, _ in ready]
        mapped = [path for path, unit in ready if unit.map]
        return given if given in devices else (mapped or devices)[0], wwid

    async def _must_be_free(self, note: Note, ready: Ready, *, in_use: bool) -> None:
        """The kernel keeps two users of one device apart, and knows nothing of a disk's other devices."""
        if note.wwid and note.wwid in self._leaving:
            raise VolumeError(f"{note.disk} is just being let go of as another volume: it is tried again")
        for other in await blocking(self._notes.all):
            if other.path != note.path and other.device and await self._collides(other, note):
                raise VolumeError(
                    f"{note.device} of {note.disk} cannot be used: this node has {other.disk} in use as {other.device} "
                    f"({other.path}), and one of both names leads to the other's disk. Delete its pods first"
                )
        if in_use:
            return
        for path in dict.fromkeys(path for path, _ in ready):
            if await self._is_used(path):
                raise DeviceStillInUse(str(note.disk), self._node_name, [f"{path} is mounted or claimed"])

    async def _collides(self, other: Note, note: Note) -> bool:
        """Whether the other volume has this disk by another device, or this device as another disk."""
        same_disk, same_device = bool(note.wwid) and other.wwid == note.wwid, other.device == note.device
        if same_disk and not same_device:
            return other.block or await self._is_used(other.device)
        return same_device and not same_disk and other.block

    async def _is_used(self, path: str) -> bool:
        return await ordered(f"look whether {path} is used", partial(self._devices.in_use, path), LOOK_S)

    # --- let go

    async def release(self, path: str) -> None:
        """Undoes `connect` for the volume at that path. Idempotent. Raises DeviceStillInUse, OutcomeUnknown,
        VolumeError: then what is left is still written down."""
        if await blocking(self._notes.find, path) is None:
            raise VolumeError(f"{path} does not say which Fibre Channel disk was used there")
        async with self._locks[path]:
            await self._let_go(path)

    async def _let_go(self, path: str) -> None:
        note = await blocking(self._notes.find, path)
        if note is None:
            return
        async with self._choice:
            others = await self._others(path)
            last = not any(_are_one(each, note) for each in others)
            if last:
                self._leaving.add(note.wwid)
        try:
            if last:
                await self._drop(note)
        finally:
            self._leaving.discard(note.wwid)
        await blocking(self._notes.remove, path)

    async def _others(self, path: str) -> list[Note]:
        """The other volumes. A raw device that was never given to pods, because the agent was killed or the
        machine started anew, is forgotten: no record asks for its release."""
        found = [each for each in await blocking(self._notes.all) if each.path != path]
        left = [
            each for each in found if each.block and not each.device and each.path not in self._connecting
        ]
        for each in left:
            await blocking(self._notes.remove, each.path)
        return [each for each in found if each not in left]

    async def _drop(self, note: Note) -> None:
        units = await blocking(self._paths_of, note)
        try:
            await let_go(self._devices, units, str(note.disk), self._node_name, self._run)
        except DeviceStillInUse as error:
            if note.device:
                raise
            log.warning("a disk stays, because something that no volume is uses it", problem=str(error))

    def _paths_of(self, note: Note) -> list[Unit]:
        """All paths to the volume's disk, with those that a multipath device has beside."""
        shown = self._devices.units(note.disk)
        of_maps = (each for name in maps(shown) for each in self._devices.slaves(name))
        found = {each.directory: each for each in (*of_maps, *shown)}
        return [each for each in found.values() if not note.wwid or each.wwid in ("", note.wwid)]

    # --- look again

    async def refresh(self, disk: Disk, path: str) -> tuple[str, int]:
        """Asks the disk for its size anew; its device, and that size in bytes. Raises VolumeError,
        WrongDevice."""
        async with self._locks[path]:
            note = await blocking(self._notes.find, path)
            silent = await self._ask_anew(disk)
            ready = await blocking(self._ready, disk, silent)
            if not ready:
                raise DeviceNotAttached(f"{disk} has no device on this node that answers")
            device, wwid = await blocking(self._chosen, disk, ready, note.device if note else "")
            if note is not None and note.wwid not in ("", wwid):
                raise WrongDevice(
                    f"{disk} is another disk now ({wwid}) than the one in use ({note.wwid}): {device}"
                )
            await grow_maps([unit for _, unit in ready], str(disk), self._run)
            return device, min(unit.size for _, unit in ready)

    async def block_path(self, device: str) -> str | None:
        """The path under which a raw device was written down; one that was not given to pods yet is known by
        that path."""
        notes = await blocking(self._notes.all)
        return next((each.path for each in notes if each.block and device in (each.path, each.device)), None)

    async def has(self, path: str) -> bool:
        """Whether the raw device of that path was given to pods."""
        note = await blocking(self._notes.find, path)
        return note is not None and bool(note.device)


def _needs_map(ready: Ready) -> bool:
    return len(ready) > 1 and multipathd_runs() and not all(unit.map for _, unit in ready)


def _are_one(one: Note, other: Note) -> bool:
    """Whether two volumes are, or may be, of one disk."""
    if one.wwid and other.wwid:
        return one.wwid == other.wwid
    by_ports = one.disk.lun == other.disk.lun and not set(one.disk.wwns).isdisjoint(other.disk.wwns)
    return by_ports or not set(one.disk.wwids).isdisjoint(other.disk.wwids)
