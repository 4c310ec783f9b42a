"""An EC2 that shows and answers what a story says, for what calls it and waits for what it shows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from mooring.ebs.ec2.records import Instance, Modification, Snapshot, Volume
from mooring.ebs.errors import EbsError

Looks = Callable[[float], Volume | None]
Answer = Exception | Mapping[str, Any] | None


class PlayedEc2:
    """Answers calls by a list for each action (None: with nothing; the last one again and again), and shows
    what `looks` says for the time of the question, in seconds since the start. It is both what is called and
    what describes."""

    batching = False

    def __init__(self, looks: Looks, **answers: list[Answer]) -> None:
        self._looks, self._answers = looks, answers
        self.calls: list[tuple[float, str, Mapping[str, Any]]] = []
        self.at: list[float] = []
        self.there: Instance | None = None
        self.modifications: Callable[[float], Modification | None] = lambda at: None
        self.named: Callable[[float], list[Volume]] = lambda at: []
        self.snapshots: Callable[[float], list[Snapshot]] = lambda at: []
        self.zones_there: tuple[str, ...] = ("zone-a", "zone-b")
        self.zones_asked = 0
        self.initialized_at: float | EbsError = 0.0
        self.looked_whether_initialized: list[float] = []
        self.cards_of: dict[str, int | EbsError] = {"m5.large": 1}
        self.types: list[str] = []

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    async def call(self, action: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        self.calls.append((self._now(), action, request))
        answers = self._answers.get(action, [None])
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer or {}

    async def volume(self, id: str) -> Volume | None:
        self.at.append(self._now())
        shown = self._looks(self._now())
        return replace(shown, id=id) if shown is not None else None

    async def instance(self, id: str) -> Instance | None:
        return self.there

    async def initialized(self, id: str) -> bool:
        self.looked_whether_initialized.append(self._now())
        if isinstance(self.initialized_at, EbsError):
            raise self.initialized_at
        return self._now() >= self.initialized_at

    async def cards(self, instance_type: str) -> int:
        self.types.append(instance_type)
        found = self.cards_of[instance_type]
        if isinstance(found, EbsError):
            raise found
        return found

    async def volumes_named(self, name: str) -> list[Volume]:
        self.at.append(self._now())
        return self.named(self._now())

    async def snapshots_named(self, name: str) -> tuple[Snapshot, ...]:
        self.at.append(self._now())
        return tuple(each for each in self.snapshots(self._now()) if each.name == name)

    async def snapshot(self, id: str) -> Snapshot | None:
        return (await self.all_snapshots({})).get(id)

    async def all_snapshots(self, tags: Mapping[str, str], volume_id: str = "") -> dict[str, Snapshot]:
        self.at.append(self._now())
        shown = self.snapshots(self._now())
        return {each.id: each for each in shown if volume_id in ("", each.volume_id)}

    async def zones(self) -> tuple[str, ...]:
        self.zones_asked += 1
        return self.zones_there

    async def modification(self, volume_id: str) -> Modification | None:
        self.at.append(self._now())
        return self.modifications(self._now())

    def names(self) -> list[str]:
        """The device names with which the volume was to be attached."""
        return [request["Device"] for _, action, request in self.calls if action == "AttachVolume"]
