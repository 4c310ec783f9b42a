"""Hooks, probes, sidecars and deadlines: stories in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mooring.kube.objects import Pod
from mooring.kube.objects.pods import Probe
from mooring.node.pods.probing import Tally

Play = Any


def probe(command: str, **fields: Any) -> dict[str, Any]:
    return {"exec": {"command": [command]}, "periodSeconds": 1, **fields}


async def ready(world: Any) -> bool:
    pod = await world.pod()
    return any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions)


async def restarts(world: Any) -> int:
    pod = await world.pod()
    return pod.status.container_statuses[0].restart_count if pod.status.container_statuses else 0


@pytest.mark.parametrize(
    ("results", "said"),
    [
        ([False, False], [None, False]),
        ([True], [True]),
        ([False, True, False, False], [None, True, None, False]),
    ],
)
def test_a_threshold_counts_results_in_a_row(results: list[bool], said: list[bool | None]) -> None:
    tally, heard = Tally(), []
    for result in results:
        tally = tally.count(result)
        heard.append(tally.verdict(Probe(failure_threshold=2)))
    assert heard == said


def test_a_pod_is_ready_while_its_readiness_probe_succeeds(play: Play) -> None:
    async def story(world: Any) -> None:
        world.machine.commands["check"] = (1, 0)
        await world.start()
        await world.create_pod(container={"readinessProbe": probe("check", failureThreshold=2)})
        await world.until(lambda: "run main check" in world.machine.journal)
        assert not await ready(world)
        world.machine.commands["check"] = (0, 0)
        await world.until(lambda: ready(world))
        world.machine.commands["check"] = (1, 0)
        await world.until(lambda: _not_ready(world))
        reasons = [message for reason, message in await world.events() if reason == "Unhealthy"]
        assert reasons[0] == "Readiness probe failed: container main: said check"
        assert await restarts(world) == 0

    play(story)


async def _not_ready(world: Any) -> bool:
    return not await ready(world)


def test_a_failed_liveness_probe_ends_the_container_which_starts_again(play: Play) -> None:
    async def story(world: Any) -> None:
        world.machine.commands["alive"] = (0, 2.0)  # no answer in time
        await world.start()
        await world.create_pod(container={"livenessProbe": probe("alive")})
        await world.until(lambda: restarts(world))
        assert [entry for entry in world.machine.journal if entry.startswith(("signal", "start "))] == [
            "start main 0",
            "signal main 15",
            "start main 1",
        ]
        assert ("Killing", "Container main failed liveness probe, will be restarted") in await world.events()

    play(story)


def test_a_container_that_ignores_sigterm_is_killed_after_its_grace_period(play: Play) -> None:
    async def story(world: Any) -> None:
        world.machine.exit_on_term = False
        world.machine.commands["alive"] = (1, 0)
        await world.start()
        await world.create_pod(container={"livenessProbe": probe("alive", terminationGracePeriodSeconds=5)})
        await world.until(lambda: "signal main 15" in world.machine.journal)
        began = asyncio.get_running_loop().time()
        await world.until(lambda: "signal main 9" in world.machine.journal)
        assert 4.5 < asyncio.get_running_loop().time() - began < 5.5

    play(story)


def test_liveness_waits_for_the_startup_probe_and_so_does_ready(play: Play) -> None:
    async def story(world: Any) -> None:
        world.machine.commands |= {"up": (1, 0), "alive": (1, 0)}
        await world.start()
        startup = probe("up", failureThreshold=1000)
        await world.create_pod(container={"startupProbe": startup, "livenessProbe": probe("alive")})
        await world.until(lambda: world.machine.journal.count("run main up") > 5)
        assert "run main alive" not in world.machine.journal
        assert not await ready(world)
        world.machine.commands |= {"up": (0, 0), "alive": (0, 0)}
        await world.until(lambda: ready(world))
        await world.until(lambda: "run main alive" in world.machine.journal)

    play(story)


def test_a_restarted_agent_keeps_a_pod_ready_and_does_not_repeat_its_hook(play: Play) -> None:
    async def story(world: Any) -> None:
        await world.start()
        lifecycle = {"postStart": {"exec": {"command": ["hook"]}}}
        await world.create_pod(
            container={"lifecycle": lifecycle, "readinessProbe": probe("check", periodSeconds=100)}
        )
        await world.until(lambda: ready(world))
        await world.kill()
        world.machine.journal.clear()
        world.machine.commands["check"] = (0, 50)
        await world.start()
        await world.until(lambda: "run main check" in world.machine.journal)
        assert await ready(world)
        assert "run main hook" not in world.machine.journal

    play(story)


def test_a_failed_post_start_hook_ends_the_container(play: Play) -> None:
    async def story(world: Any) -> None:
        world.machine.commands["hook"] = (3, 1)
        await world.start()
        await world.create_pod(container={"lifecycle": {"postStart": {"exec": {"command": ["hook"]}}}})
        await world.until(lambda: restarts(world))
        assert ("FailedPostStartHook", "PostStartHook of main: said hook") in await world.events()

    play(story)


def test_a_pre_stop_hook_comes_before_sigterm(play: Play) -> None:
    async def story(world: Any) -> None:
        world.machine.commands["bye"] = (0, 3)
        await world.start()
        await world.create_pod(container={"lifecycle": {"preStop": {"exec": {"command": ["bye"]}}}})
        await world.until(lambda: ready(world))
        await world.api.delete(Pod, "web-0", "default")
        await world.until(lambda: _gone(world))
        ends = [entry for entry in world.machine.journal if entry.startswith(("run", "signal", "kill"))]
        assert ends == ["run main bye", "signal main 15", "kill"]

    play(story)


def test_a_hook_that_takes_all_of_the_grace_period_leaves_two_seconds_for_sigterm(play: Play) -> None:
    async def story(world: Any) -> None:
        world.machine.exit_on_term = False
        await world.start()
        sleep = {"preStop": {"sleep": {"seconds": 1000}}}
        await world.create_pod(container={"lifecycle": sleep}, terminationGracePeriodSeconds=1000)
        await world.until(lambda: ready(world))
        began = asyncio.get_running_loop().time()
        await world.api.delete(Pod, "web-0", "default", grace_period_seconds=10)
        await world.until(lambda: "signal main 15" in world.machine.journal)
        signalled = asyncio.get_running_loop().time()
        await world.until(lambda: "kill" in world.machine.journal)
        killed = asyncio.get_running_loop().time()
        assert 9.5 < signalled - began < 10.5
        assert 1.5 < killed - signalled < 2.5

    play(story)


async def _gone(world: Any) -> bool:
    return await world.pod() is None


def test_a_pod_that_is_active_for_too_long_has_failed(play: Play) -> None:
    async def story(world: Any) -> None:
        await world.start()
        await world.create_pod(activeDeadlineSeconds=30)
        await world.until(lambda: ready(world))
        await world.until(lambda: _phase(world, "Failed"), 40)
        pod = await world.pod()
        assert pod.status.reason == "DeadlineExceeded"
        assert "kill" in world.machine.journal

    play(story)


async def _phase(world: Any, phase: str) -> bool:
    return await world.phase() == phase


def test_a_sidecar_starts_before_the_containers_and_ends_after_them(play: Play) -> None:
    async def story(world: Any) -> None:
        await world.start()
        side = {"name": "side", "image": "x", "command": ["run"], "restartPolicy": "Always"}
        pod = await world.create_pod(initContainers=[side], restartPolicy="Never")
        await world.until(lambda: ready(world))
        world.machine.exit(pod.uid, "side", 1)  # it is started again, whatever the pod's policy says
        await world.until(lambda: "start side 1" in world.machine.journal)
        world.machine.exit(pod.uid, "main", 0)
        await world.until(lambda: _phase(world, "Succeeded"))
        assert [
            entry for entry in world.machine.journal if entry.startswith(("start ", "signal", "kill"))
        ] == [
            "start side 0",
            "start main 0",
            "start side 1",
            "signal side 15",
            "kill",
        ]

    play(story)


def test_when_a_pod_is_deleted_its_sidecars_are_asked_to_end_last(play: Play) -> None:
    async def story(world: Any) -> None:
        await world.start()
        sides = [
            {"name": n, "image": "x", "command": ["r"], "restartPolicy": "Always"} for n in ("one", "two")
        ]
        await world.create_pod(initContainers=sides)
        await world.until(lambda: ready(world))
        await world.api.delete(Pod, "web-0", "default")
        await world.until(lambda: _gone(world))
        signals = [entry for entry in world.machine.journal if entry.startswith("signal")]
        assert signals == ["signal main 15", "signal two 15", "signal one 15"]

    play(story)


def test_a_grpc_probe_is_refused_with_its_reason(play: Play) -> None:
    async def story(world: Any) -> None:
        await world.start()
        await world.create_pod(container={"livenessProbe": {"grpc": {"port": 1}}})

        async def refused() -> bool:
            return any("grpc is not supported" in message for _, message in await world.events())

        await world.until(refused)

    play(story)
