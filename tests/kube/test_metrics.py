"""What is counted, under which names; in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import aiohttp
import pytest

from mooring.kube import metrics
from mooring.kube.errors import ConfigError, Unreachable
from mooring.kube.http import HttpTransport
from mooring.kube.informer import Informer
from mooring.kube.leaderelection import LeaderElector
from mooring.kube.objects import ControllerRevision
from mooring.kube.transport import Request
from mooring.kube.workqueue import WorkQueue

Play = Callable[[Callable[[Any], Coroutine[Any, Any, Any]]], Any]


def value(sample: str, /, **labels: str) -> float:
    return metrics.REGISTRY.get_sample_value(sample, labels) or 0.0


def test_a_queue_counts_its_depth_adds_retries_and_times(run: Callable[[Any], Any]):
    async def story():
        queue: WorkQueue[str] = WorkQueue(name="counted")
        for key in ("a", "b", "a"):
            queue.add(key)
        assert value("workqueue_adds_total", name="counted") == 2
        assert value("workqueue_depth", name="counted") == 2
        await asyncio.sleep(3)
        assert await queue.get() == "a"
        assert value("workqueue_depth", name="counted") == 1
        assert value("workqueue_queue_duration_seconds_sum", name="counted") == 3
        await asyncio.sleep(2)
        queue.add_backoff("a")
        queue.done("a")
        assert value("workqueue_retries_total", name="counted") == 1
        assert value("workqueue_work_duration_seconds_sum", name="counted") == 2
        queue.close()
        assert value("workqueue_depth", name="counted") == 0

    run(story())


def test_an_informer_counts_lists_and_watches(play: Play):
    async def story(api: Any):
        names = ("reflector_lists_total", "reflector_watches_total")
        before = [value(name, name="controllerrevisions") for name in names]
        informer = Informer(api.client, ControllerRevision, random=Random(1))
        task = asyncio.create_task(informer.run())
        await informer.synced()
        await asyncio.sleep(1)
        assert [value(name, name="controllerrevisions") for name in names] == [count + 1 for count in before]
        assert value("reflector_last_resource_version", name="controllerrevisions") > 0
        task.cancel()

    play(story)


def test_whether_this_process_leads_is_shown(play: Play):
    async def story(api: Any):
        async def work(_: Any) -> None:
            assert value("leader_election_master_status", name="shown") == 1

        await LeaderElector(api.client, "shown", identity="a", now=api.now, random=Random(1)).run(work)
        assert value("leader_election_master_status", name="shown") == 0

    play(story)


async def test_requests_are_counted_by_code_method_and_host_and_served_with_all_else():
    async with metrics.serving("127.0.0.1", 0) as port:
        host = f"127.0.0.1:{port}"
        transport = HttpTransport(f"http://{host}")
        await transport.send(Request("GET", "/healthz"))
        await transport.send(Request("DELETE", "/nowhere"))
        await transport.close()
        async with aiohttp.ClientSession() as session, session.get(f"http://{host}/metrics") as answer:
            text = await answer.text()
        with pytest.raises(ConfigError, match=f"metrics cannot be served on {host}"):
            async with metrics.serving("127.0.0.1", port):
                pass
    assert f'rest_client_requests_total{{code="200",host="{host}",method="GET"}} 1.0' in text
    assert f'rest_client_requests_total{{code="404",host="{host}",method="DELETE"}} 1.0' in text
    assert "process_resident_memory_bytes" in text
    assert "_created" not in text


async def test_a_request_without_an_answer_is_counted_as_an_error():
    transport = HttpTransport("http://127.0.0.1:1")
    with pytest.raises(Unreachable):
        await transport.send(Request("GET", "/x"))
    await transport.close()
    assert value("rest_client_requests_total", code="<error>", method="GET", host="127.0.0.1:1") == 1
