"""What is known of a pod on this node, and what may be done about it: the words of `decide`, `ending`,
`status`.

Values only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from mooring.kube.objects import Pod
from mooring.node.runtime import ContainerRecord, Sandbox
from mooring.node.volumes.decide import PodVolumes


class Goal(Enum):
    """What is to become of the pod."""

    RUN = "run"
    STOP = "stop"
    """It has finished, or the node shuts down: its processes end, its volumes are unmounted, it stays in the
    API."""
    REMOVE = "remove"
    """It was deleted: as STOP, then it leaves the API."""


@dataclass(frozen=True)
class Termination:
    """A termination that has begun: SIGTERM was sent at `signalled_at`, SIGKILL follows at `deadline`."""

    signalled_at: float
    deadline: float


@dataclass(frozen=True)
class Stop:
    """One attempt of a container is being ended by itself; SIGKILL follows at `deadline`."""

    attempt: int
    deadline: float
    killed: bool = False


@dataclass(frozen=True)
class Restart:
    """The backoff of one container: `attempt` was seen to end at `ended_at`; the next may start `delay`
    later."""

    attempt: int
    ended_at: float
    delay: float

    @property
    def due(self) -> float:
        return self.ended_at + self.delay


@dataclass(frozen=True)
class Refusal:
    """A container could not be made; it is tried again at `due`, `delay` after the last try."""

    delay: float
    due: float


@dataclass(frozen=True)
class Request:
    """The runtime was asked for this attempt, at this time."""

    attempt: int
    at: float


@dataclass(frozen=True)
class Memory:
    """What the worker remembers of a pod from one decision to the next. Nothing of it must survive a
    restart."""

    termination: Termination | None = None
    restarts: Mapping[str, Restart] = field(default_factory=dict[str, Restart])
    requested: Mapping[str, Request] = field(default_factory=dict[str, "Request"])
    """The last attempt of each container that the runtime was asked for."""
    refused: Mapping[str, Refusal] = field(default_factory=dict[str, "Refusal"])
    """The containers that could not be made when they were tried last."""
    stops: Mapping[str, Stop] = field(default_factory=dict[str, "Stop"])
    deleted: bool = False
    """The API server was told that the pod is gone from here."""


@dataclass(frozen=True)
class Verdict:
    """What hooks and probes say of one attempt of a container. `end` is why it must be ended, or "";
    `grace_s` is the grace period that the probe gives it, if it is not the pod's."""

    attempt: int
    started: bool = True
    ready: bool = True
    end: str = ""
    grace_s: float | None = None


@dataclass(frozen=True)
class Facts:
    """The pod as it is. `pod` is None if the API server does not know it (any more)."""

    pod: Pod | None
    sandbox: Sandbox | None
    volumes: PodVolumes
    shutting_down: bool = False
    name_taken: bool = False
    """Another pod may still run under its name."""
    volume_taken: bool = False
    """A pod that was removed from the API by force still runs with one of its volumes."""
    verdicts: Mapping[str, Verdict] = field(default_factory=dict[str, Verdict])
    """By container; one without hooks and probes has none: it is ready while it runs."""
    overdue_at: float | None = None
    """When the pod's activeDeadlineSeconds have passed."""
    overdue: bool = False

    @property
    def running(self) -> bool:
        return self.sandbox is not None and self.sandbox.running

    @property
    def any_runs(self) -> bool:
        """A container of any sort may run, of which no end is known."""
        records = self.sandbox.containers.values() if self.sandbox is not None else ()
        return self.running and any(record.exit_code is None for record in records)

    def record(self, container: str) -> ContainerRecord | None:
        return self.sandbox.containers.get(container) if self.sandbox else None

    def runs(self, container: str) -> bool:
        """Its newest attempt runs."""
        record = self.record(container)
        return record is not None and record.exit_code is None

    def verdict(self, container: str) -> Verdict:
        """Of its newest attempt."""
        record, verdict = self.record(container), self.verdicts.get(container)
        attempt = record.attempt if record else 0
        return verdict if verdict is not None and verdict.attempt == attempt else Verdict(attempt)

    def started(self, container: str) -> bool:
        """It runs, its postStart hook has ended and its startup probe has succeeded."""
        return self.runs(container) and self.verdict(container).started


class Do(Enum):
    """One thing to do."""

    WANT_VOLUMES = "want volumes"
    START_SANDBOX = "start sandbox"
    START_CONTAINER = "start container"
    TERMINATE = "terminate"
    """The pod's containers get SIGTERM, all but sidecars that others still need."""
    STOP_CONTAINER = "stop container"
    KILL_CONTAINER = "kill container"
    HURRY = "hurry"
    """The grace period has become shorter: hooks are waited for no longer."""
    KILL = "kill"
    RELEASE_VOLUMES = "release volumes"
    DELETE = "delete"
    FORGET = "forget"


@dataclass(frozen=True)
class Plan:
    """What to do now, in this order, and when to look again if nothing happens before. A container that
    cannot be made keeps nothing else from being done; any other failure ends the round."""

    actions: tuple[tuple[Do, str], ...] = ()
    memory: Memory = Memory()
    wake_at: float | None = None

    def remembered(self, before: Memory, done: int, refused: Mapping[str, Refusal]) -> Memory:
        """What to remember when so many of the actions were done, and these containers could not be made.
        Containers are started last: of one that was not asked for it is what was remembered before; all else
        is as planned."""
        undone = self.actions[done:]
        if undone and undone[0][0] is not Do.START_CONTAINER:
            return before
        unasked = {name for _, name in undone} | refused.keys()
        asked = {name: each for name, each in self.memory.requested.items() if name not in unasked}
        known = {name: each for name, each in before.requested.items() if name in unasked}
        return replace(self.memory, requested=asked | known, refused={**self.memory.refused, **refused})
