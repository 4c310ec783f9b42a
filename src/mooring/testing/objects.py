"""Objects of any kind as the API server has them, by the names that kubectl takes: "pod/web-0",
"deployments/web".

Kinds are found by discovery, and looked for again when one is not known: its definition may have come since.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec
import yaml

from mooring.kube.client import APPLY, Client
from mooring.kube.errors import NotFound
from mooring.kube.objects import Resource
from mooring.kube.objects.meta import version_path

MANAGER = "mooring-testing"
ESTABLISHING_S = 10.0
"""How long a kind is waited for that the server does not know: its definition may just have been applied."""
Manifest = str | Path | Mapping[str, Any]
"""YAML of one or more objects, a file of it, or one object."""


class UnknownKind(LookupError):
    """The API server has no such kind; the message names it."""


class _Kind(NamedTuple):
    resource: Resource
    names: frozenset[str]


def documents(manifest: Manifest) -> list[dict[str, Any]]:
    """The objects of a manifest, in its order. Raises yaml.YAMLError, OSError."""
    if isinstance(manifest, Mapping):
        return [dict(manifest)]
    text = manifest.read_text() if isinstance(manifest, Path) else manifest
    return [each for each in yaml.safe_load_all(text) if each is not None]


class Objects:
    """Reads and writes objects through a client, as an administrator does."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._kinds: list[_Kind] = []

    async def apply(self, manifest: Manifest) -> Sequence[dict[str, Any]]:
        """Server-side apply of each object, as `kubectl apply --server-side --force-conflicts`; they are
        returned as they are then. Raises KubeError, UnknownKind."""
        return [await self._apply(each) for each in documents(manifest)]

    async def _apply(self, body: dict[str, Any]) -> dict[str, Any]:
        kind = await self._find(body.get("kind", ""), body.get("apiVersion", ""), ESTABLISHING_S)
        metadata = cast("dict[str, Any]", body.get("metadata") or {})
        namespace = metadata.get("namespace") or "default"
        path = kind.path(namespace if kind.namespaced else "", str(metadata.get("name", "")))
        query = [("fieldManager", MANAGER), ("force", "true")]
        return _decoded(await self._client.request("PATCH", path, query=query, body=body, content_type=APPLY))

    async def get(self, target: str, namespace: str) -> dict[str, Any] | None:
        """The object KIND/NAME; None if it is not there. Raises KubeError, UnknownKind."""
        try:
            return _decoded(await self._client.request("GET", await self._path(target, namespace)))
        except NotFound:
            return None

    async def list(self, kind: str, namespace: str) -> Sequence[dict[str, Any]]:
        """All objects of a kind in a namespace, or of the cluster if it has none. Raises KubeError,
        UnknownKind."""
        resource = await self._find(kind)
        answer = await self._client.request("GET", resource.path(namespace if resource.namespaced else ""))
        return cast("Sequence[dict[str, Any]]", _decoded(answer)["items"])

    async def events(self, target: str, namespace: str) -> Sequence[str]:
        """The events about KIND/NAME, as `Reason: message`. Raises KubeError, UnknownKind."""
        resource, name = await self._named(target)
        return [
            f"{event.get('reason', '')}: {event.get('message', '')}"
            for event in await self.list("events", namespace)
            if (of := event["involvedObject"]).get("name") == name and of.get("kind") == resource.kind
        ]

    async def patch(self, target: str, body: Mapping[str, Any], namespace: str) -> dict[str, Any]:
        """A merge patch. Raises KubeError, UnknownKind."""
        path = await self._path(target, namespace)
        content_type = "application/merge-patch+json"
        return _decoded(await self._client.request("PATCH", path, body=body, content_type=content_type))

    async def delete(self, target: str, namespace: str) -> None:
        """Asks for the deletion; an object that is not there is no error. Raises KubeError, UnknownKind."""
        try:
            await self._client.request("DELETE", await self._path(target, namespace))
        except NotFound:
            return

    async def _path(self, target: str, namespace: str) -> str:
        resource, name = await self._named(target)
        return resource.path(namespace if resource.namespaced else "", name)

    async def _named(self, target: str) -> tuple[Resource, str]:
        kind, slash, name = target.partition("/")
        if not (kind and slash and name):
            raise ValueError(f"{target!r} is not of the form KIND/NAME, as in pod/web-0")
        return await self._find(kind), name

    async def _find(self, name: str, api_version: str = "", patience: float = 0.0) -> Resource:
        loop = asyncio.get_running_loop()
        end = loop.time() + patience
        while True:
            for kind in self._kinds:
                if name.lower() in kind.names and api_version in ("", kind.resource.api_version):
                    return kind.resource
            known = self._kinds
            self._kinds = [kind async for kind in _discovered(self._client)]
            if self._kinds == known:
                if loop.time() >= end:
                    of = f" in {api_version}" if api_version else ""
                    raise UnknownKind(f"the API server has no kind {name!r}{of}")
                await asyncio.sleep(0.05)


async def _discovered(client: Client) -> AsyncIterator[_Kind]:
    """All kinds, those of the core group first."""
    groups = _decoded(await client.request("GET", "/apis"))["groups"]
    versions = ["v1", *(each["groupVersion"] for group in groups for each in group["versions"])]
    for version in versions:
        group, _, number = version.rpartition("/")
        for kind in _kinds(version, _decoded(await client.request("GET", version_path(group, number)))):
            yield kind


def _kinds(version: str, listed: Mapping[str, Any]) -> Iterator[_Kind]:
    group, _, number = version.rpartition("/")
    for each in listed["resources"]:
        if "/" in each["name"]:
            continue  # a subresource
        resource = Resource(group, number, each["name"], each["kind"], each["namespaced"])
        names = {
            each["name"],
            each["kind"].lower(),
            each.get("singularName", ""),
            *each.get("shortNames", ()),
        }
        yield _Kind(resource, frozenset(names - {""}))


def _decoded(body: bytes) -> dict[str, Any]:
    return msgspec.json.decode(body)
