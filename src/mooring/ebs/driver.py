"""Puts `ebs.csi.aws.com` together, for one process: controller, node, or both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mooring.csi.driver.services import Driver, Expansion, PluginService
from mooring.csi.errors import Code
from mooring.csi.proto import csi_pb2 as csi
from mooring.ebs.capabilities import ACCESS_MODES
from mooring.ebs.controller_service.controller import GIVES_WAY, IN_FLIGHT, EbsController
from mooring.ebs.errors import MetadataError
from mooring.ebs.node_service.devices import DeviceFinder
from mooring.ebs.node_service.metadata import Configured, Imds, Instance, Metadata
from mooring.ebs.node_service.node import EbsNode
from mooring.ebs.options import DRIVER_NAME, Options
from mooring.mounts.errors import CommandFailed, MountsError, ProbeFailed
from mooring.mounts.interface import Mounts

CODES: Mapping[type[Exception], Code] = {
    MetadataError: Code.UNAVAILABLE,
    MountsError: Code.FAILED_PRECONDITION,
    CommandFailed: Code.INTERNAL,
    ProbeFailed: Code.INTERNAL,
}
"""CSI's codes for the node service's errors; the controller translates EC2's errors itself
(`error_codes`)."""


@dataclass(frozen=True)
class EbsDriver(Driver):
    """The driver with its answer to Probe: a node is always ready, a controller if EC2 answers."""

    async def probe(self, request: csi.ProbeRequest) -> csi.ProbeResponse:
        """Raises CsiError, FAILED_PRECONDITION, with EC2's message."""
        if isinstance(self.controller, EbsController):
            await self.controller.check()
        return await super().probe(request)


def ebs_driver(version: str, controller: EbsController | None, node: EbsNode | None) -> Driver:
    """The driver with these services."""
    return EbsDriver(
        name=DRIVER_NAME,
        version=version,
        controller=controller,
        node=node,
        plugin_services=(PluginService.CONTROLLER_SERVICE, PluginService.VOLUME_ACCESSIBILITY_CONSTRAINTS),
        expansion=(Expansion.ONLINE,),
        access_modes=ACCESS_MODES,
        codes=CODES,
        in_flight=IN_FLIGHT,
        gives_way=GIVES_WAY,
    )


def metadata_of(options: Options) -> Metadata:
    """The instance's metadata: from the options, and what they lack from the instance metadata service."""
    configured = Instance(options.instance_id, options.instance_type, options.zone, options.region)
    return Configured(configured, Imds(options.metadata_endpoint) if options.metadata_endpoint else None)


async def region_of(options: Options) -> str:
    """The region in which EC2 is called. Raises MetadataError if it is not known."""
    if options.region:
        return options.region
    if not options.metadata_endpoint:
        raise MetadataError(
            "no region: set AWS_REGION, or --region, where the instance metadata service is not asked"
        )
    return (await Imds(options.metadata_endpoint).instance()).region


def make_node(options: Options, mounts: Mounts, metadata: Metadata) -> EbsNode:
    """The node service as the options ask for it."""
    return EbsNode(
        mounts,
        DeviceFinder(dev=options.device_dir),
        metadata,
        volume_attach_limit=options.volume_attach_limit,
        reserved_volume_attachments=options.reserved_volume_attachments,
        legacy_xfs=options.legacy_xfs,
    )
