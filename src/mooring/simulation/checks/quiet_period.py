"""What is written near the end of a run, when nothing has changed for long: next to nothing.

What goes on in vain, and rightly so, is told apart by what is asked for, not by who asks.
"""

from __future__ import annotations

from collections.abc import Container

from mooring.simulation.checks.invariants.objects import ATTACHMENTS, object_of
from mooring.simulation.checks.looks_again import LooksAgain
from mooring.simulation.checks.undefined import Undefined
from mooring.simulation.cluster.cluster import SimulatedCluster
from mooring.simulation.cluster.scenario import Scenario
from mooring.simulation.cluster.workloads import DEPLOYMENTS
from mooring.simulation.engine.trace import Event

CALM_S = 180.0
"""Seconds before the end in which only heartbeats may be written; fewer in a short run."""
HEARTBEATS = ("leases.coordination.k8s.io", "nodes")


def is_in_vain(event: Event, silent: Container[str], *, shared: bool) -> bool:
    """Whether an attach was tried again, and its error stored, that cannot succeed: to a machine that is
    silent for good, or (`shared`: pods of a Deployment have one volume) to one that was to have the volume
    before another got it."""
    if event.fields["resource"] != ATTACHMENTS:
        return False
    record = object_of(event)
    return record.spec.node_name in silent or (shared and not record.status.attached and not record.going)


def shares(scenario: Scenario) -> bool:
    """Whether pods of a Deployment have one volume."""
    return not DEPLOYMENTS.isdisjoint(scenario.workloads.values())


class QuietPeriod:
    """L7: counts what is written near the end."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        scenario = cluster.scenario
        self.calm_s = min(CALM_S, (scenario.end_s - scenario.heal_s) / 4)
        self.begins = scenario.end_s - self.calm_s
        self._shared = shares(scenario)
        self._silent = cluster.silent
        self.written: list[str] = []
        self._again, self._undefined = LooksAgain.of(cluster.trace), Undefined.of(cluster.trace)
        cluster.trace.listen("store.written", self._note)
        cluster.trace.listen("store.deleted", self._note)
        cluster.trace.listen("told.event", self._note_event)

    def _note(self, event: Event) -> None:
        if event.time <= self.begins or event.fields["resource"] in HEARTBEATS or event in self._again:
            return
        if event not in self._undefined and not is_in_vain(event, self._silent, shared=self._shared):
            self.written.append(f"{event.fields['resource']} {event.fields['name']}")

    def _note_event(self, event: Event) -> None:
        """Events about pods that wait for a volume which another node rightly holds may go on."""
        if event.time > self.begins and not (self._shared or self._silent):
            self.written.append(f"an event: {event.fields['reason']} of {event.fields['about']}")
