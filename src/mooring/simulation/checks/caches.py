"""D4: at any moment a cache has what the API server had at the version up to which the cache has read.

What watch, history and informer pass on, one change after the other, is compared with what was stored: a
change that is lost on the way leaves a part with an old view, for as long as nothing else changes the object.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from mooring.kube.informer import Informer
from mooring.simulation.checks.invariants.checker import Found
from mooring.simulation.engine.trace import Event, Trace

EVERY = 16
"""Of so many writes one is followed by a comparison: what was lost stays so for a while."""

Caches = Callable[[], Iterable[tuple[str, Informer[Any]]]]


class CachesAreTrue:
    """D4, on one run. `caches`: those of all parts that live, each with its owner's name."""

    name = "D4"

    def __init__(self, trace: Trace, caches: Caches, found: Found) -> None:
        self._caches, self._found = caches, found
        self._last: defaultdict[str, dict[str, tuple[int, bool]]] = defaultdict(dict)
        self._told: set[tuple[str, str]] = set()
        self._written = self.guarded = 0
        trace.listen("store.written", self._note)
        trace.listen("store.deleted", self._note)

    def _note(self, event: Event) -> None:
        fields = event.fields
        there = event.kind == "store.written"
        self._last[fields["resource"]][fields["name"]] = fields["version"], there
        self._written += 1
        if self._written % EVERY:
            return
        for owner, cache in self._caches():
            resource = cache.kind.RESOURCE
            stored = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
            self.guarded += 1
            for difference in cache.untrue(self._last[stored]):
                if (owner, difference) not in self._told:
                    self._told.add((owner, difference))
                    self._found(self.name, f"{owner}: {difference}", event)
