"""Discovery finds the same kinds in one document as group by group."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any

import msgspec
import pytest
from virtual_server import started

from mooring.controllers.cleanup.kinds import discover
from mooring.kube.client import Client
from mooring.kube.transport import InProcess, Request, Response


class Older:
    """A transport to a server without aggregated discovery."""

    def __init__(self, inner: InProcess) -> None:
        self.inner = inner
        self.sent = 0

    async def send(self, request: Request) -> Response:
        self.sent += 1
        return await self.inner.send(
            Request(request.method, request.path, headers={"Accept": "application/json"})
        )

    async def close(self) -> None:
        """Nothing is held."""


def test_an_older_server_is_asked_group_by_group_and_the_same_kinds_are_found(
    run: Callable[[Coroutine[Any, Any, None]], None], now: Callable[[], datetime]
) -> None:
    async def story() -> None:
        server = await started(now)
        newer = InProcess(server.call, server.tokens.admin())
        older = Older(newer)
        found = (await discover(Client(newer))).resources
        assert ("apps", "statefulsets") in {(each.group, each.plural) for each in found}
        assert sorted((await discover(Client(older))).resources) == sorted(found)
        assert older.sent > 10

    run(story())


AGGREGATED = {
    "kind": "APIGroupDiscoveryList",
    "items": [
        {
            "metadata": {"name": "subresources.kubevirt.io", "creationTimestamp": None},
            "versions": [
                {
                    "version": "v1",
                    "resources": [
                        {"resource": "expand-vm-spec", "scope": "Namespaced", "verbs": None},
                        {"resource": "virtualmachines", "responseKind": None, "scope": "", "verbs": []},
                    ],
                },
                {"version": "v1alpha3", "resources": None},
            ],
        }
    ],
}
CORE = {
    "kind": "APIGroupDiscoveryList",
    "items": [
        {
            "metadata": {},
            "versions": [
                {
                    "version": "v1",
                    "resources": [
                        {
                            "resource": "pods",
                            "responseKind": {"kind": "Pod"},
                            "scope": "Namespaced",
                            "verbs": ["list", "watch", "delete", "patch"],
                        }
                    ],
                }
            ],
        }
    ],
}
OLDER = {
    "/apis": {
        "kind": "APIGroupList",
        "groups": [
            {"name": "subresources.kubevirt.io", "preferredVersion": {"version": "v1"}},
            {"name": "odd.example.com", "preferredVersion": {"version": "v1"}},
        ],
    },
    "/api/v1": {
        "resources": [
            {"name": "pods", "kind": "Pod", "namespaced": True, "verbs": ["list", "watch", "delete", "patch"]}
        ]
    },
    "/apis/subresources.kubevirt.io/v1": {
        "resources": [{"name": "expand-vm-spec", "kind": "", "namespaced": True, "verbs": None}]
    },
    "/apis/odd.example.com/v1": {"resources": "none"},
}


class Documents:
    """A transport to a server that has only these."""

    def __init__(self, held: dict[str, Any]) -> None:
        self.held = held

    async def send(self, request: Request) -> Response:
        return Response(200, {}, msgspec.json.encode(self.held[request.path]))

    async def close(self) -> None:
        """Nothing is held."""


@pytest.mark.parametrize(
    ("documents", "unknown"),
    [({"/api": CORE, "/apis": AGGREGATED}, []), (OLDER, ["odd.example.com"])],
    ids=["in one document", "group by group"],
)
def test_a_group_that_serves_only_subresources_or_nonsense_hides_no_other_kind(
    run: Callable[[Coroutine[Any, Any, None]], None], documents: dict[str, Any], unknown: list[str]
) -> None:
    async def story() -> None:
        found = await discover(Client(Documents(documents)))
        assert [each.plural for each in found.resources] == ["pods"]
        assert found.unknown == unknown

    run(story())
