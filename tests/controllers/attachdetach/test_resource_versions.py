"""Whether resourceVersions of two kinds can be compared."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.controllers.attachdetach.resource_versions import versions_comparable
from mooring.kube.client import Client
from mooring.kube.objects import Node


class Stores:
    """An API server that keeps Nodes in one store and VolumeAttachments in another; each is
    at some version."""

    def __init__(self, nodes: list[int], attachments: list[int]) -> None:
        self._nodes, self._attachments = nodes, attachments

    async def version(self, kind: Any) -> int:
        return (self._nodes if kind is Node else self._attachments).pop(0)


@pytest.mark.parametrize(
    ("nodes", "attachments", "one"),
    [
        ([7, 7], [7], True),
        ([7, 9], [8], True),
        ([7, 9], [6], False),
        ([7, 9], [10], False),
        ([7, 7], [9000], False),
    ],
)
async def test_versions_that_fit_into_each_other_are_of_one_store(
    nodes: list[int], attachments: list[int], one: bool
):
    stores: Any = Stores(nodes, attachments)
    assert await versions_comparable(stores) is one


async def test_one_store_that_is_written_all_the_time_is_one_store():
    """Nodes are read before and after the VolumeAttachments."""
    versions = iter(range(7, 10))

    class Store:
        async def version(self, kind: Any) -> int:
            return next(versions)

    store: Any = Store()
    assert await versions_comparable(store)


def test_the_embedded_server_has_one_store(play: Any):
    async def schedule(stage: Any, a: Any, b: Any):
        await stage.attached(a)
        client: Client = stage.api
        assert await versions_comparable(client)

    play(schedule)
