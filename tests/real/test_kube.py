"""The client library against the real kube-apiserver: streamed lists, leader election, events, apply."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from random import Random

import pytest
import pytest_asyncio
from tests.real.server import RealServer

from mooring.kube.client import Client
from mooring.kube.errors import Conflict
from mooring.kube.events import Recorder
from mooring.kube.http import HttpTransport
from mooring.kube.informer import Informer
from mooring.kube.leaderelection import LeaderElector
from mooring.kube.objects import ConfigMap, Event, EventV1, Lease
from mooring.kube.times import wall_clock
from mooring.kube.tls import Trust


@pytest_asyncio.fixture
async def client(real: RealServer) -> AsyncGenerator[Client]:
    trust = Trust(authority=real.authority.read_bytes())
    client = Client(HttpTransport(real.url, token=real.token, trust=trust))
    yield client
    await client.close()


async def test_an_informer_streams_its_list_and_goes_on_from_there(client: Client):
    for name in ("a", "b"):
        await client.create(
            ConfigMap, {"metadata": {"name": f"informer-{name}", "labels": {"i": "1"}}}, "default"
        )
    informer = Informer(client, ConfigMap, random=Random(1), label_selector="i=1")
    task = asyncio.create_task(informer.run())
    await asyncio.wait_for(informer.synced(), 20)
    assert [item.name for item in informer.items()] == ["informer-a", "informer-b"]
    changed = await client.patch(ConfigMap, "informer-a", {"data": {"x": "1"}}, "default")
    await asyncio.wait_for(informer.wait_for(changed.metadata.resource_version), 20)
    assert informer.get("default/informer-a") == changed
    assert informer._streams, "it was a streamed list"
    task.cancel()


async def test_one_of_two_leads_and_the_lease_is_released(client: Client):
    electors = [
        LeaderElector(
            client, "mooring-real", identity=name, now=wall_clock, random=Random(1), namespace="default"
        )
        for name in ("a", "b")
    ]
    led: asyncio.Queue[str] = asyncio.Queue()

    async def lead(elector: LeaderElector) -> None:
        async def work(_: Client) -> None:
            await led.put(elector.identity)
            await asyncio.Event().wait()

        await elector.run(work)

    tasks = {each.identity: asyncio.create_task(lead(each)) for each in electors}
    first = await asyncio.wait_for(led.get(), 20)
    lease = await client.get(Lease, "mooring-real", "default")
    assert (lease.spec.holder_identity, lease.spec.lease_duration_seconds) == (first, 15)
    assert sum(each.leading for each in electors) == 1
    tasks[first].cancel()
    await asyncio.wait([tasks[first]])
    second = await asyncio.wait_for(led.get(), 20)
    assert {first, second} == {"a", "b"}
    tasks[second].cancel()
    await asyncio.wait([tasks[second]])
    assert (await client.get(Lease, "mooring-real", "default")).spec.holder_identity in ("", None)


async def test_an_event_is_written_counted_and_read_in_both_groups(client: Client):
    about = await client.create(ConfigMap, {"metadata": {"name": "eventful"}}, "default")
    recorder = Recorder(client, "tester", now=wall_clock, random=Random(1))
    task = asyncio.create_task(recorder.run())
    for _ in range(2):
        recorder.event(about, "Warning", "Tried", "in vain")
    await asyncio.wait_for(recorder.flush(), 20)
    (event,) = (await client.list(Event, "default", field_selector="involvedObject.name=eventful")).items
    assert event.count == 2
    other = await client.get(EventV1, event.name, "default")
    assert (other.regarding.name, other.note, other.deprecated_count) == ("eventful", "in vain", 2)
    task.cancel()


async def test_apply_takes_fields_from_another_only_by_force(client: Client):
    await client.apply(ConfigMap, "applied", {"data": {"a": "1"}}, "default", field_manager="one")
    with pytest.raises(Conflict) as caught:
        await client.apply(ConfigMap, "applied", {"data": {"a": "2"}}, "default", field_manager="two")
    assert [cause["field"] for cause in caught.value.details["causes"]] == [".data.a"]
    taken = await client.apply(
        ConfigMap, "applied", {"data": {"a": "2"}}, "default", field_manager="two", force=True
    )
    assert taken.data == {"a": "2"}
