"""What happened in a run, one event after the other, in three layers.

- *truth*: processes, mounts, attachments, writes to volumes, power: what really is, whatever the API says.
- *store*: every committed write, with its resourceVersion.
- *plan*: what users did, and which faults began and ended.

The trace is hashed as it grows: two runs are the same if and only if their hashes are.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar, cast

import msgspec

NEWEST_EVENTS = 20_000


class Event(NamedTuple):
    """One thing that happened at `time` (virtual seconds), done by `actor`. `kind` is "layer.what"."""

    number: int
    time: float
    actor: str
    kind: str
    fields: Mapping[str, Any]

    def line(self) -> str:
        """The event as one line of text."""
        fields = " ".join(f"{key}={value}" for key, value in self.fields.items() if not key.startswith("_"))
        return f"{self.number:06d} {self.time:12.6f} {self.actor:<14} {self.kind:<16} {fields}"


_encode = msgspec.msgpack.Encoder(enc_hook=lambda value: type(value).__name__).encode
Listener = Callable[[Event], object]
V = TypeVar("V")


class Trace:
    """Collects events; keeps the newest. Fields whose names begin with `_` are for listeners, not for the
    text."""

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._hash = blake2b(digest_size=16)
        self._listeners: defaultdict[str, list[Listener]] = defaultdict(list)
        self.events: deque[Event] = deque(maxlen=NEWEST_EVENTS)
        self.counts: defaultdict[str, int] = defaultdict(int)
        self.number = 0
        self.closed = False
        self.failure: Exception | None = None
        """What a listener raised."""
        self._shared: dict[type, Any] = {}
        self.stop: Callable[[], None] | None = None
        """Ends the run, which then raises the failure; None: there is no run."""

    def listen(self, kind: str, listener: Listener) -> None:
        """Calls the listener with each event of that kind."""
        self._listeners[kind].append(listener)

    def shared(self, kind: type[V], make: Callable[[Trace], V] | None = None) -> V:
        """What was made of this trace once, for all who ask by its kind. It ends with the trace: an account
        kept elsewhere would hold what it listens to, and so each run for good."""
        if kind not in self._shared:
            self._shared[kind] = (make or cast("Callable[[Trace], V]", kind))(self)
        return cast("V", self._shared[kind])

    def share(self, value: object) -> None:
        """From now on this is what `shared` says for its kind."""
        self._shared[type(value)] = value

    def __call__(self, actor: str, kind: str, /, **fields: Any) -> None:
        """Adds an event."""
        if self.closed:
            return
        self.number += 1
        event = Event(self.number, self._time(), actor, kind, fields)
        self._hash.update(_encode((self.number, event.time, actor, kind, fields)))
        self.events.append(event)
        self.counts[kind] += 1
        try:
            for listener in self._listeners[kind]:
                listener(event)
        except Exception as error:
            self.failure = error
            if self.stop is None:
                raise
            self.stop()  # raised here, the actor's code would take it for its own, and go on

    def close(self) -> None:
        """Takes no more events: what follows is the end of the run."""
        self.closed = True

    def digest(self) -> str:
        """The hash of everything so far."""
        return self._hash.hexdigest()
