"""Maps an image of Ceph on this node, and lets go of it: what is looked up, ordered and written down, in
which order.

Guarantees:
- A volume is written down before anything is tried for it; what may exist is undone, whatever had crashed.
- An image that is in use has been the same image all the time, by the cluster's own name for it.
- Operations on one volume go one by one; no call waits for the cluster longer than its deadline.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from functools import partial

import msgspec
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
from mooring.volumes.plugins.ceph.cluster import addresses
from mooring.volumes.plugins.orders import ordered, over
from mooring.volumes.plugins.programs import Run, run
from mooring.volumes.plugins.rbd.devices import WHY, Devices, Mapping, order_of, why, without_key
from mooring.volumes.plugins.rbd.notes import Note, Notes
from mooring.volumes.plugins.rbd.source import Image

MAP_S, LOOK_S, FLUSH_S, UNMAP_S, MODULE_S = 120.0, 60.0, 300.0, 120.0, 20.0

log = structlog.get_logger("node-agent")


class Images:
    """Those of one node, for this plugin."""

    def __init__(self, notes: Notes, devices: Devices, node_name: str = "", run: Run = run) -> None:
        self._notes, self._devices = notes, devices
        self._node_name, self._run = node_name, run
        self._locks = KeyLocks()
        self._late: dict[str, str] = {}
        """By the volume's path: the order to map it that the kernel may not have ended yet."""

    # --- connect

    async def connect(self, image: Image, path: str, key: str, *, block: bool, in_use: bool) -> str:
        """The device of the image, for the volume at that global path. `in_use`: it is mounted there already,
        or pods have it; then it must be the same image still. Idempotent. Raises VolumeError:
        DeviceNotAttached, WrongDevice, OutcomeUnknown."""
        async with self._locks[path]:
            known = await blocking(self._notes.find, path)
            if known is not None and (mapping := await self._mapping_of(known)) is not None:
                return self._devices.path(mapping)
            if in_use:
                raise WrongDevice(f"{image} is in use at {path}, and its device is not mapped any more")
            await blocking(self._notes.save, Note(path, image, block))
            try:
                return await self._map(Note(path, image, block), key)
            except Exception:
                if block:  # no record asks for its release
                    await self._undo(path)
                raise

    async def _map(self, note: Note, key: str) -> str:
        if not await blocking(self._devices.known):
            await self._run("modprobe", "rbd", deadline_s=MODULE_S)
        where = await addresses(note.image.cluster)
        # Until it is written down whose a mapping is, it looks like one that was left behind.
        async with self._locks[f"{note.image.pool}/{note.image.name}"]:
            mapping = await self._mapped_well(note, where, key)
            saved = msgspec.structs.replace(note, number=mapping.number, identity=mapping.identity)
            await blocking(self._notes.save, saved)
        log.info("rbd image mapped", image=str(note.image), device=self._devices.path(mapping))
        return self._devices.path(mapping)

    async def _mapped_well(self, note: Note, where: Sequence[str], key: str) -> Mapping:
        """Exclusively, unless the image is of before exclusive locks."""
        mapping = await self._mapped(note, order_of(note.image, where, key, exclusive=True))
        if mapping is not None:
            return mapping
        mapping = await self._mapped(note, order_of(note.image, where, key, exclusive=False))
        if mapping is None:
            raise DeviceNotAttached(f"cannot map {note.image}: {WHY[errno.EINVAL]}")
        if mapping.refuses:  # then something else was not understood
            await self._unmap(note, mapping)
            raise DeviceNotAttached(f"cannot map {note.image} exclusively: {WHY[errno.EINVAL]}")
        log.warning(
            "the image has no exclusive-lock: its cluster refuses no second node", image=str(note.image)
        )
        return mapping

    async def _mapped(self, note: Note, order: str) -> Mapping | None:
        """The image, mapped by this order, perhaps by an agent that was killed meanwhile; None if the kernel
        does not understand the order. Raises VolumeError."""
        if (left := await self._left_by(order)) is not None:
            return left
        what = f"map {without_key(order)}"
        try:
            await ordered(what, partial(self._devices.map, order), MAP_S)
        except OutcomeUnknown:
            self._late[note.path] = what
            raise
        except OSError as error:
            if error.errno == errno.EINVAL:
                return None
            raise DeviceNotAttached(f"cannot map {note.image}: {why(error)}") from None
        mapping = await self._left_by(order)
        if mapping is None:
            raise DeviceNotAttached(f"{note.image} was mapped, and is not among /sys/bus/rbd/devices")
        return mapping

    async def _left_by(self, order: str) -> Mapping | None:
        """What is mapped by this very order, and is no other volume's."""
        taken = {each.number for each in await blocking(self._notes.all)}
        same = [
            each
            for each in await blocking(self._devices.mappings)
            if each.order == without_key(order) and each.number not in taken
        ]
        for each in same:
            if not await self._is_used(each):
                return each
        return None

    async def _mapping_of(self, note: Note) -> Mapping | None:
        """The mapping that the note tells of, while it is that image's."""
        found = await blocking(self._devices.mappings)
        return next(
            (each for each in found if (each.number, each.identity) == (note.number, note.identity)), None
        )

    async def _undo(self, path: str) -> None:
        try:
            await self._let_go(path)
        except Exception as error:
            log.error("what was begun is not undone yet", path=path, problem=str(error))

    async def _is_used(self, mapping: Mapping) -> bool:
        what = f"look whether {self._devices.path(mapping)} is used"
        return await ordered(what, partial(self._devices.in_use, mapping), LOOK_S)

    # --- let go

    async def release(self, path: str) -> None:
        """Undoes `connect` for the volume at that path. Idempotent. Raises DeviceStillInUse, OutcomeUnknown,
        VolumeError: then what is left is still written down."""
        if await blocking(self._notes.find, path) is None:
            raise VolumeError(f"{path} does not say which image of Ceph was used there")
        async with self._locks[path]:
            await self._let_go(path)

    async def _let_go(self, path: str) -> None:
        note = await blocking(self._notes.find, path)
        if note is None:
            return
        if not note.number and path in self._late:
            await over(self._late[path], UNMAP_S)
        mapping = await self._mapping_of(note) if note.number else await self._left_behind(note)
        if mapping is not None:
            await self._unmap(note, mapping)
        await blocking(self._notes.remove, path)
        self._late.pop(path, None)

    async def _left_behind(self, note: Note) -> Mapping | None:
        """What was mapped for it and not written down: late, or by an agent that was killed. Whatever its
        key."""
        if not await blocking(self._devices.mappings):
            return None
        where = await addresses(note.image.cluster)
        for exclusive in (True, False):
            left = await self._left_by(order_of(note.image, where, "", exclusive=exclusive))
            if left is not None:
                return left
        return None

    async def _unmap(self, note: Note, mapping: Mapping) -> None:
        path = self._devices.path(mapping)
        if await self._is_used(mapping):
            raise DeviceStillInUse(str(note.image), self._node_name, [f"{path} is mounted or claimed"])
        try:
            await ordered(f"write {path} back", partial(self._devices.flush, mapping), FLUSH_S)
        except OSError as error:
            # No pod has it any more, and the kernel has given up on it: the cluster has barred this node.
            log.error("the last writes to an image may be lost", image=str(note.image), problem=str(error))
        try:
            await ordered(f"unmap {path}", partial(self._devices.unmap, mapping), UNMAP_S)
        except OSError as error:
            if error.errno == errno.EBUSY:
                raise DeviceStillInUse(str(note.image), self._node_name, [f"{path} is open"]) from None
            if error.errno != errno.ENOENT:
                raise VolumeError(f"{path} of {note.image} is not unmapped: {why(error)}") from None
        log.info("rbd image unmapped", image=str(note.image), device=path)

    # --- look again

    async def size(self, path: str) -> tuple[str, int]:
        """The device of the volume at that path, and its size in bytes, which follows the image's. Raises
        DeviceNotAttached."""
        note = await blocking(self._notes.find, path)
        mapping = await self._mapping_of(note) if note is not None else None
        if mapping is None:
            raise DeviceNotAttached(f"{path} has no mapped image of Ceph on this node")
        return self._devices.path(mapping), mapping.size

    async def block_path(self, device: str) -> str | None:
        """The path under which a raw device was written down; one that was not given to pods yet is known by
        that path."""
        mappings = await blocking(self._devices.mappings)
        numbers = {each.number for each in mappings if self._devices.path(each) == device}
        notes = await blocking(self._notes.all)
        raw = [each for each in notes if each.block]
        return next((each.path for each in raw if each.path == device or each.number in numbers), None)

    async def has(self, path: str) -> bool:
        """Whether the raw device of that path was given to pods."""
        note = await blocking(self._notes.find, path)
        return note is not None and bool(note.number)
