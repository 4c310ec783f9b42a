"""The invariant of the histories of templates: what is of use is kept, and of the rest the newest."""

from __future__ import annotations

from typing import NamedTuple

from mooring.kube.revisions import REVISION
from mooring.simulation.checks.faults import Faults
from mooring.simulation.checks.invariants.checker import Checker, Found
from mooring.simulation.checks.invariants.objects import StoredObject, object_of
from mooring.simulation.checks.invariants.statefulsets import LATE_S, PROCESS
from mooring.simulation.engine.trace import Event, Trace

DAEMON_SETS, STATEFUL_SETS = "daemonsets.apps", "statefulsets.apps"
CONTROLLERS = (" statefulset-controller", " daemonset-controller")
USUAL_LIMIT = 10
"""How many former templates are kept where a set does not say it."""


class _Owner(NamedTuple):
    """A set. `named`: the revisions that its status names, each with since when."""

    resource: str
    name: str
    limit: int
    named: dict[str, float]


class _Member(NamedTuple):
    """A pod: the uid of its set, its label, and since when it has both."""

    owner: str
    label: str
    since: float


class KeepsWhatIsOfUse(Checker):
    """S44: the controller of a StatefulSet or DaemonSet deletes a ControllerRevision of it only if none of
    its pods is of that one, and its status does not name it, as far as it can know; and if as many newer ones
    that are of no use either are kept as the set's history limit says."""

    name = "S44"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._faults = Faults.of(trace)
        self._owners: dict[str, _Owner] = {}  # by uid
        self._members: dict[str, _Member] = {}
        self._revisions: dict[str, StoredObject] = {}
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)
        trace.listen("asked.write", self._asked)

    # --- what is there

    def _written(self, event: Event) -> None:
        resource, name = event.fields["resource"], event.fields["name"]
        if resource in (DAEMON_SETS, STATEFUL_SETS):
            self._note_owner(object_of(event), event)
        elif resource == "pods":
            self._note_member(name, object_of(event), event)
        elif resource == "controllerrevisions.apps":
            self._revisions[name] = object_of(event)

    def _note_owner(self, owner: StoredObject, event: Event) -> None:
        uid, status, limit = owner.metadata.uid, owner.status, owner.spec.revision_history_limit
        before = self._owners[uid].named if uid in self._owners else {}
        named = {each for each in (status.current_revision, status.update_revision) if each}
        self._owners[uid] = _Owner(
            event.fields["resource"],
            event.fields["name"].rpartition("/")[2],
            USUAL_LIMIT if limit is None else limit,
            {each: before.get(each, event.time) for each in named},
        )

    def _note_member(self, name: str, pod: StoredObject, event: Event) -> None:
        held, before = (pod.controller_uid, pod.metadata.labels.get(REVISION, "")), self._members.get(name)
        if before is None or before[:2] != held:
            self._members[name] = _Member(*held, event.time)

    def _deleted(self, event: Event) -> None:
        resource, name = event.fields["resource"], event.fields["name"]
        if resource in (DAEMON_SETS, STATEFUL_SETS):
            self._owners.pop(object_of(event).metadata.uid, None)
        elif resource == "pods":
            self._members.pop(name, None)
        elif resource == "controllerrevisions.apps":
            self._revisions.pop(name, None)

    # --- what is judged

    def _asked(self, event: Event) -> None:
        fields = event.fields
        if fields["resource"] != "controllerrevisions" or fields["method"] != "DELETE":
            return
        revision = self._revisions.get(fields["name"])
        owner = self._owners.get(revision.controller_uid) if revision is not None else None
        if revision is None or owner is None or not fields["life"].endswith(CONTROLLERS):
            return
        if self._faults.disturbed((PROCESS,), event.time - LATE_S):
            return
        self.guarded += 1
        name, uid = revision.metadata.name, revision.controller_uid
        used = self._used(uid, owner, event.time - LATE_S)
        newer = [
            each
            for each in self._revisions.values()
            if each.controller_uid == uid and each.revision > revision.revision
        ]
        idle = [each for each in newer if each.metadata.name not in used]
        if name in used:
            self.wrong(f"revision {name} is deleted, and {used[name]}", event)
        elif owner.limit < 0 or len(idle) < owner.limit:
            self.wrong(
                f"revision {name} is deleted, and of {owner.limit} that are kept {len(idle)} are newer", event
            )

    def _used(self, uid: str, owner: _Owner, known: float) -> dict[str, str]:
        """What is of use, as one can have known by then, and for what, in words."""
        prefix = f"{owner.name}-" if owner.resource == DAEMON_SETS else ""
        pods = {
            f"{prefix}{pod.label}": f"{name} is of it"
            for name, pod in self._members.items()
            if pod.owner == uid and pod.label and pod.since < known
        }
        named = {name: f"{owner.name} names it" for name, since in owner.named.items() if since < known}
        return named | pods
