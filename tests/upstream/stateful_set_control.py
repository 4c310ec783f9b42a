"""The stories of upstream's TestStatefulSetControl, each played with both management policies and all
retention policies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tests.upstream.stateful_set_invariants import Invariants
from tests.upstream.stateful_set_moves import expect_counts, scale_down, scale_up
from tests.upstream.stateful_set_stage import NAMESPACE, Stage, expect

from mooring.controllers.statefulset.decide import POD_INDEX, POD_NAME, ordinal_of
from mooring.kube.objects import PersistentVolumeClaim, Pod

Story = Callable[[Stage, Invariants], Awaitable[None]]
CREATE, DELETE, STATUS = "POST pods", "DELETE pods", "PATCH statefulsets/status"


async def _creates(stage: Stage, invariants: Invariants) -> None:
    await scale_up(stage, invariants)
    expect_counts(stage, 3)
    for pod in stage.pods:
        right = pod.metadata.labels.get(POD_INDEX) == str(ordinal_of(stage.set, pod))
        expect(right, f"{pod.name} has not its index as a label")


async def _starts_at_two(stage: Stage, invariants: Invariants) -> None:
    await scale_up(stage, invariants)
    expect_counts(stage, 3)
    found = [ordinal_of(stage.set, pod) for pod in stage.pods]
    expect(found == [2, 3, 4], f"the ordinals are {found}")


async def _scales_up(stage: Stage, invariants: Invariants) -> None:
    await scale_up(stage, invariants)
    await stage.edit(replicas=4)
    await scale_up(stage, invariants)
    expect_counts(stage, 4)


async def _scales_down(stage: Stage, invariants: Invariants) -> None:
    await scale_up(stage, invariants)
    await stage.edit(replicas=0)
    await scale_down(stage, invariants)
    expect_counts(stage, 0)


async def _replaces(stage: Stage, invariants: Invariants) -> None:
    await scale_up(stage, invariants)
    for pod in stage.pods[::2]:
        await stage.forget(pod)
    for ordinal in (0, 2, 4):
        await stage.round()
        for ready in (False, True):
            [pod] = [each for each in stage.pods if ordinal_of(stage.set, each) == ordinal]
            await stage.report(pod, "Running", ready=ready)
            await stage.round()
    expect(stage.set.status.replicas == 5, f"{stage.set.status.replicas} pods are there")


def _recreates(phase: str, *, failing: bool) -> Story:
    async def story(stage: Stage, invariants: Invariants) -> None:
        await stage.round()
        invariants(stage)
        expect(stage.wire.sent[DELETE] == 0, "a pod is deleted")
        await stage.report(stage.pods[0], phase)
        if failing:
            stage.wire.fail(DELETE)
            expect(await stage.fails(), "a deletion that fails is no error")
            invariants(stage)
        await stage.round()
        invariants(stage)
        expect(stage.wire.sent[DELETE] == 1 + failing, "the pod that has ended is not deleted once")
        await stage.round()
        invariants(stage)
        expect(stage.wire.sent[DELETE] == 1 + failing, "a second pod is deleted")
        again = bool(stage.pods) and stage.pods[0].name == "foo-0" and stage.pods[0].status.phase == "Pending"
        expect(again, "the pod is not made anew")
        wanted = 4 if stage.set.spec.pod_management_policy == "Parallel" else 2
        expect(stage.wire.sent[CREATE] == wanted, f"{stage.wire.sent[CREATE]} pods were made, not {wanted}")

    return story


def _recovers(what: str) -> Story:
    """The second request of this kind fails; the next time all goes well."""

    async def story(stage: Stage, invariants: Invariants) -> None:
        stage.wire.fail(what, after=2)
        failed = False
        while stage.set.status.ready_replicas < 3 and not failed:
            await stage.advance()
            failed = await stage.fails()
            invariants(stage)
        expect(failed, "the failure is no error")
        await scale_up(stage, invariants)
        expect_counts(stage, 3)

    return story


async def _identity_is_restored(stage: Stage, invariants: Invariants) -> None:
    """Upstream gives a cached pod another name; here a pod loses the label of its name, which can happen."""
    await scale_up(stage, invariants)
    expect_counts(stage, 3)
    await stage.api.patch(Pod, "foo-0", {"metadata": {"labels": {POD_NAME: None}}}, NAMESPACE)
    await stage.follow()
    stage.wire.fail("PATCH pods")
    expect(await stage.fails(), "a pod whose identity cannot be restored is no error")
    await stage.round()
    invariants(stage)


async def _update_cannot_delete(stage: Stage, invariants: Invariants) -> None:
    await scale_up(stage, invariants)
    await stage.edit(image="nginx-new")
    stage.wire.fail(DELETE)
    expect(await stage.fails(), "a deletion that fails is no error")
    invariants(stage)
    status = stage.set.status
    expect(status.current_replicas == 3, f"{status.current_replicas} are current after a failed deletion")
    expect(status.current_revision != status.update_revision, "there is no new revision")
    await stage.round()
    invariants(stage)
    expect(stage.set.status.current_replicas == 2, f"{stage.set.status.current_replicas} are current")


async def _missing_claim(stage: Stage, invariants: Invariants) -> None:
    await stage.round()
    invariants(stage)
    for name in list(stage.claims):
        await stage.api.patch(PersistentVolumeClaim, name, {"metadata": {"finalizers": None}}, NAMESPACE)
        await stage.api.delete(PersistentVolumeClaim, name, NAMESPACE)
    await stage.follow()
    expect(not stage.claims, "the claims are still there")
    await stage.round()
    invariants(stage)


CONTROL: dict[str, Story] = {
    "CreatePods": _creates,
    "CreatesPodsWithStartOrdinal": _starts_at_two,
    "ScalesUp": _scales_up,
    "ScalesDown": _scales_down,
    "ReplacesPods": _replaces,
    "RecreatesFailedPod": _recreates("Failed", failing=False),
    "RecreatesSucceededPod": _recreates("Succeeded", failing=False),
    "RecreatesFailedPodWithDeleteFailure": _recreates("Failed", failing=True),
    "RecreatesSucceededPodWithDeleteFailure": _recreates("Succeeded", failing=True),
    "CreatePodFailure": _recovers(CREATE),
    "UpdatePodFailure": _identity_is_restored,
    "UpdateSetStatusFailure": _recovers(STATUS),
    "NewRevisionDeletePodFailure": _update_cannot_delete,
    "RecreatesPVCForPendingPod": _missing_claim,
}
