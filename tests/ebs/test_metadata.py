"""What a node learns of its instance, from a service that is played over real HTTP."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncGenerator, Callable, Coroutine
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from aiohttp import web

from mooring.cloud.actions.instance_views import InstanceView
from mooring.cloud.endpoint.metadata import Described, MetadataService
from mooring.ebs.errors import MetadataError
from mooring.ebs.node_service import metadata
from mooring.ebs.node_service.metadata import Configured, Imds, Instance, parse_document, parse_macs

HERE = Instance("i-0123", "m5.large", "us-east-1a", "us-east-1")
DOCUMENT = {
    "instanceId": "i-0123",
    "instanceType": "m5.large",
    "availabilityZone": "us-east-1a",
    "region": "us-east-1",
    "accountId": "1",
}


@dataclass
class PlayedMetadataService:
    """Answers like the service; `failing` statuses come first."""

    url: str = ""
    token: str = "t1"
    silent: bool = False
    failing: list[int] = field(default_factory=list[int])
    asked: list[str] = field(default_factory=list[str])
    content: dict[str, str] = field(
        default_factory=lambda: {
            "/latest/dynamic/instance-identity/document": json.dumps(DOCUMENT),
            "/latest/meta-data/network/interfaces/macs/": "0a:ff:01:02:03:04/\n0a:ff:01:02:03:05/",
            "/latest/meta-data/block-device-mapping/": "ami\nebs1\nebs12\nephemeral0\nroot",
            "/latest/meta-data/block-device-mapping/ebs1": "sdb",
            "/latest/meta-data/block-device-mapping/ebs12": "/dev/xvdba",
        }
    )

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(f"{request.method} {request.path}")
        if self.silent:
            await asyncio.Event().wait()
        if self.failing:
            return web.Response(status=self.failing.pop(0), headers={"Location": "/elsewhere"})
        if request.method == "PUT":
            assert 1 <= int(request.headers["X-aws-ec2-metadata-token-ttl-seconds"]) <= 21600
            return web.Response(text=self.token)
        if request.headers.get("X-aws-ec2-metadata-token") != self.token:
            return web.Response(status=401)
        text = self.content.get(request.path)
        return web.Response(status=404) if text is None else web.Response(text=text)


@pytest.fixture
async def played(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[PlayedMetadataService]:
    monkeypatch.setattr(metadata, "PAUSES_S", (0.0, 0.0))
    service = PlayedMetadataService()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", service.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    service.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield service
    await runner.cleanup()


async def test_an_instance_is_as_its_identity_document_says(played: PlayedMetadataService):
    assert await Imds(played.url).instance() == HERE


async def test_one_token_is_enough_for_all_questions(played: PlayedMetadataService):
    imds = Imds(played.url)
    await imds.instance()
    await imds.network_interfaces()
    assert played.asked.count("PUT /latest/api/token") == 1


async def test_what_does_not_change_is_asked_once_and_network_interfaces_each_time(
    played: PlayedMetadataService,
):
    imds = Imds(played.url)
    await imds.instance()
    await imds.instance()
    assert await imds.network_interfaces() == 2
    played.content["/latest/meta-data/network/interfaces/macs/"] += "\n0a:ff:01:02:03:06/"
    assert await imds.network_interfaces() == 3
    assert sum("document" in question for question in played.asked) == 1


async def test_a_token_that_has_ended_is_replaced(played: PlayedMetadataService):
    imds = Imds(played.url)
    await imds.instance()
    played.token = "t2"
    assert await imds.network_interfaces() == 2


async def test_volumes_of_the_start_are_told_by_their_device_names_without_the_root(
    played: PlayedMetadataService,
):
    assert await Imds(played.url).boot_volumes() == ("sdb", "/dev/xvdba")


async def test_a_failure_that_passes_is_not_seen(played: PlayedMetadataService):
    played.failing = [503, 500]
    assert await Imds(played.url).instance() == HERE


async def test_a_failure_that_stays_says_what_to_do(played: PlayedMetadataService):
    imds = Imds(played.url)
    await imds.instance()
    played.failing = [500] * 9
    with pytest.raises(MetadataError, match=r"macs/ \(status 500\).*--instance-id"):
        await imds.network_interfaces()


async def test_without_a_token_the_hop_limit_is_named(played: PlayedMetadataService):
    played.failing = [500] * 9
    with pytest.raises(MetadataError, match="HttpPutResponseHopLimit"):
        await Imds(played.url).instance()


async def test_a_service_that_is_switched_off_is_not_asked_again(played: PlayedMetadataService):
    played.failing = [403] * 9
    with pytest.raises(MetadataError, match="HttpEndpoint"):
        await Imds(played.url).instance()
    assert len(played.asked) == 1


async def test_what_the_service_does_not_have_is_not_asked_for_again(played: PlayedMetadataService):
    del played.content["/latest/meta-data/network/interfaces/macs/"]
    with pytest.raises(MetadataError, match="status 404"):
        await Imds(played.url).network_interfaces()
    assert len(played.asked) == 2  # the token's, and this one


@pytest.mark.parametrize("has_token", [False, True])
async def test_no_question_goes_to_where_the_service_points(played: PlayedMetadataService, has_token: bool):
    played.content["/elsewhere"] = "0a:ff:01:02:03:04/"
    imds = Imds(played.url)
    if has_token:
        await imds.instance()
    played.failing = [302] * 9
    with pytest.raises(MetadataError, match="status 302"):
        await imds.network_interfaces()
    assert not [question for question in played.asked if "elsewhere" in question]


def test_a_service_that_does_not_answer_is_asked_ever_more_slowly_for_some_seconds(
    run: Callable[[Coroutine[Any, Any, None]], None], monkeypatch: pytest.MonkeyPatch
):
    asked: list[float] = []

    async def ask(imds: Imds, path: str) -> tuple[int, str]:
        asked.append(asyncio.get_running_loop().time())
        return 500, ""

    monkeypatch.setattr(Imds, "_ask", ask)

    async def story() -> None:
        with pytest.raises(MetadataError):
            await Imds("").instance()
        pauses = [after - before for before, after in itertools.pairwise(asked)]
        assert len(pauses) >= 3
        assert all(before < after for before, after in itertools.pairwise([0.0, *pauses]))
        assert asyncio.get_running_loop().time() == asked[-1] < 5

    run(story())


async def test_nobody_there_is_an_error_that_names_the_address(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(metadata, "PAUSES_S", ())
    with pytest.raises(MetadataError, match=r"http://127\.0\.0\.1:1 does not answer"):
        await Imds("http://127.0.0.1:1").instance()


async def test_a_service_that_never_answers_ends_in_an_error(
    played: PlayedMetadataService, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(metadata, "TIMEOUT_S", 0.05)
    played.silent = True
    with pytest.raises(MetadataError, match="TimeoutError"):
        await Imds(played.url).instance()


@pytest.mark.parametrize("name", ["instanceId", "instanceType", "availabilityZone", "region"])
@pytest.mark.parametrize("value", [None, "", 7])
def test_a_document_that_lacks_something_is_refused(name: str, value: object):
    with pytest.raises(MetadataError, match=f"lacks {name}"):
        parse_document(json.dumps({**DOCUMENT, name: value}))


@pytest.mark.parametrize("text", ["", "<html>", "[]", "null", '"i-1"', "{"])
def test_what_is_no_document_is_refused(text: str):
    with pytest.raises(MetadataError):
        parse_document(text)


def test_an_instance_without_a_network_interface_cannot_be():
    with pytest.raises(MetadataError, match="--volume-attach-limit"):
        parse_macs("not found")


async def test_what_an_operator_says_goes_before_the_service(played: PlayedMetadataService):
    configured = Configured(Instance(instance_type="m7i.large", zone="us-east-1b"), Imds(played.url))
    assert await configured.instance() == Instance("i-0123", "m7i.large", "us-east-1b", "us-east-1")


@pytest.mark.parametrize("name", ["instance_id", "instance_type", "zone", "region"])
async def test_each_value_is_the_operators_or_the_services(played: PlayedMetadataService, name: str):
    only = Configured(Instance(**{name: "own"}), Imds(played.url))
    assert await only.instance() == replace(HERE, **{name: "own"})
    own = Instance("own", "own", "own", "own")
    others = Configured(replace(own, **{name: ""}), Imds(played.url))
    expected = "" if name == "region" else getattr(HERE, name)  # which a node does not need
    assert await others.instance() == replace(own, **{name: expected})


async def test_an_instance_that_is_told_in_full_is_not_asked_about():
    configured = Configured(Instance("i-1", "m5.large", "z"), Imds("http://127.0.0.1:1"))
    assert await configured.instance() == Instance("i-1", "m5.large", "z")


async def test_without_a_service_what_is_missing_is_named_by_its_flag():
    with pytest.raises(MetadataError, match="--instance-type, --zone"):
        await Configured(Instance("i-1"), None).instance()
    assert await Configured(Instance("i-1"), None).network_interfaces() == 1
    assert await Configured(Instance("i-1"), None).boot_volumes() == ()


async def test_it_understands_the_clouds_own_service(monkeypatch: pytest.MonkeyPatch):
    """The endpoint of `mooring cloud` has its tests against the documentation; here the two meet."""
    service = MetadataService(lambda: 0.0, Random(1))
    shown = InstanceView(
        instance_id="i-0123",
        instance_type="m5.large",
        zone="us-east-1a",
        zone_id="use1-az1",
        state="running",
        account="1",
        image_id="ami-1",
        private_ip="10.0.0.1",
        launched=datetime(2030, 1, 1, tzinfo=UTC),
        macs=("0a:ff:01:02:03:04", "0a:ff:01:02:03:05"),
        boot_devices={"ami": "xvda", "root": "/dev/xvda", "ebs1": "sdb"},
    )
    it = Described(shown, region="us-east-1", access_key="a", secret_key="s")

    async def ask(imds: Imds, path: str) -> tuple[int, str]:
        token = service.answer(
            "PUT", "/latest/api/token", {"X-aws-ec2-metadata-token-ttl-seconds": "60"}, it
        ).text
        reply = service.answer("GET", path, {"X-aws-ec2-metadata-token": token}, it)
        return reply.status, reply.text

    monkeypatch.setattr(Imds, "_ask", ask)
    assert await Imds("").instance() == HERE
    assert await Imds("").network_interfaces() == 2
    assert await Imds("").boot_volumes() == ("sdb",)
