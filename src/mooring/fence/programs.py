"""Runs another's program for a mechanism, and ends all of it.

Guarantees:
- When `run` has returned, raised or was cancelled, nothing that the program started is left: neither its
  process group, nor a helper in a session of its own. Each process that it starts inherits a mark in its
  environment, by which it is found in /proc.
- Nothing is started when the time for it is over. A pause of this process counts, and a sleep of its machine.
- Not more than `keep` bytes of each of its outputs are kept; the rest is read and forgotten.
- It gets a small environment of our making, so nothing of this process's (credentials, Python's paths).
- Secrets come by its standard input, or by a `Hidden` file. Such a file exists in memory alone and goes with
  this process, however that ends; only the same user can open it.

A process that the kernel cannot end (uninterruptible sleep) is named in `Ended.left`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mooring.this_boot import boottime

OUTPUT_BYTES = 64 * 1024
ENDING_S = 2.0
"""So long is what is left waited for after it was killed."""
PATH = os.pathsep.join(("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"))
_MARK = "MOORING_FENCE_ORDER"
_PROC = Path("/proc")
_KERNEL_THREAD = 0x00200000
"""PF_KTHREAD of the kernel's task flags."""


class ProgramMissing(Exception):
    """The program is not installed, or cannot be executed."""


@dataclass(frozen=True)
class Ended:
    """`status` is None where the deadline came first; below 0, a signal's number. `seconds`: how long it
    ran."""

    status: int | None
    output: str = ""
    errors: str = ""
    seconds: float = 0.0
    left: tuple[int, ...] = ()

    def words(self) -> str:
        """How it ended, for a person."""
        if self.status is None:
            return f"did not end within {self.seconds:.1f} s"
        return f"exit status {self.status}"


class Run(Protocol):
    """As `run` is; elsewhere than on this machine, another one of the same form."""

    async def __call__(
        self,
        words: Sequence[str],
        *,
        deadline: float,
        given: bytes = b"",
        environ: Mapping[str, str] = {},
        keep: int = OUTPUT_BYTES,
    ) -> Ended: ...


def search_path() -> str:
    """Where programs are looked for: the user's path, and sbin, which it may not have."""
    return os.pathsep.join(filter(None, (os.environ.get("PATH", ""), PATH)))


def find(program: str) -> str | None:
    """Where it is installed."""
    return shutil.which(program, path=search_path())


def missing(programs: Mapping[str, str]) -> list[str]:
    """A sentence for each program that is not installed; `programs` names the Debian package of each."""
    return [
        f"{program} is not installed: apt-get install {package}"
        for program, package in programs.items()
        if find(program) is None
    ]


class Deadline:
    """What is left of an order's time. A little is kept back, so that what runs can be ended within it. It
    goes on while the machine sleeps: what was to be done before may be undone by another since."""

    def __init__(self, seconds: float) -> None:
        self._end = boottime() + max(0.0, seconds - min(0.5, seconds / 10))

    def left(self, share: float = 1.0) -> float:
        """Seconds, not below 0; or that share of them."""
        return max(0.0, self._end - boottime()) * share

    async def pause(self, seconds: float) -> bool:
        """Waits; False, at once, if there is not that much time left."""
        if self.left() <= seconds:
            return False
        await asyncio.sleep(seconds)
        return True


class Hidden:
    """A file in memory with a secret, as a context. `path` is for programs that this process starts."""

    def __init__(self, content: str) -> None:
        self._content = content
        self._file = -1

    @property
    def path(self) -> str:
        return f"/proc/{os.getpid()}/fd/{self._file}"

    def __enter__(self) -> Hidden:
        self._file = os.memfd_create("secret", os.MFD_CLOEXEC)
        os.fchmod(self._file, 0o600)
        os.write(self._file, self._content.encode())
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)


async def run(
    words: Sequence[str],
    *,
    deadline: float,
    given: bytes = b"",
    environ: Mapping[str, str] = {},
    keep: int = OUTPUT_BYTES,
) -> Ended:
    """Runs it in a session of its own, at most `deadline` seconds; not at all if that is 0. `given` is its
    standard input; `environ` is added to its environment. Raises ProgramMissing."""
    program = find(words[0])
    if program is None:
        raise ProgramMissing(f"{words[0]} is not installed")
    if deadline <= 0:
        return Ended(None)
    stop = asyncio.Event()
    order = asyncio.create_task(_run(program, words[1:], deadline, given, environ, keep, stop))
    try:
        return await asyncio.shield(order)
    except asyncio.CancelledError:
        # Never the order itself, for it may just be starting the program: asyncio would kill that alone, and
        # wait for all that hold its outputs.
        stop.set()
        with contextlib.suppress(ProgramMissing):
            await asyncio.shield(order)
        raise


async def _run(
    program: str,
    words: Sequence[str],
    deadline: float,
    given: bytes,
    environ: Mapping[str, str],
    keep: int,
    stop: asyncio.Event,
) -> Ended:
    mark = f"{os.getpid()}-{secrets.token_hex(16)}"
    began = time.monotonic()
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=_environment(mark, environ),
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        raise ProgramMissing(f"{program} cannot be executed: {error.strerror}") from error
    output, errors = _Kept(keep), _Kept(keep)
    talk = [
        asyncio.create_task(each)
        for each in (_give(process, given), output.read(process.stdout), errors.read(process.stderr))
    ]
    in_time = await _exits(process, deadline, stop)
    seconds = time.monotonic() - began
    left = await asyncio.to_thread(_end, process.pid, mark)
    # A helper that held the outputs open is dead now.
    _, unfinished = await asyncio.wait(talk, timeout=ENDING_S)
    for each in unfinished:
        each.cancel()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(ENDING_S):
            await process.wait()
    return Ended(process.returncode if in_time else None, output.text(), errors.text(), seconds, left)


async def _exits(process: asyncio.subprocess.Process, deadline: float, stop: asyncio.Event) -> bool:
    """Waits until it has ended, the deadline, or `stop`; False at the deadline. `process.wait` waits for
    those too that hold its outputs open."""
    try:
        watched = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return True  # it was reaped already
    loop = asyncio.get_running_loop()
    loop.add_reader(watched, stop.set)
    try:
        async with asyncio.timeout(deadline):
            await stop.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(watched)
        os.close(watched)
    return True


def _environment(mark: str, more: Mapping[str, str]) -> dict[str, str]:
    return {
        "PATH": search_path(),
        "HOME": os.environ.get("HOME", "/"),
        "LANG": "C",
        "LC_ALL": "C",
        "PYTHONWARNINGS": "ignore",
        **more,
        _MARK: mark,
    }


class _Kept:
    """The beginning of what a program says."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept = bytearray()

    async def read(self, stream: asyncio.StreamReader | None) -> None:
        assert stream is not None
        while piece := await stream.read(OUTPUT_BYTES):
            self._kept += piece[: self._most - len(self._kept)]

    def text(self) -> str:
        return self._kept.decode(errors="replace")


async def _give(process: asyncio.subprocess.Process, given: bytes) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it does not want to know
        process.stdin.write(given)
        await process.stdin.drain()
    process.stdin.close()


def _end(leader: int, mark: str) -> tuple[int, ...]:
    """Kills the process group and all that bears the mark, until none is left; those that are. Blocks."""
    until = time.monotonic() + ENDING_S
    while True:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)
        marked, passing = _marked(mark)
        for each in marked:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(each, signal.SIGKILL)
        if not (marked or passing) or time.monotonic() > until:
            return marked
        time.sleep(0.01)


def _marked(mark: str) -> tuple[tuple[int, ...], bool]:
    """Processes whose environment has the mark; and whether one has none at this moment, which may be one of
    them."""
    sought = f"{_MARK}={mark}".encode()
    marked: list[int] = []
    passing = False
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                environment = _environment_of(entry)
                if sought in environment:
                    marked.append(int(entry.name))
                passing |= not environment and is_in_passing((entry / "stat").read_text())
    return tuple(marked), passing


def _environment_of(process: Path) -> bytes:
    """Empty, too, where it has no memory (any more); older kernels show that as an empty file, newer ones
    (6.18, for one) as ESRCH."""
    try:
        return (process / "environ").read_bytes()
    except ProcessLookupError:
        return b""


def is_in_passing(stat: str) -> bool:
    """Whether a process that showed no environment was becoming another program, or is ending: the kernel has
    taken its memory from it, and it is no zombie yet; or it has one by now. Otherwise its environment is an
    empty one. A program that is being loaded has an empty one for a moment, too, but no code yet
    (proc_pid_stat(5): state, flags, startcode, env_start, env_end)."""
    fields = stat.rpartition(")")[2].split()
    empty = fields[47] == fields[48] != "0" and fields[23] != "0"
    return not (fields[0] in "ZX" or int(fields[6]) & _KERNEL_THREAD or empty)
