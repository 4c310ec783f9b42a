"""What a device can ask for, and do to, a machine: one interface, and the words for it.

Guarantees of every implementation: `power` is derived from the live machine at that moment; when `turn_off`
has returned, nothing of the machine runs.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Protocol

from mooring.cluster.machines.interface import Power


class Device(StrEnum):
    """Which device asks."""

    BMC = "bmc"
    STRIP = "strip"
    SWITCH = "switch"


class Verb(StrEnum):
    """What a device asks for. `POWER` and `PORT` read; the others change something."""

    POWER = "power"
    ON = "on"
    OFF = "off"
    RESET = "reset"
    BUTTON = "button"
    """The power button: what runs in the machine is asked to shut down."""
    PORT = "port"
    UP = "up"
    DOWN = "down"


class PortState(StrEnum):
    """Of a port on the switch."""

    UP = "up"
    DOWN = "down"


DONE = "done"
"""The answer to a verb that changes something."""


class DeviceError(Exception):
    """The device says that it cannot do that; the message says which machine, and why."""


class Silence(Exception):
    """The device gives no answer at all."""


class PowerSwitch(Protocol):
    """The machines of a cluster. Raises DeviceError."""

    def machines(self) -> Collection[str]:
        """Their names."""
        ...

    async def power(self, machine: str) -> Power: ...

    async def turn_on(self, machine: str) -> None:
        """Returns when it has power. Idempotent."""
        ...

    async def turn_off(self, machine: str) -> None:
        """Cuts its power; returns when nothing of it runs. Idempotent."""
        ...

    async def reset(self, machine: str) -> None:
        """Cuts its power and gives it again. Nothing happens to a machine that is off."""
        ...

    async def press_button(self, machine: str) -> None:
        """Asks what runs in it to shut down; returns at once. Nothing happens to a machine that is off."""
        ...

    async def port(self, machine: str) -> PortState: ...

    async def set_port(self, machine: str, state: PortState) -> None:
        """Idempotent."""
        ...


async def obey(switch: PowerSwitch, machine: str, verb: Verb) -> str:
    """Does what `verb` says to a machine; the answer in a word."""
    match verb:
        case Verb.POWER:
            return await switch.power(machine)
        case Verb.PORT:
            return await switch.port(machine)
        case Verb.ON:
            await switch.turn_on(machine)
        case Verb.OFF:
            await switch.turn_off(machine)
        case Verb.RESET:
            await switch.reset(machine)
        case Verb.BUTTON:
            await switch.press_button(machine)
        case Verb.UP | Verb.DOWN:
            await switch.set_port(machine, PortState(verb))
    return DONE
