"""What a step has asked the API server for is known to opinions about it; what was written is cached."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from claims_and_volumes import claim
from msgspec.structs import replace
from step_requests import listed, patched, read, said_of
from tests.conftest import run_in_virtual_time

from mooring.kube.client import Client
from mooring.kube.errors import NotFound, Unreachable
from mooring.kube.objects import PersistentVolumeClaim, Pod
from mooring.kube.transport import Request, Response
from mooring.simulation.checks.second_opinions import SecondOpinions, server_requests
from mooring.simulation.checks.second_opinions.server_requests import (
    QUESTIONS,
    begins,
    differ,
    found_live,
    listed_live,
    of_own_writes,
    requests_since,
    starts,
)

GONE = NotFound("", status=404)


def of_version(number: int) -> PersistentVolumeClaim:
    return replace(claim(), metadata=replace(claim().metadata, resource_version=f"{number}"))


class Cache:
    """Of claims, as of a version."""

    kind = PersistentVolumeClaim

    def __init__(self, held: PersistentVolumeClaim | None, version: int = 0) -> None:
        self.held, self.version = held, version

    def get(self, key: str) -> PersistentVolumeClaim | None:
        return self.held

    def items(self) -> list[PersistentVolumeClaim]:
        return [self.held] if self.held is not None else []


def controller(held: PersistentVolumeClaim | None, version: int = 0) -> Any:
    return SimpleNamespace(caches=(Cache(held, version),))


def test_each_kind_of_request_is_noted_with_its_object():
    async def answered(request: Request) -> Response:
        if "missing" in request.path:
            raise Unreachable("no answer")
        return Response(200, {}, b'{"metadata": {"name": "c", "resourceVersion": "3"}, "items": []}')

    async def story() -> list[tuple[str, str, bool]]:
        client: Any = Client(SimpleNamespace(send=answered))  # type: ignore[arg-type]
        await client.get(PersistentVolumeClaim, "before", "ns")  # no step has begun: it is of no interest
        mark = begins()
        await client.get(PersistentVolumeClaim, "c", "ns")
        await client.list(PersistentVolumeClaim, "ns")
        await client.create(PersistentVolumeClaim, {"metadata": {"name": "c"}}, "ns")
        await client.revise(claim(), {"spec": {}})
        await client.delete(PersistentVolumeClaim, "c", "ns", uid="u")
        with pytest.raises(Unreachable):
            await client.get(PersistentVolumeClaim, "missing", "ns")
        assert requests_since(mark, "delete")[0].how == {"uid": "u"}
        assert requests_since(mark, "patch")[0].body == {"spec": {}}
        return [(each.verb, each.key, each.succeeded) for each in requests_since(mark)]

    with SecondOpinions().heard(QUESTIONS):
        assert run_in_virtual_time(story()) == [
            ("get", "ns/c", True),
            ("list", "ns", True),
            ("create", "ns/c", True),
            ("patch", "ns/c", True),
            ("delete", "ns/c", True),
            ("get", "ns/missing", False),
        ]


def test_a_task_that_begins_with_other_work_knows_nothing_of_what_was_asked_before():
    async def story() -> None:
        begins()
        _ = [*server_requests.note("get", Pod, ("ns", "p"), GONE, {})]
        assert [each.begin for each in (begins(), starts(), begins())] == [1, 0, 0]

    run_in_virtual_time(story())


def test_what_was_read_live_is_told_and_what_was_not_answered_is_not():
    shown = said_of(
        lambda mark: found_live(mark, PersistentVolumeClaim, "ns/c"),
        read(PersistentVolumeClaim, "ns/c", claim()),
        read(PersistentVolumeClaim, "ns/c", GONE),
        read(PersistentVolumeClaim, "ns/c", Unreachable("")),
        read(PersistentVolumeClaim, "ns/other", claim()),
    )
    assert shown == [claim(), None]
    assert said_of(lambda mark: [str(listed_live(mark, Pod, "ns"))]) == ["None"]
    assert said_of(lambda mark: listed_live(mark, Pod, "ns") or (), listed(Pod, "ns", Pod())) == [Pod()]
    assert said_of(lambda mark: [str(listed_live(mark, Pod, "ns"))], listed(Pod, "other")) == ["None"]


@pytest.mark.parametrize(
    ("held", "version", "right"),
    [
        (of_version(7), 0, True),
        (of_version(8), 0, True),
        (None, 7, True),
        (of_version(6), 6, False),
        (None, 6, False),
    ],
)
def test_what_was_written_is_in_the_cache(held: PersistentVolumeClaim | None, version: int, right: bool):
    asked = controller(held, version)
    wrote = patched(PersistentVolumeClaim, "ns/c", of_version(7))
    assert (not said_of(lambda mark: of_own_writes(None, mark, asked), wrote)) is right
    lost = patched(PersistentVolumeClaim, "ns/c", Unreachable(""))
    assert not said_of(lambda mark: of_own_writes(None, mark, asked), lost)


@pytest.mark.parametrize(
    ("shown", "held", "other"),
    [
        (of_version(7), of_version(7), False),
        (GONE, None, False),
        (of_version(7), of_version(6), True),
        (GONE, of_version(6), True),
        (of_version(7), None, True),
    ],
)
def test_live_reads_are_compared_with_the_cache(shown: Any, held: PersistentVolumeClaim | None, other: bool):
    asked, live = controller(held), () if shown is GONE else (shown,)
    for request in (read(PersistentVolumeClaim, "ns/c", shown), listed(PersistentVolumeClaim, "ns", *live)):
        assert bool(said_of(lambda mark: ["other"] if differ(mark, asked) else [], request)) is other
    assert not said_of(lambda mark: ["other"] if differ(mark, asked) else [], listed(Pod, "ns", Pod()))
