"""The Unix socket of `mooring up` at which the devices, and `mooring machine`, ask: one line each way.

    bmc node-1 off           → `ok done`, `error WHY`, or the end of the connection without an answer
    truth node-1 power       → the same, past all misbehaviour
    rules node-1             → `ok bmc=lie strip=late=5s`
    set node-1 lie bmc strip → `ok lie`

The first word is a device or one of the three others. Only the user who runs the cluster reaches the socket.
`chassis_control` speaks it without this module.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

import structlog

from mooring.cluster.layout import ClusterError
from mooring.cluster.machines.bmc.misbehaving import NONE, Misbehaving, Rule, parse
from mooring.cluster.machines.bmc.power_switch import Device, DeviceError, Silence, Verb, obey
from mooring.mounts.machine_ports import short_path

log = structlog.get_logger(component="bmc")

LINE = 512
"""The longest line, in bytes."""
CONNECTIONS = 256
"""So many are served at a time: those of silent and late devices stay open. What is asked of no device gets
through."""

Word = TypeVar("Word", Device, Verb)
Changed = Callable[[str, Sequence[Device], Rule | None], Awaitable[None]]
"""Sets a rule for some devices of a machine."""


class NotServed(DeviceError):
    """No `mooring up` is there to ask."""


class Door:
    """Answers lines."""

    def __init__(self, devices: Misbehaving, change: Changed) -> None:
        self._devices = devices
        self._change = change
        self._open = 0

    async def answer(self, line: str) -> str:
        """The answer to one line. Raises DeviceError, Silence."""
        match line.split():
            case ["rules", machine]:
                rules = self._devices.rules(self._known(machine))
                return " ".join(f"{device}={rule}" for device, rule in rules.items())
            case ["set", machine, text, *devices]:
                return await self._set(self._known(machine), text, devices)
            case ["truth", machine, verb]:
                return await obey(self._devices.switch, self._known(machine), _word(Verb, verb))
            case [_, _, _] if self._open > CONNECTIONS:
                raise DeviceError("too many requests wait for an answer")
            case [device, machine, verb]:
                words = _word(Device, device), self._known(machine), _word(Verb, verb)
                return await self._devices.ask(*words)
            case _:
                raise DeviceError(f"{line[:64]!r} is none of: DEVICE MACHINE VERB, truth, rules, set")

    def _known(self, machine: str) -> str:
        if machine not in self._devices.switch.machines():
            names = ", ".join(self._devices.switch.machines())
            raise DeviceError(f"no machine {machine[:64]!r} here: there are {names}")
        return machine

    async def _set(self, machine: str, text: str, devices: Sequence[str]) -> str:
        try:
            rule = parse(text, self._devices.switch.machines())
        except ValueError as error:
            raise DeviceError(str(error)) from None
        await self._change(machine, [_word(Device, device) for device in devices] or list(Device), rule)
        return str(rule) if rule else NONE

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, one line. An error is an answer."""
        self._open += 1
        try:
            reply = await self._reply(reader)
            writer.write(f"{' '.join(reply.split())}\n".encode())
            await writer.drain()
        except (Silence, ConnectionError):
            pass
        finally:
            self._open -= 1
            writer.close()

    async def _reply(self, reader: asyncio.StreamReader) -> str:
        try:
            line = await reader.readuntil()
            return f"ok {await self.answer(line.decode('ascii'))}"
        except (DeviceError, ClusterError, TimeoutError) as error:
            return f"error {error}"
        except (ValueError, asyncio.LimitOverrunError, asyncio.IncompleteReadError):
            return f"error one line of ASCII is wanted, of at most {LINE} bytes"
        except (Silence, ConnectionError):
            raise
        except Exception as error:
            log.exception("a device's request failed")
            return f"error {type(error).__name__}"


def _word(kind: type[Word], word: str) -> Word:
    try:
        return kind(word)
    except ValueError:
        raise DeviceError(f"{word[:64]!r} is none of {', '.join(kind)}") from None


@contextlib.asynccontextmanager
async def serving(path: Path, door: Door) -> AsyncGenerator[None]:
    """Answers while the context is open."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with short_path(path) as address:
        listener.bind(address)
    path.chmod(0o600)
    server = await asyncio.start_unix_server(door.serve, sock=listener, limit=LINE)
    try:
        yield
    finally:
        server.close()
        path.unlink(missing_ok=True)


async def ask(path: Path, line: str, timeout: float | None = None) -> str:
    """What the door answers to a line; "" is an answer. Raises DeviceError for an error, NotServed if
    nothing serves the socket, Silence for no answer (within `timeout` seconds, if that is given)."""
    try:
        with short_path(path) as address:
            reader, writer = await asyncio.open_unix_connection(address, limit=LINE * 8)
    except OSError as error:
        raise NotServed(f"nothing answers for the machines: {error.strerror}") from error
    try:
        writer.write(f"{line}\n".encode())
        reply = (await asyncio.wait_for(reader.readline(), timeout)).decode().strip()
    except (TimeoutError, ConnectionError):
        raise Silence from None
    finally:
        writer.close()
    said, _, word = reply.partition(" ")
    if said == "error":
        raise DeviceError(word)
    if said != "ok":
        raise Silence
    return word
