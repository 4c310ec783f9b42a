"""Invariants of attachments, mounts and writes: seen in storage and machines, compared with the store."""

from __future__ import annotations

import math
from collections import defaultdict

from mooring.simulation.checks.invariants.checker import Checker, Found
from mooring.simulation.checks.invariants.forced_releases import Place, Releases, place
from mooring.simulation.checks.invariants.objects import ATTACHMENTS, VOLUMES, object_of
from mooring.simulation.checks.invariants.shut_out import ShutOut
from mooring.simulation.checks.settings import Settings
from mooring.simulation.engine.trace import Event, Trace
from mooring.simulation.parts.storage_targets import target_of


class OneWriter(Checker):
    """S4: a volume of one node is mounted, by a node that it was not revoked from and that its storage does
    not shut out, on one node at most; and a cloud has it on one instance at most, in whatever state."""

    name = "S4"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._mounted: defaultdict[str, set[str]] = defaultdict(set)
        trace.listen("truth.mounted", self._mount)
        trace.listen("truth.unmounted", self._unmount)
        trace.listen("truth.revoked", self._unmount)
        self._shut = ShutOut.of(trace)
        trace.listen("truth.let-in", self._let_in)
        self._devices: defaultdict[str, set[str]] = defaultdict(set)
        trace.listen("truth.device", self._device)

    def _device(self, event: Event) -> None:
        volume, node = place(event)
        (self._devices[volume].add if event.fields["state"] else self._devices[volume].discard)(node)
        if len(self._devices[volume]) > 1:
            self.wrong(f"the cloud has {volume} on {' and '.join(sorted(self._devices[volume]))}", event)

    def _mount(self, event: Event) -> None:
        volume, node = place(event)
        self.guarded += 1
        others = sorted(
            each for each in self._mounted[volume] - {node} if not self._shut.is_shut(each, volume)
        )
        self._mounted[volume].add(node)
        if others:
            self.wrong(f"{volume} is mounted on {node} and on {', '.join(others)}", event)

    def _unmount(self, event: Event) -> None:
        volume, node = place(event)
        self._mounted[volume].discard(node)

    def _let_in(self, event: Event) -> None:
        """What a node that comes in again has mounted, it writes."""
        target, node = event.fields["target"], event.fields["node"]
        for volume, nodes in self._mounted.items():
            if target_of(volume) == target and node in nodes and len(nodes) > 1:
                beside = ", ".join(sorted(nodes - {node}))
                self.wrong(f"{node} is let in, and has {volume} mounted, as has {beside}", event)


class NoZombieWrite(Checker):
    """S4': nothing is written but to a volume that is mounted there, and under the present attachment: after
    a new one was granted, no write of an older one takes effect."""

    name = "S4'"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        trace.listen("truth.written", self._write)

    def _write(self, event: Event) -> None:
        volume, node = place(event)
        self.guarded += 1
        if not event.fields["mounted"]:
            self.wrong(f"a process on {node} writes to {volume}, which is not mounted there", event)
        elif event.fields["committed"] and event.fields["under"] != event.fields["epoch"]:
            under, epoch = event.fields["under"], event.fields["epoch"]
            self.wrong(
                f"a write to {volume} from {node} under attachment {under} takes effect in {epoch}", event
            )


class MountedMeansAttached(Checker):
    """S6: a device is mounted only where it is attached. A mount that takes long may have begun before the
    volume was released by force, as when a user takes a node that runs for dead."""

    name = "S6"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._released = Releases.of(trace)
        self._began_attached: dict[Place, bool] = {}  # those that take long
        trace.listen("truth.mounting", self._begin)
        trace.listen("truth.mounted", self._mount)

    def _begin(self, event: Event) -> None:
        self._began_attached[place(event)] = event.fields["attached"]

    def _mount(self, event: Event) -> None:
        self.guarded += 1
        where = place(event)
        was_attached = self._began_attached.pop(where, False)
        if not event.fields["attached"] and not (was_attached and where in self._released):
            self.wrong(f"{event.fields['volume']} is mounted on {event.fields['node']}, not attached", event)


class TheRightDevice(Checker):
    """S10: what is mounted as a volume is that volume's disk; and a cloud gives a device name of an instance
    to one volume at a time, however the name is spelt."""

    name = "S10"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._used: set[str] = set()
        self._devices: dict[Place, str] = {}  # node and name -> volume
        trace.listen("truth.mounted", self._mount)
        trace.listen("truth.device", self._device)

    def _device(self, event: Event) -> None:
        volume, node = place(event)
        name = node, event.fields["device"].removeprefix("/dev/").removeprefix("sd").removeprefix("xvd")
        holder = self._devices.get(name, volume)
        if holder != volume and event.fields["state"]:
            self.wrong(f"{event.fields['device']} of {node} is {holder} and {volume}", event)
        elif event.fields["state"]:
            self._devices[name] = volume
        elif holder == volume:
            self._devices.pop(name, None)

    def _mount(self, event: Event) -> None:
        device = event.fields.get("device", "")
        self.guarded += (
            bool(device) and (event.fields["node"] + device) in self._used
        )  # a path that was another's
        self._used.add(event.fields["node"] + device)
        wanted = event.fields.get("wanted", event.fields["volume"])
        if wanted != event.fields["volume"]:
            self.wrong(
                f"{event.fields['volume']} is mounted on {event.fields['node']} in place of {wanted}", event
            )


class NoDetachUnderUse(Checker):
    """S7: no detach begins, or takes effect, while the device is mounted on that node, unless by force of a
    policy or an operator's word; S7': no device is unmounted while a process there uses it."""

    name = "S7"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._mounted: set[Place] = set()
        self._releases = Releases.of(trace)
        trace.listen("truth.mounted", lambda event: self._mounted.add(place(event)))
        trace.listen("truth.unmounted", self._unmounted)
        trace.listen("truth.begin", self._begin)
        trace.listen("truth.detached", lambda event: self._detach(event, "takes effect"))

    def _unmounted(self, event: Event) -> None:
        self._mounted.discard(place(event))
        if event.fields.get("used"):
            self._found(
                "S7'",
                f"{event.fields['volume']} is unmounted under a process on {event.fields['node']}",
                event,
            )

    def _begin(self, event: Event) -> None:
        if event.fields["act"] == "detach":
            self._detach(event, "begins")

    def _detach(self, event: Event, what: str) -> None:
        self.guarded += 1
        if place(event) in self._mounted and place(event) not in self._releases:
            volume, node = place(event)
            self.wrong(f"detach of {volume} from {node} {what} while it is mounted there", event)


class OneOperation(Checker):
    """S8: there are never two different requests about one volume in flight at the storage. What can do
    nothing any more does not count: a detach from a node that the volume is not attached to, and a request
    that is too old, whose sender was paused."""

    name = "S8"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._valid_s = Settings.of(trace).validity_s
        self._open: defaultdict[str, list[tuple[tuple[str, str, str], float]]] = defaultdict(list)
        self._attached: set[Place] = set()
        trace.listen("truth.attached", lambda event: self._attached.add(place(event)))
        trace.listen("truth.detached", lambda event: self._attached.discard(place(event)))
        trace.listen("truth.begin", self._begin)
        trace.listen("truth.end", self._end)

    def _begin(self, event: Event) -> None:
        volume, request = event.fields["volume"], self._request(event)
        for other, began in self._open[volume]:
            self.guarded += 1
            idle = any(
                act == "detach" and (volume, node) not in self._attached for act, node, _ in (other, request)
            )
            idle = idle or event.time - began >= self._valid_s > 0
            if other != request and other[2] == request[2] and not idle:
                pair = " ".join(request[:2]), " ".join(other[:2])
                self.wrong(f"{pair[0]} of {volume} begins during {pair[1]}", event)
        self._open[volume].append((request, event.time))

    def _end(self, event: Event) -> None:
        under_way, request = self._open[event.fields["volume"]], self._request(event)
        under_way.remove(next(each for each in under_way if each[0] == request))

    @staticmethod
    def _request(event: Event) -> tuple[str, str, str]:
        return event.fields["act"], event.fields["node"], event.fields.get("by", "")


class NoLostRecord(Checker):
    """S13: what is attached has a VolumeAttachment that says where, and that does not take back that it is
    attached unless the storage has said so; and what a VolumeAttachment offers as attached, is; but
    for what the storage has taken away by itself, without a word, between attaching it and saying so."""

    name = "S13"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._attached: set[Place] = set()
        self._denied: set[Place] = set()  # of which the storage has said that it is not attached there
        self._records: dict[
            str, tuple[Place, bool]
        ] = {}  # VolumeAttachment -> place, and whether it says "attached"
        self._taken: set[Place] = set()  # taken away before a VolumeAttachment said "attached"
        trace.listen("truth.attached", self._attach)
        trace.listen("truth.detached", self._detach)
        trace.listen("truth.taken", self._take)
        trace.listen("truth.denied", lambda event: self._denied.add(place(event)))
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)

    def _attach(self, event: Event) -> None:
        self.guarded += 1
        self._attached.add(place(event))
        self._denied.discard(place(event))
        self._taken.discard(place(event))
        if not any(where == place(event) for where, _ in self._records.values()):
            volume, node = place(event)
            self.wrong(f"{volume} is attached to {node}, and no VolumeAttachment says so", event)

    def _detach(self, event: Event) -> None:
        self._attached.discard(place(event))
        self._denied.discard(place(event))

    def _take(self, event: Event) -> None:
        if (place(event), False) in self._records.values():
            self._taken.add(place(event))

    def _written(self, event: Event) -> None:
        if event.fields["resource"] != ATTACHMENTS:
            return
        obj, name = object_of(event), event.fields["name"]
        where = obj.volume_name, obj.spec.node_name
        _, before = self._records.get(name, (where, False))
        says = self._records[name] = where, obj.status.attached
        if before == says[1]:
            return
        if before and where in self._attached and where not in self._denied:
            self.wrong(
                f"the VolumeAttachment of {where[0]} and {where[1]} takes back that it is attached", event
            )
        if says[1] and where not in self._attached | self._taken:
            self.wrong(
                f"a VolumeAttachment says that {where[0]} is attached to {where[1]}, and it is not", event
            )
        self._taken.discard(where)

    def _deleted(self, event: Event) -> None:
        if event.fields["resource"] != ATTACHMENTS:
            return
        where, _ = self._records.pop(event.fields["name"], (("", ""), False))
        self._taken.discard(where)
        if where in self._attached:
            self.wrong(
                f"the VolumeAttachment of {where[0]} and {where[1]} is gone, and it is attached", event
            )


class DetachedFirst(Checker):
    """S20': the storage is asked to attach a volume of one node only when it has detached it from the node
    before; unless a VolumeAttachment, of this node or of that one, was made by a request that arrived when
    its sender had given it up."""

    name = "S20'"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._attached: set[Place] = set()
        self._records: dict[
            str, tuple[Place, bool]
        ] = {}  # VolumeAttachment -> place, and whether it came too late
        self._given_up: set[str] = set()
        trace.listen("truth.attached", lambda event: self._attached.add(place(event)))
        trace.listen("truth.detached", lambda event: self._attached.discard(place(event)))
        trace.listen("asked.late", self._late)
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)
        trace.listen("truth.begin", self._begin)

    def _late(self, event: Event) -> None:
        if event.fields["name"] not in self._records:
            self._given_up.add(event.fields["name"])

    def _written(self, event: Event) -> None:
        name = event.fields["name"]
        if event.fields["resource"] == ATTACHMENTS and name not in self._records:
            obj = object_of(event)
            self._records[name] = (obj.volume_name, obj.spec.node_name), name in self._given_up
            self._given_up.discard(name)

    def _deleted(self, event: Event) -> None:
        if event.fields["resource"] == ATTACHMENTS:
            self._records.pop(event.fields["name"], None)

    def _begin(self, event: Event) -> None:
        volume, node = place(event)
        if event.fields["act"] != "attach" or self._came_late(volume, node):
            return
        self.guarded += 1
        others = sorted(other for each, other in self._attached if each == volume and other != node)
        for other in (each for each in others if not self._came_late(volume, each)):
            self.wrong(f"{volume} is to be attached to {node}, and is attached to {other}", event)

    def _came_late(self, volume: str, node: str) -> bool:
        return ((volume, node), True) in self._records.values()


class DeletedWhenFree(Checker):
    """S20: the storage is asked to delete a disk only when it has no VolumeAttachment, and is mounted on no
    node but those from which it was revoked, or which the storage shuts out of it. A VolumeAttachment that
    was made after the volume was marked as one without a claim counts only when the storage has been asked to
    attach it."""

    name = "S20"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._records: dict[str, tuple[str, int]] = {}  # VolumeAttachment -> volume, and when it was made
        self._marked: dict[str, int] = {}  # volume -> when its PersistentVolume lost its claim
        self._asked: set[Place] = set()
        self._mounted: set[Place] = set()
        self._shut = ShutOut.of(trace)
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._gone)
        trace.listen("truth.begin", self._begin)
        trace.listen("truth.end", lambda event: self._asked.discard(place(event)))
        trace.listen("truth.mounted", lambda event: self._mounted.add(place(event)))
        for gone in ("truth.unmounted", "truth.revoked"):
            trace.listen(gone, lambda event: self._mounted.discard(place(event)))
        trace.listen("truth.deleting", self._deleting)

    def _written(self, event: Event) -> None:
        name = event.fields["name"]
        if event.fields["resource"] == ATTACHMENTS:
            self._records.setdefault(name, (object_of(event).volume_name, event.number))
        elif event.fields["resource"] == VOLUMES:
            if object_of(event).status.phase in ("Released", "Failed"):
                self._marked.setdefault(name, event.number)
            else:
                self._marked.pop(name, None)

    def _gone(self, event: Event) -> None:
        if event.fields["resource"] == ATTACHMENTS:
            self._records.pop(event.fields["name"], None)
        elif event.fields["resource"] == VOLUMES:
            self._marked.pop(event.fields["name"], None)

    def _begin(self, event: Event) -> None:
        if event.fields["act"] == "attach":
            self._asked.add(place(event))

    def _deleting(self, event: Event) -> None:
        volume = event.fields["volume"]
        self.guarded += 1
        made = [when for each, when in self._records.values() if each == volume]
        if made and min(made) < self._marked.get(volume, math.inf):
            self.wrong(f"{volume} is to be deleted, and has a VolumeAttachment", event)
        for node in sorted(node for disk, node in self._asked if disk == volume):
            self.wrong(f"{volume} is to be deleted, and is being attached to {node}", event)
        mounted = sorted(node for disk, node in self._mounted if disk == volume)
        for node in (each for each in mounted if not self._shut.is_shut(each, volume)):
            self.wrong(f"{volume} is to be deleted, and is mounted on {node}", event)
