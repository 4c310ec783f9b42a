"""A Job with real requests: its pods are made, counted and replaced; a crash anywhere changes no end."""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import count, takewhile
from typing import Any

import pytest
from controller_stage import ControllerStage, Play, refuse_deletions
from refusals import refuse

from mooring.controllers.cleanup.controller import Collector
from mooring.controllers.job.controller import JobController
from mooring.kube.errors import NotFound
from mooring.kube.objects import Event, Job, Pod
from mooring.kube.times import format_time
from mooring.simulation.checks.memory import remembered
from mooring.simulation.parts.faulty_transport import faulty_client, request

TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}


async def add_job(stage: ControllerStage, **spec: Any) -> Job:
    return await stage.api.create(
        Job, {"metadata": {"name": "j"}, "spec": {"template": TEMPLATE, **spec}}, "default"
    )


async def job(stage: ControllerStage) -> Job:
    return await stage.api.get(Job, "j", "default")


async def pods(stage: ControllerStage, *phases: str) -> list[Pod]:
    found = (await stage.api.list(Pod, "default")).items
    return [pod for pod in found if not phases or pod.status.phase in phases]


async def end(stage: ControllerStage, pod: Pod, phase: str) -> None:
    ready = {"type": "Ready", "status": "False", "lastTransitionTime": format_time(stage.now())}
    status = {"phase": phase, "conditions": [ready]}
    await stage.api.patch(Pod, pod.name, {"status": status}, "default", subresource="status")


async def end_all(stage: ControllerStage, phase: str) -> None:
    for pod in await pods(stage, "Pending", "Running"):
        if not pod.deleting:
            await end(stage, pod, phase)
    await asyncio.sleep(2)


def conditions(found: Job) -> dict[str, tuple[str, str]]:
    return {each.type: (each.status, each.reason) for each in found.status.conditions}


async def reasons(stage: ControllerStage) -> set[str]:
    await asyncio.sleep(2)
    return {each.reason for each in (await stage.api.list(Event, "default")).items}


def start(stage: ControllerStage) -> list[asyncio.Task[None]]:
    return [asyncio.create_task(stage.make(JobController).run())]


def test_a_job_runs_so_many_at_once_and_completes_with_its_last_pod(play: Play):
    async def story(stage: ControllerStage):
        working = start(stage)
        await add_job(stage, completions=3, parallelism=2)
        await asyncio.sleep(2)
        assert len(await pods(stage)) == 2
        await end_all(stage, "Succeeded")
        assert len(await pods(stage, "Pending")) == 1
        await end_all(stage, "Succeeded")
        found = await job(stage)
        assert (found.status.succeeded, found.status.failed, found.status.active) == (3, 0, 0)
        assert conditions(found)["Complete"] == ("True", "CompletionsReached")
        assert found.status.completion_time is not None
        assert all(not pod.metadata.finalizers for pod in await pods(stage))
        assert {"SuccessfulCreate", "Completed"} <= await reasons(stage)
        assert not any(task.done() for task in working)

    play(story)


def test_each_index_gets_its_pod_until_it_has_succeeded(play: Play):
    async def story(stage: ControllerStage):
        working = start(stage)
        await add_job(stage, completions=4, parallelism=4, completionMode="Indexed")
        await asyncio.sleep(2)
        made = {pod.spec.hostname: pod for pod in await pods(stage)}
        assert set(made) == {"j-0", "j-1", "j-2", "j-3"}
        variables = {each.name for each in made["j-2"].spec.containers[0].env}
        assert variables == {"JOB_COMPLETION_INDEX"}
        await end(stage, made["j-2"], "Failed")
        for name in ("j-0", "j-1", "j-3"):
            await end(stage, made[name], "Succeeded")
        await asyncio.sleep(2)
        assert (await job(stage)).status.completed_indexes == "0,1,3"
        await asyncio.sleep(12)
        assert [pod.spec.hostname for pod in await pods(stage, "Pending")] == ["j-2"]
        await end_all(stage, "Succeeded")
        found = await job(stage)
        assert found.status.completed_indexes == "0-3"
        assert (found.status.succeeded, found.status.failed) == (4, 1)
        assert "Complete" in conditions(found)
        assert not any(task.done() for task in working)

    play(story)


def test_failures_are_replaced_slower_and_slower_until_the_limit(play: Play):
    async def story(stage: ControllerStage):
        working = start(stage)
        await add_job(stage, backoffLimit=2)
        await asyncio.sleep(2)
        for seconds in (10, 20):
            await end_all(stage, "Failed")
            await asyncio.sleep(seconds - 4)
            assert not await pods(stage, "Pending")
            await asyncio.sleep(4)
            assert len(await pods(stage, "Pending")) == 1
        await end_all(stage, "Failed")
        found = await job(stage)
        assert found.status.failed == 3
        assert conditions(found)["Failed"] == ("True", "BackoffLimitExceeded")
        assert "BackoffLimitExceeded" in await reasons(stage)
        assert not any(task.done() for task in working)

    play(story)


def test_restarts_count_with_on_failure(play: Play):
    async def story(stage: ControllerStage):
        working = start(stage)
        template = {"spec": {**TEMPLATE["spec"], "restartPolicy": "OnFailure"}}
        await add_job(stage, backoffLimit=2, template=template)
        await asyncio.sleep(2)
        (pod,) = await pods(stage)
        for restarts, ends in ((1, False), (2, True)):
            status = {"phase": "Running", "containerStatuses": [{"name": "c", "restartCount": restarts}]}
            await stage.api.patch(Pod, pod.name, {"status": status}, "default", subresource="status")
            await asyncio.sleep(2)
            assert ("FailureTarget" in conditions(await job(stage))) is ends
        assert not any(task.done() for task in working)

    play(story)


def test_a_job_that_is_active_too_long_fails_and_its_pods_are_deleted(play: Play):
    async def story(stage: ControllerStage):
        working = start(stage)
        await add_job(stage, activeDeadlineSeconds=60, parallelism=2, completions=2)
        await asyncio.sleep(50)
        assert not conditions(await job(stage))
        await asyncio.sleep(15)
        assert all(pod.deleting for pod in await pods(stage))
        found = await job(stage)
        assert conditions(found)["FailureTarget"] == ("True", "DeadlineExceeded")
        for pod in await pods(stage):
            await stage.api.delete(Pod, pod.name, "default", grace_period_seconds=0)
        await asyncio.sleep(2)
        found = await job(stage)
        assert conditions(found)["Failed"] == ("True", "DeadlineExceeded")
        assert found.status.failed == 2
        assert not any(task.done() for task in working)

    play(story)


def test_a_suspended_job_has_no_pods_and_its_deadline_begins_anew(play: Play):
    async def story(stage: ControllerStage):
        working = start(stage)
        await add_job(stage, activeDeadlineSeconds=60)
        await asyncio.sleep(40)
        await stage.api.patch(Job, "j", {"spec": {"suspend": True}}, "default")
        await asyncio.sleep(2)
        found = await job(stage)
        assert all(pod.deleting for pod in await pods(stage))
        assert conditions(found)["Suspended"] == ("True", "JobSuspended")
        assert (found.status.start_time, found.status.failed) == (None, 0)
        await stage.api.patch(Job, "j", {"spec": {"suspend": False}}, "default")
        await asyncio.sleep(40)
        found = await job(stage)
        assert conditions(found) == {"Suspended": ("False", "JobResumed")}
        assert sum(not pod.deleting for pod in await pods(stage)) == 1
        assert {"Suspended", "Resumed"} <= await reasons(stage)
        assert not any(task.done() for task in working)

    play(story)


def test_a_pod_that_may_not_be_deleted_keeps_no_other_of_a_suspended_job(play: Play):
    async def story(stage: ControllerStage):
        working = start(stage)
        await add_job(stage, parallelism=3, completions=3)
        await asyncio.sleep(2)
        guarded = [pod.name for pod in await pods(stage)][:2]
        refuse_deletions(stage.api, *guarded)
        await stage.api.patch(Job, "j", {"spec": {"suspend": True}}, "default")
        await asyncio.sleep(5)
        assert sorted(pod.name for pod in await pods(stage) if not pod.deleting) == sorted(guarded)
        assert not any(task.done() for task in working)

    play(story)


@pytest.mark.parametrize(("policy", "replaced"), [("Failed", False), ("TerminatingOrFailed", True)])
def test_a_pod_that_is_being_deleted_is_replaced_by_policy(play: Play, policy: str, replaced: bool):
    async def story(stage: ControllerStage):
        working = start(stage)
        await add_job(stage, podReplacementPolicy=policy)
        await asyncio.sleep(2)
        (pod,) = await pods(stage)
        bound = {"target": {"kind": "Node", "name": "n"}}
        await stage.api.create_raw(Pod, bound, name=pod.name, namespace="default", sub="binding")
        await end(stage, pod, "Running")
        await stage.api.delete(Pod, pod.name, "default")
        await asyncio.sleep(60)
        assert (len(await pods(stage)) == 2) is replaced
        found = await job(stage)
        assert (found.status.terminating, found.status.failed) == (1, int(replaced))
        await end(stage, pod, "Failed")
        await stage.api.delete(Pod, pod.name, "default", grace_period_seconds=0)
        await asyncio.sleep(15)
        assert [each.name != pod.name for each in await pods(stage)] == [True]
        assert (await job(stage)).status.failed == 1
        assert not any(task.done() for task in working)

    play(story)


def test_a_finished_job_goes_when_its_time_to_live_has_passed(play: Play):
    async def story(stage: ControllerStage):
        collector = stage.make(Collector, resources=[Job.RESOURCE, Pod.RESOURCE])
        working = [*start(stage), asyncio.create_task(collector.run())]
        await add_job(stage, ttlSecondsAfterFinished=60)
        await asyncio.sleep(2)
        await end_all(stage, "Succeeded")
        await asyncio.sleep(50)
        assert "Complete" in conditions(await job(stage))
        await asyncio.sleep(60)
        with pytest.raises(NotFound):
            await job(stage)
        assert not await pods(stage)
        assert not any(task.done() for task in working)

    play(story)


def test_pods_of_a_job_that_is_gone_are_not_held(play: Play):
    async def story(stage: ControllerStage):
        working = start(stage)
        await add_job(stage)
        await asyncio.sleep(2)
        await stage.api.delete(Job, "j", "default", propagation_policy="Background")
        await asyncio.sleep(2)
        assert [pod.metadata.finalizers for pod in await pods(stage)] == [()]
        assert not any(task.done() for task in working)

    play(story)


def test_a_pod_of_a_former_job_that_may_not_be_written_keeps_neither_the_next_job_nor_other_pods(play: Play):
    async def story(stage: ControllerStage):
        working = start(stage)
        await add_job(stage, parallelism=2, completions=2)
        await asyncio.sleep(2)
        former = [pod.name for pod in await pods(stage)]
        refuse(stage, request("PATCH", f"pods/{former[0]}"))
        await stage.api.delete(Job, "j", "default", propagation_policy="Background")
        await add_job(stage)
        await asyncio.sleep(5)
        held = {pod.name: bool(pod.metadata.finalizers) for pod in await pods(stage)}
        assert [held.get(name, False) for name in former] == [True, False]
        assert len([name for name in held if name not in former]) == 1
        assert not any(task.done() for task in working)

    play(story)


def test_a_job_of_another_manager_is_left_alone(play: Play):
    async def story(stage: ControllerStage):
        working = start(stage)
        await add_job(stage, managedBy="example.com/another")
        await asyncio.sleep(5)
        assert not await pods(stage)
        assert (await job(stage)).status.start_time is None
        assert not any(task.done() for task in working)

    play(story)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("mode", ["NonIndexed", "Indexed"])
def test_a_crash_between_any_two_requests_changes_no_count(play: Play, mode: str, after: bool):
    async def story(number: int, stage: ControllerStage) -> bool:
        client, wire = faulty_client(stage.server)
        wire.crash_at(number, after=after)
        first = asyncio.create_task(stage.make(JobController, client).run())
        await add_job(stage, completions=3, parallelism=2, completionMode=mode)
        successor: asyncio.Task[None] | None = None
        failed = False
        for _ in range(40):
            await asyncio.sleep(1)
            for pod in await pods(stage, "Pending", "Running"):
                if not pod.deleting:
                    await end(stage, pod, "Succeeded" if failed else "Failed")
                    failed = True
            if wire.crashed.is_set() and successor is None:
                first.cancel()
                successor = asyncio.create_task(stage.make(JobController).run())
            if successor is None and "Complete" in conditions(await job(stage)):
                return False
        found = await job(stage)
        ended = [pod.status.phase for pod in await pods(stage)]
        assert ended.count("Failed") == found.status.failed == 1
        assert ended.count("Succeeded") == found.status.succeeded == 3
        assert conditions(found)["Complete"] == ("True", "CompletionsReached")
        assert all(not pod.metadata.finalizers for pod in await pods(stage))
        return True

    crashes = count()
    assert sum(1 for _ in takewhile(lambda number: play(partial(story, number)), crashes)) > 30


def test_a_create_that_was_not_answered_makes_one_pod(play: Play):
    async def story(stage: ControllerStage):
        client, wire = faulty_client(stage.server)
        lost = wire.unanswered(request("POST", "/pods"))
        working = asyncio.create_task(stage.make(JobController, client).run())
        await add_job(stage)
        await asyncio.sleep(5)
        assert await lost.deliver() == 409
        assert len(await pods(stage)) == 1
        assert not working.done()

    play(story)


def test_nothing_is_remembered_of_a_job_that_is_gone(play: Play):
    """Found by the simulation (L18)."""

    async def story(stage: ControllerStage):
        controller = stage.make(JobController)
        working = asyncio.create_task(controller.run())
        await add_job(stage)
        await asyncio.sleep(2)
        uid = (await job(stage)).uid
        assert [*remembered(controller, {uid})] != []
        await stage.api.delete(Job, "j", "default", propagation_policy="Background")
        await asyncio.sleep(2)
        assert [*remembered(controller, {uid})] == []
        working.cancel()

    play(story)
