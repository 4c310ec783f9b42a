"""Starts processes, remembers which they are, and ends exactly those.

A process is known by pid *and* start time, so that a pid that the kernel has given to another process is
never taken for ours. Records are files under `run/`: they outlive us, and `mooring down` reads them after a
`kill -9` of everything. They name the host's boot, too: start times count from it, and what starts at each
boot gets about the same pids at about the same time. A part's log begins anew when it has grown, and one
older part of it is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from mooring.cluster import heartbeat
from mooring.mounts.blocking import blocking
from mooring.this_boot import boot_id

log = structlog.get_logger(component="cluster")

FIRST_RESTART_S = 0.1
LAST_RESTART_S = 5.0
LARGEST_LOG = 32 * 1024 * 1024
"""Bytes of a part's log."""
LOOK_AT_LOG_S = 300.0


@dataclass(frozen=True)
class Running:
    """A process on this machine; `start_time` is in clock ticks since boot."""

    pid: int
    start_time: int

    @classmethod
    def of(cls, pid: int) -> Running | None:
        """The process that has this pid now, or None if there is none (or only its zombie)."""
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        return cls(pid, int(fields[19])) if fields[0] not in "ZX" else None

    @property
    def alive(self) -> bool:
        return Running.of(self.pid) == self

    def send(self, number: signal.Signals) -> None:
        """Signals the process if it is still the same one."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def children(self) -> list[Running]:
        """Its direct children."""
        try:
            pids = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        except (FileNotFoundError, ProcessLookupError):
            return []
        return [found for pid in pids if (found := Running.of(int(pid)))]


def save(record: Path, running: Running) -> None:
    """Writes which processes run; atomically."""
    draft = record.with_suffix(".new")
    written = {"pid": running.pid, "startTime": running.start_time, "bootID": boot_id()}
    draft.write_text(json.dumps(written))
    draft.rename(record)


def load(record: Path) -> Running | None:
    """Who was written down, if that process is still alive."""
    try:
        held = json.loads(record.read_text())
        running = Running(int(held["pid"]), int(held["startTime"]))
        of_this_boot = held.get("bootID", boot_id()) == boot_id()  # those of before had none
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return running if of_this_boot and running.alive else None


def begin_anew(log: Path) -> None:
    """Empties a log that has grown; what it said is its older part from now on. Those who write to it go on:
    they append. What comes in between is lost. Blocks."""
    with contextlib.suppress(OSError):
        if log.stat().st_size > LARGEST_LOG:
            shutil.copyfile(log, log.with_name(f"{log.name}.1"))
            os.truncate(log, 0)


def end(running: Running, *, grace: float = 5.0) -> None:
    """Ends one process: SIGTERM, and after `grace` seconds SIGKILL. Blocks until it is gone."""
    running.send(signal.SIGTERM)
    deadline = time.monotonic() + grace
    while running.alive and time.monotonic() < deadline:
        time.sleep(0.02)
    kill(running)


def kill(running: Running, *, patience: float = 10.0) -> None:
    """SIGKILL, and waits until it is gone. TimeoutError if the kernel cannot end it within `patience`
    seconds."""
    running.send(signal.SIGKILL)
    deadline = time.monotonic() + patience
    while running.alive:
        if time.monotonic() > deadline:
            raise TimeoutError(f"process {running.pid} does not end, even by SIGKILL")
        time.sleep(0.01)


def mooring(*arguments: str) -> list[str]:
    """The command line of a part."""
    return [sys.executable, "-m", "mooring.cli.main", *arguments]


def free_port() -> int:
    """A port of the loopback interface that is free at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Part:
    """One process of the cluster that is started again whenever it dies, until `stop`. One whose event loop
    has not turned for `patience` seconds is killed first."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        *,
        run: Path,
        logs: Path,
        environ: Mapping[str, str | None] | None = None,
        given: bytes = b"",
        patience: float = heartbeat.SILENCE_S,
    ) -> None:
        """In its environment, which is ours otherwise, `environ` is set; None takes a variable away. `given`
        is on its standard input."""
        self.name = name
        self.restarts = 0
        self._patience = patience
        self._listener: heartbeat.Listener | None = None
        self._argv = list(argv)
        self._record = run / f"{name}.json"
        self._log = logs / f"{name}.log"
        chosen = {**os.environ, **(environ or {})}
        self._environ = {name: value for name, value in chosen.items() if value is not None}
        self._given = given
        self._wanted = False
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None
        self.ended = asyncio.Event()

    @property
    def running(self) -> Running | None:
        """The process at this moment, or None between death and restart."""
        return Running.of(self._process.pid) if self._process and self._process.returncode is None else None

    async def start(self, *, restart: bool = True) -> None:
        """Starts it; returns when the first process exists."""
        self._wanted = restart
        self.ended.clear()
        await self._spawn()
        self._task = asyncio.create_task(self._watch(), name=f"part {self.name}")

    async def stop(self, *, grace: float = 10.0) -> None:
        """SIGTERM, after `grace` seconds SIGKILL; returns when it is gone."""
        self._wanted = False
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()
            try:
                await asyncio.wait_for(self._process.wait(), grace)
            except TimeoutError:
                log.warning("does not stop: killed", part=self.name)
                self._process.kill()
        await self._finish()

    async def kill(self) -> None:
        """SIGKILL, for good; returns when it is gone."""
        self._wanted = False
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
        await self._finish()

    async def _finish(self) -> None:
        if self._task is not None:
            await self._task
            self._task = None

    async def _spawn(self) -> None:
        """Starts the process, and writes it down. Raises OSError: then none runs."""
        self._listen()
        assert self._listener is not None
        end = self._listener.writer
        try:
            with self._log.open("ab") as output:
                self._process = await asyncio.create_subprocess_exec(
                    *self._argv,
                    stdin=asyncio.subprocess.PIPE if self._given else asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env={**self._environ, heartbeat.VARIABLE: str(end)},
                    pass_fds=(end,),
                    start_new_session=True,  # a Ctrl-C at the terminal is ours to pass on, in order
                )
        finally:
            self._listener.started()
        try:
            if (running := Running.of(self._process.pid)) is not None:
                save(self._record, running)
        except OSError:  # nothing would end what is not written down
            self._process.kill()
            await self._process.wait()
            raise
        if self._process.stdin is not None:
            self._process.stdin.write(self._given)
            self._process.stdin.close()

    def _listen(self) -> None:
        if self._listener is not None:
            self._listener.close()
        self._listener = heartbeat.Listener(self._silent, self._patience)

    def _silent(self) -> None:
        if self._wanted and self._process is not None and self._process.returncode is None:
            log.error(
                "does nothing any more: killed", part=self.name, silent_s=self._patience, log=str(self._log)
            )
            self._process.kill()

    async def _end_of(self, process: asyncio.subprocess.Process) -> int:
        """Its exit status; meanwhile its log is looked after."""
        ending = asyncio.create_task(process.wait())
        while not (await asyncio.wait((ending,), timeout=LOOK_AT_LOG_S))[0]:
            await blocking(begin_anew, self._log)
        return ending.result()

    async def _watch(self) -> None:
        delay = FIRST_RESTART_S
        while True:
            assert self._process is not None
            born = asyncio.get_running_loop().time()
            status = await self._end_of(self._process)
            if not self._wanted:
                break
            log.warning("died: started again", part=self.name, status=status, log=str(self._log))
            delay = FIRST_RESTART_S if asyncio.get_running_loop().time() - born > 30 else delay
            await asyncio.sleep(delay)
            delay = min(delay * 2, LAST_RESTART_S)
            if not self._wanted:
                break
            self.restarts += 1
            try:
                await self._spawn()
            except OSError as error:  # no memory, or a full disk
                log.error("cannot be started: tried again", part=self.name, error=str(error))
            if not self._wanted and self._process.returncode is None:
                self._process.kill()  # it was stopped meanwhile
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        self._record.unlink(missing_ok=True)
        self.ended.set()
