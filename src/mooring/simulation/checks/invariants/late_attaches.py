"""Attaches that may take effect late, though the volume is attached: they were not answered.

Such a request is outstanding until its validity has passed (docs/protocol.md, C15). Which were not answered
the storage tells, and no record: those after which it was asked for the same once more, with no detach
between.
"""

from __future__ import annotations

import math

from mooring.simulation.checks.invariants.forced_releases import Place, place
from mooring.simulation.checks.settings import Settings
from mooring.simulation.checks.undefined import Undefined
from mooring.simulation.engine.trace import Event, Trace


class LateAttaches:
    """The account of one trace, from its beginning."""

    def __init__(self, trace: Trace) -> None:
        self._settings, self._undefined = Settings.of(trace), Undefined.of(trace)
        self._latest: dict[Place, float] = {}  # when the latest was sent, since the volume was not attached
        self._unanswered: dict[Place, float] = {}  # when the latest of those was sent
        trace.listen("truth.begin", self._begin)
        trace.listen("truth.detached", lambda event: self._latest.pop(place(event), None))

    def outstanding(self, where: Place, now: float) -> bool:
        """Whether one may still take effect. Where nothing defines the volume, that is so for longer."""
        defined = self._undefined.defines(where[0])
        valid_s = self._settings.validity_s if defined else self._settings.undefined_s
        return now < self._unanswered.get(where, -math.inf) + valid_s

    def forget(self, where: Place) -> None:
        """What was sent until now counts no more."""
        self._unanswered.pop(where, None)

    def _begin(self, event: Event) -> None:
        where = place(event)
        if event.fields["act"] != "attach":
            return
        if where in self._latest:
            self._unanswered[where] = self._latest[where]
        self._latest[where] = event.time
