"""The loops of upstream's StatefulSet tests: up, down, update; invariants hold after each round."""

from __future__ import annotations

from tests.upstream.stateful_set_invariants import Invariants, rolling
from tests.upstream.stateful_set_stage import MOST_ROUNDS, Different, Stage, expect

from mooring.controllers.statefulset.decide import ordinals
from mooring.kube.revisions import REVISION


async def scale_up(stage: Stage, invariants: Invariants) -> None:
    """Until all pods are ready: each round takes one of them a step further."""
    for _ in range(MOST_ROUNDS):
        if stage.set.status.ready_replicas >= stage.set.spec.replicas:
            return invariants(stage)
        await stage.advance()
        await stage.round()
        invariants(stage)
    raise Different("the pods do not become ready")


async def scale_down(stage: Stage, invariants: Invariants) -> None:
    """Until no pod is too many: each that is deleted takes its time."""
    for _ in range(MOST_ROUNDS):
        if stage.set.status.replicas <= stage.set.spec.replicas:
            await stage.delete_claims_of_gone_pods()
            return invariants(stage)
        surplus = [pod for pod in stage.pods if int(pod.name.rpartition("-")[2]) not in ordinals(stage.set)]
        if surplus:
            await stage.hold(surplus[-1])
            await stage.round()
            await stage.round()
            await stage.end(surplus[-1])
        await stage.round()
        invariants(stage)
    raise Different("the surplus pods do not go")


async def update(stage: Stage, invariants: Invariants = rolling) -> None:
    """Until the update is complete."""
    await stage.round()
    for _ in range(MOST_ROUNDS):
        if _complete(stage):
            return invariants(stage)
        await stage.advance()
        await stage.round()
        invariants(stage)
    raise Different("the update does not end")


def _complete(stage: Stage) -> bool:
    spec, status, pods = stage.set.spec, stage.set.status, stage.pods
    if len(pods) != spec.replicas or status.ready_replicas != spec.replicas:
        return False
    if spec.update_strategy.type == "OnDelete":
        return True
    partition = spec.update_strategy.rolling_update.partition
    if partition == 0 and status.current_replicas < spec.replicas:
        return False
    wanted = status.update_revision if partition else status.current_revision
    return all(pod.metadata.labels.get(REVISION) == wanted for pod in pods[partition:])


def expect_counts(stage: Stage, replicas: int) -> None:
    """All pods are there, ready and of the newest revision."""
    status = stage.set.status
    found = status.replicas, status.ready_replicas, status.updated_replicas
    expect(found == (replicas,) * 3, f"replicas, ready, updated are {found}, not {replicas}")
