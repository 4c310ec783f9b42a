"""What the API server has said to one client of VolumeAttachments, the latest last: by
that, and not by what its part remembers, a write was overtaken, or what was to be written is gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mooring.kube.client import Client
from mooring.kube.errors import Conflict, NotFound
from mooring.kube.objects import VolumeAttachment
from mooring.simulation.checks.second_opinions.memories import Memories
from mooring.simulation.checks.second_opinions.question import Question


@dataclass
class Said:
    """`live`: by name what was read live or written last, None if there was nothing. `tries`: by uid the
    writes that were refused for their version ("refused") and the live looks ("read"), since `anew`.
    `writes`: by uid, how many were done. `listed`: the last list."""

    live: dict[str, VolumeAttachment | None] = field(default_factory=dict[str, "VolumeAttachment | None"])
    tries: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    writes: Counter[str] = field(default_factory=Counter[str])
    listed: Any = None

    def is_gone(self, record: VolumeAttachment) -> bool:
        """Whether it was said that this very VolumeAttachment does not exist any more."""
        live = self.live.get(record.metadata.name, record)
        return live is None or live.metadata.uid != record.metadata.uid

    def anew(self, record: VolumeAttachment) -> None:
        """A write of it begins."""
        self.tries[record.metadata.uid] = []


_SAID: Memories[Said] = Memories(Said)


def said_to(client: Client) -> Said:
    """All that was said to that client."""
    return _SAID.of(client)


def read(answer: Any, client: Client, kind: type, name: str, namespace: str = "") -> Iterable[str]:
    if kind is VolumeAttachment:
        said = _SAID.of(client)
        before, said.live[name] = said.live.get(name), answer
        known = answer or before
        if known is not None and known.metadata.uid in said.tries:
            said.tries[known.metadata.uid].append("read")
    return ()


def listed(answer: Any, client: Client, kind: type, namespace: str = "", **about: Any) -> Iterable[str]:
    if kind is VolumeAttachment:
        _SAID.of(client).listed = answer
    return ()


def written(
    answer: Any, client: Client, record: VolumeAttachment, body: Mapping[str, Any], **how: Any
) -> Iterable[str]:
    if type(record) is VolumeAttachment:
        said, name, uid = _SAID.of(client), record.metadata.name, record.metadata.uid
        if isinstance(answer, NotFound):
            said.live[name] = None
        elif isinstance(answer, VolumeAttachment):
            said.live[name] = answer
            said.writes[uid] += 1
        elif uid in said.tries:
            said.tries[uid].append("refused")
    return ()


QUESTIONS = (
    Question(Client, "find", read),
    Question(Client, "list", listed),
    Question(Client, "revise", written, refusals=(NotFound, Conflict)),
)
