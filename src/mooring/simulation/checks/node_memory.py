"""D6: at any moment what an agent remembers of a volume, its record on disk and what is there agree.

What is mounted, or shown to a pod, is in a record, whether an agent runs or not, and the agent that runs does
not take it for absent; what it takes for present is there. It remembers neither more nor less than an agent
that would start now: the records on disk are those in its memory, and what it does not take for absent is in
them. What is being unmounted, or taken from a pod, is recorded as leaving, and what is being mounted or set
up as unfinished, or an agent that starts meanwhile would take it for present.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from mooring.node.volumes.decide import Presence
from mooring.node.volumes.records import VolumeRecord
from mooring.node.volumes.volume import WantedVolume
from mooring.simulation.checks.invariants.checker import Found
from mooring.simulation.cluster.cluster import SimulatedCluster
from mooring.simulation.engine.trace import Event
from mooring.simulation.parts.share_plugin import shares_at
from mooring.volumes.names import CSI_PLUGIN, escape_plugin_name
from mooring.volumes.plugins.csi.publishing import MOUNT

EVERY = 32
"""After so many writes to the store all nodes are compared: what was forgotten stays so for a while."""
AT = (
    *("truth.mounted", "truth.unmounted", "truth.set-up", "truth.torn-down"),
    *("truth.shown", "truth.started", "truth.ended"),
)
"""Then a node is compared."""

Shown = tuple[str, str]
"""The uid of a pod, and the name that a volume has in its directory."""
Records = Mapping[str, VolumeRecord]


class There(NamedTuple):
    """What is there on a machine: disks that are mounted (`raw`, too) and shares, and what pods are shown."""

    disks: set[str]
    shown: set[Shown]


class NodeMemory:
    """D6, on one run. `guarded`: how many volumes were compared."""

    name = "D6"

    def __init__(self, cluster: SimulatedCluster, found: Found) -> None:
        self._cluster, self._found = cluster, found
        self._told: set[tuple[str, str]] = set()
        self._written = self.guarded = 0
        for kind in AT:
            cluster.trace.listen(kind, self._happened)
        cluster.trace.listen("store.written", self._note)

    def _happened(self, event: Event) -> None:
        self._compare(event.fields["node"], event)

    def _note(self, event: Event) -> None:
        self._written += 1
        if self._written % EVERY == 0:
            for node in self._cluster.machines:
                self._compare(node, event)

    def _compare(self, node: str, event: Event) -> None:
        if node not in self._cluster.powered:  # what was mounted has gone with the power
            return
        records = _read(self._cluster.machines[node].root)
        self.guarded += len(records)
        there = self._there(node)
        differences = [*self._unrecorded(there, records)]
        if (memory := self._cluster.remembered(node)) is not None:
            differences += [*self._let_go(event, records), *_unlike(memory, records)]
            differences += [*_begun(event, memory), *self._mounting(event, memory)]
            differences += self._untrue(memory, there)
        for difference in differences:
            if (node, difference) not in self._told:
                self._told.add((node, difference))
                self._found(self.name, f"{node}: {difference}", event)

    # --- what is there

    def _there(self, node: str) -> There:
        array, root = self._cluster.array, self._cluster.machines[node].root
        shown_as = array.shown_as.items()
        shares = {path.name for path in shares_at(root)}
        disks = {wanted for (wanted, at), disk in shown_as if at == node and (disk, node) in array.mounted}
        return There(disks | shares, set(_shown(root)))

    def _disk(self, unique_name: str) -> str:
        """The disk of a volume that has a device: a plugin's, or a CSI driver's by its handle."""
        handle = unique_name.rpartition("/")[2].rpartition("^")[2]
        return self._cluster.ec2.disk(handle) if self._cluster.ec2 is not None else handle

    # --- the comparisons

    def _unrecorded(self, there: There, records: Records) -> Iterator[str]:
        """What is there without a record."""
        disks = {self._disk(name) for name, record in records.items() if record.device is not None}
        for disk in sorted(there.disks - disks):
            yield f"{disk} is mounted, and no record says so"
        for uid, volume in sorted(there.shown - _pods_of(records)):
            yield f"{volume} is shown to pod {uid}, and no record says so"

    def _let_go(self, event: Event, records: Records) -> Iterator[str]:
        """What goes is in a record until it has gone."""
        volume = event.fields.get("volume", "")
        if event.kind == "truth.unmounted":
            record = next((each for name, each in records.items() if self._disk(name) == volume), None)
            if record is None or record.device is None or not record.device.leaving:
                yield f"{volume} is unmounted, and no record says that it leaves"
        elif event.kind == "truth.torn-down":
            uid = event.fields["uid"]
            if (uid, volume) not in _pods_of(records):
                yield f"{volume} is taken from pod {uid}, and no record names it any more"
            elif (uid, volume) not in _pods_of(records, leaving=True):
                yield f"{volume} is taken from pod {uid}, and no record says that it leaves"

    def _mounting(self, event: Event, memory: Mapping[str, WantedVolume]) -> Iterator[str]:
        """What is mounted for the first time: that this is all is the driver's word, which comes later."""
        for name, volume in memory.items() if event.kind == "truth.mounted" else ():
            device, first = volume.record.device, volume.device is Presence.UNCERTAIN
            mounted = self._disk(name) == event.fields["wanted"]
            if mounted and first and device is not None and not device.unfinished:
                yield f"{name} is being mounted, and no record says so"

    def _untrue(self, memory: Mapping[str, WantedVolume], there: There) -> Iterator[str]:
        """What is taken for present, and is not there."""
        for name, volume in memory.items():
            if volume.device is Presence.PRESENT and self._disk(name) not in there.disks:
                yield f"{name} is taken for mounted, and is not"
            for uid, pod in volume.record.pods.items():
                present = volume.pods.get(uid) is Presence.PRESENT
                if present and (uid, pod.spec_name) not in there.shown:
                    yield f"{name} is taken for set up for pod {uid}, and is not"


def _begun(event: Event, memory: Mapping[str, WantedVolume]) -> Iterator[str]:
    """What is set up for a pod for the first time: there is more to be done than what has just been."""
    if event.kind not in ("truth.set-up", "truth.shown"):
        return
    uid, name = event.fields["uid"], event.fields["volume"]
    for volume in memory.values():
        pod = volume.record.pods.get(uid)
        first = volume.pods.get(uid) is Presence.UNCERTAIN
        if pod is not None and pod.spec_name == name and first and not pod.unfinished:
            yield f"{name} is being set up for pod {uid}, and no record says so"


def _unlike(memory: Mapping[str, WantedVolume], records: Records) -> Iterator[str]:
    """Where what an agent remembers is not what one that starts now would find."""
    for name in sorted(memory.keys() | records.keys()):
        volume, record = memory.get(name), records.get(name)
        remembered = volume.record if volume is not None and not volume.record.empty else None
        if remembered != record:
            yield f"the record of {name} is not the one that is remembered"
        if volume is not None:
            yield from _unlike_its_record(name, volume)


def _unlike_its_record(name: str, volume: WantedVolume) -> Iterator[str]:
    recorded = volume.record.device is not None or volume.record.attached_here
    if recorded != (volume.device is not Presence.ABSENT):
        yield f"the device of {name} is taken for {volume.device.value}, and its record says otherwise"
    device = volume.record.device
    if volume.device is Presence.PRESENT and device is not None and (device.leaving or device.unfinished):
        yield f"the device of {name} is taken for present, and its record says {device}"
    held = {uid for uid in volume.pods if volume.holds(uid)}
    for uid, pod in volume.record.pods.items():
        if (pod.unfinished or pod.leaving) and volume.pods.get(uid) is Presence.PRESENT:
            yield f"{name} is taken for set up for pod {uid}, and its record says that it is not"
    for uid in sorted(held ^ volume.record.pods.keys()):
        yield f"{name} is {'not ' * (uid not in held)}held by pod {uid}, and its record says otherwise"


def _pods_of(records: Records, *, leaving: bool = False) -> set[Shown]:
    """All of them, or those that leave."""
    of = ((uid, pod) for each in records.values() for uid, pod in each.pods.items())
    return {(uid, pod.spec_name) for uid, pod in of if pod.leaving or not leaving}


def _read(root: Path) -> dict[str, VolumeRecord]:
    """All records on the disk of a machine with this root."""
    read = (
        msgspec.json.decode(path.read_bytes(), type=VolumeRecord)
        for path in sorted((root / "volumes").glob("*.json"))
    )
    return {record.unique_name: record for record in read}


def _shown(root: Path) -> Iterator[Shown]:
    """What pods are shown: directories, what a CSI driver has published in them, and links to devices."""
    for path in root.glob("pods/*/volumes/*/*"):
        of_csi = path.parent.name == escape_plugin_name(CSI_PLUGIN)
        if not of_csi or (path / MOUNT).exists():
            yield path.parents[2].name, path.name
    for path in root.glob("pods/*/volumeDevices/*/*"):
        yield path.parents[2].name, path.name
