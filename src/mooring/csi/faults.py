"""Faults between a client and a driver, for authors of drivers: errors and delays before or after a call.

    NodeStageVolume:UNAVAILABLE:0.1       one call in ten fails, and the driver never sees it
    CreateVolume:after-DEADLINE_EXCEEDED  each call is carried out, and its answer is lost
    ControllerPublishVolume:2.5s:0.5      half of the calls, at random, are 2.5 seconds late

Guarantee: an error with `after-` lets the driver finish; an error without it keeps the call from the driver.
Faults may be in a file that changes while the driver is called (`FaultFile`).
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from mooring.csi.client import Channel
from mooring.csi.errors import Code, CsiError
from mooring.csi.rpc import METHODS, Reply, Request, Rpc

_SECONDS = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0}
_AFTER = "after-"


@dataclass(frozen=True)
class Fault:
    """An error or a delay for a share of the calls of one method."""

    method: str
    probability: float = 1.0
    code: Code | None = None
    after: bool = False
    """Whether the driver carries the call out before the error takes the place of its answer."""
    delay_s: float = 0.0


def parse_fault(text: str) -> Fault:
    """The fault that METHOD:WHAT or METHOD:WHAT:PROBABILITY names. Raises ValueError, whose message lists
    what can be written there."""
    method, _, rest = text.partition(":")
    what, _, share = rest.partition(":")
    if method not in METHODS:
        raise ValueError(f"{text!r}: {method!r} is no method of CSI; there are {', '.join(sorted(METHODS))}")
    try:
        probability = float(share or "1")
    except ValueError:
        probability = -1.0
    if not 0.0 <= probability <= 1.0:
        raise ValueError(f"{text!r}: {share!r} is no probability from 0 to 1")
    if delay := _SECONDS.fullmatch(what):
        return Fault(method, probability, delay_s=float(delay[1]) * _UNITS[delay[2]])
    name = what.removeprefix(_AFTER)
    if name not in Code.__members__ or name == "OK":
        codes = ", ".join(code.name for code in Code if code is not Code.OK)
        raise ValueError(f"{text!r}: {what!r} is neither a delay (2.5s, 100ms) nor one of {codes}")
    return Fault(method, probability, code=Code[name], after=what.startswith(_AFTER))


class FaultFile:
    """The faults of one driver, as a file has them at the moment: a line `DRIVER METHOD:WHAT:PROBABILITY`
    each.

    There are none where there is no file. Iterating raises ValueError for a line that is none.
    """

    def __init__(self, path: Path, driver: str) -> None:
        self._path, self._driver = path, driver
        self._read: tuple[int, int] | None = None
        self._faults: tuple[Fault, ...] = ()

    def __iter__(self) -> Iterator[Fault]:
        try:
            state = os.stat(self._path)
        except FileNotFoundError:
            return iter(())
        if self._read != (state.st_ino, state.st_mtime_ns):
            lines = (line.split() for line in self._path.read_text().splitlines())
            self._faults = tuple(parse_fault(text) for driver, text in lines if driver == self._driver)
            self._read = (state.st_ino, state.st_mtime_ns)
        return iter(self._faults)


def write_faults(path: Path, faults: Iterable[tuple[str, str]]) -> None:
    """Replaces the file of a `FaultFile` as a whole: each fault is a driver's name and METHOD:WHAT. Raises
    ValueError, and leaves the file as it is, if one of them is none."""
    lines: list[str] = []
    for driver, text in faults:
        parse_fault(text)
        if driver.split() != [driver]:
            raise ValueError(f"{driver!r} is no name of a driver")
        lines.append(f"{driver} {text}\n")
    new = path.with_name(f"{path.name}.new")
    new.write_text("".join(lines))
    new.replace(path)


class Faulty:
    """A channel that injects faults into calls of another channel. `faults` are looked up at each call."""

    def __init__(self, channel: Channel, faults: Iterable[Fault], random: Random) -> None:
        self._channel = channel
        self._faults = faults
        self._random = random

    async def call(self, rpc: Rpc[Request, Reply], request: Request, timeout_s: float) -> Reply:
        faults = [each for each in self._faults if each.method == rpc.name]
        struck = [each for each in faults if self._random.random() < each.probability]
        started = asyncio.get_running_loop().time()
        for fault in struck:
            await self._delay(rpc, fault.delay_s, timeout_s)
            if fault.code is not None and not fault.after:
                raise _injected(fault.code, rpc, "it was not carried out")
        left = timeout_s - (asyncio.get_running_loop().time() - started)
        reply = await self._channel.call(rpc, request, max(left, 0.001))
        for fault in struck:
            if fault.code is not None and fault.after:
                raise _injected(fault.code, rpc, "it was carried out")
        return reply

    async def _delay(self, rpc: Rpc[Request, Reply], delay_s: float, timeout_s: float) -> None:
        if delay_s >= timeout_s:
            await asyncio.sleep(timeout_s)
            raise _injected(
                Code.DEADLINE_EXCEEDED, rpc, f"its delay of {delay_s:g} s is longer than it may take"
            )
        await asyncio.sleep(delay_s)

    async def close(self) -> None:
        await self._channel.close()


def _injected(code: Code, rpc: Rpc[Request, Reply], effect: str) -> CsiError:
    return CsiError(code, f"a fault that was asked for ({effect})", rpc.name)
