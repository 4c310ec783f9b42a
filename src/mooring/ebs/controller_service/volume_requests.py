"""The volume that a CreateVolume request wants, checked; and whether an existing volume is that one. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mooring.csi.driver.capacity import GIB, fits
from mooring.csi.driver.services import AccessMode
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.ebs.capabilities import check_capabilities
from mooring.ebs.controller_service.parameters import BLOCK_ATTACH, VolumeParameters, volume_parameters
from mooring.ebs.controller_service.tags import AUTO_IOPS_TAG, IOPS_PER_GB_TAG, TagPolicy
from mooring.ebs.controller_service.volume_types import TYPES, iops_for, size_for
from mooring.ebs.ec2.records import Snapshot, Volume
from mooring.ebs.formatting import check_format
from mooring.ebs.topology import Place, allows, places


@dataclass(frozen=True)
class Wanted:
    """The volume that a request wants. `size` in GiB."""

    name: str
    size: int
    capacity: csi.CapacityRange
    parameters: VolumeParameters
    iops: int
    """0: the type's own."""
    multi_attach: bool
    topology: csi.TopologyRequirement
    places: Sequence[Place]
    """Best first; empty: anywhere."""
    snapshot: str = ""
    source_volume: str = ""
    context: Mapping[str, str] = field(default_factory=dict[str, str])
    tags: Mapping[str, str] = field(default_factory=dict[str, str])


def wanted_volume(
    request: csi.CreateVolumeRequest, policy: TagPolicy, source: Snapshot | Volume | None
) -> Wanted:
    """The volume that the request wants; `source` is EC2's description of its content source. Raises
    CsiError: INVALID_ARGUMENT, OUT_OF_RANGE, RESOURCE_EXHAUSTED (a copy cannot be in the wanted zone)."""
    parameters = volume_parameters(request.parameters, request.mutable_parameters)
    check_capabilities(request.volume_capabilities)
    multi_attach = any(
        each.access_mode.mode == AccessMode.MULTI_NODE_MULTI_WRITER for each in request.volume_capabilities
    )
    _check_multi_attach(parameters.type, multi_attach)
    size = size_for(request.capacity_range, parameters.type, source.size if source else 0)
    if isinstance(source, Volume):
        _check_copy(source, parameters, request.accessibility_requirements)
    _check_least(request.capacity_range, source)
    iops = parameters.iops or iops_for(parameters.type, size, parameters.iops_per_gb, parameters.auto_iops)
    return Wanted(
        name=request.name,
        size=size,
        capacity=request.capacity_range,
        parameters=parameters,
        iops=iops,
        multi_attach=multi_attach,
        topology=request.accessibility_requirements,
        places=places(request.accessibility_requirements),
        snapshot=source.id if isinstance(source, Snapshot) else "",
        source_volume=source.id if isinstance(source, Volume) else "",
        context=_context(request, parameters),
        tags=policy.of_volume(request.name, {**parameters.metadata, **_noted(parameters)}, parameters.tags),
    )


def conflict(volume: Volume, wanted: Wanted) -> str:
    """Why the volume is not the wanted one; empty if it is."""
    parameters, size = wanted.parameters, volume.size * GIB
    if not fits(size, wanted.capacity):
        return f"it has {volume.size} GiB"
    if not allows(wanted.topology, volume.zone, volume.zone_id):
        return f"it is in zone {volume.zone}, where it is not wanted"
    if volume.type != parameters.type:
        return f"its type is {volume.type}, not {parameters.type}"
    if parameters.iops and volume.iops != parameters.iops:
        return f"it has {volume.iops} IOPS"
    if parameters.throughput and volume.throughput != parameters.throughput:
        return f"its throughput is {volume.throughput} MiB/s"
    if parameters.encrypted and not volume.encrypted:
        return "it is not encrypted"
    if parameters.kms_key_id and not _is_same_key(volume.kms_key_id, parameters.kms_key_id):
        return f"its KMS key is {volume.kms_key_id}"
    if volume.snapshot_id != wanted.snapshot:
        return f"it was made from {volume.snapshot_id or 'no snapshot'}"
    if volume.source_id != wanted.source_volume:
        return f"it is a copy of {volume.source_id or 'no volume'}"
    if volume.multi_attach != wanted.multi_attach:
        return f"it can{'' if volume.multi_attach else 'not'} be attached to several nodes"
    return ""


def _check_multi_attach(type: str, multi_attach: bool) -> None:
    if multi_attach and not (type in TYPES and TYPES[type].multi_attach):
        raise CsiError(
            Code.INVALID_ARGUMENT, f"a {type} volume cannot be attached to several nodes: ask for type io2"
        )


def _check_least(wanted: csi.CapacityRange, source: Snapshot | Volume | None) -> None:
    if source is not None and 0 < -(-wanted.required_bytes // GIB) < source.size:
        raise CsiError(Code.OUT_OF_RANGE, f"{source.id} has {source.size} GiB: ask for at least as many")


def _check_copy(source: Volume, parameters: VolumeParameters, topology: csi.TopologyRequirement) -> None:
    """A copy is in its source's zone, and as encrypted as its source (EC2's API reference, CopyVolumes)."""
    if not allows(topology, source.zone, source.zone_id):
        raise CsiError(
            Code.RESOURCE_EXHAUSTED,
            f"a copy of {source.id} can only be in its zone, {source.zone}, where none is wanted",
        )
    key = parameters.kms_key_id
    if source.encrypted and key and not _is_same_key(source.kms_key_id, key):
        raise CsiError(
            Code.INVALID_ARGUMENT, f"a copy of {source.id} has its KMS key, {source.kms_key_id}, not another"
        )


def _is_same_key(shown: str, requested: str) -> bool:
    """Whether the ARN that EC2 shows is the requested key, which may be given by its id. An alias passes:
    only EC2 can resolve it."""
    return "alias/" in requested or shown == requested or shown.endswith(f"/{requested}")


def _context(request: csi.CreateVolumeRequest, parameters: VolumeParameters) -> dict[str, str]:
    context: dict[str, str] = {}
    for capability in request.volume_capabilities:
        is_block = capability.HasField("block")
        context |= check_format(request.parameters, capability.mount.fs_type, is_block)
    if parameters.wait_initialized:
        context[BLOCK_ATTACH] = "true"
    return context


def _noted(parameters: VolumeParameters) -> dict[str, str]:
    """Tags with what the driver must know when the volume is expanded."""
    noted = {IOPS_PER_GB_TAG: str(parameters.iops_per_gb)} if parameters.iops_per_gb else {}
    return noted | ({AUTO_IOPS_TAG: "true"} if parameters.auto_iops_on_modify else {})
