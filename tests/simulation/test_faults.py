"""Faults that a plan may have happen, and each leaves a trace; companions come with the faults that they
belong to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.apiserver.errors import Expired
from mooring.apiserver.requests import watch
from mooring.apiserver.requests.watch import error_line
from mooring.apiserver.store.history import Change, Cursor
from mooring.controllers.attachdetach.adoption import Adoption
from mooring.controllers.attacher.writes import Writes
from mooring.csi.errors import Code, CsiError
from mooring.kube.errors import Gone, KubeError
from mooring.kube.informer import Informer
from mooring.kube.objects import Node, VolumeAttachment
from mooring.simulation.checks.invariants.fences import is_fenced
from mooring.simulation.checks.invariants.objects import object_of
from mooring.simulation.cluster import swarm
from mooring.simulation.cluster.pairs import PAIRS
from mooring.simulation.cluster.plan import ACTIONS, EC2_FAULTS, FAULTS, ONLY_WITH, faults_of, make_plan
from mooring.simulation.cluster.scenario import DEFAULT, PlanStep, Scenario
from mooring.simulation.engine.trace import Event, Trace
from mooring.simulation.parts.peer_wire import LATEST_S, PeerWire
from mooring.simulation.parts.rare_requests import RareRequests
from mooring.simulation.run import Outcome, play
from mooring.volumes.peers import door_of

ONE = Scenario(nodes=1, sets={"db": 1}, minutes=12)
TWO = Scenario(nodes=2, sets={"db": 1}, minutes=12)
CSI = Scenario(nodes=1, sets={"db": 1}, minutes=12, driver="csi")


def lines(outcome: Outcome, *words: str) -> list[str]:
    return [line for line in outcome.lines if all(word in line for word in words)]


def moment(line: str) -> float:
    return float(line.split()[1])


@pytest.mark.parametrize("driver", ["plugin", "csi", "ebs"])
def test_a_mount_that_takes_long_takes_effect_half_way(driver: str):
    scenario = Scenario(nodes=1, sets={"db": 1}, minutes=12, driver=driver, zones=1)
    plan = (PlanStep(60, "slow-mount", "n0", 40), PlanStep(61, "delete-pod", "db"))
    outcome = play(0, scenario, plan=plan, lines=True)
    assert outcome.violations == []
    mounted, started = moment(lines(outcome, "truth.mounted")[1]), moment(lines(outcome, "truth.started")[1])
    assert mounted > 80
    assert started - mounted > 35  # the second half, and half of it once more for the pod's own mount


def test_a_mount_of_a_driver_goes_on_when_the_agent_is_killed():
    plan = (
        PlanStep(60, "slow-mount", "n0", 40),
        PlanStep(61, "delete-pod", "db"),
        PlanStep(80, "kill", "n0", 60),
    )
    outcome = play(0, CSI, plan=plan, lines=True)
    assert outcome.violations == []
    assert 80 < moment(lines(outcome, "truth.mounted")[1]) < 140


def test_an_array_answers_with_an_error_and_does_it_later():
    plan = (PlanStep(60, "array-puts-off", "array", 25), PlanStep(61, "drain", "n0"))
    outcome = play(1, TWO, plan=plan, lines=True)
    assert outcome.violations == []
    assert outcome.counts["truth.put-off"] >= outcome.counts["truth.late"] > 0


@pytest.mark.parametrize("driver", ["plugin", "csi"])
def test_storage_that_is_full_makes_no_disk_until_it_has_room(driver: str):
    scenario = Scenario(nodes=1, sets={"db": 1}, minutes=12, driver=driver)
    plan = (PlanStep(60, "array-full", "array", 100), PlanStep(61, "delete-claim", "db"))
    outcome = play(0, scenario, plan=plan, lines=True)
    assert outcome.violations == []
    made = [moment(line) for line in lines(outcome, "truth.created")]
    assert len(made) == 2
    assert made[0] < 60
    assert made[1] > 160


@pytest.mark.parametrize(("history", "too_old"), [(0, False), (5, True)])
def test_a_watch_that_was_broken_for_longer_than_the_api_server_remembers_begins_anew(
    monkeypatch: pytest.MonkeyPatch, history: int, too_old: bool
):
    refused: list[KubeError | None] = []
    original: Callable[..., Any] = Informer[Any]._has  # pyright: ignore[reportPrivateUsage]

    def note(self: Informer[Any], trouble: KubeError | None) -> None:
        original(self, trouble)
        refused.append(trouble)

    monkeypatch.setattr(Informer, "_has", note)
    plan = (PlanStep(60, "cut", "attaching", 60), PlanStep(61, "delete-pod", "db"))
    scenario = Scenario(nodes=2, sets={"db": 2}, minutes=12, history=history)
    assert play(0, scenario, plan=plan).violations == []
    assert any(isinstance(each, Gone) for each in refused) is too_old


def test_ec2_answers_with_an_error_and_does_it_later():
    scenario = Scenario(nodes=1, zones=1, sets={"db": 1}, minutes=12, driver="ebs")
    moved = [PlanStep(70 + 60 * number, "delete-pod", "db") for number in range(4)]
    outcome = play(1, scenario, plan=(PlanStep(60, "ec2-puts-off", "ec2", 300), *moved))
    assert outcome.violations == []
    assert outcome.counts["truth.put-off"] > 0


def test_a_driver_leaves_its_node_and_comes_back():
    plan = (PlanStep(60, "driver-leaves", "n0", 60), PlanStep(70, "delete-pod", "db"))
    outcome = play(0, CSI, plan=plan, lines=True)
    assert outcome.violations == []
    assert outcome.counts["truth.driver"] == 2
    written = [moment(line) for line in lines(outcome, "store.written", "csinodes", "name=n0")]
    assert len([each for each in written if each > 60]) == 2


def test_a_driver_comes_back_with_the_pods_that_wait_for_it():
    plan = (PlanStep(60, "driver-leaves", "n0", 60, 1), PlanStep(61, "delete-pod", "db"))
    outcome = play(0, CSI, plan=plan, lines=True)
    assert outcome.violations == []
    assert moment(lines(outcome, "truth.started")[1]) > 120


def test_a_node_service_that_is_killed_leaves_its_calls_without_an_answer(monkeypatch: pytest.MonkeyPatch):
    failed: list[CsiError] = []
    original: Callable[..., Any] = CsiError.__init__

    def note(self: CsiError, code: Code, *more: Any) -> None:
        original(self, code, *more)
        failed.append(self)

    monkeypatch.setattr(CsiError, "__init__", note)
    plan = (
        PlanStep(60, "slow-mount", "n0", 40),
        PlanStep(61, "delete-pod", "db"),
        PlanStep(90, "kill-service", "n0", 10),
    )
    outcome = play(0, CSI, plan=plan)
    assert outcome.violations == []
    assert [each.code for each in failed if "the connection broke" in each.message][:1] == [Code.UNAVAILABLE]


def test_a_machine_is_absent_for_long_and_comes_back_under_another_uid():
    plan = (PlanStep(60, "absent-machine", "n0", 200),)
    outcome = play(0, TWO, plan=plan, lines=True)
    assert outcome.violations == []
    gone = moment(lines(outcome, "store.deleted", "resource=nodes", "name=n0")[0])
    back = next(
        moment(line)
        for line in lines(outcome, "store.written", "resource=nodes", "name=n0")
        if moment(line) > gone
    )
    assert back - gone > 190


def test_a_machine_comes_back_under_another_uid_while_a_volume_is_attached_to_it():
    plan = (
        PlanStep(59, "slow-array", "array", 20),
        PlanStep(60, "back-in-attach", "n0", 2),
        PlanStep(61, "force-delete-pod", "db"),
        PlanStep(62, "delete-claim", "db"),
    )
    outcome = play(0, ONE, plan=plan, lines=True)
    assert outcome.violations == []
    begun = next(moment(line) for line in lines(outcome, "truth.begin", "act=attach") if moment(line) > 60)
    deleted = moment(lines(outcome, "store.deleted", "resource=nodes")[0])
    attached = next(moment(line) for line in lines(outcome, "truth.attached") if moment(line) > begun)
    assert begun < deleted < attached


def test_no_machine_comes_back_in_an_attach_that_begins_when_all_is_healed():
    healed = ONE.heal_s
    plan = (
        PlanStep(healed - 40, "back-in-attach", "n0", 2),
        PlanStep(healed - 35, "kill", "attaching", 60),
        PlanStep(healed - 30, "force-delete-pod", "db"),
        PlanStep(healed - 25, "delete-claim", "db"),
    )
    outcome = play(0, ONE, plan=plan, lines=True)
    assert outcome.violations == []
    assert any(moment(line) >= healed for line in lines(outcome, "truth.begin", "act=attach"))
    assert not [line for line in lines(outcome, "truth.power", "on=False") if moment(line) < ONE.end_s]


def test_pods_on_a_node_are_deleted_by_its_name():
    outcome = play(
        0, TWO, plan=(PlanStep(60, "force-delete-pod-on", "n0"), PlanStep(60, "delete-pod-on", "n1"))
    )
    assert outcome.violations == []
    assert outcome.counts["truth.ended"] == 1


# --- pairs


def test_companions_are_kinds_that_there_are_and_strike_parts_that_there_are():
    kinds = FAULTS | EC2_FAULTS | ACTIONS
    named = {each.what for companions in PAIRS.values() for each in companions}
    assert named <= set(kinds)
    assert set(PAIRS) <= set(FAULTS | EC2_FAULTS)


def test_a_plan_without_companions_is_the_same_but_for_them():
    with_them, without = Scenario(companions=1.0), Scenario(companions=0.0)
    for seed in range(20):
        assert set(make_plan(seed, without)) <= set(make_plan(seed, with_them))
    assert sum(len(make_plan(seed, with_them)) - len(make_plan(seed, without)) for seed in range(20)) > 20


def test_a_restart_brings_deletions_within_its_first_second():
    pods = {"delete-pod-on", "force-delete-pod-on"}
    scenario = Scenario(companions=1.0, only=("kill",), faults=20)
    plans = [make_plan(seed, scenario) for seed in range(10)]
    within = [
        step.at - end
        for plan in plans
        for step in plan
        if step.what in pods
        for kill in plan
        if kill.what == "kill" and kill.on == step.on and 0 <= step.at - (end := kill.at + kill.value) <= 1
    ]
    assert len(within) > 10


def test_what_a_fault_needs_is_data():
    assert set(ONLY_WITH) <= set(FAULTS | EC2_FAULTS | ACTIONS)
    assert "driver-leaves" not in faults_of(Scenario())
    assert "driver-leaves" in faults_of(Scenario(driver="csi"))


FENCED = Scenario(
    nodes=3,
    sets={"db": 2},
    minutes=12,
    fencing={
        "ladder": [{"mechanism": "bmc", "confirmWith": ["strip"]}],
        "worth": {"onlyExclusive": False},
        "after": "PowerOn",
    },
)


def test_a_machine_that_flaps_boots_again_and_again_until_the_fault_is_over():
    plan = (PlanStep(60, "flaps", "n0", 100, how=0),)  # off for 5 s, on for 15
    outcome = play(0, TWO, plan=plan, lines=True)
    assert outcome.violations == []
    assert [moment(line) for line in lines(outcome, "truth.power", "on=False")] == [60, 80, 100, 120, 140]
    assert len(lines(outcome, "truth.power", "on=True")) == 5


def test_controllers_that_doze_upon_a_look_leave_the_request_to_those_that_have_the_lease_then():
    plan = (PlanStep(60, "doze", "attaching", 25, how=0), PlanStep(61, "delete-pod", "db"))
    outcome = play(0, replace(ONE, leases=True), plan=plan, lines=True)
    assert outcome.violations == []
    (dozed,) = (moment(line) for line in lines(outcome, "plan.stalled"))
    begun = [line for line in lines(outcome, "truth.begin") if moment(line) > dozed]
    assert {line.rpartition(".")[2] for line in begun} == {"2"}, "its second term"


def test_a_controller_that_stalls_asks_for_nothing_after_its_write_until_it_goes_on():
    plan = (PlanStep(60, "stall", "fencing", 30, how=1), PlanStep(61, "power-off", "n0", 120))
    outcome = play(0, FENCED, plan=plan, lines=True)
    assert outcome.violations == []
    (stalled,) = (moment(line) for line in lines(outcome, "plan.stalled"))
    asked = [moment(line) for line in lines(outcome, " fencing ", "asked.write")]
    assert not [each for each in asked if stalled < each < stalled + 30]
    assert [each for each in asked if each >= stalled + 30]


@pytest.mark.parametrize("how", [0, 1])
def test_a_machine_may_come_back_between_the_evidence_of_a_fence_and_its_release(how: int):
    plan = (PlanStep(60, "power-off", "n0", 240), PlanStep(61, "back-in-fence", "n0", 20, how))
    outcome = play(0, FENCED, plan=plan, lines=True)
    assert outcome.violations == []
    (stalled,) = (moment(line) for line in lines(outcome, "plan.stalled"))
    assert stalled in [moment(line) for line in lines(outcome, "n0 ", "truth.power", "on=True")]
    assert not [
        line for line in lines(outcome, " fencing ", "asked.write") if stalled < moment(line) < stalled + 20
    ]


def test_a_tool_takes_the_taint_of_a_fence_off_and_the_fence_sets_it_again():
    plan = (
        PlanStep(60, "untaint", "n0"),
        PlanStep(61, "power-off", "n0", 240),
        PlanStep(62, "kill", "watching", 5),
    )
    seen: list[bool] = []

    def note(event: Event) -> None:
        if event.fields["resource"] == "nodes" and event.fields["name"] == "n0":
            tainted = is_fenced(object_of(event))
            if tainted != (seen or [False])[-1]:
                seen.append(tainted)

    away = FENCED.fencing | {"after": "Leave"}
    scenario = replace(FENCED, fencing=away)
    outcome = play(0, scenario, plan=plan, observe=lambda trace: trace.listen("store.written", note))
    assert outcome.violations == []
    assert seen[:3] == [True, False, True]


@pytest.mark.parametrize(("healed", "arrive"), [(False, range(150, 200)), (True, range(200, 201))])
def test_words_between_peers_are_lost_until_all_is_healed(healed: bool, arrive: range):
    """Else a request that peers hold is begun by chance when all is idle (5000251 of `fencing.yaml`)."""

    async def story() -> int:
        wire, taken = PeerWire(Random(1)), list[bytes]()
        if healed:
            wire.heal()
        async with (
            wire.door("a")(lambda data, sender: None) as sender,
            wire.door("b")(lambda data, _: taken.append(data)) as taker,
        ):
            to = door_of(taker.where)
            assert to is not None
            for _ in range(200):
                sender.send(b"word", to)
            await asyncio.sleep(1.5 * LATEST_S)
        return len(taken)

    assert asyncio.run(story()) in arrive


TWO_PODS = replace(TWO, sets={"db": 2})
PODS_COME_AND_GO = tuple(PlanStep(62 + 3 * number, "delete-pod", "db", 0, number % 2) for number in range(8))


@pytest.mark.parametrize("part", ["attaching", "placing", "n0"])
@pytest.mark.parametrize("how", [0, 1])
def test_a_watch_that_was_not_read_goes_on_where_it_was_or_begins_anew_if_that_is_forgotten(
    monkeypatch: pytest.MonkeyPatch, part: str, how: int
):
    expired: list[Expired] = []
    monkeypatch.setattr(watch, "error_line", lambda *about: expired.append(about[0]) or error_line(*about))
    plan = (PlanStep(60, "expire-watch", part, 40, how), *PODS_COME_AND_GO)
    outcome = play(0, TWO_PODS, plan=plan)
    assert outcome.violations == []
    assert bool(expired) == bool(how)


def test_what_a_watch_leaves_out_because_it_was_forgotten_is_found(monkeypatch: pytest.MonkeyPatch):
    def take(self: Cursor, limit: int | None = None) -> list[Change]:
        self.position = max(self.position, self._history.start)
        changes = self._history.since(self.position, limit)
        self.position += len(changes)
        return changes

    monkeypatch.setattr(Cursor, "take", take)
    plan = (PlanStep(60, "expire-watch", "attaching", 40, 1), *PODS_COME_AND_GO)
    assert "D4" in play(0, TWO_PODS, plan=plan).invariants


def test_seven_of_twenty_seeds_of_the_swarm_have_watches_that_expire():
    drawn_kinds = [{step.what for step in make_plan(seed, swarm.drawn(seed, DEFAULT))} for seed in range(20)]
    assert sum("expire-watch" in kinds for kinds in drawn_kinds) == swarm.BESIDE["expire-watch"]


@pytest.mark.parametrize(("how", "kind"), [(0, "volumeattachments"), (1, "nodes"), (10, "pods")])
def test_watches_of_one_kind_come_late_and_all_others_in_time(
    monkeypatch: pytest.MonkeyPatch, how: int, kind: str
):
    written: dict[int, float] = {}
    latest: dict[str, float] = {}
    apply: Any = Informer.apply

    def note(cache: Any, event: Any) -> None:
        at = written.get(int(event.resource_version)) if event.object is not None else None
        if at is not None:
            late, resource = asyncio.get_running_loop().time() - at, cache.kind.RESOURCE.plural
            latest[resource] = max(latest.get(resource, 0.0), late)
        apply(cache, event)

    monkeypatch.setattr(Informer, "apply", note)
    plan = (PlanStep(60, "late-kind", "attaching", 100, how), *PODS_COME_AND_GO)

    def observe(trace: Trace) -> None:
        trace.listen("store.written", lambda event: written.update({event.fields["version"]: event.time}))

    assert play(0, TWO_PODS, plan=plan, observe=observe).violations == []
    assert {each for each, late in latest.items() if late > 10} == {kind}


def test_what_a_part_asks_for_seldom_is_lost_and_what_it_does_often_goes_well_soon():
    chance = Random(0)

    async def asks(which: RareRequests) -> bool:
        return which.strikes(chance)

    async def in_vain(which: RareRequests) -> bool:
        return await asks(which)

    async def story() -> tuple[list[bool], list[bool]]:
        which = RareRequests()
        often = [await asks(which) for _ in range(20)]
        return often, [await in_vain(which), await in_vain(which), await in_vain(which)]

    outcomes = [asyncio.run(story()) for _ in range(20)]
    for often, seldom in outcomes:
        assert not any(often[2:])
        assert not seldom[2]
    assert {sum(often) for often, _ in outcomes} == {sum(seldom) for _, seldom in outcomes} == {0, 1, 2}


def test_an_error_that_is_swallowed_once_in_a_run_is_found(monkeypatch: pytest.MonkeyPatch):
    original = Writes.store_error

    async def store_error(*given: Any) -> None:
        with suppress(KubeError):
            await original(*given)

    monkeypatch.setattr(Writes, "store_error", store_error)
    plan = (
        PlanStep(50, "lose-rare", "attaching", 250),
        PlanStep(60, "array-fails", "array", 200),
        *(PlanStep(at, "restart-set", "db") for at in (62, 150)),
    )
    assert any("D7" in play(seed, TWO_PODS, plan=plan).invariants for seed in range(3))


TWO_PODS_OF_CSI = replace(TWO_PODS, driver="csi")
UPSTREAM = (PlanStep(60, "upstream-attaches", "attaching"), PlanStep(150, "drain", "n0"))


def test_what_upstreams_controller_has_recorded_is_attached_and_taken_back_by_ours(
    monkeypatch: pytest.MonkeyPatch,
):
    found: list[str] = []
    original = Adoption._find

    def find(self: Adoption, record: VolumeAttachment, node: Node | None) -> str:
        found.append(original(self, record, node))
        return found[-1]

    monkeypatch.setattr(Adoption, "_find", find)
    outcome = play(0, TWO_PODS_OF_CSI, plan=UPSTREAM, lines=True)
    assert outcome.violations == []
    assert any(found)
    assert len(lines(outcome, "store.deleted", "volumeattachments")) > 2, (
        "ours of before, and one of upstream's"
    )


def test_a_controller_that_leaves_upstreams_records_alone_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Adoption, "_find", lambda self, record, node: "")
    assert play(0, TWO_PODS_OF_CSI, plan=UPSTREAM).invariants != []


def test_while_upstreams_controller_is_at_work_ours_is_not_and_the_workload_is_whole_again():
    outcome = play(0, TWO_PODS_OF_CSI, plan=UPSTREAM[:1], lines=True)
    assert outcome.violations == []
    assert len(lines(outcome, "truth.started")) == 4


def test_users_go_on_with_what_a_request_without_an_answer_has_made():
    """Found by the simulation (seed 74318 of the swarm): the namespace was there when the API server's disk
    worked again, and its user waited for the name to become free."""
    scenario = Scenario(nodes=2, sets={"log": 1}, workloads={"log": "tenant"}, minutes=14)
    plan = (PlanStep(60, "delete-namespace", "log"), PlanStep(60.45, "fail-store", "server", 20))
    assert play(0, scenario, plan=plan).violations == []
