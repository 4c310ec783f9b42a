"""What a picture of a run tells beside the states of volumes: where pods ran, which writes were lost, and
what happened, one thing after the other."""

from __future__ import annotations

from collections import defaultdict, deque

from mooring.simulation.engine.trace import NEWEST_EVENTS, Event, Trace
from mooring.simulation.search.words import TELLING


class Story:
    """Follows a trace from its beginning.

    `runs`: when which pod's processes ran where: start, end (None: to the end of the run), node. `pods`: by
    volume, those that ever had it. `losses`: by volume and node, when a write took no effect.
    """

    def __init__(self, trace: Trace) -> None:
        self.runs: defaultdict[str, list[tuple[float, float | None, str]]] = defaultdict(list)
        self.pods: defaultdict[str, set[str]] = defaultdict(set)
        self.losses: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        self.events: deque[Event] = deque(maxlen=NEWEST_EVENTS)
        self._open: defaultdict[tuple[str, str, str], set[str]] = defaultdict(set)
        self._since: dict[tuple[str, str, str], float] = {}
        trace.listen("truth.started", self._started)
        trace.listen("truth.ended", self._ended)
        trace.listen("truth.written", self._written)
        for kind in TELLING:
            trace.listen(kind, self.events.append)

    def _started(self, event: Event) -> None:
        pod = event.fields["pod"]
        for volume in filter(None, event.fields["disks"].split(",")):
            self.pods[volume].add(pod)
        place = (pod, event.fields["uid"], event.fields["node"])
        self._open[place].add(event.fields["container"])
        self._since.setdefault(place, event.time)

    def _ended(self, event: Event) -> None:
        place = (event.fields["pod"], event.fields["uid"], event.fields["node"])
        self._open[place].discard(event.fields["container"])
        if not self._open[place] and place in self._since:
            self.runs[place[0]].append((self._since.pop(place), event.time, place[2]))

    def _written(self, event: Event) -> None:
        if event.fields["mounted"] and not event.fields["committed"]:
            self.losses[event.fields["volume"], event.fields["node"]].append(event.time)

    def close(self) -> None:
        """What runs now, runs to the end."""
        for (pod, _, node), since in self._since.items():
            self.runs[pod].append((since, None, node))
        self._since.clear()
