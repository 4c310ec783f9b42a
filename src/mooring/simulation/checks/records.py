"""What must hold in the end of the records of volumes: they say what is so, and nothing is left in them of
what is over (L19).

Read from the API at the end of a run. What is left in a record is acted upon by the next controller that
starts. Not judged while a machine is silent for good: of what it has nothing more is known.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping

from mooring.kube.objects import Node, PersistentVolume, PersistentVolumeClaim, VolumeAttachment
from mooring.kube.quantity import parse_bytes
from mooring.simulation.checks.liveness import Complaint
from mooring.simulation.cluster.careless_users import HOLD
from mooring.simulation.cluster.cluster import SimulatedCluster
from mooring.simulation.cluster.other_parties import ATTACHED as ANOTHERS
from mooring.volumes.matching import BIND_COMPLETED, PRE_RESIZE_CAPACITY
from mooring.volumes.names import (
    CSI_PLUGIN,
    DETACH_REQUESTED_AT,
    DETACHED,
    DETACHING,
    FORCE_DETACH_REPORT,
    FORCE_DETACH_SINCE,
    NODE_ABSENT_SINCE,
    NODE_UID,
    attachable_volume_name,
    csi_volume_name,
    volume_of,
)

OVER = (
    DETACHING,
    DETACH_REQUESTED_AT,
    DETACHED,
    FORCE_DETACH_SINCE,
    FORCE_DETACH_REPORT,
    NODE_ABSENT_SINCE,
)
"""What a VolumeAttachment says only while its volume is being detached, or may be."""
PROTECTION = {"kubernetes.io/pvc-protection", HOLD}


async def complaints(cluster: SimulatedCluster) -> AsyncIterator[Complaint]:
    """Yields each record that says what is not so."""
    if cluster.silent or cluster.lost:
        return
    records = (await cluster.api.list(VolumeAttachment)).items
    nodes = {each.name: each for each in (await cluster.api.list(Node)).items}
    for what in (*of_records(records, nodes), *of_nodes(records, nodes.values())):
        yield "L19", what
    volumes = {each.name: each for each in (await cluster.api.list(PersistentVolume)).items}
    claims = (await cluster.api.list(PersistentVolumeClaim)).items
    for what in (*of_claims(claims, volumes), *of_volumes(volumes.values(), claims)):
        yield "L19", what


def of_records(records: Iterable[VolumeAttachment], nodes: Mapping[str, Node]) -> Iterator[str]:
    """What is wrong with VolumeAttachments, of which all that stay are attached."""
    for each in records:
        if each.deleting or not each.status.attached:
            continue
        node, annotations = nodes.get(each.spec.node_name), each.metadata.annotations
        if left := [name for name in OVER if annotations.get(name)]:
            yield f"VolumeAttachment {each.name} still has {', '.join(left)}"
        if each.status.attach_error is not None or each.status.detach_error is not None:
            yield f"VolumeAttachment {each.name} is attached, and still has an error"
        if node is not None and annotations.get(NODE_UID, node.uid) != node.uid:
            yield f"VolumeAttachment {each.name} is of another Node {node.name} than there is"


def of_nodes(records: Iterable[VolumeAttachment], nodes: Iterable[Node]) -> Iterator[str]:
    """What is wrong with the lists of Nodes: each names what is attached to the node."""
    attached = {(each.spec.node_name, _volume(each)) for each in records if each.status.attached}
    for node in nodes:
        wanted = {volume for name, volume in attached if name == node.name}
        listed = {each.name for each in node.status.volumes_attached} - {ANOTHERS}
        used = {*node.status.volumes_in_use}
        if listed != wanted:
            yield f"volumesAttached of node {node.name} says {sorted(listed)}, and {sorted(wanted)} is attached"
        if wanted - used:  # what a pod waits for there, which another node rightly has, is in use, too
            yield f"volumesInUse of node {node.name} says {sorted(used)}, and {sorted(wanted)} is attached"


def _volume(record: VolumeAttachment) -> str:
    """Its unique name, which upstream's do not say. Disks have the names of their PersistentVolumes."""
    handle = record.spec.source.persistent_volume_name or ""
    return volume_of(record) or attachable_volume_name(
        CSI_PLUGIN, csi_volume_name(record.spec.attacher, handle)
    )


def of_claims(
    claims: Iterable[PersistentVolumeClaim], volumes: Mapping[str, PersistentVolume]
) -> Iterator[str]:
    """What is wrong with claims that are bound, and with their volumes."""
    for claim in claims:
        volume = volumes.get(claim.spec.volume_name)
        if claim.deleting or claim.status.phase != "Bound" or volume is None:
            continue
        reference = volume.spec.claim_ref
        if volume.status.phase != "Bound" or reference is None or reference.uid != claim.uid:
            yield f"claim {claim.name} is bound, and volume {volume.name} is not bound to it"
        if claim.metadata.annotations.get(BIND_COMPLETED) != "yes":
            yield f"claim {claim.name} is bound, and does not say that this is complete"
        if not _is_capacity(claim, volume):
            has, what = claim.status.capacity, volume.spec.capacity
            yield f"claim {claim.name} says that it has {has}, and its volume has {what}"
        if claim.status.access_modes != volume.spec.access_modes:
            yield f"claim {claim.name} has other access modes than its volume"
        if left := sorted(set(claim.metadata.finalizers) - PROTECTION):
            yield f"claim {claim.name} is bound, and is still kept by {', '.join(left)}"
        if "kubernetes.io/pvc-protection" not in claim.metadata.finalizers:
            yield f"claim {claim.name} is bound, and nothing protects it"


def _is_capacity(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Whether the claim says what its volume has; less, while its file system is still to grow."""
    said, there = claim.status.capacity.get("storage"), volume.spec.capacity.get("storage", 0)
    if said is None:
        return False
    grows = bool(claim.status.conditions) or PRE_RESIZE_CAPACITY in volume.metadata.annotations
    return parse_bytes(said) == parse_bytes(there) or (grows and parse_bytes(said) < parse_bytes(there))


def of_volumes(volumes: Iterable[PersistentVolume], claims: Iterable[PersistentVolumeClaim]) -> Iterator[str]:
    """What is wrong with the phases of volumes: one whose claim is gone is not bound any more."""
    there = {claim.uid for claim in claims}
    for volume in volumes:
        reference = volume.spec.claim_ref
        if volume.status.phase == "Bound" and (reference is None or reference.uid not in there):
            yield f"volume {volume.name} is Bound, and its claim is gone"
