"""The runtime that runs pods as processes of this machine, each pod under its supervisor.

Guarantees: it holds nothing that it could lose. Which pods run is known from the pod directories and the
kernel: a supervisor is the process whose pid, start time and boot ID its directory records. A restarted agent
finds the same pods; a process that took over an old pid is never signalled.

    <root>/pods/<uid>/supervisor.json   who the supervisor is
    <root>/pods/<uid>/state.json        its containers, kept by the supervisor
    <root>/pods/<uid>/control.sock, exec.sock   where it takes requests
    <root>/pods/<uid>/logs/NAME.ATTEMPT.log     a container's output
    <root>/pods/<uid>/etc/              hosts, hostname, resolv.conf of its containers
    <root>/pods/<uid>/lock, messages/, sandbox/, supervisor.log
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
import structlog

from mooring.mounts.machine_ports import short_path
from mooring.node.exec import new_terminal, run_and_collect, run_in_container
from mooring.node.launchers import Launchers
from mooring.node.runtime import (
    ContainerRecord,
    ContainerSpec,
    ExecResult,
    PodNetwork,
    Sandbox,
    SandboxSpec,
    SandboxStartFailure,
    Stdio,
    Struct,
    SupervisorSilent,
)
from mooring.node.supervisor import ALREADY_STARTED
from mooring.volumes.directories import entry

log = structlog.get_logger(__name__)
_Kept = TypeVar("_Kept")

_FILES = (
    *("control.sock", "exec.sock", "lock", "supervisor.log", "state.json", "supervisor.json"),
    *("state.json.new", "supervisor.json.new"),
)
"""A supervisor's own; the last are there if it was killed, or the disk was full, while it wrote."""
KILLED = 128 + signal.SIGKILL
CONNECT_RETRY_S = 0.05
REQUEST_TIMEOUT_S = 10.0


class _Identity(Struct, frozen=True):
    pid: int
    start_time: int
    boot_id: str = msgspec.field(name="bootID")


class _State(Struct, frozen=True):
    number: int
    rootfs: str
    containers: dict[str, ContainerRecord]
    address: str = ""

    def sandbox(self, *, running: bool) -> Sandbox:
        return Sandbox(running, self.number, self.rootfs, self.address, self.containers)


class _Pod:
    """A sandbox as this agent sees it: the supervisor's pidfd while it lives, the connection to it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.sandbox = Sandbox(running=False)
        self.pidfd: int | None = None
        self.task: asyncio.Task[None] | None = None
        self.writer: asyncio.StreamWriter | None = None
        self.connected = asyncio.Event()  # set also when there is nothing to wait for any more


class ProcessRuntime:
    """A `Runtime` of processes. `boot_id` names this boot of the (possibly simulated) machine."""

    def __init__(self, root: Path, boot_id: str) -> None:
        self._pods_directory = root / "pods"
        self._boot_id = boot_id
        self._pods: dict[str, _Pod] = {}
        self._on_change: Callable[[str], None] = lambda uid: None
        self._launchers = Launchers()

    async def recover(self, on_change: Callable[[str], None]) -> None:
        self._on_change = on_change
        self._pods_directory.mkdir(parents=True, exist_ok=True)
        for path in self._pods_directory.glob("*/supervisor.json"):
            self._adopt(path.parent)

    def prepare(self, network: PodNetwork | None) -> None:
        self._launchers.prepare(network)

    def _directory(self, uid: str) -> Path:
        return self._pods_directory / entry(uid)

    def sandboxes(self) -> Mapping[str, Sandbox]:
        return {uid: pod.sandbox for uid, pod in self._pods.items()}

    def log_files(self, uid: str, container: str, attempt: int) -> list[Path]:
        path = self._directory(uid) / "logs" / entry(f"{container}.{attempt}.log")
        return [path.with_name(f"{path.name}.1"), path]

    async def start_sandbox(self, spec: SandboxSpec) -> None:
        directory = self._directory(spec.uid)
        if (known := self._pods.get(spec.uid)) is not None and known.sandbox.running:
            return
        for name in ("etc", "logs", "messages", "sandbox"):
            (directory / name).mkdir(parents=True, exist_ok=True)
        for name, content in spec.etc.items():
            (directory / "etc" / name).write_text(content)
        status, problem = await self._launch(spec, directory)
        if status not in (0, ALREADY_STARTED):
            self._kill_remains(directory)
            raise SandboxStartFailure(problem)
        self._adopt(directory)
        if not self._pods[spec.uid].sandbox.running:
            raise SandboxStartFailure(problem)

    async def start_container(self, uid: str, spec: ContainerSpec) -> None:
        entry(spec.name)  # the supervisor names files after it
        await self._request(uid, {"start": msgspec.to_builtins(spec)})

    async def signal_container(self, uid: str, container: str, number: int) -> None:
        await self._request(uid, {"signal": {"container": container, "signal": int(number)}})

    async def exec(
        self, uid: str, container: str, argv: Sequence[str], stdio: Stdio, *, tty: bool = False
    ) -> int:
        return await run_in_container(self._directory(uid), container, argv, stdio, tty=tty)

    async def run(self, uid: str, container: str, argv: Sequence[str]) -> ExecResult:
        return await run_and_collect(self._directory(uid), container, argv)

    def open_terminal(self, uid: str) -> tuple[int, int]:
        identity = _read(self._directory(uid) / "supervisor.json", _Identity)
        return new_terminal(f"/proc/{identity.pid}/root/dev/pts" if identity else "")

    async def kill_sandbox(self, uid: str) -> None:
        pod = self._pods.get(uid)
        if pod is not None and pod.pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pod.pidfd, signal.SIGKILL)

    async def remove_sandbox(self, uid: str) -> None:
        pod = self._pods.get(uid)
        if pod is not None and pod.sandbox.running:
            raise ValueError(f"sandbox of pod {uid} still runs")
        self._pods.pop(uid, None)
        directory = self._directory(uid)
        for name in ("logs", "messages", "etc"):
            shutil.rmtree(directory / name, ignore_errors=True)
        for name in _FILES:
            (directory / name).unlink(missing_ok=True)
        if (directory / "sandbox").exists():
            (directory / "sandbox").rmdir()

    async def close(self) -> None:
        """Leaves the pods alone and lets go of them: an agent that stops. They go on."""
        for pod in self._pods.values():
            self._let_go(pod)
        await self._launchers.close()

    # --- launching

    async def _launch(self, spec: SandboxSpec, directory: Path) -> tuple[int | None, str]:
        """The launcher's exit status, and what it said."""
        document = msgspec.to_builtins(spec) | {"directory": str(directory), "bootID": self._boot_id}
        status, output = await self._launchers.launch(spec.network, document)
        return status, output or f"the supervisor ended at once: see {directory}/supervisor.log"

    def _kill_remains(self, directory: Path) -> None:
        """A supervisor that did not get ready in time."""
        pidfd = self._open_supervisor(directory)
        if pidfd is not None:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            os.close(pidfd)

    # --- following a supervisor

    def _adopt(self, directory: Path) -> None:
        uid = directory.name
        if (former := self._pods.get(uid)) is not None:
            self._let_go(former)
        pod = self._pods[uid] = _Pod(directory)
        pod.pidfd = self._open_supervisor(directory)
        if pod.pidfd is None:
            pod.sandbox = self._ended(directory)
            pod.connected.set()
            return
        pod.sandbox = _running(directory)
        asyncio.get_running_loop().add_reader(pod.pidfd, self._died, uid, pod)
        pod.task = asyncio.create_task(self._follow(uid, pod), name=f"sandbox {uid}")

    def _open_supervisor(self, directory: Path) -> int | None:
        """A pidfd of the supervisor, or None if it is gone. Opened first, checked then: so it names this
        process."""
        identity = _read(directory / "supervisor.json", _Identity)
        if identity is None or identity.boot_id != self._boot_id:
            return None
        try:
            pidfd = os.pidfd_open(identity.pid)
        except ProcessLookupError:
            return None
        if _start_time(identity.pid) == identity.start_time:
            return pidfd
        os.close(pidfd)
        return None

    async def _follow(self, uid: str, pod: _Pod) -> None:
        """Keeps the connection; ends with the supervisor's death, which `_died` sees."""
        while True:
            try:
                with contextlib.suppress(
                    OSError
                ):  # not listening yet, or it dropped a client that was too slow
                    await self._read_states(uid, pod)
            except (ValueError, msgspec.DecodeError) as error:
                log.warning("a supervisor says what is no state", pod_uid=uid, error=str(error))
            await asyncio.sleep(CONNECT_RETRY_S)

    async def _read_states(self, uid: str, pod: _Pod) -> None:
        reader, pod.writer = await _connect(pod.directory)
        pod.connected.set()
        try:
            while line := await reader.readline():
                state = msgspec.json.decode(line, type=_State)
                pod.sandbox = state.sandbox(running=True)
                self._on_change(uid)
        finally:
            pod.connected.clear()
            pod.writer.close()
            pod.writer = None

    def _died(self, uid: str, pod: _Pod) -> None:
        self._let_go(pod)
        pod.sandbox = self._ended(pod.directory)
        log.info("sandbox ended", pod_uid=uid)
        self._on_change(uid)

    def _let_go(self, pod: _Pod) -> None:
        if pod.pidfd is not None:
            asyncio.get_running_loop().remove_reader(pod.pidfd)
            os.close(pod.pidfd)
            pod.pidfd = None
        if pod.task is not None:
            pod.task.cancel()
        pod.connected.set()

    def _ended(self, directory: Path) -> Sandbox:
        """The last state on disk; what ran then was ended with the supervisor."""
        last = _running(directory)
        ended = {
            name: record
            if record.exit_code is not None
            else msgspec.structs.replace(
                record, exit_code=KILLED, signal=int(signal.SIGKILL), finished_at=time.time()
            )
            for name, record in last.containers.items()
        }
        return msgspec.structs.replace(last, running=False, containers=ended)

    async def _request(self, uid: str, request: dict[str, object]) -> None:
        pod = self._pods[uid]
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                await pod.connected.wait()
        except TimeoutError:
            problem = f"the pod's supervisor does not answer: see {pod.directory}/supervisor.log"
            raise SupervisorSilent(problem) from None
        if pod.writer is not None:
            with contextlib.suppress(ConnectionError):  # it died: `_died` reports that
                pod.writer.write(msgspec.json.encode(request) + b"\n")
                await pod.writer.drain()


def _running(directory: Path) -> Sandbox:
    state = _read(directory / "state.json", _State)
    return state.sandbox(running=True) if state else Sandbox(running=True)


def _read(path: Path, kind: type[_Kept]) -> _Kept | None:
    """None also for a damaged file: a supervisor replaces its files whole, so what damaged one was the
    machine's loss of power, and of the boot before nothing runs."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except ValueError as error:  # no JSON, not of that form, or no UTF-8
        log.warning("a file was lost with the machine's power", path=str(path), error=str(error))
        return None


async def _connect(directory: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    with short_path(directory / "control.sock") as address:
        return await asyncio.open_unix_connection(address, limit=1 << 20)


def _start_time(pid: int) -> int | None:
    """Clock ticks from the machine's boot to the start (`supervisor.main`); None if the process is gone or
    only waits to be reaped."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] == b"Z" else int(fields[19])
