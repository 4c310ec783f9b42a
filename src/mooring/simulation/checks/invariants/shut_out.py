"""Which nodes the storage truly shuts out of which volumes, and what that excuses: from the trace alone.

A node that is shut out goes on running. It counts as one that does not write a volume from the moment the
storage refuses it until it is let in again; what a fence says of it is never believed.
"""

from __future__ import annotations

from mooring.simulation.checks.invariants.node_reports import NodeReports
from mooring.simulation.checks.invariants.objects import CLAIMS, StoredObject, object_of
from mooring.simulation.checks.settings import Settings
from mooring.simulation.engine.trace import Event, Trace
from mooring.simulation.parts.storage_targets import target_of

VIEW_S = 25.0
"""For so long a write may be on its way, and go by a state that is over."""


class ShutOut:
    """The account of one trace."""

    def __init__(self, trace: Trace) -> None:
        self._shut: set[tuple[str, str]] = set()  # target and node
        self._volumes: dict[str, str] = {}  # claim -> volume
        self._settings, self._reports = Settings.of(trace), NodeReports.of(trace)
        trace.listen("truth.shut-out", lambda event: self._shut.add(_place(event)))
        trace.listen("truth.let-in", lambda event: self._shut.discard(_place(event)))
        trace.listen("store.written", self._written)

    @classmethod
    def of(cls, trace: Trace) -> ShutOut:
        """The one of that trace: its checkers share it."""
        return trace.shared(cls)

    def is_shut(self, node: str, volume: str) -> bool:
        """Whether the storage refuses what the node writes to the volume."""
        return bool(self._shut) and (target_of(volume), node) in self._shut

    def excuses(self, name: str, pod: StoredObject, now: float) -> bool:
        """Whether the pod may count as ended although it runs: the policy says so of pods whose node does not
        answer, and is shut out of each of their volumes."""
        if not (self._settings.fence_releases_pods and self._shut):
            return False
        report, namespace = self._reports[pod.spec.node_name], name.partition("/")[0]
        silent = report.unknown_since <= now or now - report.unknown_until <= VIEW_S
        volumes = [self._volumes.get(f"{namespace}/{each}", "") for each in pod.claims]
        return silent and bool(volumes) and all(self.is_shut(pod.spec.node_name, each) for each in volumes)

    def _written(self, event: Event) -> None:
        if event.fields["resource"] == CLAIMS:
            self._volumes[event.fields["name"]] = object_of(event).spec.volume_name


def _place(event: Event) -> tuple[str, str]:
    return event.fields["target"], event.fields["node"]
