"""All kinds that an API server serves, found by discovery, as objects of which only the metadata is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import msgspec

from mooring.kube.client import Client
from mooring.kube.errors import NotFound
from mooring.kube.objects import Object, Resource

NEEDED = frozenset({"list", "watch", "delete", "patch"})
LEFT_OUT = frozenset({"events", "leases"})
"""Many, short-lived, and owned by nothing that matters; namespaces delete them all the same."""


class _Version(msgspec.Struct):
    version: str = ""


class _Group(msgspec.Struct, rename="camel"):
    name: str
    preferred_version: _Version


class _Groups(msgspec.Struct):
    groups: tuple[_Group, ...] = ()


class _Entry(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...] = ()


class _Entries(msgspec.Struct):
    resources: tuple[_Entry, ...] = ()


def metadata_kind(resource: Resource) -> type[Object]:
    """A typed view of a kind's metadata."""
    made = msgspec.defstruct(resource.kind, [], bases=(Object,), frozen=True, namespace={"RESOURCE": resource})
    return cast("type[Object]", made)


async def discover(client: Client) -> list[Resource]:
    """Every kind that can be listed, watched and deleted, in the version that its group prefers."""
    document = await client.request("GET", "/apis")
    groups = [("", "v1")]
    groups += [(g.name, g.preferred_version.version) for g in msgspec.json.decode(document, type=_Groups).groups]
    found: list[Resource] = []
    for group, version in groups:
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        try:
            entries = msgspec.json.decode(await client.request("GET", path), type=_Entries)
        except NotFound:
            continue  # a group that has just gone
        found += _resources(entries, group, version)
    return found


def _resources(entries: _Entries, group: str, version: str) -> Iterator[Resource]:
    for entry in entries.resources:
        if "/" not in entry.name and set(entry.verbs) >= NEEDED:
            yield Resource(group, version, entry.name, entry.kind, entry.namespaced)
