"""Hooks, probes, sidecars and deadlines: stories in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mooring.kube.client import Client
from mooring.kube.errors import Forbidden
from mooring.kube.objects import Pod, Secret
from mooring.kube.objects.pods import Probe
from mooring.node.pods.probing import Tally

Play = Any


def probe(command: str, **fields: Any) -> dict[str, Any]:
    return {"exec": {"command": [command]}, "periodSeconds": 1, **fields}


async def ready(stage: Any) -> bool:
    pod = await stage.pod()
    return any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions)


async def restarts(stage: Any) -> int:
    pod = await stage.pod()
    return pod.status.container_statuses[0].restart_count if pod.status.container_statuses else 0


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ([False, False], [None, False]),
        ([True], [True]),
        ([False, True, False, False], [None, True, None, False]),
    ],
)
def test_a_threshold_counts_results_in_a_row(results: list[bool], expected: list[bool | None]) -> None:
    tally, heard = Tally(), []
    for result in results:
        tally = tally.count(result)
        heard.append(tally.verdict(Probe(failure_threshold=2)))
    assert heard == expected


def test_a_pod_is_ready_while_its_readiness_probe_succeeds(play: Play) -> None:
    async def story(stage: Any) -> None:
        stage.machine.commands["check"] = (1, 0)
        await stage.start()
        await stage.create_pod(container={"readinessProbe": probe("check", failureThreshold=2)})
        await stage.until(lambda: "run main check" in stage.machine.journal)
        assert not await ready(stage)
        stage.machine.commands["check"] = (0, 0)
        await stage.until(lambda: ready(stage))
        stage.machine.commands["check"] = (1, 0)
        await stage.until(lambda: _not_ready(stage))
        reasons = [message for reason, message in await stage.events() if reason == "Unhealthy"]
        assert reasons[0] == "Readiness probe failed: container main: said check"
        assert await restarts(stage) == 0

    play(story)


async def _not_ready(stage: Any) -> bool:
    return not await ready(stage)


def test_a_failed_liveness_probe_ends_the_container_which_starts_again(play: Play) -> None:
    async def story(stage: Any) -> None:
        stage.machine.commands["alive"] = (0, 2.0)  # no answer in time
        await stage.start()
        await stage.create_pod(container={"livenessProbe": probe("alive")})
        await stage.until(lambda: restarts(stage))
        assert [entry for entry in stage.machine.journal if entry.startswith(("signal", "start "))] == [
            "start main 0",
            "signal main 15",
            "start main 1",
        ]
        assert ("Killing", "Container main failed liveness probe, will be restarted") in await stage.events()

    play(story)


def test_a_container_that_ignores_sigterm_is_killed_after_its_grace_period(play: Play) -> None:
    async def story(stage: Any) -> None:
        stage.machine.exit_on_term = False
        stage.machine.commands["alive"] = (1, 0)
        await stage.start()
        await stage.create_pod(container={"livenessProbe": probe("alive", terminationGracePeriodSeconds=5)})
        await stage.until(lambda: "signal main 15" in stage.machine.journal)
        began = asyncio.get_running_loop().time()
        await stage.until(lambda: "signal main 9" in stage.machine.journal)
        assert 4.5 < asyncio.get_running_loop().time() - began < 5.5

    play(story)


def test_liveness_waits_for_the_startup_probe_and_so_does_ready(play: Play) -> None:
    async def story(stage: Any) -> None:
        stage.machine.commands |= {"up": (1, 0), "alive": (1, 0)}
        await stage.start()
        startup = probe("up", failureThreshold=1000)
        await stage.create_pod(container={"startupProbe": startup, "livenessProbe": probe("alive")})
        await stage.until(lambda: stage.machine.journal.count("run main up") > 5)
        assert "run main alive" not in stage.machine.journal
        assert not await ready(stage)
        stage.machine.commands |= {"up": (0, 0), "alive": (0, 0)}
        await stage.until(lambda: ready(stage))
        await stage.until(lambda: "run main alive" in stage.machine.journal)

    play(story)


def test_a_restarted_agent_keeps_a_pod_ready_and_does_not_repeat_its_hook(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        lifecycle = {"postStart": {"exec": {"command": ["hook"]}}}
        await stage.create_pod(
            container={"lifecycle": lifecycle, "readinessProbe": probe("check", periodSeconds=100)}
        )
        await stage.until(lambda: ready(stage))
        await stage.kill()
        stage.machine.journal.clear()
        stage.machine.commands["check"] = (0, 50)
        await stage.start()
        await stage.until(lambda: "run main check" in stage.machine.journal)
        assert await ready(stage)
        assert "run main hook" not in stage.machine.journal

    play(story)


@pytest.mark.parametrize("container", [{"startupProbe": probe("up", failureThreshold=1000)}, {}])
def test_what_was_about_to_become_ready_becomes_so_under_the_next_agent(
    play: Play, container: dict[str, Any]
) -> None:
    """Without a readiness probe it is ready once it has started, whichever agent sees that: the status that
    the last one left is from before."""

    async def story(stage: Any) -> None:
        stage.machine.commands |= {"up": (1, 0), "hook": (0, 60)}
        await stage.start()
        hook = {"lifecycle": {"postStart": {"exec": {"command": ["hook"]}}}}
        await stage.create_pod(container=container or hook)
        await stage.until(lambda: any(each.startswith("run main") for each in stage.machine.journal))
        await asyncio.sleep(5)
        await stage.kill()
        assert not await ready(stage)
        stage.machine.commands["up"] = (0, 0)
        await stage.start()
        await stage.until(lambda: ready(stage))

    play(story)


def test_a_failed_post_start_hook_ends_the_container(play: Play) -> None:
    async def story(stage: Any) -> None:
        stage.machine.commands["hook"] = (3, 1)
        await stage.start()
        await stage.create_pod(container={"lifecycle": {"postStart": {"exec": {"command": ["hook"]}}}})
        await stage.until(lambda: restarts(stage))
        assert ("FailedPostStartHook", "PostStartHook of main: said hook") in await stage.events()

    play(story)


MAIN = {"name": "main", "image": "app", "command": ["run"]}
MISSING = {
    "name": "other",
    "image": "x",
    "command": ["run"],
    "env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "a"}}}],
}
"""A container that cannot be made."""


def test_a_hook_runs_though_another_container_of_the_pod_cannot_be_made(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        lifecycle = {"postStart": {"exec": {"command": ["hook"]}}}
        await stage.create_pod(containers=[{**MAIN, "lifecycle": lifecycle}, MISSING])
        await stage.until(lambda: "run main hook" in stage.machine.journal)

    play(story)


def test_the_back_off_of_a_container_grows_though_another_one_cannot_be_made(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        pod = await stage.create_pod(containers=[MAIN, MISSING])
        for attempt in range(3):
            await stage.until(lambda attempt=attempt: f"start main {attempt}" in stage.machine.journal)
            stage.machine.exit(pod.uid, "main", 1)
        began = asyncio.get_running_loop().time()
        await stage.until(lambda: "start main 3" in stage.machine.journal)
        assert asyncio.get_running_loop().time() - began > 15

    play(story)


def test_a_container_that_cannot_be_made_keeps_none_after_it_from_being_started(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        await stage.create_pod(containers=[MISSING, MAIN])
        await stage.until(lambda: "start main 0" in stage.machine.journal)

    play(story)


def test_a_container_whose_secret_may_not_be_read_keeps_none_after_it_from_being_started(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = Client.find

    async def guarded(client: Client, kind: Any, *about: Any) -> Any:
        if kind is Secret:
            raise Forbidden("secrets is forbidden", status=403)
        return await find(client, kind, *about)

    monkeypatch.setattr(Client, "find", guarded)
    reference = {"name": "MODE", "valueFrom": {"secretKeyRef": {"name": "s", "key": "mode"}}}

    async def story(stage: Any) -> None:
        await stage.start()
        await stage.create_pod(containers=[{**MISSING, "env": [reference]}, MAIN])
        await stage.until(lambda: "start main 0" in stage.machine.journal)
        (of_missing,) = [
            each for each in (await stage.pod()).status.container_statuses if each.name == MISSING["name"]
        ]
        assert of_missing.state.waiting is not None
        assert "secrets is forbidden" in of_missing.state.waiting.message

    play(story)


def test_a_container_is_killed_in_time_though_another_one_cannot_be_made(play: Play) -> None:
    """It was when that one was tried again, by then two minutes later."""

    async def story(stage: Any) -> None:
        stage.machine.exit_on_term = False
        stage.machine.commands["alive"] = (1, 0)
        await stage.start()
        dead = {"livenessProbe": probe("alive", initialDelaySeconds=400, terminationGracePeriodSeconds=33)}
        await stage.create_pod(containers=[{**MAIN, **dead}, MISSING])
        await stage.until(lambda: "signal main 15" in stage.machine.journal)
        told = asyncio.get_running_loop().time()
        await stage.until(lambda: "signal main 9" in stage.machine.journal)
        assert asyncio.get_running_loop().time() - told < 34

    play(story)


def test_a_condemned_container_is_told_once_and_killed_though_another_one_cannot_be_made(play: Play) -> None:
    async def story(stage: Any) -> None:
        stage.machine.exit_on_term = False
        stage.machine.commands["alive"] = (1, 0)
        await stage.start()
        dead = {"livenessProbe": probe("alive", terminationGracePeriodSeconds=600)}
        await stage.create_pod(containers=[{**MAIN, **dead}, MISSING])
        await stage.until(lambda: "signal main 9" in stage.machine.journal)
        assert stage.machine.journal.count("signal main 15") == 1

    play(story)


def test_a_pre_stop_hook_comes_before_sigterm(play: Play) -> None:
    async def story(stage: Any) -> None:
        stage.machine.commands["bye"] = (0, 3)
        await stage.start()
        await stage.create_pod(container={"lifecycle": {"preStop": {"exec": {"command": ["bye"]}}}})
        await stage.until(lambda: ready(stage))
        await stage.api.delete(Pod, "web-0", "default")
        await stage.until(lambda: _gone(stage))
        ends = [entry for entry in stage.machine.journal if entry.startswith(("run", "signal", "kill"))]
        assert ends == ["run main bye", "signal main 15", "kill"]

    play(story)


def test_a_hook_that_takes_all_of_the_grace_period_leaves_two_seconds_for_sigterm(play: Play) -> None:
    async def story(stage: Any) -> None:
        stage.machine.exit_on_term = False
        await stage.start()
        sleep = {"preStop": {"sleep": {"seconds": 1000}}}
        await stage.create_pod(container={"lifecycle": sleep}, terminationGracePeriodSeconds=1000)
        await stage.until(lambda: ready(stage))
        began = asyncio.get_running_loop().time()
        await stage.api.delete(Pod, "web-0", "default", grace_period_seconds=10)
        await stage.until(lambda: "signal main 15" in stage.machine.journal)
        signalled = asyncio.get_running_loop().time()
        await stage.until(lambda: "kill" in stage.machine.journal)
        killed = asyncio.get_running_loop().time()
        assert 9.5 < signalled - began < 10.5
        assert 1.5 < killed - signalled < 2.5

    play(story)


async def _gone(stage: Any) -> bool:
    return await stage.pod() is None


def test_a_pod_that_is_active_for_too_long_has_failed(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        await stage.create_pod(activeDeadlineSeconds=30)
        await stage.until(lambda: ready(stage))
        await stage.until(lambda: _phase(stage, "Failed"), 40)
        pod = await stage.pod()
        assert pod.status.reason == "DeadlineExceeded"
        assert "kill" in stage.machine.journal

    play(story)


def test_the_deadline_of_a_pod_is_met_though_its_volumes_cannot_be_asked_for(play: Play) -> None:
    """It was when they were asked for again, two minutes later."""

    async def story(stage: Any) -> None:
        await stage.start()
        claimed = {"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}
        await stage.create_pod(activeDeadlineSeconds=300, volumes=[claimed])
        began = asyncio.get_running_loop().time()
        await stage.until(lambda: _phase(stage, "Failed"), 500)
        assert asyncio.get_running_loop().time() - began < 305

    play(story)


async def _phase(stage: Any, phase: str) -> bool:
    return await stage.phase() == phase


def test_a_sidecar_starts_before_the_containers_and_ends_after_them(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        side = {"name": "side", "image": "x", "command": ["run"], "restartPolicy": "Always"}
        pod = await stage.create_pod(initContainers=[side], restartPolicy="Never")
        await stage.until(lambda: ready(stage))
        stage.machine.exit(pod.uid, "side", 1)  # it is started again, whatever the pod's policy says
        await stage.until(lambda: "start side 1" in stage.machine.journal)
        stage.machine.exit(pod.uid, "main", 0)
        await stage.until(lambda: _phase(stage, "Succeeded"))
        assert [
            entry for entry in stage.machine.journal if entry.startswith(("start ", "signal", "kill"))
        ] == [
            "start side 0",
            "start main 0",
            "start side 1",
            "signal side 15",
            "kill",
        ]

    play(story)


def test_when_a_pod_is_deleted_its_sidecars_are_asked_to_end_last(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        sides = [
            {"name": n, "image": "x", "command": ["r"], "restartPolicy": "Always"} for n in ("one", "two")
        ]
        await stage.create_pod(initContainers=sides)
        await stage.until(lambda: ready(stage))
        await stage.api.delete(Pod, "web-0", "default")
        await stage.until(lambda: _gone(stage))
        signals = [entry for entry in stage.machine.journal if entry.startswith("signal")]
        assert signals == ["signal main 15", "signal two 15", "signal one 15"]

    play(story)
