"""Stories and hazards in the simulator: the whole production code in virtual time, told from the trace of one
run.

What is told of a write is what it changed; `*` is what the real world did, whatever the API says of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import msgspec

from mooring.kube.objects import Node, PersistentVolume, Pod, VolumeAttachment
from mooring.kube.objects.pods import ContainerState
from mooring.simulation.cluster.plan import Plan
from mooring.simulation.cluster.scenario import PlanStep, Scenario
from mooring.simulation.engine.trace import Event, Trace
from mooring.simulation.run import Outcome, play
from mooring.simulation.search.mutants import MUTANTS
from mooring.simulation.search.stored_run import StoredRun, read
from mooring.volumes.names import DETACHING

REGRESSIONS = Path(__file__).parents[1] / "simulation/regressions"
SMALL = Scenario(nodes=2, sets={"db": 1}, minutes=6, faults=0, actions=0)
SHOWN = 30
"""Lines of a run with a known bug, from the first that differs."""
POWER = msgspec.structs.replace(SMALL, minutes=9)
SILENT = Scenario(
    nodes=2,
    sets={"web": 1},
    minutes=7,
    faults=0,
    actions=0,
    storage="cloud",
    evict_after_s=30,
    force_detach_after_s=45,
    calm_minutes=0,
)


@dataclass
class _Line:
    time: float
    who: str
    what: str

    def text(self) -> str:
        if not self.what:
            return ""
        return (
            f"  {self.time:6.1f} s  {self.who:<13} {self.what}"
            if self.who
            else f"{self.time:.1f} s: {self.what}"
        )


class Teller:
    """Follows one trace. Volumes are called d1, d2 ... in the order in which they were made."""

    def __init__(self, trace: Trace) -> None:
        self._lines: list[_Line] = []
        self._written_at: dict[tuple[str, str, int], _Line] = {}
        self.disks: dict[str, str] = {}
        self._known: dict[tuple[str, str], tuple[str, ...]] = {}
        self._deleters: dict[tuple[str, str], str] = {}
        self._pods: dict[str, str] = {}
        follow: Mapping[str, Callable[[Event], None]] = {
            "plan.step": self._step,
            "plan.healed": lambda event: self._head(event, "everything is healed"),
            "asked.write": self._ask,
            "asked.answered": self._answered,
            "store.written": self._written,
            "store.deleted": self._deleted,
            "truth.created": self._created,
            "truth.power": self._power,
            "plan.crashed": lambda event: self._line(event, "*", f"{event.actor} is killed"),
        }
        for kind, listener in follow.items():
            trace.listen(kind, listener)
        for what in ("attached", "detached", "mounted", "unmounted", "started", "ended", "died"):
            trace.listen(f"truth.{what}", self._true)

    def lines(self) -> list[str]:
        return [line.text() for line in self._lines]

    def _head(self, event: Event, text: str) -> None:
        self._lines += [_Line(event.time, "", ""), _Line(event.time, "", text)]

    def _line(self, event: Event, who: str, text: str) -> _Line:
        self._lines.append(_Line(event.time, who, text))
        return self._lines[-1]

    def _step(self, event: Event) -> None:
        step = PlanStep(0.0, *(event.fields[key] for key in ("what", "on", "value")))
        self._head(event, str(step).split("s  ", 1)[1])

    def _ask(self, event: Event) -> None:
        if event.fields["method"] == "DELETE":
            self._deleters[event.fields["resource"], event.fields["name"]] = _writer(event)

    def _answered(self, event: Event) -> None:
        """Only now it is known whose write it was."""
        line = self._written_at.pop(
            (event.fields["resource"], event.fields["name"], event.fields["version"]), None
        )
        if line is not None:
            line.who = _writer(event)

    def _created(self, event: Event) -> None:
        self.disks.setdefault(event.fields["volume"], f"d{len(self.disks) + 1}")

    def _power(self, event: Event) -> None:
        self._line(event, "*", f"{event.actor} is {'on again' if event.fields['on'] else 'without power'}")

    def _true(self, event: Event) -> None:
        what = event.kind.partition(".")[2]
        if what == "died":
            self._line(event, "*", f"{event.actor} ends: {event.fields['error']}")
        elif what in ("started", "ended"):
            self._line(
                event, "*", f"a process of {self._pod(event.fields['pod'], event.fields['uid'])} {what}"
            )
        else:
            where = "from" if what in ("detached", "unmounted") else "on" if what == "mounted" else "to"
            self._line(
                event, "*", f"{self._disk(event.fields['volume'])} is {what} {where} {event.fields['node']}"
            )

    # --- writes

    def _written(self, event: Event) -> None:
        resource, body = event.fields["resource"].partition(".")[0], event.fields["_body"]
        if resource not in _FACTS:
            return
        name, facts = self._name(resource, event), tuple(_facts(resource, body, self._disk))
        before = self._known.get((resource, name))
        who = "user"
        if before is None:
            who, before = _CREATORS.get(resource, ""), ()
        elif _is_bound(before, facts):
            who = "scheduler"
        elif "being deleted" in facts and "being deleted" not in before:
            who = self._deleters.get((resource, event.fields["name"]), "user")
        self._known[resource, name] = facts
        news = [fact for fact in facts if fact not in before]
        news += [f"not {fact} any more" for fact in before if fact not in facts and "=" not in fact]
        if news:
            line = self._line(event, who, f"{_FACTS[resource]} {name}: {', '.join(news)}")
            self._written_at[resource, event.fields["name"], event.fields["version"]] = line

    def _deleted(self, event: Event) -> None:
        resource = event.fields["resource"].partition(".")[0]
        if resource not in _FACTS:
            return
        name = self._name(resource, event)
        if (facts := self._known.pop((resource, name), None)) is not None:
            who = self._deleters.get((resource, event.fields["name"]), "user")
            if resource == "volumeattachments" and "being deleted" in facts:
                who = "attacher"  # it has taken its finalizer away
            self._line(event, who, f"{_FACTS[resource]} {name} is gone")

    def _name(self, resource: str, event: Event) -> str:
        if resource == "volumeattachments":
            record = msgspec.json.decode(event.fields["_body"], type=VolumeAttachment)
            return f"{self._disk(record.spec.source.persistent_volume_name or '?')}@{record.spec.node_name}"
        if resource == "pods":
            pod = msgspec.json.decode(event.fields["_body"], type=Pod)
            return self._pod(pod.name, pod.uid)
        if resource == "persistentvolumes":
            return self._disk(event.fields["name"])
        return event.fields["name"]

    def _disk(self, volume: str) -> str:
        return self.disks.get(volume, volume)

    def _pod(self, name: str, uid: str) -> str:
        """The second pod of a name is name#2."""
        if uid not in self._pods:
            number = sum(each.partition("#")[0] == name for each in self._pods.values()) + 1
            self._pods[uid] = name if number == 1 else f"{name}#{number}"
        return self._pods[uid]


_FACTS = {
    "pods": "Pod",
    "nodes": "Node",
    "volumeattachments": "VolumeAttachment",
    "persistentvolumes": "PersistentVolume",
}
_CREATORS = {
    "pods": "statefulset",
    "nodes": "agent",
    "volumeattachments": "attachdetach",
    "persistentvolumes": "provisioner",
}
_SHORT = {
    "attachdetach-controller": "attachdetach",
    "node-controller": "nodelifecycle",
    "persistentvolume-controller": "binding",
    "default-scheduler": "scheduler",
    "pod-garbage-collector": "podgc",
    "mooring-provisioner": "provisioner",
}


def _writer(event: Event) -> str:
    controller = event.fields["life"].rpartition(" ")[2]
    return _SHORT.get(controller, controller) or event.actor


def _is_bound(before: tuple[str, ...], facts: tuple[str, ...]) -> bool:
    return "node=none" in before and "node=none" not in facts


def _facts(resource: str, body: bytes, disk: Callable[[str], str]) -> Iterator[str]:
    """What a reader needs to know of an object."""
    if resource == "volumeattachments":
        record = msgspec.json.decode(body, type=VolumeAttachment)
        yield from ["wanted"]
        yield from ["attached"] if record.status.attached else []
        yield from ["marked as being detached"] if DETACHING in record.metadata.annotations else []
        yield from ["being deleted"] if record.deleting else []
    elif resource == "nodes":
        node = msgspec.json.decode(body, type=Node)
        yield f"Ready={node.ready}"
        yield from ["cordoned"] if node.spec.unschedulable else []
        yield from sorted({f"tainted {taint.key.rpartition('/')[2]}" for taint in node.spec.taints})
        yield f"attached=[{', '.join(disk(each.name.rpartition('/')[2]) for each in node.status.volumes_attached)}]"
        yield f"in use=[{', '.join(disk(each.rpartition('/')[2]) for each in node.status.volumes_in_use)}]"
    elif resource == "pods":
        pod = msgspec.json.decode(body, type=Pod)
        yield f"node={pod.spec.node_name or 'none'}"
        yield f"phase={pod.status.phase}"
        yield from (f"container={_state(each.state)}" for each in pod.status.container_statuses[:1])
        yield from ["being deleted"] if pod.deleting else []
    elif resource == "persistentvolumes":
        yield f"phase={msgspec.json.decode(body, type=PersistentVolume).status.phase}"


def _state(state: ContainerState) -> str:
    return "ended" if state.terminated else "running" if state.running else "waiting"


@dataclass(frozen=True)
class SimulatedStory:
    """One run. `mutant`: the known bug with which the same run does harm."""

    name: str
    title: str
    run: StoredRun
    mutant: str = ""

    def text(self) -> str:
        head = [f"{self.name}  {self.title}"]
        lines, outcome = self._played(nullcontext())
        assert outcome.ok, outcome.violations
        if not self.mutant:
            return "\n".join([*head, *lines]) + "\n"
        harmful, spoilt = self._played(MUTANTS[self.mutant].applied())
        harm = f"HARM: {spoilt.violations[0]}" if spoilt.violations else "no harm"
        for volume, short in self.disks.items():
            harm = harm.replace(volume, short)
        same = next(
            (at for at, pair in enumerate(zip(lines, harmful, strict=False)) if pair[0] != pair[1]),
            len(lines),
        )
        off = ["", "", f"WITHOUT THE RULE: {MUTANTS[self.mutant].fault}. As above, up to:", ""]
        return "\n".join([*head, *lines, *off, *harmful[same : same + SHOWN], "", harm]) + "\n"

    def _played(self, bug: AbstractContextManager[object]) -> tuple[list[str], Outcome]:
        tellers: list[Teller] = []
        with bug:
            run = self.run
            outcome = play(
                run.seed,
                run.scenario,
                plan=run.plan,
                choices=run.choices,
                observe=lambda trace: tellers.append(Teller(trace)),
            )
        object.__setattr__(self, "disks", tellers[0].disks)
        return tellers[0].lines(), outcome

    disks = {}  # noqa: RUF012 # of the run that was played last


def scripted(scenario: Scenario, *steps: PlanStep) -> StoredRun:
    plan: Plan = steps
    return StoredRun(0, scenario, plan, {})


def hazard(name: str, title: str) -> SimulatedStory:
    found = sorted(REGRESSIONS.glob(f"{name}-*.json"))
    return SimulatedStory(name, title, read(found[0]), name)


STORIES = (
    SimulatedStory(
        "demo-a-drain",
        "The node of a pod is drained: the volume moves",
        scripted(SMALL, PlanStep(30, "drain", "n0"), PlanStep(60, "uncordon", "n0")),
    ),
    SimulatedStory(
        "demo-b-power-loss",
        "The node of a pod loses power while the pod writes; an operator declares the node out of service",
        scripted(POWER, PlanStep(30, "power-off", "n0", 200, 1)),
    ),
    SimulatedStory(
        "demo-c-crashes",
        "The controllers that attach are killed three times in one move",
        scripted(
            SMALL,
            PlanStep(30, "drain", "n0"),
            PlanStep(30.003, "kill", "attaching", 10),
            PlanStep(40.3, "kill", "attaching", 10),
            PlanStep(50.5, "kill", "attaching", 10),
        ),
    ),
    hazard("H1", "A node that answers unmounts slowly; watches lag"),
    hazard("H2", "An out-of-service taint on a node that answers"),
    hazard("H3a", "A Node object is deleted while its machine runs"),
    hazard("H3b", "A Node is registered anew, with nothing in use"),
    hazard("H4a", "The PersistentVolume of an attachment is gone when the controller starts"),
    hazard("H4b", "A VolumeAttachment that arrives late"),
    hazard("H4c", "An attach of unknown outcome, and another node that wants the volume"),
    hazard("H5", "A pod whose container waits, on a silent node"),
    SimulatedStory(
        "H5b",
        "A pod of which no container is known yet, on a silent node",
        scripted(
            SILENT,
            PlanStep(30, "slow-unmount", "n0", 300),
            PlanStep(60, "delete-pod", "web", 0, 1),
            PlanStep(
                60.012, "cut", "n0", 200
            ),  # after its pod is bound, before its agent has said a word of it
        ),
        "H5",
    ),
    hazard("B13", "Mounted for longer than the timer, on a node that answers"),
)
