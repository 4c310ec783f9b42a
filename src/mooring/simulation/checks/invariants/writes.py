"""Invariants of writes to the API server: each says what it was decided upon, and changes something.

What is asked for is judged, not what comes of it: a write without its precondition does harm only when
another one comes between, which few runs show.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping

from mooring.simulation.checks.faults import Faults
from mooring.simulation.checks.invariants.checker import Checker, Found
from mooring.simulation.checks.invariants.objects import key_of
from mooring.simulation.engine.trace import Event, Trace

WRITERS_OF_THEIR_OWN: Mapping[tuple[str, str, str], str] = {
    (
        "attacher",
        "volumeattachments",
        "status",
    ): "no other controller writes it; what was verified is of one version",
    ("mooring-provisioner", "persistentvolumes", "status"): "a failure to reclaim is told in any version",
    ("default-scheduler", "pods", "status"): "tells why the pod waits, if it has no other condition",
    ("node-controller", "pods", "status"): "merges one condition: the others stay as they are",
    ("node-agent", "nodes", ""): "labels that are the agent's own, whatever others write",
    ("node-agent", "pods", "status"): "before the Node is made anew: to be newer is what it is for",
    ("fencing-controller", "volumeattachments", ""): "evidence holds in any version",
    ("fencing-controller", "volumeattachments", "status"): "evidence holds in any version",
}
"""Writer, resource and subresource of patches that carry no version, each with the reason why that is
right."""
ERASER = "attacher"
"""It removes the time of a request that was answered, in whatever version."""
BY_UID_ALONE: Mapping[str, str] = {
    "pods": "its end is decided upon its identity: whatever its status says by then, it is that pod",
    "persistentvolumes": "its disk is deleted by then, which no later version brings back",
    "controllerrevisions": "what is of use is known by its name, and is the same in any version",
}
"""Resources of which a deletion carries the uid alone."""
TOLD_ANEW: Mapping[tuple[str, str], str] = {
    (
        "attacher",
        "volumeattachments",
    ): "the same error once more within a second, which is all that its time says",
    ("node-agent", "pods"): "an agent that starts does not know of which state the API shows a pod",
    ("node-agent", "nodes"): "the same, of the Node's labels",
}
"""Writer and resource of writes that may change nothing, each with the reason why it is not compared."""
ASKS_BY_WRITING: Mapping[tuple[str, str], str] = {
    (
        "attachdetach-controller",
        "nodes",
    ): "what another leader has listed is listed again, which fails if it is so no more",
}
"""Writer and resource of writes by which, after a disturbance, is asked whether what is there is still so."""
NODE_AGENT = "node-agent"


def writer_of(event: Event) -> str:
    """The controller that asks, or the node agent."""
    return event.fields["life"].rpartition(" ")[2] or NODE_AGENT


class SaysUponWhat(Checker):
    """S32: a write carries the uid of the object that it is meant for, and the version that it was computed
    from, unless it is one of the few that are right whatever was written meanwhile, or the attacher erases
    what is over."""

    name = "S32"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._told: set[tuple[str, ...]] = set()
        trace.listen("asked.write", self._note)

    def _note(self, event: Event) -> None:
        fields, who = event.fields, writer_of(event)
        self.guarded += 1
        if not fields["uid"]:
            self._tell(event, who, "uid")
        elif fields["version"] is None and not _may_lack_version(who, event):
            self._tell(event, who, "version")

    def _tell(self, event: Event, who: str, lacks: str) -> None:
        fields = event.fields
        what = fields["method"], fields["resource"], fields["sub"]
        if (who, *what, lacks) not in self._told:
            self._told.add((who, *what, lacks))
            self.wrong(
                f"{who} sends {' '.join(filter(None, what))} of {fields['name']} without its {lacks}", event
            )


def _may_lack_version(who: str, event: Event) -> bool:
    fields = event.fields
    if fields["method"] == "DELETE":
        return fields["resource"] in BY_UID_ALONE
    if fields["erases"] and who == ERASER:
        return True
    return _target(who, event) in WRITERS_OF_THEIR_OWN


def _target(who: str, event: Event) -> tuple[str, str, str]:
    return who, event.fields["resource"], event.fields["sub"]


class ChangesSomething(Checker):
    """S33: a write changes something: what reads what is there, and writes just that, has not compared it."""

    name = "S33"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._faults = Faults.of(trace)
        self._changes: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._asked: defaultdict[tuple[str, str, str], deque[tuple[int, int | None]]] = defaultdict(deque)
        """By life and object, of each write that is under way: how often that had changed when it was sent,
        and the version that it named."""
        self._told: set[tuple[str, ...]] = set()
        trace.listen("store.written", self._changed)
        trace.listen("store.deleted", self._changed)
        trace.listen("asked.write", self._note)
        trace.listen("asked.answered", self._answered)

    def _changed(self, event: Event) -> None:
        self._changes[key_of(event)] += 1

    def _note(self, event: Event) -> None:
        fields = event.fields
        if fields["method"] != "DELETE":
            there = self._changes[fields["resource"], fields["name"]]
            self._asked[_key(event)].append((there, fields["version"]))

    def _answered(self, event: Event) -> None:
        fields, asked = event.fields, self._asked[_key(event)]
        self.guarded += 1
        there, version = asked.popleft() if asked else (-1, None)
        if self._changes[fields["resource"], fields["name"]] != there or self._may_be_told_anew(event):
            return
        asks = (writer_of(event), fields["resource"]) in ASKS_BY_WRITING
        knew = fields["version"] == version and not asks
        if knew or not self._faults.disturbed((event.actor,), event.time - 60.0):
            self._tell(event)

    @staticmethod
    def _may_be_told_anew(event: Event) -> bool:
        return (writer_of(event), event.fields["resource"]) in TOLD_ANEW

    def _tell(self, event: Event) -> None:
        who, fields = writer_of(event), event.fields
        if (who, fields["resource"]) not in self._told:
            self._told.add((who, fields["resource"]))
            self.wrong(f"{who} writes {fields['resource']} {fields['name']} as it is already", event)


def _key(event: Event) -> tuple[str, str, str]:
    return event.fields["life"], event.fields["resource"], event.fields["name"]
