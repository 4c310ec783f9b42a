"""D8: what a reader is answered that asks for a version is what was durable at that version.

Upstream's documentation, "API Concepts", "Resource versions": `Exact` gives just that version, or 410 Gone if
it is too old; `NotOlderThan` the newest state; a list that goes on with `continue` that of its first page, or
410; and a version that does not exist yet is answered with 504.
"""

from __future__ import annotations

from collections.abc import Iterator

from mooring.simulation.checks.invariants.checker import Found
from mooring.simulation.checks.stored import Model, objects_at
from mooring.simulation.cluster.readers import EXACTLY, IN_PAGES, NOT_OLDER, Window
from mooring.simulation.engine.trace import Event, Trace

GONE, NOT_THERE_YET = 410, 504
UNABLE = (429, 500, 503)
"""Answers that say nothing of versions."""


class ReadsAreTrue:
    """D8, on one run. `model`: what became durable. While an answer is awaited the store goes on: the answer
    is judged by what was so all the time."""

    name = "D8"

    def __init__(self, trace: Trace, model: Model, found: Found) -> None:
        self._model, self._found = model, found
        self.guarded = 0
        trace.listen("told.read", self._judge)

    def _judge(self, event: Event) -> None:
        fields = event.fields
        if fields["status"] in UNABLE:
            return
        self.guarded += 1
        what = f"{fields['resource']}, asked for at version {fields['asked']} (way {fields['way']})"
        refused = fields["status"] in (GONE, NOT_THERE_YET)
        wrong = [*_of_the_status(event)]
        if fields["status"] == 200 and not wrong:
            wrong = [*self._of_the_list(event)]
        elif not refused and fields["way"] in (EXACTLY, NOT_OLDER, IN_PAGES):
            wrong.append(f"is answered with {fields['status']}")
        for words in wrong:
            self._found(self.name, f"{what} {words}", event)

    def _of_the_list(self, event: Event) -> Iterator[str]:
        fields = event.fields
        began, ended = fields["_began"], fields["_ended"]
        version: int = fields["version"]
        least, most = began.newest, ended.newest
        if fields["way"] == EXACTLY or (fields["asked"] and fields["way"] == IN_PAGES):
            least = most = fields["asked"]
        if not least <= version <= most:
            yield f"is answered as of {version}, and not of {least} to {most}"
        elif fields["_items"] is not None and fields["_items"] != self._there(fields["resource"], version):
            yield f"is answered as of {version}, and was otherwise then"

    def _there(self, plural: str, version: int) -> dict[tuple[str, str], int]:
        kept = objects_at(self._model.until(version))
        resource = next((each for each in kept if each.partition(".")[0] == plural), "")
        return {key: stored.version for key, stored in kept.get(resource, {}).items()}


def _of_the_status(event: Event) -> Iterator[str]:
    """Whether there is that version: in the future, in the window, or forgotten."""
    way, asked, status = (event.fields[each] for each in ("way", "asked", "status"))
    began: Window = event.fields["_began"]
    ended: Window = event.fields["_ended"]
    if asked > ended.newest and status != NOT_THERE_YET:
        yield f"is answered with {status}, and {ended.newest} is the newest version"
    if asked <= began.newest and status == NOT_THERE_YET:
        yield f"does not exist yet, it is said, and there was {began.newest} already"
    old = way in (EXACTLY, IN_PAGES) and asked > 0
    if old and asked < began.floor and status != GONE:
        yield f"is answered with {status}, and nothing is kept of before {began.floor}"
    if status == GONE and not (old and asked < ended.floor):
        yield f"is gone, it is said, and all since {ended.floor} is kept"
