"""The ways in which EBS volumes can be used: one rule for the controller service and for the node service.
Pure."""

from __future__ import annotations

from collections.abc import Iterable

from mooring.csi.driver.mount_options import flags_refusal
from mooring.csi.driver.services import AccessMode
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.ebs.formatting import fs_type_of

ACCESS_MODES = (AccessMode.SINGLE_NODE_WRITER, AccessMode.MULTI_NODE_MULTI_WRITER)
"""An EBS volume is for one node; a raw one with multi-attach can be for several."""

DEVICE_PATH = "devicePath"
"""Key of a publish context: the device name under which EC2 attached the volume."""


def check_capabilities(capabilities: Iterable[csi.VolumeCapability]) -> None:
    """Raises CsiError, INVALID_ARGUMENT, unless the driver supports all of these capabilities."""
    if problem := refusal(capabilities):
        raise CsiError(Code.INVALID_ARGUMENT, problem)


def refusal(capabilities: Iterable[csi.VolumeCapability]) -> str:
    """Why the driver does not support these capabilities; empty if it supports all."""
    return "; ".join(problem for capability in capabilities if (problem := _refusal(capability)))


def _refusal(capability: csi.VolumeCapability) -> str:
    mode = capability.access_mode.mode
    if mode not in ACCESS_MODES:
        return f"{AccessMode.Name(mode)}: choose one of {', '.join(map(AccessMode.Name, ACCESS_MODES))}"
    if not capability.HasField("mount"):
        return ""
    if mode == AccessMode.MULTI_NODE_MULTI_WRITER:
        return (
            "MULTI_NODE_MULTI_WRITER: a file system may be mounted by one node only: ask for a block volume"
        )
    try:
        fs_type_of(capability.mount.fs_type)
    except CsiError as error:
        return error.message
    return flags_refusal(capability.mount.mount_flags)
