"""The CSI drivers that a user brings to `mooring up --csi`: where they listen, what is done to their calls.
Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mooring.csi.address import parse_address
from mooring.csi.errors import EndpointError
from mooring.csi.faults import parse_fault

HOLE = "{node}"
REGISTERED = "registered"
"""Instead of an address: the driver registers with the nodes' agents, and its controllers are started by its
user."""
RESERVED = frozenset({"timeout", "faults", "faultfile", "trace"})


@dataclass(frozen=True)
class CSIDrivers:
    """`addresses` by driver, `{node}` in them stands for a node's name; `controllers` where a driver's
    controller service is elsewhere than on the first node."""

    addresses: Mapping[str, str] = field(default_factory=dict[str, str])
    controllers: Mapping[str, str] = field(default_factory=dict[str, str])
    faults: Sequence[str] = ()
    logs: Sequence[Path] = ()
    """Files that the drivers write, for the live view."""

    def __bool__(self) -> bool:
        return bool(self.addresses)

    def settings(self, node: str, trace: Path | None) -> dict[str, str]:
        """Settings of the CSI plugin in the agent of `node`; without `trace` its calls are not kept."""
        return self._all(
            {name: address.replace(HOLE, node) for name, address in self.addresses.items()}, trace
        )

    def controller_settings(self, first_node: str, trace: Path) -> dict[str, str]:
        """Settings of the CSI plugin in the controllers."""
        there = {name: address.replace(HOLE, first_node) for name, address in self.addresses.items()}
        return self._all(there | dict(self.controllers), trace)

    def _all(self, addresses: Mapping[str, str], trace: Path | None) -> dict[str, str]:
        if not self:
            return {}
        known = {name: address for name, address in addresses.items() if address != REGISTERED}
        faults = {"faults": " ".join(self.faults)} if self.faults else {}
        return {**known, **faults, **({"trace": str(trace)} if trace else {})}


def parse_drivers(
    given: Sequence[str],
    controllers: Sequence[str],
    faults: Sequence[str],
    nodes: int,
    logs: Sequence[Path] = (),
) -> CSIDrivers:
    """From `--csi NAME=ADDRESS`, `--csi-controller NAME=ADDRESS` and `--csi-fault`. Raises ValueError, which
    says what is wrong and how it is written."""
    addresses = dict(_named(each, "--csi") for each in given)
    of_controllers = dict(_named(each, "--csi-controller") for each in controllers)
    for name, address in addresses.items():
        if HOLE not in address and address != REGISTERED and nodes > 1:
            raise ValueError(
                f"--csi {name}={address}: {nodes} nodes need a driver each: write {HOLE} into the address, as in "
                f"unix:///tmp/{name}-{HOLE}.sock, or start the cluster with --nodes 1"
            )
    if missing := of_controllers.keys() - addresses.keys():
        raise ValueError(f"--csi-controller {min(missing)}: give its nodes' address with --csi, too")
    for fault in faults:
        parse_fault(fault)
    return CSIDrivers(addresses, of_controllers, tuple(faults), tuple(logs))


def _named(text: str, option: str) -> tuple[str, str]:
    name, equals, address = text.partition("=")
    if not (name and equals) or name in RESERVED:
        raise ValueError(f"{option} {text!r}: it has the form NAME=unix:///PATH, with the driver's name")
    if address == REGISTERED:
        return name, address
    try:
        parse_address(address.replace(HOLE, "node"))
    except EndpointError as error:
        raise ValueError(f"{option} {text!r}: {error.message}") from error
    return name, address
