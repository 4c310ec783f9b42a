"""Plays upstream's tables about the revisions of a StatefulSet: which there are, and which one a set is of.

The sets of these cases lack defaults, which a server would add to their templates: they are never stored."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import datetime
from random import Random

import msgspec
from tests.upstream.stateful_set_claims import decoded
from tests.upstream.stateful_set_stage import NAMESPACE, Counting, Stage, cleaned, expect
from tests.upstream.tables import Json

from mooring.apiserver import Server
from mooring.kube.client import Client
from mooring.kube.informer import Informer
from mooring.kube.objects import ControllerRevision, StatefulSet
from mooring.kube.owners import controller_uid, owner_reference
from mooring.kube.revisions import Revisions, same_template, template_of
from mooring.kube.transport import Request, Response, Transport
from mooring.simulation.parts.faulty_transport import admin

Now = Callable[[], datetime]


def revisions(stage: Stage) -> list[ControllerRevision]:
    """Those that the set has."""
    found: list[ControllerRevision] = stage.controller.cache(ControllerRevision).items()
    return found


class WithSet:
    """A transport to a server that does not have the set: it answers who asks for it."""

    def __init__(self, inner: Transport, owner: StatefulSet) -> None:
        self._inner, self._owner = inner, owner

    async def send(self, request: Request) -> Response:
        if request.method == "GET" and request.path.endswith(f"/statefulsets/{self._owner.name}"):
            return Response(200, {"Content-Type": "application/json"}, msgspec.json.encode(self._owner))
        return await self._inner.send(request)

    async def close(self) -> None:
        await self._inner.close()


class History:
    """A set in a cache, and its revisions on a server."""

    def __init__(self, server: Server, given: Json) -> None:
        self.set = decoded(StatefulSet, cleaned(given))
        self.api = Client(admin(server))
        self.wire = Counting(WithSet(admin(server), self.set))
        client = Client(self.wire)
        self.cache = Informer(
            client, ControllerRevision, random=Random(1), indexers={"owner": controller_uid}
        )
        self.revisions = Revisions(client, self.cache)

    async def store(self, given: Json) -> None:
        """A revision of the set, as upstream's controller wrote it."""
        metadata = {"name": given["metadata"]["name"], "ownerReferences": [owner_reference(self.set)]}
        stored = {
            "metadata": metadata,
            "data": json.loads(given["data"]["Raw"]),
            "revision": given["revision"],
        }
        self.cache.accept(await self.api.create(ControllerRevision, stored, NAMESPACE))


async def _history(now: Now, row: Json) -> History:
    server = Server.in_memory(now=now, random=Random(1))
    await server.start()
    history = History(server, row["set"])
    for each in row.get("existing") or row.get("revisions") or []:
        await history.store(each)
    return history


async def _revisions(row: Json, now: Now) -> None:
    history = await _history(now, row)
    name = await history.revisions.present(history.set)
    held = (await history.api.list(ControllerRevision, NAMESPACE)).items
    expect(len(held) == row["expectedCount"], f"there are {len(held)} revisions")
    found = {each.name: each for each in held}
    current = found[history.set.status.current_revision or name]
    for what, revision, wanted in (
        ("current", current, "expectedCurrent"),
        ("new", found[name], "expectedUpdate"),
    ):
        given = row[wanted]
        template = json.loads(given["data"]["Raw"])["spec"]["template"]
        same = same_template({**template_of(revision), "$patch": "replace"}, template)
        expect(same, f"the {what} revision has another template")
        expect(revision.revision == given["revision"], f"the {what} revision is number {revision.revision}")


async def _compatibility(row: Json, now: Now) -> None:
    """A new version of Kubernetes writes the same template otherwise: no new revision, and no update."""
    history = await _history(now, row)
    name = await history.revisions.present(history.set)
    newest = row["revisions"][-1]["metadata"]["name"]
    expect(name == newest, f"the revision is {name}, not {newest}")
    expect(not history.wire.sent, f"it is written: {dict(history.wire.sent)}")


PLAYS: dict[str, Callable[..., Awaitable[None]]] = {
    "TestStatefulSetControl_getSetRevisions": _revisions,
    "TestStatefulSetCompatibility": _compatibility,
}
