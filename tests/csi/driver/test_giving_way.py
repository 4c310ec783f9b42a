"""Operations that give way to each other, at any moment, whatever each still has to do before it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.csi.client import Client
from mooring.csi.driver.dispatch import Dispatcher, LocalChannel
from mooring.csi.driver.rules import IN_FLIGHT
from mooring.csi.driver.services import AccessMode, ControllerCapability, ControllerService, Driver
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi

PUBLISH, UNPUBLISH = "ControllerPublishVolume", "ControllerUnpublishVolume"
FIELDS = ("volume_id", "node_id")


class Call(NamedTuple):
    """What is asked of which node ("": of all, to unpublish), how many turns of the loop after the call
    before; how many the work takes, and how many its end once it is cancelled."""

    method: str
    node: str
    after: int
    works: int
    ends: int


async def turns(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


class Switch(ControllerService):
    """Publishes and unpublishes, as slowly as it is told, and sees who else works on the same."""

    capabilities = (ControllerCapability.PUBLISH_UNPUBLISH_VOLUME,)

    def __init__(self) -> None:
        self.calls: dict[str, Call] = {}
        self.working: list[str] = []
        self.at_once: list[tuple[str, str]] = []
        self.published: dict[str, bool] = {}

    async def _work(self, node: str, secret: str, published: bool) -> None:
        call = self.calls[secret]
        self.at_once += [(other, node) for other in self.working if other == node or "" in (other, node)]
        self.working.append(node)
        try:
            await turns(call.works)
            for each in [node] if node else list(self.published):
                self.published[each] = published
        except asyncio.CancelledError:
            await turns(call.ends)
            raise
        finally:
            self.working.remove(node)

    async def controller_publish_volume(
        self, request: csi.ControllerPublishVolumeRequest
    ) -> csi.ControllerPublishVolumeResponse:
        await self._work(request.node_id, request.secrets["call"], True)
        return csi.ControllerPublishVolumeResponse()

    async def controller_unpublish_volume(
        self, request: csi.ControllerUnpublishVolumeRequest
    ) -> csi.ControllerUnpublishVolumeResponse:
        await self._work(request.node_id, request.secrets["call"], False)
        return csi.ControllerUnpublishVolumeResponse()


def asked(client: Client, call: Call, number: str) -> Awaitable[object]:
    if call.method == UNPUBLISH:
        away = csi.ControllerUnpublishVolumeRequest(
            volume_id="v", node_id=call.node, secrets={"call": number}
        )
        return client.controller.controller_unpublish_volume(away, timeout_s=60)
    request = csi.ControllerPublishVolumeRequest(volume_id="v", node_id=call.node, secrets={"call": number})
    request.volume_capability.block.SetInParent()
    request.volume_capability.access_mode.mode = AccessMode.SINGLE_NODE_WRITER
    return client.controller.controller_publish_volume(request, timeout_s=60)


def calls(nodes: list[str]) -> st.SearchStrategy[list[Call]]:
    few = st.integers(0, 4)
    publish = st.builds(
        Call, st.just(PUBLISH), st.sampled_from([each for each in nodes if each]), few, few, few
    )
    unpublish = st.builds(Call, st.just(UNPUBLISH), st.sampled_from(nodes), few, few, few)
    return st.lists(publish | unpublish, min_size=2, max_size=7)


async def played(story: list[Call]) -> tuple[Switch, list[Code | None]]:
    switch = Switch()
    switch.calls = {str(number): call for number, call in enumerate(story)}
    keys = {**IN_FLIGHT, PUBLISH: FIELDS, UNPUBLISH: FIELDS}
    gives_way = {PUBLISH: [UNPUBLISH], UNPUBLISH: [PUBLISH]}
    driver = Driver(
        name="switch.example.com", version="1", controller=switch, in_flight=keys, gives_way=gives_way
    )
    client = Client(LocalChannel(Dispatcher(driver, [])))
    under_way: list[asyncio.Future[object]] = []
    for number, call in switch.calls.items():
        await turns(call.after)
        under_way.append(asyncio.ensure_future(asked(client, call, number)))
    answers = await asyncio.gather(*under_way, return_exceptions=True)
    return switch, [answer.code if isinstance(answer, CsiError) else None for answer in answers]


@given(calls(["n1", "n2", ""]))
@settings(max_examples=300, deadline=None)
def test_there_are_never_two_at_once_on_one_object(story: list[Call]) -> None:
    switch, answers = asyncio.run(played(story))
    assert switch.at_once == []
    assert set(answers) <= {None, Code.ABORTED}


@given(calls(["n1"]))
@settings(max_examples=300, deadline=None)
def test_the_last_call_counts(story: list[Call]) -> None:
    switch, answers = asyncio.run(played(story))
    last = story[-1].method
    assert switch.published["n1"] == (last == PUBLISH)
    if answers[-1] is Code.ABORTED:  # the same was under way
        assert last in {call.method for call in story[:-1]}
