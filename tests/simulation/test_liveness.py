"""What must hold at the end of a run, of what a silent machine keeps."""

from __future__ import annotations

import msgspec
import pytest

from mooring.controllers.binding.controller import BindingController
from mooring.kube.objects import (
    ObjectMeta,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodSpec,
    Volume,
)
from mooring.simulation.checks.liveness import had_while_waiting, waited_for
from mooring.simulation.cluster.scenario import PlanStep, Scenario
from mooring.simulation.run import Outcome, play

CLAIMS = {
    f"default/{name}": PersistentVolumeClaim(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=PersistentVolumeClaimSpec(volume_name=f"pv-{name}"),
    )
    for name in ("data", "log")
}


def pod(node: str, *, going: bool = False) -> Pod:
    volumes = [
        Volume(name=name, persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name=name))
        for name in ("data", "log", "lost")
    ]
    metadata = ObjectMeta(name="p", namespace="default", deletion_timestamp="t" if going else None)
    return Pod(metadata=metadata, spec=PodSpec(node_name=node, volumes=tuple(volumes)))


def test_a_pod_that_waits_for_a_volume_of_a_silent_machine_may_have_its_others_where_it_is():
    assert had_while_waiting([pod("n2")], CLAIMS, {"n1"}) == {("pv-data", "n2"), ("pv-log", "n2")}


def test_one_that_goes_or_is_on_the_silent_machine_itself_has_nothing_elsewhere():
    assert had_while_waiting([pod("n2", going=True), pod("n1")], CLAIMS, {"n1"}) == set()


def test_a_deleted_claim_is_waited_for_as_long_as_a_pod_of_a_silent_machine_uses_it():
    """70743 of the swarm: the claim of the same name, which a user makes when it is gone, is never made."""
    claim = CLAIMS["default/data"]
    deleted = msgspec.structs.replace(
        claim, metadata=msgspec.structs.replace(claim.metadata, deletion_timestamp="t")
    )
    assert waited_for([deleted], set(), {"default/data"}) == {"default/data"}
    assert waited_for([deleted], set(), {"default/log"}) == set()
    assert waited_for([claim], set(), {"default/data"}) == set()
    assert waited_for([claim], {"pv-data"}, set()) == {"default/data"}


def lost_with_a_pod_of_a_going_claim(*, force: bool) -> Outcome:
    """A pod waits on n1 for a volume that n0 has. n1 is lost, the volume is deleted, and the claim; the
    volume is made again when the pod on n1 is being deleted: it is never attached there. `force`: a user
    deletes the pods of n1 by force."""
    scenario = Scenario(
        sets={"h": 2}, workloads={"h": "named"}, minutes=24, calm_minutes=17, storage="network"
    )
    lose = PlanStep(70, "lose-machine", "n1", 0, 3 if force else 1)
    restore, delete = PlanStep(100, "restore-volume", "h", 0, 2), PlanStep(110, "delete-claim", "h")
    return play(18, scenario, plan=(lose, restore, delete), lines=True)


def claims_gone(outcome: Outcome) -> int:
    return sum("store.deleted" in line and "name=default/data-h " in line for line in outcome.lines)


def test_what_waits_for_a_claim_to_go_that_a_silent_machine_keeps_is_not_asked_to_be_ready():
    """Found by the simulation (seed 70572 of the swarm)."""
    outcome = lost_with_a_pod_of_a_going_claim(force=False)
    assert outcome.violations == []
    assert not [line for line in outcome.lines if "truth.attached" in line and "node=n1 " in line]
    assert claims_gone(outcome) == 0


def test_when_no_pod_of_a_silent_machine_keeps_the_claim_it_goes_and_pods_are_ready():
    outcome = lost_with_a_pod_of_a_going_claim(force=True)
    assert outcome.violations == []
    assert claims_gone(outcome) == 1


def test_a_claim_that_the_binder_forgets_to_let_go_keeps_no_pod_waiting(monkeypatch: pytest.MonkeyPatch):
    async def forget(_controller: BindingController, _claim: PersistentVolumeClaim) -> None: ...

    monkeypatch.setattr(BindingController, "_reconcile_ending_claim", forget)
    outcome = lost_with_a_pod_of_a_going_claim(force=True)
    assert "L1" in outcome.invariants
