"""Devices that misbehave on purpose: the one place where an answer may differ from the truth.

A rule is set for a machine and a device while the cluster runs, and forgotten when it ends. Guarantees: what
a lying device claims is never what `PowerSwitch` says; what a late device was asked for happens, even if the
client that asked has gone.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from mooring.cluster.machines.bmc.power_switch import (
    DONE,
    Device,
    DeviceError,
    PortState,
    PowerSwitch,
    Silence,
    Verb,
    obey,
)
from mooring.cluster.machines.interface import Power

LONGEST_S = 3600.0


@dataclass(frozen=True)
class Late:
    """It does what it is asked, and answers, after so many seconds."""

    seconds: float

    def __str__(self) -> str:
        return f"late={self.seconds:g}s"


@dataclass(frozen=True)
class Silent:
    """It does nothing and answers nothing."""

    def __str__(self) -> str:
        return "silent"


@dataclass(frozen=True)
class Refusing:
    """It does nothing and answers with an error."""

    def __str__(self) -> str:
        return "refuse"


@dataclass(frozen=True)
class Lying:
    """It says that it has done it, and goes on saying so, and does nothing."""

    def __str__(self) -> str:
        return "lie"


@dataclass(frozen=True)
class Wrong:
    """It is connected to another machine: it does it to that one, and tells that one's state."""

    other: str

    def __str__(self) -> str:
        return f"wrong={self.other}"


Rule = Late | Silent | Refusing | Lying | Wrong
NONE = "none"
_SECONDS = re.compile(r"late=(\d{1,4}(?:\.\d{1,3})?)s?")


def parse(text: str, machines: Collection[str]) -> Rule | None:
    """`late=5s`, `silent`, `refuse`, `lie`, `wrong=OTHER`; None for `none`. ValueError says what is wrong."""
    if text == NONE:
        return None
    for rule in (Silent(), Refusing(), Lying()):
        if text == str(rule):
            return rule
    if (late := _SECONDS.fullmatch(text)) and (seconds := float(late[1])) <= LONGEST_S:
        return Late(seconds)
    if text.startswith("wrong="):
        other = text.removeprefix("wrong=")
        if other in machines:
            return Wrong(other)
        raise ValueError(f"no machine {other[:64]!r}: there are {', '.join(machines)}")
    raise ValueError(
        f"{text[:64]!r} is no misbehaviour: late=5s (up to {LONGEST_S:g}s), silent, refuse, lie, wrong=OTHER, {NONE}"
    )


class Misbehaving:
    """Answers for all devices, by the rules."""

    def __init__(self, switch: PowerSwitch) -> None:
        self.switch = switch
        self._rules: dict[tuple[Device, str], Rule] = {}
        self._claims: dict[tuple[Device, str, Verb], str] = {}
        self._changed = asyncio.Event()

    def set(self, devices: Iterable[Device], machine: str, rule: Rule | None) -> None:
        """From now on. A client that waits for a silent device gets no answer, not a late one."""
        for device in devices:
            for verb in Verb:
                self._claims.pop((device, machine, verb), None)
            self._rules.pop((device, machine), None)
            if rule is not None:
                self._rules[device, machine] = rule
        self._changed.set()
        self._changed = asyncio.Event()

    def rules(self, machine: str) -> dict[Device, Rule]:
        """Those of a machine's devices that misbehave, and how."""
        return {device: rule for (device, name), rule in self._rules.items() if name == machine}

    async def ask(self, device: Device, machine: str, verb: Verb) -> str:
        """What the device answers. Raises DeviceError, Silence."""
        match self._rules.get((device, machine)):
            case Late(seconds):
                await asyncio.sleep(seconds)
            case Silent():
                await self._changed.wait()
                raise Silence
            case Refusing():
                raise DeviceError(f"{machine}: the device refuses {verb}")
            case Lying():
                return await self._claim(device, machine, verb)
            case Wrong(other):
                return await obey(self.switch, other, verb)
            case None:
                pass
        return await obey(self.switch, machine, verb)

    async def _claim(self, device: Device, machine: str, verb: Verb) -> str:
        match verb:
            case Verb.POWER | Verb.PORT:
                claimed = self._claims.get((device, machine, verb))
                return claimed if claimed is not None else await obey(self.switch, machine, verb)
            case Verb.OFF | Verb.BUTTON:
                self._claims[device, machine, Verb.POWER] = Power.OFF
            case Verb.ON:
                self._claims[device, machine, Verb.POWER] = Power.ON
            case Verb.UP | Verb.DOWN:
                self._claims[device, machine, Verb.PORT] = PortState(verb)
            case Verb.RESET:
                pass  # as it was before, only later
        return DONE
