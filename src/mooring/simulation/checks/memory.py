"""What must hold in the end of what controllers and agents remember: nothing of it is about what is gone
(L18).

Read from their memory at the end of a run: the uids of objects that were deleted, wherever they stand. What
is not forgotten costs memory for as long as a process lives, and may be taken for what is there now.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from random import Random
from typing import Any, cast

from mooring.kube.client import Client
from mooring.kube.events import Recorder
from mooring.kube.informer import Informer
from mooring.simulation.checks.invariants.objects import object_of
from mooring.simulation.checks.liveness import Complaint
from mooring.simulation.cluster.cluster import SimulatedCluster
from mooring.simulation.engine.trace import Event

NOT_REMEMBERED = (Client, Informer, Recorder, Random, asyncio.Future, asyncio.Event, type)
"""What the API shows, what people are told, and what holds nothing by itself."""
OURS = ("mooring.controllers.", "mooring.node.", "mooring.kube.", "mooring.volumes.")
DEEPEST = 8
_UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Memory:
    """L18, on one run."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._there: dict[tuple[str, str], bytes] = {}
        self._gone: set[str] = set()
        self._stripped: dict[str, str] = {}  # uids of PersistentVolumes that users stripped -> their names
        cluster.trace.listen("store.written", self._written)
        cluster.trace.listen("store.deleted", self._deleted)
        cluster.trace.listen("plan.stripped", self._note_stripped)

    def _note_stripped(self, event: Event) -> None:
        if event.fields["resource"] == "persistentvolumes":
            self._stripped[event.fields["uid"]] = event.fields["name"]

    def _written(self, event: Event) -> None:
        self._there[event.fields["resource"], event.fields["name"]] = event.fields["_body"]

    def _deleted(self, event: Event) -> None:
        self._there.pop((event.fields["resource"], event.fields["name"]), None)
        if event.fields["resource"] != "nodes":  # what was mounted under an earlier one is noted with its uid
            self._gone.add(object_of(event).metadata.uid)

    def complaints(self) -> Iterator[Complaint]:
        """Yields where something is remembered of an object that is gone. What an object that is there still
        names, as a volume the claim that it was for, does not count; nor a volume that users have taken from
        under its pods, and made again: those go on with it as it was when they wanted it."""
        for body in self._there.values():
            self._gone.difference_update(_UID.findall(body.decode()))
        self._gone -= {
            uid for uid, name in self._stripped.items() if ("persistentvolumes", name) in self._there
        }
        owners: list[tuple[str, Any]] = [(each.name, each) for each in self._cluster.living()]
        agents = sorted(self._cluster.agents.items())
        owners += [(name, each) for name, each in agents if name in self._cluster.powered]
        for name, owner in owners:
            for where, uid in remembered(owner, self._gone):
                yield "L18", f"{name} remembers {uid}, which is gone, in {where}"


def remembered(owner: object, gone: AbstractSet[str]) -> Iterator[tuple[str, str]]:
    """Yields where a uid of `gone` stands in what the owner holds, once for each attribute."""
    seen: set[int] = set()
    left: deque[tuple[str, object, int]] = deque([("", owner, 0)])
    told: set[str] = set()
    while left:
        where, thing, depth = left.popleft()
        if isinstance(thing, str):
            uid = next((each for each in _UID.findall(thing) if each in gone), None)
            if uid is not None and where not in told:
                told.add(where)
                yield where, uid
            continue
        if id(thing) in seen or depth > DEEPEST:
            continue
        seen.add(id(thing))
        left.extend((f"{where}{step}", part, depth + 1) for step, part in _parts(thing))


def _parts(thing: object) -> Iterable[tuple[str, object]]:
    """What a thing holds, each with its name where it has one."""
    if thing is None or isinstance(thing, (*NOT_REMEMBERED, int, float, bytes)):
        return ()
    if isinstance(thing, Mapping):
        held = cast("Mapping[object, object]", thing)
        return [("", part) for pair in held.items() for part in pair]
    if isinstance(thing, (list, tuple, deque, set, frozenset)):
        return [("", part) for part in cast("Iterable[object]", thing)]
    module = type(thing).__module__
    if module.startswith("mooring.kube.objects"):
        return [("", getattr(thing, "uid", None))]
    if module.startswith(OURS):
        names = {
            *getattr(thing, "__dict__", {}),
            *getattr(thing, "__slots__", ()),
            *getattr(thing, "__struct_fields__", ()),
        }
        return [(f".{name}", getattr(thing, name, None)) for name in sorted(names)]
    return ()
