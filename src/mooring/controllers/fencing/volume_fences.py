"""StorageFences: of each volume that an order shuts a node out of, whether that holds.

They are made before the order is given, for the volumes that it would cover then. What is released on the
word of a storage is released by them, one by one: a volume whose StorageFence was lifted, or is gone, has no
evidence. They go with their NodeFence; those of orders that are over go when a new one is given.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping

from mooring.kube.client import Client
from mooring.kube.errors import AlreadyExists, NotFound
from mooring.kube.events import Recorder
from mooring.kube.objects.fencing import FenceAttempt, FenceTarget, NodeFence, StorageFence
from mooring.kube.reason import Reason
from mooring.kube.times import Now, format_time


class VolumePhase:
    """Of a StorageFence."""

    PENDING = "Pending"
    FENCED = "Fenced"
    LIFTED = "Lifted"
    """The storage was seen to let the node in: what it wrote since is not known."""
    UNFENCED = "Unfenced"

    OVER = (LIFTED, UNFENCED)


async def intend(
    client: Client,
    fence: NodeFence,
    target: FenceTarget,
    mechanism: str,
    token: str,
    volumes: Mapping[str, str],
) -> None:
    """Writes down what the order would shut the node out of. `volumes`: VolumeAttachment to
    PersistentVolume."""
    for attachment, volume in sorted(volumes.items()):
        spec = {
            "nodeName": target.node_name,
            "nodeUID": target.node_uid,
            "bootID": target.boot_id,
            "volume": volume,
            "attachment": attachment,
            "mechanism": mechanism,
            "nodeFence": fence.name,
            "token": token,
        }
        metadata = {"name": name_of(fence.name, token, attachment), "ownerReferences": [_owner(fence)]}
        with contextlib.suppress(AlreadyExists):  # the order is given again
            await client.create(StorageFence, {"metadata": metadata, "spec": spec})
    for each in await of_fence(client, fence) if volumes else ():
        if each.spec.token != token:
            with contextlib.suppress(NotFound):
                await client.delete(StorageFence, each.name, uid=each.uid)


def name_of(fence: str, token: str, attachment: str) -> str:
    digest = hashlib.sha256(f"{token}/{attachment}".encode()).hexdigest()[:10]
    return f"{fence}-{digest}"


def _owner(fence: NodeFence) -> dict[str, str]:
    kind = NodeFence.RESOURCE
    return {
        "apiVersion": f"{kind.group}/{kind.version}",
        "kind": kind.kind,
        "name": fence.name,
        "uid": fence.uid,
    }


async def of_fence(client: Client, fence: NodeFence) -> list[StorageFence]:
    """Those of all orders of the fence, read live."""
    return [each for each in (await client.list(StorageFence)).items if each.spec.node_fence == fence.name]


async def of_order(client: Client, fence: NodeFence, proof: FenceAttempt) -> list[StorageFence]:
    """Those of the order whose word counts; of one that shuts out of no volumes, none."""
    if not proof.volumes:
        return []
    return [each for each in await of_fence(client, fence) if each.spec.token == proof.token]


async def shut(client: Client, fence: NodeFence, proof: FenceAttempt) -> dict[str, str]:
    """VolumeAttachment to PersistentVolume: what the node is shut out of, as far as nothing else was seen. A
    StorageFence may take away from what the order covers, and adds nothing to it."""
    held = await of_order(client, fence, proof)
    return {
        each.spec.attachment: each.spec.volume
        for each in held
        if each.status.phase not in VolumePhase.OVER
        and proof.volumes.get(each.spec.attachment) == each.spec.volume
    }


async def released(client: Client, fence: NodeFence, proof: FenceAttempt, now: Now) -> None:
    """Says of each that holds that its volume was given free."""
    reason = Reason("Fenced", f"{proof.mechanism}: {proof.message}")
    for each in await of_order(client, fence, proof):
        if each.status.phase in ("", VolumePhase.PENDING):
            status = _status(VolumePhase.FENCED, reason) | {"releasedAt": format_time(now())}
            await client.revise(each, {"status": status}, subresource="status")


async def lifted(
    client: Client, fence: NodeFence, proof: FenceAttempt, reason: Reason, recorder: Recorder
) -> None:
    """Says of each that the storage was seen to let the node in."""
    for each in await of_order(client, fence, proof):
        if each.status.phase not in VolumePhase.OVER:
            status = {"status": _status(VolumePhase.LIFTED, reason)}
            recorder.event(await client.revise(each, status, subresource="status"), "Warning", *reason)


async def closed(client: Client, fence: NodeFence, reason: Reason) -> None:
    """Says of each that its fence is over."""
    if any(each.volumes for each in fence.status.attempts):
        for each in await of_fence(client, fence):
            if each.status.phase not in VolumePhase.OVER:
                status = {"status": _status(VolumePhase.UNFENCED, reason)}
                await client.revise(each, status, subresource="status")


async def was_lifted(client: Client, fence: NodeFence, proof: FenceAttempt) -> bool:
    """Whether one was, so that what the fence had shown is to be shown anew."""
    held = await of_order(client, fence, proof)
    return any(each.status.phase == VolumePhase.LIFTED for each in held)


def _status(phase: str, reason: Reason) -> dict[str, str]:
    return {"phase": phase, "reason": reason.code, "message": reason.message}
