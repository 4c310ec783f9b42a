"""Storage that is only played. It knows the truth: what is attached, mounted, and what was written to each
disk.

The kind of storage decides who can write (docs/protocol.md, "Words"): whether it *refuses* a second attach,
whether a detach *revokes* the old node's access for good, and whether it refuses to detach what is mounted.
What happens goes to `journal`; how long it takes and what fails is set from outside. Requests are carried
out by the storage itself (`carry_out`), so they go on if the sender dies.
"""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from mooring.simulation.parts.disk_attributes import DiskAttributes
from mooring.simulation.parts.kept_snapshots import KeptSnapshots
from mooring.simulation.parts.storage_errors import Unanswered
from mooring.simulation.parts.storage_targets import Targets, target_of
from mooring.volumes.errors import (
    DeletedVolumeInUse,
    DeviceStillInUse,
    StorageFull,
    StorageRefused,
    VolumeError,
    VolumeInUse,
    VolumeNotFound,
)


@dataclass(frozen=True)
class Kind:
    """`refuses` a second attach; `revokes` the access of a node from which it detaches; `keeps` what is
    mounted: a detach of that is refused. `validity_s`: what was asked for has no effect after so many
    seconds."""

    refuses: bool = True
    revokes: bool = False
    keeps: bool = False
    validity_s: float = 30.0


KINDS: dict[str, Kind] = {
    "array": Kind(refuses=True, keeps=True),  # Mooring's own disk array
    "deferred": Kind(refuses=True, keeps=True, validity_s=7200.0),  # may do hours later what it was asked for
    "cloud": Kind(refuses=True, revokes=True),  # a cloud's disks
    "open": Kind(refuses=False, revokes=True),  # cuts the old node off, and attaches to every node that asks
    "network": Kind(refuses=False, revokes=False),  # NFS, iSCSI, FC: every node with power can write
}


USUAL_S = 0.3
"""What an attach, or a detach, takes in a simulated cluster."""


def no_journal(actor: str, kind: str, /, **fields: Any) -> None:
    """A journal that keeps nothing."""


async def at_once(work: Coroutine[Any, Any, None]) -> None:
    """Carries out a request as part of its sender, and dies with it."""
    await work


Place = tuple[str, str]
"""Disk and node."""


class Array:
    """Disks. `harms` should stay empty."""

    def __init__(self, kind: Kind = KINDS["array"]) -> None:
        self.kind = kind
        self.disks: set[str] = set()
        self.attached: dict[str, str] = {}  # disk -> node, the latest if there are several
        self.also: set[Place] = set()  # further nodes, of storage that does not refuse them
        self.epochs: dict[str, int] = {}  # disk -> how often it was attached
        self.mounted: set[Place] = set()
        self.raw: set[Place] = set()  # of those: what pods get as a device, without a mount point
        self.under: dict[Place, int] = {}  # of what is mounted: in which epoch that was
        self.shown_as: dict[Place, str] = {}  # what a node takes for a disk: which one it is
        self.users: defaultdict[Place, dict[str, str]] = defaultdict(dict)  # process -> its words' beginning
        self.paths: defaultdict[str, dict[str, str]] = defaultdict(dict)  # node -> device path -> disk
        self.taken: set[Place] = set()  # by the storage itself: the node does not find the disk any more
        self.grows = False  # whether its disks can grow
        self.keeps = False  # whether it keeps snapshots, and copies disks
        self.modifies = False  # whether attributes of its disks can be changed
        self.sizes: defaultdict[str, int] = defaultdict(int)  # disk -> bytes, where disks can grow
        self.file_systems: defaultdict[str, int] = defaultdict(int)  # disk -> how far its file system reaches
        self.content: dict[str, list[str]] = {}  # disk -> what was written to it and synced
        self.history: list[tuple[str, str, str]] = []
        self.refused: list[tuple[str, str, str]] = []
        self.harms: list[str] = []
        self.attach_s = self.attach_reply_s = self.detach_s = 0.0
        self.validity_s = 0.0  # a request has no effect when it is older; 0: it is never too old
        self.unmount_s: dict[str, float] = {}  # node -> how long an unmount takes there
        self.mount_s: dict[str, float] = {}  # node -> how long a mount takes there
        self.overtaken_s = (
            0.0  # how long every other detach takes, so that the next one overtakes it; 0: none does
        )
        self._turn = False
        self.at_work = asyncio.Event()
        self.at_work.set()  # or what it is asked for waits
        self.failure: Exception | None = None
        self.limit: int | None = None  # how many disks a node takes
        self.unanswered: Callable[[], bool] = lambda: False
        self.quota: int | None = None  # how many disks it attaches to a node
        self.full = False  # whether it has no room for another disk
        self.denies: set[str] = set()  # nodes of which it says that nothing is attached there
        self.mount_failure: dict[str, Exception] = {}
        """Node -> what every mount there raises, after it was made."""
        self.set_up_failure: dict[str, Exception] = {}
        """Node -> what every set-up for a pod there raises, after it was made."""
        self.short_paths = False  # device paths are given to one disk after the other
        self.targets = Targets(self._told, self._let_in)
        self.snapshots, self.attributes = KeptSnapshots(self), DiskAttributes(self)
        self.busy = self.busiest = 0
        self.journal: Callable[..., None] = no_journal
        self.asked_by: Callable[[], str] = lambda: ""
        self.life: Callable[[str], int] = lambda node: 0  # which life of its agent a node has
        self.carry_out: Callable[[Coroutine[Any, Any, None]], Awaitable[None]] = at_once
        self.leave_it: Callable[[Coroutine[Any, Any, None]], object] = asyncio.ensure_future
        self.puts_off: Callable[[], float] = lambda: (
            0.0
        )  # so long after an error a request takes effect; 0: no error

    def take_its_time(self) -> None:
        """As long as it usually takes."""
        self.attach_s = self.detach_s = USUAL_S
        self.attach_reply_s = 0.0

    # --- attach and detach

    async def attach(self, disk: str, node: str) -> None:
        """Idempotent."""
        self._put_off("attach", disk, node, self._do_attach)
        await self.carry_out(self._attach(disk, node, self.asked_by()))
        if self.unanswered():
            raise Unanswered(f"attaching {disk} to {node}: no answer")

    async def detach(self, disk: str, node: str) -> None:
        """Idempotent."""
        self._put_off("detach", disk, node, self._do_detach)
        await self.carry_out(self._detach(disk, node, self.asked_by()))
        if self.unanswered():
            raise Unanswered(f"detaching {disk} from {node}: no answer")

    def is_attached(self, disk: str, node: str) -> bool:
        return self.attached.get(disk) == node or (disk, node) in self.also

    def says_attached(self, disk: str, node: str) -> bool:
        """Its word for it, which need not be true."""
        self.journal("array", "truth.verified", volume=disk, node=node, by=self.asked_by())
        if self.failure is not None:
            raise self.failure
        if attached := self.is_attached(disk, node):
            if node not in self.denies:
                return attached
            self.journal("array", "truth.denied", volume=disk, node=node)
        return False

    def _put_off(self, act: str, disk: str, node: str, do: Callable[[str, str], None]) -> None:
        """Raises an error that does not say whether anything has happened, and carries the request out later:
        before it is too old, or not at all."""
        seconds = self.puts_off()
        if not seconds:
            return
        fields = {"act": act, "volume": disk, "node": node, "by": self.asked_by()}
        for what in ("truth.begin", "truth.end"):
            self.journal("array", what, **fields)
        self.journal("array", "truth.put-off", act=act, volume=disk, node=node, seconds=round(seconds, 3))
        if seconds < self.validity_s:
            self.leave_it(self._later(act, disk, node, do, seconds))
        raise VolumeError(f"{act} of {disk}, {node}: internal error")

    async def _later(
        self, act: str, disk: str, node: str, do: Callable[[str, str], None], seconds: float
    ) -> None:
        await asyncio.sleep(seconds)
        if not self.at_work.is_set():
            return  # it would be carried out when it is too old
        self.journal("array", "truth.late", act=act, volume=disk, node=node)
        with suppress(VolumeError):
            do(disk, node)

    async def _attach(self, disk: str, node: str, by: str) -> None:
        self.busy += 1
        self.busiest = max(self.busy, self.busiest)
        self.journal("array", "truth.begin", act="attach", volume=disk, node=node, by=by)
        try:
            await self._work(self.attach_s)
            self._do_attach(disk, node)
            await asyncio.sleep(self.attach_reply_s)
        finally:
            self.busy -= 1
            self.journal("array", "truth.end", act="attach", volume=disk, node=node, by=by)

    async def _work(self, seconds: float) -> None:
        """Takes its time; what would take longer than a request is valid is given up. The work is its
        caller's, too, who may have been paused meanwhile."""
        loop = asyncio.get_running_loop()
        too_old = loop.time() + self.validity_s if self.validity_s else math.inf
        await self.at_work.wait()
        done = loop.time() + seconds
        await asyncio.sleep(max(min(done, too_old) - loop.time(), 0))
        if max(done, loop.time()) >= too_old:
            raise Unanswered("the request has become too old")

    def _do_attach(self, disk: str, node: str) -> None:
        if self.failure is not None:
            raise self.failure
        if disk not in self.disks:
            raise VolumeNotFound(disk)
        holder = self.attached.get(disk, node)
        if holder != node and self.kind.refuses:
            self.refused.append(("attach", disk, node))
            raise VolumeInUse(disk, node, [holder])
        if self.is_attached(disk, node):
            return
        if self.quota is not None and sum(each == node for each in self.attached.values()) >= self.quota:
            raise StorageRefused(f"node {node} has {self.quota} disks, which is the quota")
        self.appear(disk, node)

    def appear(self, disk: str, node: str, path: str = "") -> None:
        """The node has the disk from now on, at `path` if that is said."""
        holder = self.attached.get(disk, node)
        if holder != node:
            self.also.add((disk, holder))
        self.history.append(("attach", disk, node))
        self.attached[disk] = node
        self.taken.discard((disk, node))
        self.epochs[disk] = self.epochs.get(disk, 0) + 1
        self._give_path(disk, node, path)
        self.journal("array", "truth.attached", volume=disk, node=node, epoch=self.epochs[disk])
        self._all_users_write(disk)

    async def _detach(self, disk: str, node: str, by: str) -> None:
        self.journal("array", "truth.begin", act="detach", volume=disk, node=node, by=by)
        try:
            await self._work(self._next_detach_s())
            self._do_detach(disk, node)
        finally:
            self.journal("array", "truth.end", act="detach", volume=disk, node=node, by=by)

    def _next_detach_s(self) -> float:
        self._turn = not self._turn
        return self.overtaken_s if self._turn and self.overtaken_s else self.detach_s

    def _do_detach(self, disk: str, node: str) -> None:
        if self.failure is not None:
            raise self.failure
        if not self.is_attached(disk, node):
            return
        if (disk, node) in self.mounted and self.kind.keeps and not self.targets.refuses(disk, node):
            self.refused.append(("detach", disk, node))
            raise DeviceStillInUse(disk, node, ["a mount"])
        self.vanish(disk, node)

    def vanish(self, disk: str, node: str) -> None:
        """The node loses the disk."""
        self.history.append(("detach", disk, node))
        if (disk, node) in self.also:
            self.also.discard((disk, node))
        else:
            del self.attached[disk]
            if another := next((each for each in sorted(self.also) if each[0] == disk), None):
                self.also.discard(another)
                self.attached[disk] = another[1]
        self.paths[node] = {path: each for path, each in self.paths[node].items() if each != disk}
        if self.kind.revokes:
            self.journal("array", "truth.revoked", volume=disk, node=node)
        self.journal("array", "truth.detached", volume=disk, node=node, epoch=self.epochs[disk])

    def take_away(self, node: str) -> None:
        """The storage detaches by itself what a machine without power had."""
        for disk in sorted(disk for disk, holder in self.attached.items() if holder == node):
            self.journal("array", "truth.taken", volume=disk, node=node)
            self.vanish(disk, node)
            self.taken.add((disk, node))

    # --- device paths

    def _give_path(self, disk: str, node: str, path: str) -> None:
        number = 0
        while self.short_paths and f"/dev/d{number}" in self.paths[node]:
            number += 1
        self.paths[node][path or (f"/dev/d{number}" if self.short_paths else f"/dev/{disk}")] = disk

    def path(self, disk: str, node: str) -> str:
        """Where the disk is on the node, or was."""
        return next((path for path, each in self.paths[node].items() if each == disk), f"/dev/{disk}")

    def at_path(self, path: str, node: str, wanted: str) -> str:
        """What the node finds at the path, where it looks for the disk `wanted`; "": nothing is there.
        Where it looks for a disk that it should not have, it finds it: S11 is to see that."""
        elsewhere = (wanted, node) in self.taken or wanted in self.paths[node].values()
        return self.paths[node].get(path, "" if elsewhere else wanted)

    # --- disks

    def create(self, disk: str, *, of: str = "") -> None:
        """Idempotent; `of`: the snapshot or the disk that it is to be a copy of. Raises `StorageFull`,
        `VolumeNotFound`, `SnapshotNotFound`."""
        if disk not in self.disks:
            if self.full:
                raise StorageFull(f"there is no room for {disk}")
            source = {"source": of} if of else {}
            if words := self.snapshots.words_of(of) if of else []:
                self.content[disk] = words
            self.disks.add(disk)
            counted = {"words": len(words)} if words else {}
            self.journal("array", "truth.created", volume=disk, **counted, **source)

    async def grow(self, disk: str, size: int) -> int:
        """Idempotent: what is large enough stays. Returns its size."""
        await asyncio.sleep(self.attach_s)
        if self.failure is not None:
            raise self.failure
        if disk not in self.disks:
            raise VolumeNotFound(disk)
        if size > self.sizes[disk]:
            self.sizes[disk] = size
            self.journal("array", "truth.grown", volume=disk, size=size)
        if self.unanswered():
            raise Unanswered(f"growing {disk}: no answer")
        return self.sizes[disk]

    async def grow_file_system(self, disk: str, node: str) -> None:
        """On the node that has it mounted. Idempotent."""
        await self.mounting(node)
        disk = self.shown_as.get((disk, node), disk)
        if (disk, node) not in self.mounted:
            raise VolumeError(f"{disk} is not mounted on {node}")
        if self.file_systems[disk] < self.sizes[disk]:
            self.file_systems[disk] = self.sizes[disk]
            self.journal(node, "truth.file-system", volume=disk, node=node, size=self.sizes[disk])

    def delete(self, disk: str) -> None:
        """Idempotent. Raises `DeletedVolumeInUse`."""
        self.journal("array", "truth.deleting", volume=disk)
        if disk in self.attached:
            raise DeletedVolumeInUse(disk, [self.attached[disk]])
        if disk in self.disks:
            self.disks.discard(disk)
            self.content.pop(disk, None)
            self.journal("array", "truth.deleted", volume=disk)

    async def recycle(self, disk: str) -> None:
        """Empties it for another claim: it is as one that was deleted and made again."""
        self.journal("array", "truth.deleting", volume=disk)
        await asyncio.sleep(self.attach_s)
        if self.failure is not None:
            raise self.failure
        if disk in self.attached:
            raise DeletedVolumeInUse(disk, [self.attached[disk]])
        self.content.pop(disk, None)
        for what in ("truth.recycled", "truth.deleted", "truth.created"):
            self.journal("array", what, volume=disk)
        if self.unanswered():
            raise Unanswered(f"recycling {disk}: no answer")

    # --- machines

    async def mounting(self, node: str, disk: str = "") -> None:
        """As long as half of a mount takes there: it takes effect in between. `disk`: of the first half."""
        if node not in self.mount_s:
            return
        if disk:
            attached = self.is_attached(disk, node)
            self.journal(node, "truth.mounting", volume=disk, node=node, attached=attached)
        await asyncio.sleep(self.mount_s[node] / 2)

    def mount(self, disk: str, node: str, *, path: str = "", wanted: str = "", raw: bool = False) -> None:
        """Mounts a disk, which should be the one that is `wanted`; `raw`: has its device ready for pods."""
        attached = self.is_attached(disk, node)
        if not attached:
            self.harms.append(f"{disk} was mounted on {node}, but is attached to {self.attached.get(disk)}")
        self.mounted.add((disk, node))
        if raw:
            self.raw.add((disk, node))
        self.shown_as[wanted or disk, node] = disk
        epoch = self.under[disk, node] = self.epochs.get(disk, 0)
        fields = {"volume": disk, "node": node, "attached": attached, "epoch": epoch}
        of_agent = {"life": self.life(node)} if raw else {}
        self.journal(node, "truth.mounted", **fields, device=path, wanted=wanted or disk, **of_agent)

    def unmount(self, disk: str, node: str) -> None:
        """What is mounted there as that disk."""
        disk = self.shown_as.pop((disk, node), disk)
        if (disk, node) in self.mounted:
            self.mounted.discard((disk, node))
            self.raw.discard((disk, node))
            self.journal(node, "truth.unmounted", volume=disk, node=node, used=bool(self.users[disk, node]))

    def use(self, disk: str, node: str, process: str, word: str) -> None:
        """A process begins to use the disk: it reads what is there, and writes and syncs a word."""
        self.users[disk, node][process] = word
        self.write(disk, node, word)

    def leave(self, disk: str, node: str, process: str) -> None:
        """It has ended."""
        self.users[disk, node].pop(process, None)

    def write(self, disk: str, node: str, word: str) -> None:
        """What is written takes effect if the storage lets the node write."""
        disk = self.shown_as.get((disk, node), disk)
        known = self.content.setdefault(disk, [])
        mounted = (disk, node) in self.mounted
        committed = mounted and (self.is_attached(disk, node) or not (self.kind.refuses or self.kind.revokes))
        committed = committed and not self.targets.refuses(disk, node)
        fields = {"volume": disk, "node": node, "word": word, "mounted": mounted, "committed": committed}
        under, epoch = self.under.get((disk, node), 0), self.epochs.get(disk, 0)
        self.journal(node, "truth.written", **fields, under=under, epoch=epoch, found=len(known))
        if committed:
            known.append(word)

    def empty(self, disk: str) -> None:
        """What was on the disk has been removed, through a mount."""
        if self.content.pop(disk, None):
            self.journal("array", "truth.emptied", volume=disk)

    def _all_users_write(self, disk: str) -> None:
        """The moment in which a process that should be dead would do harm."""
        for (each, node), processes in sorted(self.users.items()):
            if each == disk:
                for word in list(processes.values()):
                    self.write(disk, node, f"{word}+")

    def _told(self, actor: str, kind: str, /, **fields: Any) -> None:
        self.journal(actor, kind, **fields)

    def _let_in(self, target: str, node: str) -> None:
        """What the node's kernel could not write, it writes now."""
        for disk, where in sorted(self.users):
            if where == node and target_of(disk) == target:
                for word in list(self.users[disk, node].values()):
                    self.write(disk, node, f"{word}+")

    def power_off(self, node: str) -> None:
        """What a machine without power has mounted is not mounted any more."""
        for disk in sorted(disk for disk, each in self.mounted if each == node):
            self.shown_as.pop((disk, node), None)
            self.unmount(disk, node)

    def holders(self, disk: str) -> list[str]:
        """The nodes that had the disk, one after the other; fails if one got it before the other had lost
        it."""
        holder, holders = None, list[str]()
        for act, each, node in self.history:
            if each == disk and act == "attach":
                assert holder is None, f"{disk} attached to {node} and {holder}: {self.history}"
                holder = node
                holders.append(node)
            elif each == disk:
                assert holder == node
                holder = None
        return holders
