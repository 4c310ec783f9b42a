"""Invariants of what is asked for: nothing twice without a reason, and nothing faster than its backoff."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable
from typing import NamedTuple

from mooring.simulation.checks.faults import Faults
from mooring.simulation.checks.invariants.checker import Checker, Found
from mooring.simulation.checks.invariants.forced_releases import Place, place
from mooring.simulation.checks.invariants.late_attaches import LateAttaches
from mooring.simulation.engine.trace import Event, Trace

STORAGE = ("array", "ec2", "ebs", "attaching", "placing")
"""Whose faults explain that the storage is asked again for what it has done: an answer was lost, or wrong."""
REQUESTS, IN_S = 12, 60.0
"""The storage gets the same request so often in that time at the most: the queue's backoff lets 7 pass
(0.5 s, 1 s, 2 s, ...), and changes of the object a few more."""
WRITES, WRITES_IN_S = 60, 10.0
"""A process sends the same write of an object so often in that time at the most, whatever fails: a write that
was overtaken is tried again after 35 ms, and then ever more slowly."""

WORKLOADS = ("daemonsets", "deployments", "jobs", "replicasets", "statefulsets")
"""Their status counts pods."""


class _Done(NamedTuple):
    """What was answered last, to whom, and when. `late`: it is a detach, and an attach might still take
    effect."""

    act: str = ""
    by: str = ""
    at: float = 0.0
    late: bool = False


class AskedForAReason(Checker):
    """S28: the storage is not asked again for what it has done and answered: to attach what is attached
    there, to detach what is not, to delete what is deleted; nor does a node mount what it has mounted. A raw
    device is no mount point: each life of the agent may have it ready once. A detach that was answered while
    an attach might still take effect is asked for once more: it may have done so since."""

    name = "S28"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._faults = Faults.of(trace)
        self._attached: set[Place] = set()
        self._mounted: dict[Place, tuple[float, int | None]] = {}
        self._deleted: dict[str, float] = {}
        self._late = LateAttaches(trace)
        self._done: dict[Place, _Done] = {}
        trace.listen("truth.attached", lambda event: self._attached.add(place(event)))
        trace.listen("truth.detached", lambda event: self._attached.discard(place(event)))
        trace.listen("truth.begin", self._begin)
        trace.listen("truth.end", self._end)
        trace.listen("truth.mounted", self._mount)
        trace.listen("truth.unmounted", lambda event: self._mounted.pop(place(event), None))
        trace.listen("truth.created", lambda event: self._deleted.pop(event.fields["volume"], None))
        trace.listen("truth.deleting", self._deleting)
        trace.listen(
            "truth.deleted", lambda event: self._deleted.update({event.fields["volume"]: event.time})
        )

    def _begin(self, event: Event) -> None:
        act, by, where = event.fields["act"], event.fields.get("by", ""), place(event)
        done = self._done.get(where, _Done())
        self.guarded += bool(done.act)
        still, (volume, node) = (where in self._attached) == (act == "attach"), where
        if (done.act, done.by) != (act, by) or not still:
            return
        if self._faults.disturbed((node, *STORAGE), done.at):
            return
        if done.late:
            self._late.forget(where)  # once more, and not at each look
        else:
            self.wrong(f"{act} of {volume}, node {node}, is asked for again: it was answered", event)

    def _end(self, event: Event) -> None:
        act, where = event.fields["act"], place(event)
        if (where in self._attached) == (act == "attach"):
            late = act == "detach" and self._late.outstanding(where, event.time)
            self._done[where] = _Done(act, event.fields.get("by", ""), event.time, late)

    def _mount(self, event: Event) -> None:
        volume, node = place(event)
        life = event.fields.get("life")
        before, of_life = self._mounted.get(place(event), (None, None))
        self._mounted[place(event)] = event.time, life
        if before is not None and life == of_life and not self._faults.disturbed((node,), before):
            self.wrong(f"{volume} is mounted on {node} again", event)

    def _deleting(self, event: Event) -> None:
        when = self._deleted.get(event.fields["volume"])
        if when is not None and not self._faults.disturbed(STORAGE, when):
            self.wrong(f"{event.fields['volume']} is to be deleted again", event)


class NotTooOften(Checker):
    """S30: nothing is asked for faster than its backoff: not the storage, and not the API server. Of two
    processes that work at once without a Lease, of which one sees late what is, each may write by turns what
    it holds to be so. A Node's status tells of its pods, each when it comes and when it goes; a workload's
    of each change of one."""

    name = "S30"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._faults = Faults.of(trace)
        self._times: defaultdict[Hashable, deque[float]] = defaultdict(deque)
        self._told: set[Hashable] = set()
        trace.listen("truth.begin", self._begin)
        trace.listen("asked.write", self._write)
        trace.listen("store.written", self._stored)
        trace.listen("store.deleted", self._stored)

    def _begin(self, event: Event) -> None:
        act, (volume, node) = event.fields["act"], place(event)
        key = act, volume, node
        if self._often(key, event, REQUESTS, IN_S) and not self._faults.disturbed(
            (node, *STORAGE), event.time
        ):
            self._tell(
                key, f"{act} of {volume}, node {node}, is asked for {REQUESTS} times in {IN_S:.0f} s", event
            )

    def _write(self, event: Event) -> None:
        fields = event.fields
        if self._faults.in_force("two-leaders", event.actor):
            return
        key = fields["life"], fields["method"], fields["resource"], fields["name"]
        pods = fields["life"], "pods"
        if fields["resource"] == "pods":
            self._times[pods].append(event.time)
        of_pods = 0
        if fields["resource"] == "nodes":
            of_pods = 2 * self._within(pods, event, WRITES_IN_S)
        elif fields["resource"] in WORKLOADS:
            of_pods = self._within("pods", event, WRITES_IN_S)
        if self._often(key, event, WRITES + of_pods, WRITES_IN_S):
            what = f"{fields['method']} of {fields['resource']} {fields['name']}"
            self._tell(key, f"{event.actor} sends {what} {WRITES} times in {WRITES_IN_S:.0f} s", event)

    def _stored(self, event: Event) -> None:
        if event.fields["resource"] == "pods":
            self._times["pods"].append(event.time)

    def _often(self, key: Hashable, event: Event, most: int, seconds: float) -> bool:
        """Whether so many, or more, are within that time."""
        self._times[key].append(event.time)
        number = self._within(key, event, seconds)
        self.guarded += number > 1
        return number >= most

    def _within(self, key: Hashable, event: Event, seconds: float) -> int:
        times = self._times[key]
        while times and event.time - times[0] >= seconds:
            times.popleft()
        return len(times)

    def _tell(self, key: Hashable, message: str, event: Event) -> None:
        if key not in self._told:
            self._told.add(key)
            self.wrong(message, event)
