"""A view of a cluster that follows it until the user has seen enough: on a terminal it is drawn anew in
place, in pipes and files there is a line for each change.

It asks for nothing again and again: the API server tells what changes (`kube/following.py`). What a view
shows, it says as lines and as facts; both are made of what is known at that moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Generator, Mapping, Sequence
from typing import Protocol, TextIO

from mooring.cluster import fences
from mooring.cluster.changes import changes, facts
from mooring.cluster.screen import Screen, coloured, is_terminal
from mooring.cluster.tables import Section, lines, shortened, text
from mooring.cluster.view import Snapshot, legend, sections
from mooring.kube.client import Client
from mooring.kube.following import Following
from mooring.kube.objects import Node, Object, PersistentVolumeClaim, Pod, VolumeAttachment
from mooring.kube.objects.fencing import FenceMechanism, FencePolicy, NodeFence
from mooring.kube.printable import printable

GATHER_S = 0.1
"""What changes within so many seconds is shown together."""
FRAME = 3
"""Lines of the window that are not the view's: the time and the line before it, and the cursor's."""
IDLE = 3
"""After a view was made, it is not made again for so many times as long as that took: of many objects
seldom."""


class View(Protocol):
    """What is shown. `gone` is said of a fact that is no more."""

    @property
    def kinds(self) -> Sequence[type[Object]]: ...
    @property
    def optional(self) -> Sequence[type[Object]]: ...
    @property
    def gone(self) -> str: ...

    def lines(self, known: Following, room: int) -> list[str]:
        """As it is drawn where there is room for so many lines."""
        ...

    def paint(self, line: str) -> str:
        """A line with its colours."""
        ...

    def facts(self, known: Following) -> Mapping[str, str]:
        """As it is compared, line by line."""
        ...


class StatusView:
    """What `mooring status` shows, as far as the API server tells it."""

    kinds = (Node, PersistentVolumeClaim, Pod, VolumeAttachment)
    optional = (NodeFence, FencePolicy, FenceMechanism)
    gone = "gone"

    def lines(self, known: Following, room: int) -> list[str]:
        """The tables, and what their question marks mean."""
        snapshot = _snapshot(known)
        note = legend(snapshot)
        tables = shortened(sections(snapshot) + _fences(known), room - (2 if note else 0))
        return lines(tables, note) or ["nothing to show"]

    def paint(self, line: str) -> str:
        """States have colours."""
        return coloured(line)

    def facts(self, known: Following) -> Mapping[str, str]:
        """A fact for each object, and for each row of the table of fences."""
        found = dict(facts(_snapshot(known)))
        for section in _fences(known):
            found |= {text(row[0]): ", ".join(map(text, row[1:])) for row in section.rows}
        return found


def _snapshot(known: Following) -> Snapshot:
    return Snapshot(
        known.of(Node), known.of(PersistentVolumeClaim), known.of(Pod), known.of(VolumeAttachment)
    )


def _fences(known: Following) -> list[Section]:
    return fences.section(known.of(NodeFence), known.of(FencePolicy), known.of(FenceMechanism))


async def follow(client: Client, view: View, out: TextIO, *, tick_s: float | None = None) -> None:
    """Shows each change until Ctrl-C or SIGTERM. KubeError if the cluster cannot be read to begin with."""
    with ended_by_signals():
        async with Following(client, view.kinds, view.optional) as known:
            await show(view, known, out, tick_s=tick_s)


async def show(view: View, known: Following, out: TextIO, *, tick_s: float | None = None) -> None:
    """Shows each change until it is cancelled; with `tick_s` a terminal is also drawn anew so often, for
    ages."""
    shown = Drawn(view, known, out) if is_terminal(out) else Printed(view, known, out)
    loop = asyncio.get_running_loop()
    if isinstance(shown, Drawn):
        loop.add_signal_handler(signal.SIGWINCH, known.touch)
    while True:
        began = loop.time()
        shown.update()
        await asyncio.sleep(max(GATHER_S, IDLE * (loop.time() - began)))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(tick_s if isinstance(shown, Drawn) else None):
                await known.changed()


class Drawn:
    """A view on a terminal."""

    def __init__(self, view: View, known: Following, out: TextIO) -> None:
        self._view, self._known = view, known
        self._screen = Screen(out, view.paint)
        self._last: tuple[list[str], tuple[int, int]] | None = None

    def update(self) -> None:
        """Draws it anew, if it or the window has changed."""
        silence, size = self._known.silence, self._screen.size
        note = (
            ["", printable(f"the API server is not heard, and this may be old: {silence}")] if silence else []
        )
        lines = self._view.lines(self._known, size.lines - FRAME - len(note)) + note
        if self._last == (lines, size):
            return
        self._last = (lines, size)
        self._screen.draw([*lines, "", f"{time.strftime('%H:%M:%S')}  Ctrl-C ends this"])


class Printed:
    """A view in a pipe or a file."""

    def __init__(self, view: View, known: Following, out: TextIO) -> None:
        self._view, self._known, self._out = view, known, out
        self._before: Mapping[str, str] = {}

    def update(self) -> None:
        """Prints what has changed."""
        now = dict(self._view.facts(self._known))
        if silence := self._known.silence:
            now["API server"] = f"is not heard, and what is known may be old: {silence}"
        elif "API server" in self._before:
            now["API server"] = "is heard"
        for line in changes(self._before, now, time.strftime("%H:%M:%S"), self._view.gone):
            print(line, file=self._out)
        self._out.flush()
        self._before = now


@contextlib.contextmanager
def ended_by_signals() -> Generator[None]:
    """Within, Ctrl-C and SIGTERM cancel this task, and are then no error."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    asked = False

    def end() -> None:
        nonlocal asked
        asked = True
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end)
    try:
        yield
    except asyncio.CancelledError:
        if not asked:
            raise
        task.uncancel()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
