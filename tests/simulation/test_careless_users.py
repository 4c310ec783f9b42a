"""Impatient users: what they do leaves a trace, and all comes right in the end."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.controllers.binding.controller import BindingController
from mooring.controllers.podgc.controller import PodGCController
from mooring.controllers.provisioning.controller import ProvisioningController
from mooring.kube.keys import ClaimKey
from mooring.kube.objects import PersistentVolume, Pod
from mooring.kube.reason import Reason
from mooring.node.volumes.eviction import Evictions
from mooring.simulation.cluster import swarm
from mooring.simulation.cluster.disk_classes import MISTAKES
from mooring.simulation.cluster.other_parties import OWNED_S
from mooring.simulation.cluster.plan import make_plan
from mooring.simulation.cluster.plan_player import LATE_KINDS
from mooring.simulation.cluster.scenario import DEFAULT, PlanStep, Scenario
from mooring.simulation.run import Outcome, play

TWO = Scenario(nodes=2, sets={"db": 2}, minutes=18)
KINDS = {0: "pods", 1: "persistentvolumeclaims", 2: "volumeattachments.storage.k8s.io"}


def lines(outcome: Outcome, *words: str) -> list[str]:
    return [line for line in outcome.lines if all(word in line for word in words)]


def moment(line: str) -> float:
    return float(line.split()[1])


def played(plan: PlanStep, scenario: Scenario = TWO) -> Outcome:
    outcome = play(0, scenario, plan=(plan,), lines=True)
    assert outcome.violations == []
    return outcome


@pytest.mark.parametrize("how", KINDS)
def test_what_another_party_holds_goes_when_it_lets_go(how: int):
    outcome = played(PlanStep(60, "hold", "db", 40, how))
    gone = [moment(line) for line in lines(outcome, "store.deleted", f"resource={KINDS[how]}")]
    assert [each for each in gone if 99 < each < 101]


@pytest.mark.parametrize("seconds", [0.5, 30])
def test_another_party_lets_go_of_what_it_may_hold_without_having_been_told(seconds: float):
    """The API server's disk fails while the finalizer is written: it is there or not. Found by the simulation
    (seed 20525 of the swarm)."""
    fails, hold = PlanStep(60, "fail-store", "server", 4), PlanStep(60.001, "hold", "db", seconds)
    outcomes = [play(seed, TWO, plan=(fails, hold), lines=True) for seed in range(4)]
    assert [each.violations for each in outcomes] == [[]] * 4
    # In some it was not there when the disk worked again: it is set then, and goes with the others.
    gone = [moment(line) for each in outcomes for line in lines(each, "store.deleted", "resource=pods")]
    assert len(gone) == 4
    assert all(64 + seconds < each < 70 + seconds for each in gone)


@pytest.mark.parametrize("how", [0, 1, 2])
def test_a_claim_whose_finalizers_are_stripped_is_gone_while_its_volume_is_used(how: int):
    outcome = played(PlanStep(60, "strip-claim", "db", 0, how))
    assert outcome.counts["plan.stripped"] == 1
    gone = moment(lines(outcome, "store.deleted", "persistentvolumeclaims")[0])
    assert gone <= moment(lines(outcome, "truth.ended")[0])
    assert outcome.counts["truth.deleted"] == 1


@pytest.mark.parametrize("driver", ["plugin", "csi"])
@pytest.mark.parametrize("how", [0, 2])
def test_a_volume_whose_finalizers_are_stripped_is_gone_and_its_disk_is_removed_by_hand(
    how: int, driver: str
):
    scenario = Scenario(nodes=2, sets={"db": 2}, minutes=18, driver=driver)
    outcome = played(PlanStep(60, "strip-volume", "db", 0, how), scenario)
    gone = moment(lines(outcome, "store.deleted", "resource=persistentvolumes ")[0])
    assert gone < moment(lines(outcome, "truth.detached")[0]) < moment(lines(outcome, "truth.deleted")[0])


def test_a_disk_is_removed_by_hand_when_its_claim_is_gone_and_not_when_a_pod_of_it_is():
    """A pod of two claims is deleted with each of them, and gone when the second one's turn comes. Found by
    the simulation."""
    scenario = Scenario(nodes=2, sets={"db": 2}, workloads={"db": "two-disks"}, minutes=18)
    late, strip = PlanStep(57, "late-kind", "placing", 78, 9), PlanStep(60, "strip-volume", "db")
    outcome = play(0, scenario, plan=(late, strip))
    assert outcome.violations == []
    assert outcome.counts["truth.deleted"] == 2


def test_what_a_user_has_not_stripped_counts_still():
    """The checker accepts that just this claim is gone, not another one."""
    outcome = played(PlanStep(60, "strip-claim", "db", 0, 1))
    assert outcome.guarded["S15"] == 0
    assert played(PlanStep(60, "replace-claim", "db")).guarded["S15"] == 1


def test_a_claim_is_made_anew_under_its_name_at_once():
    outcome = played(PlanStep(60, "replace-claim", "db"))
    assert outcome.counts["truth.created"] == 3
    assert outcome.counts["truth.deleted"] == 1


def test_a_claim_that_is_deleted_goes_though_a_pod_of_a_deployment_has_ended(monkeypatch: pytest.MonkeyPatch):
    """The pod was marked as failed, its removal was lost, and then its Node was there again: it stays, and
    holds the claim until users delete it, too. Found by the simulation (seed 50139 of the swarm)."""

    async def only_mark(self: PodGCController, pod: Pod, reason: Reason) -> None:
        await self._marked_failed(pod, reason.message)

    monkeypatch.setattr(PodGCController, "_remove", only_mark)
    plan = (
        *(PlanStep(20, "freeze", "n0", 100), PlanStep(60, "delete-node", "n0")),
        *(PlanStep(180, "delete-claim", "dev", 0, 1), PlanStep(200, "delete-pod", "dev", 0, 1)),
    )
    scenario = Scenario(nodes=2, sets={"dev": 1}, workloads={"dev": "shared"}, minutes=18)
    outcome = play(0, scenario, plan=plan, lines=True)
    assert outcome.violations == []
    assert len(lines(outcome, "store.deleted", "persistentvolumeclaims")) == 1


def test_a_set_grows_again_while_the_claims_of_its_pods_go():
    outcome = played(PlanStep(60, "shrink-set", "db", 0.5, 1))
    assert outcome.counts["truth.created"] == 4
    assert outcome.counts["truth.deleted"] == 2


def test_a_disk_is_made_by_hand_in_the_place_of_another_when_the_storage_has_room_for_it():
    scenario = Scenario(nodes=2, sets={"db": 2}, workloads={"db": "scarce"}, minutes=18)
    full, strip = PlanStep(60, "array-full", "array", 120), PlanStep(70, "strip-claim", "db", 0, 1)
    outcome = play(0, scenario, plan=(full, strip), lines=True)
    assert outcome.violations == []
    assert moment(lines(outcome, "truth.created")[-1]) >= 180


@pytest.mark.parametrize(
    ("made", "plan"),
    [
        ("name=db-disk-0 ", [PlanStep(1, "fail-store", "server", 100)]),  # these come later than their claims
        (
            "name=db-disk-1.1 ",
            [
                PlanStep(55, "array-full", "array", 12),
                PlanStep(60, "strip-claim", "db", 0, 1),
                PlanStep(65, "fail-store", "server", 100),
            ],
        ),
        ("name=default/db ", [PlanStep(60, "delete-set", "db"), PlanStep(110, "fail-store", "server", 100)]),
    ],
    ids=["late", "in the place of another", "anew"],
)
def test_users_make_what_they_are_to_make_however_long_the_api_server_is_away(
    made: str, plan: list[PlanStep]
):
    """Found by the simulation (seed 81385 of the swarm: volumes were never made)."""
    scenario = Scenario(nodes=2, sets={"db": 2}, workloads={"db": "scarce"}, minutes=18)
    outcome = play(2, scenario, plan=tuple(plan), lines=True)
    assert outcome.violations == []
    written = [moment(line) for line in lines(outcome, "store.written", made)]
    assert any(each > plan[-1].at + plan[-1].value for each in written)


def test_what_becomes_of_a_volume_goes_by_whose_it_was_made_and_not_by_who_has_it():
    """A workload whose own volumes are emptied for the next claim has got another one's, which stay as they
    are."""
    kinds = {"a": "static", "b": "recycled"}
    scenario = Scenario(nodes=2, sets={"a": 1, "b": 3}, workloads=kinds, minutes=18)
    outcome = play(
        0, scenario, plan=tuple(PlanStep(60 + at, "strip-claim", "b", 0, at) for at in range(3)), lines=True
    )
    assert outcome.violations == []
    assert lines(outcome, "truth.created", "volume=a-disk-1.")
    assert not lines(outcome, "truth.created", "volume=b-disk-0.")


@pytest.mark.parametrize("kind", ["static", "scarce"])
def test_volumes_that_nothing_is_bound_to_are_deleted_and_made_again(kind: str):
    scenario = Scenario(nodes=2, sets={"db": 2}, workloads={"db": kind}, minutes=18)
    scale = (
        PlanStep(60, "scale", "db", 1),
        PlanStep(70, "delete-claim", "db"),
        PlanStep(75, "delete-unbound", "api"),
    )
    outcome = play(0, scenario, plan=scale, lines=True)
    assert outcome.violations == []
    assert len(lines(outcome, "store.deleted", "resource=persistentvolumes ")) >= 1


@pytest.mark.parametrize("kind", ["named", "reserved"])
@pytest.mark.parametrize("how", [0, 1, 2])
def test_a_claim_that_has_lost_its_volume_is_bound_again_when_that_is_restored(kind: str, how: int):
    scenario = Scenario(nodes=2, sets={"h": 2}, workloads={"h": kind}, minutes=24, calm_minutes=17)
    outcome = play(0, scenario, plan=(PlanStep(100, "restore-volume", "h", 0, how),), lines=True)
    assert outcome.violations == []
    (gone,) = lines(outcome, "store.deleted", "resource=persistentvolumes ", "name=h-disk-0")
    written = lines(outcome, "store.written", "resource=persistentvolumes ", "name=h-disk-0")
    again = next(moment(line) for line in written if moment(line) > moment(gone))
    assert 30 * how <= again - moment(gone) < 30 * how + 10


def test_a_claim_that_is_not_told_that_the_volume_it_names_is_back_is_found(monkeypatch: pytest.MonkeyPatch):
    connected: Any = BindingController._connected  # pyright: ignore[reportPrivateUsage]

    def forgets_who_names_it(controller: BindingController, pv: PersistentVolume) -> Any:
        named = {ClaimKey(each.key) for each in controller._claims.by_index("volume", pv.name)}
        return [key for key in connected(controller, pv) if key not in named]

    monkeypatch.setattr(BindingController, "_connected", forgets_who_names_it)
    scenario = Scenario(nodes=2, sets={"h": 1}, workloads={"h": "named"}, minutes=24, calm_minutes=17)
    outcome = play(0, scenario, plan=(PlanStep(100, "restore-volume", "h", 0, 1),))
    assert {"L5", "L19"} & set(outcome.invariants)


def test_where_volumes_are_scarce_a_pod_too_many_waits_for_one():
    scenario = Scenario(nodes=2, sets={"db": 2}, workloads={"db": "scarce"}, minutes=18)
    plan = PlanStep(60, "scale", "db", 3), PlanStep(120, "delete-claim", "db", 0, 2)
    outcome = play(0, scenario, plan=plan, lines=True)
    assert outcome.violations == []
    assert outcome.counts["truth.created"] == 2
    assert lines(outcome, "store.written", "name=default/data-db-2")
    assert not [line for line in lines(outcome, "truth.started", "pod=db-2") if moment(line) < 120]


def test_a_scarce_volume_that_a_claim_gets_and_loses_after_all_is_healed_is_made_anew():
    """The binder learns late that users have deleted a claim, and binds a volume to it that they have just
    made for another. Found by the simulation (seed 30330 of the swarm)."""
    scenario = Scenario(nodes=2, sets={"db": 1}, workloads={"db": "scarce"}, minutes=18, faults=0, actions=0)
    plan = (
        PlanStep(600, "scale", "db", 2),
        PlanStep(700, "late-kind", "placing", 60.0, LATE_KINDS.index("persistentvolumeclaims")),
        PlanStep(719.5, "delete-claim", "db", 0, 1),
        PlanStep(719.6, "delete-claim", "db", 0, 0),
    )
    outcome = play(0, scenario, plan=plan, lines=True)
    assert outcome.violations == []
    (lost,) = lines(outcome, "store.deleted", "resource=persistentvolumes ", "name=db-disk-0.1")
    assert moment(lost) > scenario.heal_s


def test_they_act_on_workloads_that_have_what_they_want():
    scenario = Scenario(sets={"agents": 1, "db": 2}, workloads={"agents": "daemons"}, actions=40)
    acts = {(step.what, step.on) for seed in range(20) for step in make_plan(seed, scenario)}
    assert ("hold", "db") in acts
    assert ("hold", "agents") not in acts
    assert not [what for what, _ in acts if what == "delete-unbound"]


def test_users_drain_in_the_end_what_they_have_deleted():
    """Each Node waits for that, and takes no new pods; its agent registers it anew."""
    plan = (
        PlanStep(60, "delete-node", "n0"),
        PlanStep(60, "delete-node", "n1"),
        PlanStep(90, "delete-pod", "db"),
    )
    outcome = play(0, Scenario(nodes=2, sets={"db": 2}, minutes=18, fenced=True), plan=plan, lines=True)
    assert outcome.violations == []
    assert len(lines(outcome, "store.deleted", "resource=nodes")) == 2


FILLING = Scenario(nodes=2, sets={"tmp": 2}, workloads={"tmp": "filling"}, minutes=8, faults=0, actions=0)
FILLED = (PlanStep(60, "fill", "tmp", 0, 0), PlanStep(120, "fill", "tmp", 0, 1))


def test_pods_that_put_too_much_into_their_emptydirs_are_evicted_and_others_take_their_places():
    outcome = play(1, FILLING, plan=FILLED, lines=True)
    assert outcome.violations == []
    assert len(lines(outcome, "truth.filled")) == 2
    assert outcome.guarded["S40"] >= 2


def test_an_agent_that_does_not_look_at_what_pods_put_into_their_volumes_is_found(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(Evictions, "look_at", lambda self, volume: None)
    assert "L12" in play(1, FILLING, plan=FILLED).invariants


def test_five_of_twenty_seeds_of_the_swarm_have_pods_that_may_fill_their_volumes():
    drawn = [swarm.drawn(seed, DEFAULT) for seed in range(20)]
    assert sum("filling" in each.workloads.values() for each in drawn) == 5
    assert all(each.weights["fill"] for each in drawn if "filling" in each.workloads.values())


class Forgetful(dict[str, Any]):
    """Keeps nothing."""

    def __setitem__(self, key: str, value: Any) -> None:
        pass


def without_class(how: int, driver: str) -> Outcome:
    scenario = Scenario(nodes=2, sets={"db": 2}, minutes=18, driver=driver)
    ill = (
        PlanStep(60, "ec2-fails", "ec2", 12)
        if driver == "ebs"
        else PlanStep(60, "array-unanswered", "array", 12)
    )
    return play(0, scenario, plan=(ill, PlanStep(60, "replace-class", "db", 230, how)), lines=True)


@pytest.mark.parametrize("driver", ["plugin", "csi", "ebs"])
@pytest.mark.parametrize("how", [0, 1, 2])
def test_a_class_is_made_anew_and_what_was_begun_under_the_former_one_comes_to_its_end(how: int, driver: str):
    outcome = without_class(how, driver)
    assert outcome.violations == []
    gone, made = (
        moment(lines(outcome, kind, "resource=storageclasses.storage.k8s.io", "name=disk")[-1])
        for kind in ("store.deleted", "store.written")
    )
    assert 60 <= gone < 130
    assert 229 < made - gone < 236


@pytest.mark.parametrize("how", [1, 2])
def test_a_class_that_is_forgotten_while_a_volume_is_made_is_missed(
    how: int, monkeypatch: pytest.MonkeyPatch
):
    made = ProvisioningController.__init__

    def forgetful(controller: ProvisioningController, *given: Any, **named: Any) -> None:
        made(controller, *given, **named)
        monkeypatch.setattr(controller, "_begun_by", Forgetful())

    monkeypatch.setattr(ProvisioningController, "__init__", forgetful)
    assert "L12" in without_class(how, "plugin").invariants


def test_some_seeds_make_classes_anew():
    scenarios = [swarm.drawn(seed, DEFAULT) for seed in range(60)]
    found = [step for each in scenarios for step in each.steps if step.what == "replace-class"]
    assert {step.how for step in found} == {0, 1, 2}
    others = ("read-back", "lose-rare")  # the latter ends when all is healed
    lasting = [(each, step) for each in scenarios for step in each.steps if step.what not in others]
    assert all(step.value <= each.calm_minutes * 30 for each, step in lasting)


def test_a_pod_that_is_taken_aside_keeps_its_name_until_it_is_deleted():
    step = PlanStep(100.0, "take-aside", "web", 60.0)
    outcome = play(
        1,
        Scenario(
            nodes=2,
            sets={"web": 2},
            workloads={"web": "plain"},
            minutes=8,
            faults=0,
            actions=0,
            steps=(step,),
        ),
        lines=True,
    )
    assert outcome.violations == []
    (gone,) = lines(outcome, "store.deleted", "resource=pods", "name=default/web-0")
    assert 160 < moment(gone) < 165
    again = lines(outcome, "store.written", "resource=pods", "name=default/web-0")
    assert 160 < moment(again[-1]) < 175


@pytest.mark.parametrize("driver", ["plugin", "csi", "ebs"])
def test_a_claim_of_a_class_with_a_mistake_gets_no_volume_and_goes_when_it_is_deleted(driver: str):
    scenario = Scenario(nodes=2, sets={"db": 1}, driver=driver, minutes=14, faults=0, actions=0)
    hows = range(len(MISTAKES) if driver == "ebs" else 1)
    plan = tuple(PlanStep(60.0 + how, "mistake-class", "api", 20.0, how) for how in hows)
    outcome = play(0, scenario, plan=plan, lines=True)
    assert outcome.violations == []
    gone = lines(outcome, "store.deleted", "resource=persistentvolumeclaims", "name=default/mistaken-")
    assert len(gone) == len(plan)
    assert all(80 <= moment(each) < 90 for each in gone)


@pytest.mark.parametrize(
    ("what", "on", "value", "goes"),
    [
        ("mistake-class", "api", 20.0, ("persistentvolumeclaims", "name=default/mistaken-")),
        ("take-aside", "web", 20.0, ("pods", "name=default/web-0")),
        ("mark", "own", 0.0, ("configmaps", "name=default/backup-60-")),
    ],
)
def test_users_take_back_what_they_set_aside_though_the_api_server_is_away_for_long(
    what: str, on: str, value: float, goes: tuple[str, str]
):
    """Found by the simulation (seed 30286 of the swarm)."""
    kinds = {"own": "passing", "web": "plain"}
    workloads = {on: kinds[on]} if on in kinds else {}
    scenario = Scenario(nodes=2, sets={on: 1}, workloads=workloads, minutes=14, faults=0, actions=0)
    away = PlanStep(OWNED_S + 55.0 if what == "mark" else 75.0, "kill-server", "server", 200.0)
    outcome = play(0, scenario, plan=(PlanStep(60.0, what, on, value, 7), away), lines=True)
    assert outcome.violations == []
    resource, name = goes
    gone = lines(outcome, "store.deleted", f"resource={resource}", name)
    assert [each for each in map(moment, gone) if away.at + 200.0 < each < away.at + 220.0]


def test_every_seed_of_the_ebs_driver_whose_users_do_anything_has_mistakes():
    scenarios = [swarm.drawn(seed, DEFAULT) for seed in range(60)]
    of_ebs = [each for each in scenarios if each.driver == "ebs" and each.actions]
    mistaken = [each for each in scenarios if any(step.what == "mistake-class" for step in each.steps)]
    assert all(each in mistaken for each in of_ebs)
    assert len(mistaken) > 12
