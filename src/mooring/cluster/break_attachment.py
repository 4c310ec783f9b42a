"""Breaks a volume's attachment on purpose: an operator states that no other node writes to it.

The last resort, for storage that cannot cut a node off (iSCSI, FC, NFS): the volume is released by force,
whatever its node says. If that node still writes, two nodes write one volume, and its content is lost.
"""

from __future__ import annotations

from mooring.cluster.layout import ClusterError
from mooring.kube.client import Client
from mooring.kube.objects import Node, PersistentVolume, VolumeAttachment
from mooring.kube.times import Now, format_time
from mooring.volumes.attachment_lock import lock_of
from mooring.volumes.names import BROKEN


async def break_attachment(client: Client, name: str, *, confirmed: bool, by: str, now: Now) -> str:
    """Writes it on the volume's VolumeAttachments; ClusterError with the consequence unless it is
    `confirmed`."""
    volume = await client.find(PersistentVolume, name)
    if volume is None:
        raise ClusterError(f"there is no PersistentVolume {name!r}: nothing was changed")
    records = [
        each
        for each in (await client.list(VolumeAttachment)).items
        if each.spec.source.persistent_volume_name == name and not each.deleting
    ]
    if not records:
        raise ClusterError(f"PersistentVolume {name} has no VolumeAttachment: there is nothing to break")
    where = ", ".join([await _described(client, each) for each in records])
    if not confirmed:
        lock = lock_of(volume)
        held = (
            f"; its lock is held for {lock.node} and pod {lock.pod} (epoch {lock.epoch})" if lock.node else ""
        )
        raise ClusterError(
            f"PersistentVolume {name} is attached to {where}{held}. To break that takes the volume from there without "
            "asking: if a process there still writes, two nodes write one volume, and its content is lost. Make sure "
            "that the machine is off or cut off from the storage, then say so with --confirm"
        )
    stamp = f"by {by} at {format_time(now())}"
    for record in records:
        await client.revise(record, {"metadata": {"annotations": {BROKEN: stamp}}}, any_version=True)
    return f"PersistentVolume {name} is taken from {where} as soon as no pod wants it there"


async def _described(client: Client, record: VolumeAttachment) -> str:
    node = await client.find(Node, record.spec.node_name)
    return f"node {record.spec.node_name} ({'gone' if node is None else f'Ready is {node.ready}'})"
