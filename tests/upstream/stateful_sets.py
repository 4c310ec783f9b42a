"""Plays the tables of upstream's StatefulSet control against our controller, on an API server.

A case that upstream wrote as functions (`initial`, `update`, `validate`) says in its name what they do, e.g.
`burst image update and scale up`: a Parallel set of three pods gets another image and five replicas.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from tests.upstream import stateful_set_claims, stateful_set_revisions
from tests.upstream.stateful_set_control import CONTROL
from tests.upstream.stateful_set_invariants import Invariants, ordered, parallel
from tests.upstream.stateful_set_moves import scale_down, scale_up, update
from tests.upstream.stateful_set_stage import POLICIES, Different, Stage, expect, images, staged
from tests.upstream.tables import Json, Table, name_of, read

from mooring.controllers.statefulset.decide import (
    most_unavailable,
)
from mooring.kube.objects import StatefulSet

Now = Callable[[], datetime]
OLD, NEW = "nginx", "foo"


async def cases(now: Now) -> dict[str, list[str]]:
    """Each case of the StatefulSet controller → its differences."""
    found: dict[str, list[str]] = {}
    for table in read("statefulset").tables:
        play = PLAYS.get(table.test)
        for number, row in enumerate(table.rows if play else ()):
            name = name_of(row) or row.get("fn", {}).get("function", "")
            key = f"{table.test}: {number + 1}" + (f" - {name}" if name else "")
            found[key] = await _differences(play, table, row, now)
    return found


async def _differences(play: Any, table: Table, row: Json, now: Now) -> list[str]:
    found: list[str] = []
    for variant in _variants(table):
        try:
            await play(row, now, **variant)
        except Different as difference:
            found.append(f"{variant}: {difference}" if variant else str(difference))
    return found


def _variants(table: Table) -> list[Json]:
    """What upstream varies in each case of a test, beside its table."""
    policies = [{"policy": each} for each in POLICIES]
    if table.test == "TestStatefulSetControl":
        managements = ("OrderedReady", "Parallel")
        return [{**each, "management": management} for each in policies for management in managements]
    varied = ("TestStatefulSetControlOnDeleteUpdate", "TestStatefulSetControlRollingUpdateWithPartition")
    return policies if table.test in varied else [{}]


def _management(row: Json) -> tuple[str, Invariants]:
    return ("Parallel", parallel) if "Burst" in row["invariants"]["function"] else ("OrderedReady", ordered)


async def _control(row: Json, now: Now, *, policy: Json | None, management: str) -> None:
    name = row["fn"]["function"]
    replicas = 5 if name == "ReplacesPods" else 3
    stage = await staged(
        now, replicas=replicas, podManagementPolicy=management, persistentVolumeClaimRetentionPolicy=policy
    )
    await CONTROL[name](stage, parallel if management == "Parallel" else ordered)


async def _start_ordinal(row: Json, now: Now) -> None:
    stage = await staged(now, ordinals={"start": 2})
    await CONTROL[row["fn"]["function"]](stage, lambda stage: None)


# --- updates


async def _updating(row: Json, now: Now, **spec: Any) -> tuple[Stage, Invariants]:
    """A set that is ready and gets another image, and perhaps another number of pods; not looked at yet."""
    management, invariants = _management(row)
    before = 5 if "scale down" in row["name"] else 3
    stage = await staged(now, replicas=before, podManagementPolicy=management, **spec)
    await scale_up(stage, invariants)
    await stage.edit(image=NEW, replicas=_replicas(row))
    return stage, invariants


def _replicas(row: Json) -> int:
    return 5 if "scale up" in row["name"] else 3


def _expect_images(stage: Stage, old: int = 0) -> None:
    """The first `old` pods have the old image, the others the new one."""
    wanted = [OLD] * old + [NEW] * (len(stage.pods) - old)
    expect(images(stage.pods) == wanted, f"the images are {images(stage.pods)}, not {wanted}")


async def _rolling_update(row: Json, now: Now) -> None:
    stage, _ = await _updating(row, now)
    await update(stage)
    _expect_images(stage)


async def _partition(row: Json, now: Now, *, policy: Json | None) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": row["partition"]}}
    stage, _ = await _updating(row, now, updateStrategy=strategy, persistentVolumeClaimRetentionPolicy=policy)
    await update(stage)
    _expect_images(stage, old=2)


async def _on_delete(row: Json, now: Now, *, policy: Json | None) -> None:
    strategy = {"type": "OnDelete"}
    stage, invariants = await _updating(
        row, now, updateStrategy=strategy, persistentVolumeClaimRetentionPolicy=policy
    )
    await update(stage)
    await stage.delete_claims_of_gone_pods()
    _expect_images(stage, old=3)
    _expect_no_claim_of_a_pod(stage)
    await stage.edit(replicas=0)
    await scale_down(stage, invariants)
    _expect_no_claim_of_a_pod(stage)
    await stage.edit(replicas=_replicas(row))
    await scale_up(stage, invariants)
    _expect_images(stage)


def _expect_no_claim_of_a_pod(stage: Stage) -> None:
    owned = {
        name
        for name, each in stage.claims.items()
        if any(o.kind == "Pod" for o in each.metadata.owner_references)
    }
    expect(not owned, f"pods own {sorted(owned)}")


async def _rollback(row: Json, now: Now) -> None:
    stage, _ = await _updating(row, now)
    await update(stage)
    _expect_images(stage)
    await stage.edit(image=OLD)
    await update(stage)
    _expect_images(stage, old=len(stage.pods))


async def _most_unavailable_update(row: Json, now: Now) -> None:
    """Two at once above the partition 3. Parallel makes both anew at once, OrderedReady one by one."""
    stage = await _two_may_be_unavailable(now, row["policyType"])
    await stage.edit(image=NEW)
    await stage.round()
    _expect_pods(stage, [0, 1, 2, 3])
    await stage.round()
    if row["policyType"] == "Parallel":
        _expect_pods(stage, [0, 1, 2, 3, 4, 5])
        await _make_ready(stage, 4)
        await stage.round()
        _expect_pods(stage, [0, 1, 2, 4, 5])
        await stage.round()
        _expect_pods(stage, [0, 1, 2, 3, 4, 5])
        await _make_ready(stage, 5)
        await _make_ready(stage, 3)
    else:
        _expect_pods(stage, [0, 1, 2, 3, 4])
        await stage.round()
    before = [pod.uid for pod in stage.pods]
    await stage.round()
    expect([pod.uid for pod in stage.pods] == before, "other pods are updated")


async def _most_unavailable_invariant(row: Json, now: Now) -> None:
    """Upstream asks the step after all others, which OrderedReady would not reach; with Parallel it is."""
    stage = await _two_may_be_unavailable(now, "Parallel")
    ending = row.get("ordinalOfPodToTerminate") or []
    for ordinal in ending:
        await stage.begin_to_end(stage.pods[ordinal])
    await stage.edit(image=NEW)
    await stage.round()
    wanted = 6 - max(2 - len(ending), 0)
    expect(len(stage.pods) == wanted, f"{len(stage.pods)} pods are left, not {wanted}")


async def _two_may_be_unavailable(now: Now, management: str) -> Stage:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 3, "maxUnavailable": 2}}
    stage = await staged(now, replicas=6, podManagementPolicy=management, updateStrategy=strategy)
    await scale_up(stage, parallel)
    return stage


def _expect_pods(stage: Stage, wanted: list[int]) -> None:
    found = [int(pod.name.rpartition("-")[2]) for pod in stage.pods]
    expect(found == wanted, f"the pods are {found}, not {wanted}")


async def _make_ready(stage: Stage, ordinal: int) -> None:
    [pod] = [each for each in stage.pods if each.name.endswith(f"-{ordinal}")]
    await stage.report(pod, "Running")


# --- history, status, numbers


async def _limits_history(row: Json, now: Now) -> None:
    limits = {"zero": 0, "negative": -2, "positive": 5}
    limit = limits.get(row["name"].split()[0], 2)
    management, invariants = _management(row)
    stage = await staged(now, podManagementPolicy=management, revisionHistoryLimit=limit)
    await scale_up(stage, invariants)
    for number in range(10):
        await stage.edit(image=f"foo-{number}")
        await update(stage)
        await stage.round()
        held = len(stateful_set_revisions.revisions(stage))
        wanted = f"at most {limit + 2}" if limit >= 0 else "all"
        right = held <= limit + 2 if limit >= 0 else held == number + 2
        expect(right, f"{held} revisions are kept, not {wanted}")


async def _availability(row: Json, now: Now) -> None:
    stage = await staged(now, replicas=1, minReadySeconds=row["inputSTS"]["spec"]["minReadySeconds"])
    await scale_up(stage, parallel)
    minutes = {"-2h0m0s": 120, "-30m0s": 30}[row["readyDuration"]]
    await stage.report(stage.pods[0], "Running", since_s=minutes * 60)
    await stage.round()
    found, wanted = stage.set.status.available_replicas, row.get("expectedActiveReplicas", 0)
    expect(found == wanted, f"{found} pods are available, not {wanted}")


async def _status(row: Json, now: Now) -> None:
    """Which of two errors is raised is not compared: Python keeps both."""
    stage = await staged(now)
    if row.get("hasSyncErr"):
        stage.wire.fail("POST pods")
    if row.get("hasStatusErr"):
        stage.wire.fail("PATCH statefulsets/status")
    failed = await stage.fails()
    expect(stage.wire.sent["PATCH statefulsets/status"] == 1, "the status is not written")
    expect(failed == ("expectedErr" in row), f"the round {'fails' if failed else 'does not fail'}")


async def _parallel_scale(row: Json, now: Now) -> None:
    stage = await staged(now, replicas=row.get("replicas", 0), podManagementPolicy="Parallel")
    for wanted in (row.get("replicas", 0), row.get("desiredReplicas", 0)):
        await stage.edit(replicas=wanted)
        for _ in range(2):
            await stage.round()
        found = stage.set.status.replicas
        expect(found == wanted == len(stage.pods), f"after two rounds there are {found} pods, not {wanted}")
    at_once = stage.wire.at_once["POST pods"]
    expect(at_once >= row["expectedMinParallelRequests"], f"at most {at_once} pods are made at once")


async def _numbers(row: Json, now: Now) -> None:
    """Upstream's metrics of a set: how many pods are not available, and how many may be."""
    strategy: Json = {"type": row["updateStrategy"]}
    if strategy["type"] == "RollingUpdate":
        given = row.get("maxUnavailable")
        most = None if given is None else given if given.endswith("%") else int(given)
        strategy["rollingUpdate"] = {"partition": 0, **({"maxUnavailable": most} if most else {})}
    total = row["totalPods"]
    stage = await staged(
        now, replicas=total, podManagementPolicy=row["podManagementPolicy"], updateStrategy=strategy
    )
    await scale_up(stage, parallel)
    for pod in stage.pods[: row.get("unavailablePodCount", 0)]:
        if row["podManagementPolicy"] == "OrderedReady":
            await stage.report(pod, "Running", ready=False)
        else:
            await stage.begin_to_end(pod)
    await stage.round()
    unavailable = total - stage.set.status.available_replicas
    expect(unavailable == row.get("expectedUnavailableReplicasValue", 0), f"{unavailable} are unavailable")
    most = most_unavailable(stage.set)
    expect(most == row["expectedMaxUnavailableValue"], f"{most} may be unavailable")


async def _may_be_unavailable(row: Json, now: Now) -> None:
    given = row.get("maxUnavailable", "1")
    rolling = {"maxUnavailable": given if given.endswith("%") else int(given)}
    fields = {"replicas": row.get("replicaCount", 0), "updateStrategy": {"rollingUpdate": rolling}}
    found = most_unavailable(stateful_set_claims.decoded(StatefulSet, {"spec": fields}))
    expect(found == row["expectedMaxUnavailable"], f"{found} may be unavailable")


PLAYS: dict[str, Callable[..., Awaitable[None]]] = {
    "TestStatefulSetControl": _control,
    "TestStatefulSetControlWithStartOrdinal": _start_ordinal,
    "TestStatefulSetControlRollingUpdate": _rolling_update,
    "TestStatefulSetControlRollingUpdateWithPartition": _partition,
    "TestStatefulSetControlOnDeleteUpdate": _on_delete,
    "TestStatefulSetControlRollback": _rollback,
    "TestStatefulSetControlRollingUpdateWithMaxUnavailable": _most_unavailable_update,
    "TestStatefulSetControlRollingUpdateWithMaxUnavailableInOrderedModeVerifyInvariant": _most_unavailable_invariant,
    "TestStatefulSetControlLimitsHistory": _limits_history,
    "TestStatefulSetAvailability": _availability,
    "TestStatefulSetStatusUpdate": _status,
    "TestParallelScale": _parallel_scale,
    "TestStatefulSetMetrics": _numbers,
    "TestGetStatefulSetMaxUnavailable": _may_be_unavailable,
    **stateful_set_claims.PLAYS,
    **stateful_set_revisions.PLAYS,
}
