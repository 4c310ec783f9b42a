"""What must hold in the end of the disks that EC2 has made: each is what its class and its volume say (L22).

Read from the cloud's own records and compared with what was worked out by hand for the class
(`cluster.disk_classes`), with the PersistentVolume (name, size, zone, file system), and with the driver's own
list.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator

from mooring.cloud.records.resources import Volume
from mooring.csi.driver.capacity import GIB
from mooring.csi.errors import CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.rpc import Controller
from mooring.kube.objects import PersistentVolume
from mooring.kube.quantity import parse_bytes
from mooring.simulation.checks.liveness import Complaint
from mooring.simulation.cluster.cluster import SimulatedCluster
from mooring.simulation.cluster.disk_classes import CLASSES, DiskClass

PATIENCE_S = 30.0
OF_MODIFICATION = ("type", "iops", "throughput")
OF_VOLUME = "kubernetes.io/created-for/pv/name"


async def complaints(cluster: SimulatedCluster) -> AsyncIterator[Complaint]:
    """Yields each disk that is something else."""
    if cluster.ec2 is None:
        return
    wanted = CLASSES[cluster.scenario.disks]
    volumes = {
        each.spec.csi.volume_handle: each
        for each in (await cluster.api.list(PersistentVolume)).items
        if each.spec.csi is not None
    }
    disks = [cluster.ec2.cloud.region.volume(id) for id in cluster.ec2.volumes()]
    for disk in disks:
        volume = volumes.get(disk.id)
        has_attributes = volume is not None and bool(volume.spec.volume_attributes_class_name)
        is_modified = has_attributes or cluster.ec2.is_modified(disk.id)
        of_its_class = of_class(disk, wanted, is_modified=is_modified)
        for what in (*of_its_class, *of_volume(disk, volume, wanted)):
            yield "L22", f"the disk of {cluster.ec2.disk(disk.id)} {what}"
    assert cluster.ebs is not None
    try:
        answer = await cluster.ebs.call(Controller.list_volumes, csi.ListVolumesRequest(), PATIENCE_S)
    except CsiError as error:
        yield "L22", f"the driver does not list its volumes: {error}"
    else:
        for what in listed(disks, answer):
            yield "L22", f"the driver lists {what}"


def listed(disks: Iterable[Volume], answer: csi.ListVolumesResponse) -> Iterator[str]:
    """What the driver's list says otherwise than the cloud: which disks there are, how large, and where."""
    said = {
        each.volume.volume_id: (each.volume.capacity_bytes, sorted(each.status.published_node_ids))
        for each in answer.entries
    }
    there = {each.id: (each.size * GIB, sorted(one.instance for one in each.attachments)) for each in disks}
    for id in sorted(said.keys() | there.keys()):
        if said.get(id) != there.get(id):
            yield f"{id} as {said.get(id)}, and {there.get(id)} is so (bytes, instances)"


def of_class(disk: Volume, wanted: DiskClass, *, is_modified: bool = False) -> Iterator[str]:
    """What is otherwise than the class and the operator say. A disk that was enlarged has kept its IOPS; how
    fast one is that was modified, a VolumeAttributesClass says, and by that how small it may be."""
    is_other = is_modified and disk.type != wanted.has.get("type", disk.type)
    for field, value in wanted.has.items():
        there = getattr(disk, field)
        if (is_modified and field in OF_MODIFICATION) or (is_other and field == "size"):
            continue
        if there != value and not (field == "size" and there > value):
            yield f"has {field} {there}, and its class says {value}"
    for key, value in wanted.tags.items():
        if disk.tags.get(key) != value:
            yield f"has tag {key}={disk.tags.get(key)}, and should have {value}"
    for key in wanted.lacks:
        if key in disk.tags:
            yield f"has tag {key}={disk.tags[key]}, which it was not given"


def of_volume(disk: Volume, volume: PersistentVolume | None, wanted: DiskClass) -> Iterator[str]:
    """What is otherwise than its PersistentVolume says."""
    if volume is None or volume.spec.csi is None:
        return
    if disk.tags.get(OF_VOLUME, volume.name) != volume.name:
        yield f"has tag {OF_VOLUME}={disk.tags[OF_VOLUME]}, and is of {volume.name}"
    if disk.size * GIB != parse_bytes(volume.spec.capacity.get("storage", 0)):
        yield f"has {disk.size} GiB, and {volume.name} says {volume.spec.capacity}"
    if disk.zone not in _zones(volume):
        yield f"is in {disk.zone}, and {volume.name} says {sorted(_zones(volume))}"
    is_raw, csi_source = volume.spec.volume_mode == "Block", volume.spec.csi
    if volume.spec.mount_options != (() if is_raw else wanted.mount_options):
        yield f"is to be mounted with {volume.spec.mount_options} by {volume.name}, and its class says otherwise"
    if not is_raw and csi_source.fs_type not in ("", wanted.fs_type):
        yield f"is to have {csi_source.fs_type} by {volume.name}, and its class says {wanted.fs_type}"


def _zones(volume: PersistentVolume) -> set[str]:
    affinity = volume.spec.node_affinity
    terms = (
        affinity.required.node_selector_terms
        if affinity is not None and affinity.required is not None
        else ()
    )
    return {value for term in terms for each in term.match_expressions for value in each.values}
