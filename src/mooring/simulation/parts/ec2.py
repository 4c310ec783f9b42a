"""EC2 for a simulated cluster: the production cloud (`mooring.cloud`) in virtual time, and a wire that leads
to it.

Nodes are instances; what EC2 attaches appears as a device of the played machine, and EC2 cannot take away
what is mounted there ("busy"). Truth are the cloud's own records: each change of a volume is told to the
trace under the name that the driver has given it, which is also its PersistentVolume's, and each change of a
snapshot (`ec2_snapshots`). What the driver asks for is told as for any storage.

EC2 carries out a request within `LATEST_S` of its being sent, or never; its sender may learn of neither.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec

from mooring.cloud.actions.device_names import same
from mooring.cloud.cloud import Cloud
from mooring.cloud.errors import Ec2Error as Refused
from mooring.cloud.errors import VolumeBusy
from mooring.cloud.interface import Devices, Journal
from mooring.cloud.records.resources import Snapshot, Volume
from mooring.cloud.settings import Settings
from mooring.ebs.ec2.api import Ec2Api
from mooring.ebs.ec2.records import NAME_TAG
from mooring.ebs.errors import Ec2Error, Ec2Unreachable
from mooring.kube.transport import Request
from mooring.mounts.blocking import finish
from mooring.simulation.engine.event_loop import Actor
from mooring.simulation.parts.disk_attributes import in_text
from mooring.simulation.parts.ec2_snapshots import Ec2Snapshots
from mooring.simulation.parts.network import PATIENCE_S, Link
from mooring.simulation.parts.storage import Array

WIRE_S = 0.01
LATEST_S = 4.0
"""Less than the driver's `settling.SETTLE_S`: no driver could live with an EC2 that is later than it says."""
CHANGES = (
    *("CreateVolume", "DeleteVolume", "AttachVolume", "DetachVolume", "ModifyVolume"),
    *("CopyVolumes", "CreateSnapshot", "DeleteSnapshot"),
)
"""Requests that change a volume or a snapshot."""
MODIFIED = {"VolumeType": "type", "Throughput": "throughput"}
"""What is told of a modification: how a request calls it, and a VolumeAttributesClass."""
USUAL = in_text({"type": "gp3", "throughput": "125"})
"""What a volume is like of which nothing was asked."""
ACTS = {"AttachVolume": "attach", "DetachVolume": "detach"}
"""What changes where a volume is."""


@dataclass
class _Known:
    """A volume as it was last told. `devices`: by instance, device and state."""

    disk: str
    deleted: bool = False
    devices: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    attributes: str = ""
    is_modified: bool = False


class Ec2:
    """The cloud, its instances, and the truth of its volumes. The cloud's work is done as `host`."""

    def __init__(
        self,
        array: Array,
        nodes: Sequence[str],
        settings: Settings,
        *,
        clock: Callable[[], float],
        random: Random,
        host: Actor,
    ) -> None:
        self.array, self.host, self.settings = array, host, settings
        self.puts_off = 0.0  # the share of changes that are answered with an error, and made later
        self._known: dict[str, _Known] = {}
        self.snapshots = Ec2Snapshots(array, self.disk)
        self.cloud = Cloud(
            settings=settings, clock=clock, rng=random, devices=_Guests(self), journal=_Records(self)
        )
        launched = self.cloud.launch(len(nodes), zone=",".join(settings.zones))
        self.instances = dict(zip(nodes, launched, strict=True))
        self._nodes = {instance: node for node, instance in self.instances.items()}

    def start(self) -> None:
        """From now on what is due happens."""
        self.host.start(self.cloud.run(), "ec2")

    def zone(self, node: str) -> str:
        """Where the node's instance is."""
        return self.cloud.region.instance(self.instances[node]).zone

    def node(self, instance: str) -> str:
        """The node of an instance; itself if it is none's."""
        return self._nodes.get(instance, instance)

    def disk(self, volume: str) -> str:
        """The name of a volume's disk: the driver's name for the volume. A second volume of one name has
        another."""
        known = self._known.get(volume)
        return known.disk if known is not None else volume

    def volumes(self) -> dict[str, str]:
        """All volumes of the driver that are not deleted: their disks."""
        return {id: known.disk for id, known in self._known.items() if not known.deleted}

    # --- requests

    async def carry_out(self, action: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """One request, as EC2 does it and answers it. Raises the cloud's Ec2Error."""
        if action == "DeleteVolume":
            self.array.journal("ec2", "truth.deleting", volume=self.disk(request["VolumeId"]))
        return await self.cloud.call(action, request)

    @contextmanager
    def under_way(self, action: str, request: Mapping[str, Any], by: str) -> Generator[None]:
        """Entered while a caller waits for the answer. Requests that attach or detach, or that change what a
        volume is like, are told to the trace."""
        told = self._told(action, request, by)
        if told is None:
            yield
            return
        begin, end, fields = told
        self.array.journal("ec2", begin, **fields)
        try:
            yield
        finally:
            self.array.journal("ec2", end, **fields)

    def _told(
        self, action: str, request: Mapping[str, Any], by: str
    ) -> tuple[str, str, Mapping[str, Any]] | None:
        """What the trace is told while a request is under way; None: nothing."""
        if action in ACTS:
            act, volume, node = ACTS[action], self.disk(request["VolumeId"]), self.node(request["InstanceId"])
            return "truth.begin", "truth.end", {"act": act, "volume": volume, "node": node, "by": by}
        asked = {word: str(request[name]) for name, word in MODIFIED.items() if name in request}
        if action != "ModifyVolume" or not asked:
            return None
        fields = {"volume": self.disk(request["VolumeId"]), "attributes": in_text(asked), "by": by}
        return "truth.modifying", "truth.modify-answered", fields

    def is_modified(self, volume: str) -> bool:
        """Whether it is like something else than what it was made as."""
        return self._known[volume].is_modified

    # --- truth

    def record(self, volume: Volume) -> None:
        """A volume's record has changed."""
        if NAME_TAG not in volume.tags:
            return
        known = self._known.get(volume.id) or self._created(volume)
        now = {each.instance: (each.device, each.state) for each in volume.attachments}
        for instance in sorted(known.devices.keys() | now.keys()):
            device, state = now.get(instance, (known.devices.get(instance, ("", ""))[0], ""))
            if known.devices.get(instance) != (device, state):
                where = {"volume": known.disk, "node": self.node(instance)}
                self.array.journal("ec2", "truth.device", **where, device=device, state=state)
        known.devices = now
        self._changed(known, volume)
        if volume.state == "deleting":
            self.removed(volume.id)

    def _changed(self, known: _Known, volume: Volume) -> None:
        """Tells what a volume is like, if that is something new."""
        has = in_text({"type": volume.type, "throughput": str(volume.throughput)})
        known.is_modified = known.is_modified or known.attributes not in ("", has)
        if has != (known.attributes or USUAL):
            self.array.journal("ec2", "truth.modified", volume=known.disk, attributes=has)
        known.attributes = has

    def _created(self, volume: Volume) -> _Known:
        name = volume.tags[NAME_TAG]
        known = self._known[volume.id] = _Known(f"{name} {volume.id}" if name in self.array.disks else name)
        self.array.disks.add(known.disk)
        copied = self.snapshots.fill(known.disk, volume)
        self.array.journal("ec2", "truth.created", volume=known.disk, name=name, id=volume.id, **copied)
        return known

    def removed(self, volume_id: str) -> None:
        """A volume is, or is being, deleted."""
        known = self._known.get(volume_id)
        if known is not None and not known.deleted:
            known.deleted = True
            self.array.disks.discard(known.disk)
            self.array.content.pop(known.disk, None)
            self.array.journal("ec2", "truth.deleted", volume=known.disk, id=volume_id)


class _Guests(Devices):
    """The devices of the played machines."""

    def __init__(self, ec2: Ec2) -> None:
        self._ec2 = ec2

    async def create(self, volume_id: str, size: int, source: str = "") -> None:
        return

    async def delete(self, volume_id: str) -> None:
        return

    async def resize(self, volume_id: str, size: int) -> None:
        return

    async def attach(self, volume_id: str, instance_id: str, device: str) -> None:
        array, disk, node = self._ec2.array, self._ec2.disk(volume_id), self._ec2.node(instance_id)
        if not array.is_attached(disk, node):
            array.appear(disk, node, path=device_path(device))

    async def detach(self, volume_id: str, instance_id: str, force: bool = False) -> None:
        array, disk, node = self._ec2.array, self._ec2.disk(volume_id), self._ec2.node(instance_id)
        if (disk, node) in array.mounted and not force:
            raise VolumeBusy(volume_id, ["a mount"])
        if array.is_attached(disk, node):
            array.vanish(disk, node)

    async def snapshot(self, volume_id: str, snapshot_id: str) -> None:
        return

    async def delete_snapshot(self, snapshot_id: str) -> None:
        return


class _Records(Journal):
    """Reads what the cloud makes durable."""

    def __init__(self, ec2: Ec2) -> None:
        self._ec2 = ec2

    def load(self) -> Iterable[tuple[str, str, bytes]]:
        return ()

    def save(self, changes: Iterable[tuple[str, str, bytes | None]]) -> None:
        for kind, id, content in changes:
            if kind == "volume" and content is not None:
                self._ec2.record(msgspec.json.decode(content, type=Volume))
            elif kind == "volume":
                self._ec2.removed(id)
            elif kind == "snapshot" and content is not None:
                self._ec2.snapshots.record(msgspec.json.decode(content, type=Snapshot))
            elif kind == "snapshot":
                self._ec2.snapshots.removed(id)


def device_path(device: str) -> str:
    """Where a guest finds a device name, however it is spelt."""
    return f"/dev/{same(device)}"


class Ec2Wire(Ec2Api):
    """EC2 as one life of the driver's process reaches it: under the conditions of the process's link.
    `asked_by` names the caller."""

    def __init__(self, ec2: Ec2, link: Link, random: Random, asked_by: Callable[[], str]) -> None:
        self._ec2, self._link, self._random, self._asked_by = ec2, link, random, asked_by
        self._loop = asyncio.get_running_loop()

    async def call(self, action: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        return await finish(asyncio.ensure_future(self._call(action, request)))

    async def _call(self, action: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        reply: asyncio.Future[Mapping[str, Any]] = self._loop.create_future()
        traced = Request("POST", f"/ec2/{action}")
        self._link.on_request(traced)
        fault = self._link.interceptor.request(traced) if self._link.interceptor is not None else ""
        if fault == "crash-before":
            return await reply
        with self._ec2.under_way(action, request, self._asked_by()):
            arrives_in = self._put_off(action, request, reply) or self._way(action, fault, reply)
            if arrives_in >= 0:
                self._later(arrives_in, self._arrive, action, request, reply)
            try:
                return await reply
            except Refused as error:
                raise Ec2Error(error.code, error.message, action) from error

    def _put_off(
        self, action: str, request: Mapping[str, Any], reply: asyncio.Future[Mapping[str, Any]]
    ) -> float:
        """After how many seconds a request is carried out that is answered with an error at once; 0: it is
        not put off."""
        if action not in CHANGES or not self._ec2.puts_off or self._random.random() >= self._ec2.puts_off:
            return 0.0
        seconds = self._random.random() * LATEST_S + WIRE_S
        self._later(WIRE_S, _refuse, reply)
        self._ec2.array.journal("ec2", "truth.put-off", act=action, seconds=round(seconds, 3))
        return seconds

    def _way(self, action: str, fault: str, reply: asyncio.Future[Mapping[str, Any]]) -> float:
        """After how many seconds the request arrives; negative: never. Sees to it that a lost one ends."""
        conditions, chance = self._link.conditions, self._random
        quick = WIRE_S * (0.5 + chance.random())
        if fault in ("request-lost", "reply-lost"):
            self._later(PATIENCE_S, _fail, reply, action)
            return quick if fault == "reply-lost" else -1.0
        if conditions.requests_cut:
            self._later(chance.choice((0.0, 1.0, 10.0)), _fail, reply, action)
            return -1.0
        if not conditions.unreliable:
            return quick
        drawn, patience = chance.random(), chance.random() * 10
        if drawn < conditions.lost + conditions.unanswered:
            self._later(patience + quick, _fail, reply, action)
            return -1.0 if drawn < conditions.lost else quick
        arrives_in = chance.random() * LATEST_S
        if drawn < conditions.lost + conditions.unanswered + conditions.late:
            self._later(chance.random() * arrives_in, _fail, reply, action)
        return arrives_in

    def _later(self, seconds: float, act: Callable[..., None], *args: Any) -> None:
        self._loop.call_later(seconds, act, *args, context=self._ec2.host.context)

    def _arrive(
        self, action: str, request: Mapping[str, Any], reply: asyncio.Future[Mapping[str, Any]]
    ) -> None:
        self._ec2.host.start(self._serve(action, request, reply))

    async def _serve(
        self, action: str, request: Mapping[str, Any], reply: asyncio.Future[Mapping[str, Any]]
    ) -> None:
        answer: Mapping[str, Any] = {}
        refused: Refused | None = None
        try:
            answer = await self._ec2.carry_out(action, request)
        except Refused as error:
            refused = error
        await asyncio.sleep(WIRE_S)
        if reply.done():
            return
        if self._link.conditions.replies_cut:
            self._later(1.0, _fail, reply, action)
        elif refused is not None:
            reply.set_exception(refused)
        else:
            reply.set_result(answer)


def _refuse(reply: asyncio.Future[Mapping[str, Any]]) -> None:
    if not reply.done():
        reply.set_exception(Refused("InternalError", "An internal error has occurred"))


def _fail(reply: asyncio.Future[Mapping[str, Any]], action: str) -> None:
    if not reply.done():
        reply.set_exception(Ec2Unreachable(f"{action}: no answer"))
