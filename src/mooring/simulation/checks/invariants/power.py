"""Which boot of each machine is over, by the machines' true power, and what a fence may release: from the
trace alone."""

from __future__ import annotations

from collections import defaultdict

import msgspec

from mooring.controllers.fencing.names import TAINT_VALUE
from mooring.simulation.checks.invariants.node_reports import NodeReports
from mooring.simulation.checks.invariants.objects import StoredObject
from mooring.simulation.checks.invariants.shut_out import ShutOut
from mooring.simulation.engine.trace import Event, Trace
from mooring.volumes.names import FENCE_EVIDENCE
from mooring.volumes.out_of_service import TAINT
from mooring.volumes.statements import Evidence


class Boots:
    """The account of one trace. A machine's boots are numbered: `boot-0`, and another after each loss of
    power."""

    def __init__(self, trace: Trace) -> None:
        self._number: defaultdict[str, int] = defaultdict(int)
        self._reports, self._shut = NodeReports.of(trace), ShutOut.of(trace)
        trace.listen("truth.power", self._power)

    @classmethod
    def of(cls, trace: Trace) -> Boots:
        """The one of that trace: its checkers share it."""
        return trace.shared(cls)

    def _power(self, event: Event) -> None:
        self._number[event.actor] += not event.fields["on"]

    def is_over(self, node: str, boot: str) -> bool:
        """Whether nothing of that boot runs any more."""
        number = boot.rpartition("-")[2]
        return number.isdigit() and int(number) < self._number[node]

    def fenced(self, record: StoredObject) -> bool:
        """Whether a fence may release this VolumeAttachment: it states so of the boot that its Node shows, or
        showed when the volume was un-reported there (a later boot has never had it), and this boot is truly
        over, or its node truly shut out of the volume."""
        report = self._reports[record.spec.node_name]
        then = report.un_reported.get(record.unique_disk)
        return self._frees(record, report.node) or (then is not None and self._frees(record, then))

    def _frees(self, record: StoredObject, node: StoredObject | None) -> bool:
        """Whether a fence releases it, if its Node is so."""
        name = record.spec.node_name
        shown = node.status.node_info.boot_id if node is not None else ""
        if node is not None and any(t.key == TAINT and t.value == TAINT_VALUE for t in node.spec.taints):
            return self.is_over(name, shown)
        evidence = self.evidence(record)
        if evidence is None or (node is not None and evidence.boot_id != shown):
            return False
        return self.has_lost(name, evidence.boot_id, record.volume_name)

    def has_lost(self, node: str, boot: str, volume: str) -> bool:
        """Whether nothing of that boot writes to the volume any more."""
        return self.is_over(node, boot) or self._shut.is_shut(node, volume)

    def evidence(self, record: StoredObject) -> Evidence | None:
        """What a fence has stated on a VolumeAttachment."""
        text = record.metadata.annotations.get(FENCE_EVIDENCE)
        return msgspec.json.decode(text, type=Evidence) if text else None
