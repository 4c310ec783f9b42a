"""What `mooring why --all --watch` shows: everything that is stuck, a line each, with ages that grow."""

from __future__ import annotations

from collections.abc import Mapping

import click

from mooring.cluster.screen import fitted
from mooring.kube.following import Following
from mooring.kube.objects import Object
from mooring.kube.times import Now
from mooring.volumes.plugin_manager import PluginManager
from mooring.why import text
from mooring.why.cause import Cause
from mooring.why.explain import stuck
from mooring.why.snapshot import KINDS, OPTIONAL, assemble


class WhyView:
    """A view for `cluster/live.py`. It explains anew only when something has changed."""

    kinds: tuple[type[Object], ...] = KINDS
    optional: tuple[type[Object], ...] = OPTIONAL
    gone = "is not stuck any more"

    def __init__(self, plugins: PluginManager, now: Now) -> None:
        self._plugins = plugins
        self._now = now
        self._causes: list[Cause] = []
        self._of = -1

    def lines(self, known: Following, room: int) -> list[str]:
        """A line for each object."""
        now = self._now()
        lines = [text.one_line(each, now, _plain) for each in self._stuck(known)]
        return fitted(lines, room) or ["nothing is stuck"]

    def paint(self, line: str) -> str:
        """The object stands out."""
        about, gap, rest = line.partition("  ")
        return f"{click.style(about, bold=True)}{gap}{rest}" if gap else line

    def facts(self, known: Following) -> Mapping[str, str]:
        """Why each object is stuck; not since when, so that it changes only with its reason."""
        return {each.about: text.reason_line(each) for each in self._stuck(known)}

    def _stuck(self, known: Following) -> list[Cause]:
        if self._of != known.revision:
            self._causes, self._of = list(stuck(assemble(self._plugins, known.of))), known.revision
        return self._causes


def _plain(words: str, colour: str) -> str:
    return words
