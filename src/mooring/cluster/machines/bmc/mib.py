"""What the power strip and the switch show by SNMP: object identifiers, and which may be set to what. Pure.

The strip speaks the part of PowerNet-MIB that `fence_apc_snmp` reads (rPDUOutletControl, rPDUOutletStatus);
the switch IF-MIB as `fence_ifmib` uses it. Socket and port N belong to machine N.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mooring.cluster.machines.bmc.power_switch import Device, PortState, Verb
from mooring.cluster.machines.interface import Power

Oid = tuple[int, ...]

SYSTEM: Oid = (1, 3, 6, 1, 2, 1, 1)
IF_NUMBER: Oid = (1, 3, 6, 1, 2, 1, 2, 1, 0)
IF_ENTRY: Oid = (1, 3, 6, 1, 2, 1, 2, 2, 1)
IFX_ENTRY: Oid = (1, 3, 6, 1, 2, 1, 31, 1, 1, 1)
APC: Oid = (1, 3, 6, 1, 4, 1, 318, 1)
OUTLET_CONTROL: Oid = (*APC, 1, 12, 3, 3, 1, 1)
OUTLET_STATUS: Oid = (*APC, 1, 12, 3, 5, 1, 1)
APC_RACK_PDU: Oid = (*APC, 3, 4, 5)
UNKNOWN_AGENT: Oid = (1, 3, 6, 1, 4, 1, 8072, 3, 2, 255)

ON, OFF, REBOOT = 1, 2, 3
UP, DOWN = 1, 2
ETHERNET = 6


@dataclass(frozen=True)
class Live:
    """A number that is looked up at the machine: `numbers` by the answer to `verb`."""

    machine: str
    verb: Verb
    numbers: Mapping[str, int]


@dataclass(frozen=True)
class Both:
    """`UP` if all of the numbers are, else `DOWN`."""

    numbers: tuple[Live, ...]


@dataclass(frozen=True)
class Object:
    """`writes`: what is done when it is set to a number; empty if it cannot be set."""

    value: int | str | Oid | Live | Both
    writes: Mapping[int, tuple[str, Verb]] = field(default_factory=dict[int, tuple[str, Verb]])


class Tree:
    """The objects of one device, by identifier."""

    def __init__(self, device: Device, objects: Mapping[Oid, Object]) -> None:
        self.device = device
        self._objects = dict(objects)
        self._order = sorted(objects)

    def get(self, oid: Oid) -> Object | None:
        return self._objects.get(oid)

    def after(self, oid: Oid) -> Oid | None:
        """The first identifier behind `oid`."""
        place = bisect_right(self._order, oid)
        return self._order[place] if place < len(self._order) else None

    def knows_column(self, oid: Oid) -> bool:
        """Whether there is any object whose identifier is `oid` but for its last number."""
        column = oid[:-1]
        place = bisect_left(self._order, column)
        first = self._order[place] if place < len(self._order) else ()
        return len(first) == len(oid) and first[:-1] == column


def strip(machines: Sequence[str]) -> Tree:
    """A rack PDU with a socket for each machine."""
    power: dict[str, int] = {Power.ON: ON, Power.OFF: OFF}
    objects = _system("Switched power strip of a Mooring cluster", APC_RACK_PDU)
    for socket, machine in enumerate(machines, 1):
        state = Live(machine, Verb.POWER, power)
        orders = {ON: (machine, Verb.ON), OFF: (machine, Verb.OFF), REBOOT: (machine, Verb.RESET)}
        objects |= {
            (*OUTLET_CONTROL, 1, socket): Object(socket),
            (*OUTLET_CONTROL, 2, socket): Object(machine),
            (*OUTLET_CONTROL, 4, socket): Object(state, orders),
            (*OUTLET_STATUS, 1, socket): Object(socket),
            (*OUTLET_STATUS, 2, socket): Object(machine),
            (*OUTLET_STATUS, 4, socket): Object(state),
        }
    return Tree(Device.STRIP, objects)


def switch(machines: Sequence[str]) -> Tree:
    """An Ethernet switch with a port for each machine. The link of a port is up while the port is, and the
    machine has power."""
    ports: dict[str, int] = {PortState.UP: UP, PortState.DOWN: DOWN}
    power: dict[str, int] = {Power.ON: UP, Power.OFF: DOWN}
    objects = _system("Managed switch of a Mooring cluster", UNKNOWN_AGENT)
    objects[IF_NUMBER] = Object(len(machines))
    for port, machine in enumerate(machines, 1):
        admin = Live(machine, Verb.PORT, ports)
        orders = {UP: (machine, Verb.UP), DOWN: (machine, Verb.DOWN)}
        objects |= {
            (*IF_ENTRY, 1, port): Object(port),
            (*IF_ENTRY, 2, port): Object(machine),
            (*IF_ENTRY, 3, port): Object(ETHERNET),
            (*IF_ENTRY, 7, port): Object(admin, orders),
            (*IF_ENTRY, 8, port): Object(Both((admin, Live(machine, Verb.POWER, power)))),
            (*IFX_ENTRY, 1, port): Object(f"port{port}"),
            (*IFX_ENTRY, 18, port): Object(machine),
        }
    return Tree(Device.SWITCH, objects)


def _system(description: str, what: Oid) -> dict[Oid, Object]:
    return {
        (*SYSTEM, 1, 0): Object(description),
        (*SYSTEM, 2, 0): Object(what),
        (*SYSTEM, 5, 0): Object("mooring"),
    }
