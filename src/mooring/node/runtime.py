"""The seam between the agent and whatever runs processes: a few words of the container runtime interface.

A pod is a *sandbox* (its namespaces and its supervisor) with containers in it. Every call returns quickly; what comes
of it is seen in `sandboxes()`, and `on_change` says for which pod to look again. So the agent is driven by what is,
never by what it asked for. `process_runtime` is the real one; a simulator brings its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

START_ERROR = 128
"""Exit code of a container whose process could not be started; `ContainerRecord.error` says why."""


class RuntimeFailure(Exception):
    """The runtime could not do what was asked. The message is fit for a pod's event. Base of this tree:

    RuntimeFailure
    ├── SandboxStartFailure   the pod's sandbox could not be prepared
    └── SupervisorSilent      the pod's supervisor does not take requests
    """


class SandboxStartFailure(RuntimeFailure):
    """The pod's sandbox could not be prepared; nothing of it runs."""


class SupervisorSilent(RuntimeFailure):
    """The pod's supervisor runs and does not take requests."""


class Struct(msgspec.Struct, frozen=True, rename="camel"):
    """Base of the values here; camelCase on the wire to the supervisor."""


class ContainerMount(Struct, frozen=True):
    """A volume of the sandbox at a path of the container."""

    volume: str
    path: str
    read_only: bool = False
    sub_path: str = ""


class ContainerSpec(Struct, frozen=True):
    """One attempt to run a container. `image` is a key of the sandbox's images; None is the machine's own root."""

    name: str
    attempt: int
    argv: tuple[str, ...]
    env: dict[str, str]
    working_dir: str = "/"
    image: str | None = None
    mounts: tuple[ContainerMount, ...] = ()


class SandboxSpec(Struct, frozen=True):
    """What all containers of a pod share. `volumes` and `images` map names to directories of this machine; `masks` are
    directories of the machine's root that its containers see empty."""

    uid: str
    hostname: str
    volumes: dict[str, str] = {}
    images: dict[str, str] = {}
    masks: tuple[str, ...] = ()


class ContainerRecord(Struct, frozen=True):
    """An attempt of a container. Times are seconds since the epoch; `exit_code` is None while it runs. `sandbox` is the
    number of the sandbox that it was made in; `last` is the attempt before."""

    attempt: int
    started_at: float
    sandbox: int = 0
    finished_at: float | None = None
    exit_code: int | None = None
    signal: int = 0
    error: str = ""
    last: ContainerRecord | None = None


class Sandbox(Struct, frozen=True):
    """A pod that was started: `running` while any of its processes may live. `number` counts its sandboxes from 0.
    `containers` has the newest attempt of each container, also of earlier sandboxes. `rootfs` says how the machine's
    root is given to it: "overlay" (writes stay in the container) or "bind" (read-only, in a user namespace)."""

    running: bool
    number: int = 0
    rootfs: str = ""
    containers: dict[str, ContainerRecord] = {}


class Runtime(Protocol):
    """Runs pods. `uid` is the pod's UID everywhere."""

    async def recover(self, on_change: Callable[[str], None]) -> None:
        """Finds what runs, also what an earlier agent started; from then on calls `on_change(uid)` after changes."""
        ...

    def sandboxes(self) -> Mapping[str, Sandbox]:
        """What is known, by pod UID: also ended ones, until they are removed."""
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

    async def kill_sandbox(self, uid: str) -> None:
        """Asks the kernel to end every process of the pod; they are gone when `running` is False."""
        ...

    async def remove_sandbox(self, uid: str) -> None:
        """Forgets an ended sandbox and deletes its state and logs."""
        ...
