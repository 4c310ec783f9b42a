"""CSI messages: what passes validation has what the specification requires; nothing else than a refusal is
raised."""

from __future__ import annotations

from google.protobuf.message import DecodeError, Message

from mooring.csi.driver.validation import validate
from mooring.csi.errors import CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.secrets import stripped

_KINDS: list[type[Message]] = [
    csi.CreateVolumeRequest, csi.ControllerPublishVolumeRequest, csi.NodeStageVolumeRequest, csi.NodePublishVolumeRequest,
    csi.ValidateVolumeCapabilitiesRequest, csi.CreateSnapshotRequest, csi.ListVolumesRequest, csi.GetCapacityRequest,
    csi.NodeExpandVolumeRequest, csi.DeleteVolumeRequest,
]  # fmt: skip
_CAPABILITY = csi.VolumeCapability(
    mount=csi.VolumeCapability.MountVolume(fs_type="ext4", mount_flags=["ro"]),
    access_mode=csi.VolumeCapability.AccessMode(mode=csi.VolumeCapability.AccessMode.SINGLE_NODE_WRITER),
)
SEEDS = [
    b"\x00"
    + csi.CreateVolumeRequest(
        name="a",
        capacity_range=csi.CapacityRange(required_bytes=1),
        volume_capabilities=[_CAPABILITY],
        parameters={"a": "b"},
        secrets={"s": "hidden"},
    ).SerializeToString(),
    b"\x01"
    + csi.ControllerPublishVolumeRequest(
        volume_id="v", node_id="n", volume_capability=_CAPABILITY
    ).SerializeToString(),
    b"\x02" + csi.NodeStageVolumeRequest(volume_id="v", staging_target_path="/x").SerializeToString(),
]


def check(data: bytes) -> None:
    kind = _KINDS[data[0] % len(_KINDS)] if data else _KINDS[0]
    message = kind()
    try:
        message.ParseFromString(data[1:])
    except DecodeError:
        return
    stripped(message)
    try:
        validate(message, [csi.VolumeCapability.AccessMode.SINGLE_NODE_WRITER])
    except CsiError as error:
        assert error.message
