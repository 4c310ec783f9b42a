"""Steps whose requests a test gives, for opinions about what a step has asked the API server for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tests.conftest import run_in_virtual_time

from mooring.kube.client import Listing
from mooring.kube.objects import Object
from mooring.simulation.checks.second_opinions.server_requests import Mark, Request, begins, note


def said_of(opinion: Callable[[Mark], Iterable[str]], *requests: Request) -> list[str]:
    """What the opinion says when a step ends that has sent these requests."""

    async def story() -> list[str]:
        mark = begins()
        for each in requests:
            assert [*note(each.verb, each.kind, ("", each.key), each.answer, each.how, each.body)] == []
        return [*opinion(mark)]

    return run_in_virtual_time(story())


def read(kind: type[Object], key: str, answer: Any) -> Request:
    """A live read of one object: what it showed, or its error."""
    return Request("get", kind, key, answer, {})


def listed(kind: type[Object], namespace: str, *objects: Object) -> Request:
    """A live list."""
    return Request("list", kind, namespace, Listing([*objects], "1"), {})


def patched(kind: type[Object], key: str, answer: Any, **body: Any) -> Request:
    return Request("patch", kind, key, answer, {}, body)
