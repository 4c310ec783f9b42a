"""The kinds that an API server serves, found by discovery, as objects of which only the metadata is read."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple, cast

import msgspec

from mooring.kube.client import Client
from mooring.kube.errors import NotFound, ServerError, Unreadable
from mooring.kube.objects import Object, Resource
from mooring.kube.objects.meta import version_path

NEEDED = frozenset({"list", "watch", "delete", "patch"})
LEFT_OUT = frozenset({"events", "leases"})
"""Kinds that are not watched: many short-lived objects whose owners do not matter. Deleting
a namespace deletes them, too."""


AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
"""Discovery in one document instead of one for each group (Kubernetes 1.30 and later)."""


class _Version(msgspec.Struct):
    version: str = ""


class _Group(msgspec.Struct, rename="camel"):
    name: str
    preferred_version: _Version


class _Entry(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...] = ()


class _Entries(msgspec.Struct):
    resources: tuple[_Entry, ...] = ()


class _ResponseKind(msgspec.Struct, frozen=True):
    kind: str = ""


class _Described(msgspec.Struct, rename="camel"):
    """Without a kind and verbs where only its subresources are served (KubeVirt's)."""

    resource: str
    response_kind: _ResponseKind = _ResponseKind()
    scope: str = ""
    verbs: tuple[str, ...] = ()


class _Served(msgspec.Struct):
    version: str
    freshness: str = ""
    resources: tuple[_Described, ...] = ()


class _Name(msgspec.Struct):
    name: str = ""


class _Discovered(msgspec.Struct):
    metadata: _Name
    versions: tuple[_Served, ...] = ()


class Discovered(NamedTuple):
    """The kinds that can be listed, watched and deleted; and groups that may have others: their own API
    server does not answer."""

    resources: list[Resource]
    unknown: list[str]


class _Document(msgspec.Struct):
    """Returns the aggregated document, or the list of groups that an older server sends."""

    kind: str = ""
    items: tuple[_Discovered, ...] = ()
    groups: tuple[_Group, ...] = ()


@lru_cache(maxsize=1024)
def metadata_kind(resource: Resource) -> type[Object]:
    """Returns a typed view of a kind's metadata."""
    made = msgspec.defstruct(
        resource.kind, [], bases=(Object,), frozen=True, namespace={"RESOURCE": resource}
    )
    return cast("type[Object]", made)


async def discover(client: Client) -> Discovered:
    """Returns every kind that can be listed, watched and deleted, in its group's preferred version."""
    document = await _document(client, "/apis")
    if document.kind == "APIGroupDiscoveryList":
        groups = (*(await _document(client, "/api")).items, *document.items)
        stale = [
            group.metadata.name
            for group in groups
            for each in group.versions[:1]
            if each.freshness == "Stale"
        ]
        return Discovered([each for group in groups for each in _preferred(group)], stale)
    return await _one_by_one(client, document)


async def _document(client: Client, path: str) -> _Document:
    return await client.ask(_Document, "GET", path, accept=f"{AGGREGATED},application/json")


def _preferred(group: _Discovered) -> Iterator[Resource]:
    """Returns a group's kinds in its first version, the preferred one."""
    for served in group.versions[:1]:
        entries = [
            _Entry(d.resource, d.response_kind.kind, d.scope == "Namespaced", d.verbs)
            for d in served.resources
        ]
        yield from _resources(_Entries(tuple(entries)), group.metadata.name, served.version)


async def _one_by_one(client: Client, document: _Document) -> Discovered:
    groups = [("", "v1"), *((group.name, group.preferred_version.version) for group in document.groups)]
    found, unknown = list[Resource](), list[str]()
    for group, version in groups:
        try:
            entries = await client.ask(_Entries, "GET", version_path(group, version))
        except NotFound:
            continue  # a group that has just gone
        except (ServerError, Unreadable):
            unknown.append(group)
            continue
        found += _resources(entries, group, version)
    return Discovered(found, unknown)


def _resources(entries: _Entries, group: str, version: str) -> Iterator[Resource]:
    for entry in entries.resources:
        if "/" not in entry.name and set(entry.verbs) >= NEEDED:
            yield Resource(group, version, entry.name, entry.kind, entry.namespaced)
