"""The metrics of the attach/detach controller: upstream's, by upstream's names (kube-controller-manager,
`attachdetach/metrics`), and our own.

Gauges follow from what each volume looked like when it was last decided about, so that their cost follows the
number of changes, not the number of volumes.
"""

from __future__ import annotations

import asyncio
from collections import Counter as Count
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mooring.controllers.attachdetach.release import FORCED
from mooring.controllers.attachdetach.state import Action, VolumeDecision, VolumeState
from mooring.kube.metrics import REGISTRY
from mooring.volumes.attachability import driver_of
from mooring.volumes.names import CSI_PLUGIN

_TOTAL = Gauge(
    "attachdetach_controller_total_volumes",
    "Volumes that are wanted on nodes (desired_state_of_world), or have VolumeAttachments (actual_state_of_world).",
    ["plugin_name", "state"],
    registry=REGISTRY,
)
_LATENCY = Histogram(
    "mooring_attachdetach_desired_to_attached_seconds",
    "From when a volume was first seen to be wanted on a node until it was reported to the node as attached.",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800),
    registry=REGISTRY,
)
_BLOCKED = Gauge(
    "mooring_attachdetach_blocked_volumes",
    "Volumes that wait for something outside.",
    ["reason"],
    registry=REGISTRY,
)
_CORRECTIONS = Counter(
    "mooring_attachdetach_sweep_corrections",
    "What the full sweep found undone and nothing would have done; 0 if no change was missed.",
    ["action"],
    registry=REGISTRY,
)
_RIVALS = Counter(
    "mooring_attachdetach_foreign_writes",
    "VolumeAttachments and lists of Nodes that another attach/detach controller wrote.",
    ["kind"],
    registry=REGISTRY,
)
_OBSERVED = Counter(
    "mooring_attachdetach_observed_decisions",
    "What would have been done.",
    ["action", "reason"],
    registry=REGISTRY,
)
_DISAGREEMENTS = Counter(
    "mooring_attachdetach_disagreements",
    "Where the controller in charge did what would not have been done here, or left undone what would.",
    ["kind"],
    registry=REGISTRY,
)


class _Forced(Collector):
    """Upstream's counter of forced detaches, whose name has no `_total` and its prefix twice."""

    def __init__(self) -> None:
        self.counts = Count[str](dict.fromkeys(FORCED.values(), 0))

    def collect(self) -> Iterator[Metric]:
        name = "attach_detach_controller_attachdetach_controller_forced_detaches"
        metric = Metric(name, "Detaches that the node was not asked about.", "unknown")
        for reason, count in self.counts.items():
            metric.add_sample(name, {"reason": reason}, count)
        yield metric


class _InUse(Collector):
    """Upstream's gauge, of nodes that have some: a Gauge would keep each node that there ever was."""

    def __init__(self) -> None:
        self._counts = Count[tuple[str, str]]()

    def add(self, node: str, plugin: str, amount: int) -> None:
        self._counts[node, plugin] += amount
        if not self._counts[node, plugin]:
            del self._counts[node, plugin]

    def collect(self) -> Iterator[Metric]:
        name, labels = "storage_count_attachable_volumes_in_use", ("node", "volume_plugin")
        metric = GaugeMetricFamily(name, "Attachable volumes that pods use.", labels=labels)
        for about, count in self._counts.items():
            metric.add_metric(about, count)
        yield metric


_FORCED, _IN_USE = _Forced(), _InUse()
for _each in (_FORCED, _IN_USE):
    REGISTRY.register(_each)


def forced(code: str) -> None:
    """Counts a force detach by the code of its reason."""
    _FORCED.counts[FORCED[code]] += 1


def corrected(action: Action) -> None:
    """Counts an action that only the full sweep has found."""
    _CORRECTIONS.labels(action.value).inc()


def foreign(kind: str) -> None:
    """Counts another controller's write."""
    _RIVALS.labels(kind).inc()


def observed(decision: VolumeDecision) -> None:
    """Counts an action that `--observe` would have carried out."""
    _OBSERVED.labels(decision.action.value, decision.reason.code).inc()


def disagreed(kind: str) -> None:
    """Counts a disagreement with the controller in charge."""
    _DISAGREEMENTS.labels(kind).inc()


def plugin_label(volume: str) -> str:
    """Returns upstream's label of the volume's plugin: CSI volumes with their driver."""
    driver = driver_of(volume)
    return f"{CSI_PLUGIN}:{driver}" if volume.startswith(f"{CSI_PLUGIN}/") else driver


def _count(name: str, plugin: str, about: str, amount: int) -> None:
    if name == "in use":
        _IN_USE.add(about, plugin, amount)
    else:
        gauge = _TOTAL.labels(plugin, about) if name == "total" else _BLOCKED.labels(about)
        gauge.inc(amount)


class _Looks(NamedTuple):
    """What the gauges show of one volume: nodes that want it, nodes that have it, reasons
    why it is blocked."""

    wanted: tuple[str, ...] = ()
    attached: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()


class Volumes:
    """The volumes of one controller, as they looked when they were last decided about."""

    def __init__(self) -> None:
        self._looks: dict[str, _Looks] = {}
        self._since: dict[str, dict[str, float]] = {}
        """Volume -> the nodes that want it -> since when (the loop's time)."""

    def note(self, state: VolumeState, decisions: Iterable[VolumeDecision]) -> None:
        """Updates the gauges with what a volume looks like now."""
        blocked = tuple(each.reason.code for each in decisions if each.action is Action.BLOCKED)
        wanted = tuple(demand.node for demand in state.demands)
        self._show(state.volume, _Looks(wanted, tuple(each.node for each in state.attachments), blocked))
        self._time(state.volume, decisions)

    def clear(self) -> None:
        """Takes all volumes out of the gauges: this controller is not the lease holder any more."""
        for volume in list(self._looks):
            self._show(volume, _Looks())
        self._since.clear()

    def _show(self, volume: str, looks: _Looks) -> None:
        before = self._looks.pop(volume, _Looks())
        if any(looks):
            self._looks[volume] = looks
        if looks == before:
            return
        label = plugin_label(volume)
        change = Count[tuple[str, str]]()
        for sign, each in ((-1, before), (1, looks)):
            for node in each.wanted:
                change["in use", node] += sign
            change["total", "desired_state_of_world"] += sign * len(each.wanted)
            change["total", "actual_state_of_world"] += sign * len(each.attached)
            for reason in each.blocked:
                change["blocked", reason] += sign
        for (gauge, about), amount in change.items():
            if amount:
                _count(gauge, label, about, amount)

    def _time(self, volume: str, decisions: Iterable[VolumeDecision]) -> None:
        before, now = self._since.pop(volume, {}), asyncio.get_running_loop().time()
        waiting: dict[str, float] = {}
        for each in decisions:
            if not each.pods or each.reason.code in ("NodeAttaches", "PodEnding"):
                continue
            if each.action is not Action.SETTLED:
                waiting[each.node] = before.get(each.node, now)
            elif each.node in before:
                _LATENCY.observe(now - before[each.node])
        if waiting:
            self._since[volume] = waiting
