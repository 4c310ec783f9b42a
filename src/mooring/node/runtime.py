"""The seam between the agent and the runtime of processes: a few words of the container runtime interface.

A pod is a *sandbox* (its namespaces and its supervisor) with containers in it. Every call returns quickly;
its effect is seen in `sandboxes()`, and `on_change` names the pod to look at again. So the agent is driven by
the actual state, never by its own requests. `process_runtime` is the real one; a simulator brings its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from signal import SIGTERM
from typing import NamedTuple, Protocol

import msgspec

Stdio = tuple[int, int, int]
"""Descriptors for standard input, output and error."""

START_ERROR = 128
"""Exit code of a container whose process could not be started; `ContainerRecord.error` says why."""


class RuntimeFailure(Exception):
    """The runtime could not carry out a request. The message is fit for a pod's event.

    Base of this tree:

    RuntimeFailure
    ├── SandboxStartFailure   the pod's sandbox could not be prepared
    ├── SupervisorSilent      the pod's supervisor does not take requests
    └── ExecFailure           a command could not be run in a container
    """


class SandboxStartFailure(RuntimeFailure):
    """The pod's sandbox could not be prepared; nothing of it runs."""


class SupervisorSilent(RuntimeFailure):
    """The pod's supervisor runs and does not take requests."""


class ExecFailure(RuntimeFailure):
    """A command could not be run in a container: it does not run, or has no such program."""


class Struct(msgspec.Struct, frozen=True, rename="camel"):
    """Base of the values here; camelCase on the wire to the supervisor."""


class ContainerMount(Struct, frozen=True):
    """A volume of the sandbox at a path of the container. With `machine_proc` the volume is the machine's
    root, and its /proc shows the machine's processes."""

    volume: str
    path: str
    read_only: bool = False
    sub_path: str = ""
    machine_proc: bool = False


class ContainerSpec(Struct, frozen=True):
    """One attempt to run a container. `image` is a key of the sandbox's images; None is the machine's own
    root. `user` is "", "USER" or "USER:GROUP" by number or name. `message_path` is where the program may
    leave its last words; with `message_from_logs` the end of the log of a failed attempt stands for them.
    `stop_signal` is the number of the signal that asks it to end."""

    name: str
    attempt: int
    argv: tuple[str, ...]
    env: dict[str, str]
    working_dir: str = "/"
    image: str | None = None
    mounts: tuple[ContainerMount, ...] = ()
    user: str = ""
    groups: tuple[int, ...] = ()
    read_only_root: bool = False
    no_new_privileges: bool = False
    message_path: str = ""
    message_from_logs: bool = False
    stop_signal: int = SIGTERM


class PodNetwork(Struct, frozen=True):
    """An interface of its own for a pod: its address with the length of the prefix, on a bridge of the
    machine. `mac` is the same for the next pod with this address."""

    bridge: str
    host_interface: str
    address: str
    prefix: int
    gateway: str
    mac: str


class SandboxSpec(Struct, frozen=True):
    """What all containers of a pod share. `volumes` and `images` map names to directories of this machine;
    `masks` are directories of the machine's root that its containers see empty; `etc` are files of their
    /etc. Without a `network` it has the machine's. `machine_proc`: a mount of its containers asks for the
    machine's /proc; no other pod may reach it."""

    uid: str
    hostname: str
    volumes: dict[str, str] = {}
    images: dict[str, str] = {}
    masks: tuple[str, ...] = ()
    etc: dict[str, str] = {}
    network: PodNetwork | None = None
    machine_proc: bool = False


class ContainerRecord(Struct, frozen=True):
    """An attempt of a container. Times are seconds since the epoch; `exit_code` is None while it runs.
    `sandbox` is the number of the sandbox that it was made in; `message` is what it left as its last words;
    `last` is the attempt before. `stop_signal` is its spec's, so that it is known as long as the container
    is, whatever becomes of image and pod."""

    attempt: int
    started_at: float
    sandbox: int = 0
    finished_at: float | None = None
    exit_code: int | None = None
    signal: int = 0
    error: str = ""
    message: str = ""
    last: ContainerRecord | None = None
    stop_signal: int = SIGTERM


class Sandbox(Struct, frozen=True):
    """A pod that was started: `running` while any of its processes may live. `number` counts its sandboxes
    from 0. `containers` has the newest attempt of each container, also of earlier sandboxes. `rootfs` says
    how the machine's root is given to it: "overlay" (writes stay in the container) or "bind" (read-only, in a
    user namespace). `address` is the pod's own; "" if it has the machine's network."""

    running: bool
    number: int = 0
    rootfs: str = ""
    address: str = ""
    containers: dict[str, ContainerRecord] = {}


class ExecResult(NamedTuple):
    """How a command ended, and the beginning of what it wrote to both streams."""

    exit_code: int
    output: str


class Runtime(Protocol):
    """Runs pods. `uid` is the pod's UID everywhere."""

    async def recover(self, on_change: Callable[[str], None]) -> None:
        """Finds what runs, also what an earlier agent started; from then on calls `on_change(uid)` after
        changes."""
        ...

    def sandboxes(self) -> Mapping[str, Sandbox]:
        """What is known, by pod UID: also ended ones, until they are removed."""
        ...

    def prepare(self, network: PodNetwork | None) -> None:
        """The next sandbox is likely to have this network: what its start takes may be done ahead."""
        ...

    async def start_sandbox(self, spec: SandboxSpec) -> None:
        """Starts the pod's sandbox in place of an ended one. Raises `SandboxStartFailure`."""
        ...

    async def start_container(self, uid: str, spec: ContainerSpec) -> None:
        """Asks for an attempt; one that is not newer than the last is ignored."""
        ...

    async def signal_container(self, uid: str, container: str, number: int) -> None:
        """Sends a signal to the container's first process, if it runs."""
        ...

    async def exec(
        self, uid: str, container: str, argv: Sequence[str], stdio: Stdio, *, tty: bool = False
    ) -> int:
        """Runs a command in the container and returns its exit code. Cancelling kills it. Raises
        `ExecFailure`."""
        ...

    def open_terminal(self, uid: str) -> tuple[int, int]:
        """A new terminal of the pod for `exec`: master and slave, both the caller's to close."""
        ...

    async def run(self, uid: str, container: str, argv: Sequence[str]) -> ExecResult:
        """As `exec`, without input and with its output collected."""
        ...

    def log_files(self, uid: str, container: str, attempt: int) -> list[Path]:
        """Where the output of an attempt is kept: older parts first, the one that grows last. They may not
        exist."""
        ...

    async def kill_sandbox(self, uid: str) -> None:
        """Asks the kernel to end every process of the pod; they are gone when `running` is False."""
        ...

    async def remove_sandbox(self, uid: str) -> None:
        """Forgets an ended sandbox and deletes its state and logs."""
        ...
