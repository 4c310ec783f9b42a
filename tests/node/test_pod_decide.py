"""The next thing to do about one pod."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from pod_volumes import pod_volumes

from mooring.kube.objects import Container, ContainerStatus, ObjectMeta, Pod, PodSpec, PodStatus
from mooring.kube.reason import Reason
from mooring.node.pods.decide import decide, next_attempt, outcome, refuse
from mooring.node.pods.ending import MINIMUM_GRACE_S, shrink
from mooring.node.pods.facts import Do, Facts, Memory, Plan, Request, Restart, Stop, Termination
from mooring.node.runtime import ContainerRecord, Sandbox

READY = pod_volumes(wanted=True, mounted={"data": "/x"})
grace = st.floats(0, 3600)


def make_pod(
    policy: str = "Always", init: tuple[str, ...] = (), deleting: bool = False, **metadata: Any
) -> Pod:
    return Pod(
        metadata=ObjectMeta(
            name="web-0", uid="u", deletion_timestamp="now" if deleting else None, **metadata
        ),
        spec=PodSpec(
            containers=(Container(name="main"),),
            init_containers=tuple(Container(name=name) for name in init),
            restart_policy=policy,
        ),
    )


def ran(code: int | None, *, attempt: int = 0, sandbox: int = 0, seconds: float = 1) -> ContainerRecord:
    end = None if code is None else 100 + seconds
    return ContainerRecord(attempt=attempt, started_at=100, finished_at=end, exit_code=code, sandbox=sandbox)


def sandbox_of(running: bool = True, number: int = 0, **containers: ContainerRecord) -> Sandbox:
    return Sandbox(running=running, number=number, containers=containers)


def actions(plan: Plan) -> list[Do]:
    return [action for action, _ in plan.actions]


def next_actions(facts: Facts, memory: Memory | None = None, now: float = 1000) -> list[Do]:
    return actions(decide(facts, memory or Memory(), now))


def test_a_new_pod_wants_its_volumes_first_then_a_sandbox_then_its_containers() -> None:
    pod = make_pod()
    assert next_actions(Facts(pod, None, pod_volumes())) == [Do.WANT_VOLUMES]
    waiting = pod_volumes(wanted=True, waiting={"data": ("Mounting", "")})  # type: ignore[dict-item]
    assert next_actions(Facts(pod, None, waiting)) == []
    assert next_actions(Facts(pod, None, READY)) == [Do.START_SANDBOX]
    assert next_actions(Facts(pod, sandbox_of(), READY)) == [Do.START_CONTAINER]
    assert next_actions(Facts(pod, sandbox_of(main=ran(None)), READY)) == []


def test_volumes_that_are_being_let_go_are_not_wanted_again_before_that_has_ended() -> None:
    assert next_actions(Facts(make_pod(), None, pod_volumes(held=True, releasing=True))) == []
    assert next_actions(Facts(make_pod(), None, pod_volumes(held=True))) == [Do.WANT_VOLUMES]


def test_a_stale_volume_ends_the_sandbox_and_is_then_let_go() -> None:
    stale = replace(READY, stale=True, held=True)
    assert next_actions(Facts(make_pod(), sandbox_of(main=ran(None)), stale)) == [Do.KILL]
    assert next_actions(Facts(make_pod(), sandbox_of(running=False, main=ran(137)), stale)) == [
        Do.RELEASE_VOLUMES
    ]


def test_a_request_for_a_container_is_repeated_only_after_a_while() -> None:
    facts = Facts(make_pod(), sandbox_of(), READY)
    first = decide(facts, Memory(), 0)
    assert next_actions(facts, first.memory, 1) == []
    assert first.wake_at is not None
    assert next_actions(facts, first.memory, first.wake_at) == [Do.START_CONTAINER]


def test_the_first_restart_is_immediate_and_the_next_ones_wait_longer_and_longer() -> None:
    memory, now, waited = Memory(), 1000.0, []
    for attempt in range(9):
        facts = Facts(make_pod(), sandbox_of(main=ran(1, attempt=attempt)), READY)
        plan = decide(facts, memory, now)
        seen, memory = now, plan.memory
        while Do.START_CONTAINER not in actions(plan):
            assert plan.wake_at is not None
            now = plan.wake_at
            plan = decide(facts, memory, now)
            memory = plan.memory
        waited.append(now - seen)
    assert waited == [0, 10, 20, 40, 80, 160, 300, 300, 300]


def test_a_container_that_ran_long_starts_its_backoff_anew() -> None:
    pod, memory = make_pod(), Memory()
    for attempt in range(3):
        facts = Facts(pod, sandbox_of(main=ran(1, attempt=attempt)), READY)
        memory = decide(facts, memory, 1000.0 * attempt).memory
    long_run = Facts(pod, sandbox_of(main=ran(1, attempt=3, seconds=600)), READY)
    assert next_actions(long_run, memory, 9000) == [Do.START_CONTAINER]


def test_init_containers_run_in_order_and_again_in_a_new_sandbox() -> None:
    pod = make_pod(init=("one", "two"))

    def started(**records: ContainerRecord) -> tuple[tuple[Do, str], ...]:
        return decide(Facts(pod, sandbox_of(number=1, **records), READY), Memory(), 0).actions

    assert started() == ((Do.START_CONTAINER, "one"),)
    assert started(one=ran(0, sandbox=0)) == ((Do.START_CONTAINER, "one"),)
    assert started(one=ran(None, sandbox=1)) == ()
    assert started(one=ran(0, sandbox=1)) == ((Do.START_CONTAINER, "two"),)
    assert started(one=ran(0, sandbox=1), two=ran(3, sandbox=1)) == ((Do.START_CONTAINER, "two"),)
    assert started(one=ran(0, sandbox=1), two=ran(0, sandbox=1)) == ((Do.START_CONTAINER, "main"),)


def test_outcomes_follow_the_restart_policy() -> None:
    def ended(policy: str, code: int | None) -> str | None:
        return outcome(Facts(make_pod(policy), sandbox_of(main=ran(code)), READY))

    assert [ended("Always", code) for code in (0, 1, None)] == [None, None, None]
    assert [ended("OnFailure", code) for code in (0, 1, None)] == ["Succeeded", None, None]
    assert [ended("Never", code) for code in (0, 1, None)] == ["Succeeded", "Failed", None]


def test_a_failed_init_container_fails_a_pod_that_is_not_restarted() -> None:
    failed = sandbox_of(one=ran(1))
    assert outcome(Facts(make_pod("Never", init=("one",)), failed, READY)) == "Failed"
    assert outcome(Facts(make_pod("OnFailure", init=("one",)), failed, READY)) is None


def test_attempts_go_on_from_the_status_if_the_records_were_lost() -> None:
    statuses = (ContainerStatus(name="main", restart_count=4, container_id="mooring://u/main/4"),)
    pod = Pod(
        spec=PodSpec(containers=(Container(name="main"),)), status=PodStatus(container_statuses=statuses)
    )
    assert next_attempt(pod, pod.spec.containers[0], None) == 5
    assert next_attempt(make_pod(), Container(name="main"), None) == 0
    assert next_attempt(pod, pod.spec.containers[0], ran(1, attempt=6)) == 7


# --- termination


@given(now=st.floats(0, 1e6), asked=grace)
def test_between_sigterm_and_sigkill_lie_two_seconds_at_least(now: float, asked: float) -> None:
    begun = shrink(None, now, asked)
    assert begun.deadline >= now + max(2.0, asked)


@given(first=grace, later=st.lists(st.tuples(st.floats(0, 100), grace)))
def test_grace_periods_only_shrink(first: float, later: list[tuple[float, float]]) -> None:
    termination = shrink(None, 0, first)
    now = 0.0
    for passed, asked in later:
        now += passed
        shorter = shrink(termination, now, asked)
        assert shorter.deadline <= termination.deadline
        assert shorter.deadline >= termination.signalled_at + MINIMUM_GRACE_S
        assert shorter.signalled_at == termination.signalled_at
        termination = shorter


def test_a_deleted_pod_is_signalled_once_then_killed_then_unmounted_then_removed() -> None:
    pod = make_pod(deleting=True, deletion_grace_period_seconds=30)
    alive = Facts(pod, sandbox_of(main=ran(None)), replace(READY, held=True))
    first = decide(alive, Memory(), 0)
    assert actions(first) == [Do.TERMINATE]
    assert first.wake_at == 30
    assert next_actions(alive, first.memory, 29.9) == []
    assert next_actions(alive, first.memory, 30) == [Do.KILL]
    dead = replace(alive, sandbox=sandbox_of(running=False, main=ran(137)))
    assert next_actions(dead, first.memory) == [Do.RELEASE_VOLUMES]
    held = replace(dead, volumes=pod_volumes(held=True))
    assert next_actions(held, first.memory) == [Do.RELEASE_VOLUMES]
    clean = replace(dead, volumes=pod_volumes())
    assert next_actions(clean, first.memory) == [Do.DELETE]
    assert next_actions(clean, decide(clean, first.memory, 40).memory) == []
    assert next_actions(replace(clean, pod=None), first.memory) == [Do.FORGET]


def test_what_is_in_the_volumes_of_a_pod_that_has_ended_stays_until_that_is_written() -> None:
    """Found by the simulation: an agent that was started anew ran an evicted pod again, with nothing in its
    emptyDir."""
    evicted = replace(READY, held=True, evicted=Reason("Evicted", "too much"))
    ended = Facts(make_pod(), sandbox_of(running=False, main=ran(137)), evicted)
    assert next_actions(ended) == []
    told = msgspec.structs.replace(make_pod(), status=PodStatus(phase="Failed"))
    assert next_actions(replace(ended, pod=told)) == [Do.RELEASE_VOLUMES]
    assert next_actions(replace(ended, pod=make_pod(deleting=True))) == [Do.RELEASE_VOLUMES]
    assert next_actions(replace(ended, shutting_down=True)) == [Do.RELEASE_VOLUMES]


def test_of_a_start_that_failed_nothing_is_remembered_and_all_that_was_done_before_it() -> None:
    """An agent forgot all of it, for as long as one container could not be made: the back-off of the others,
    whose hook was to run, who had been told to end."""
    before = Memory(requested={"b": Request(0, 1.0), "c": Request(0, 2.0)})
    planned = Memory(
        restarts={"a": Restart(0, 5.0, 10.0)},
        requested={name: Request(1, 9.0) for name in "abcd"},
        stops={"e": Stop(0, 30.0)},
    )
    starts = tuple((Do.START_CONTAINER, name) for name in "abd")
    plan = Plan(((Do.STOP_CONTAINER, "e"), *starts), planned)
    assert plan.remembered(before, 4, {}) == planned
    asked = {"a": Request(1, 9.0), "b": Request(0, 1.0), "c": Request(1, 9.0)}
    assert plan.remembered(before, 2, {}) == replace(planned, requested=asked)
    assert plan.remembered(before, 0, {}) == before
    assert Plan(((Do.DELETE, ""),), replace(planned, deleted=True)).remembered(before, 0, {}) == before


def test_a_container_that_could_not_be_made_has_not_been_asked_for_and_is_tried_again_after_a_backoff() -> (
    None
):
    facts = Facts(make_pod(), sandbox_of(), READY)
    memory, delays, now = Memory(), list[float](), 1000.0
    for _ in range(7):
        plan = decide(facts, memory, now)
        assert actions(plan) == [Do.START_CONTAINER]
        refusal = refuse(plan.memory.refused.get("main"), now)
        memory = plan.remembered(memory, 1, {"main": refusal})
        assert memory.requested == {}
        early = decide(facts, memory, refusal.due - 0.1)
        assert (early.actions, early.wake_at) == ((), refusal.due)
        delays.append(refusal.due - now)
        now = refusal.due
    assert delays == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    runs = decide(replace(facts, sandbox=sandbox_of(main=ran(None))), memory, now)
    assert runs.memory.refused == {}


def test_containers_that_have_all_ended_are_not_waited_for() -> None:
    pod = make_pod(deleting=True, deletion_grace_period_seconds=30)
    assert next_actions(Facts(pod, sandbox_of(main=ran(0)), READY)) == [Do.KILL]


def test_a_container_that_was_asked_for_and_does_not_show_yet_gets_its_grace_period() -> None:
    running = Facts(make_pod(), sandbox_of(), READY)
    memory = decide(running, Memory(), 0).memory
    deleted = replace(running, pod=make_pod(deleting=True, deletion_grace_period_seconds=30))
    assert next_actions(deleted, memory, 1) == [Do.TERMINATE]


def test_a_restarted_agent_starts_the_grace_period_anew() -> None:
    pod = make_pod(deleting=True, deletion_grace_period_seconds=30)
    alive = Facts(pod, sandbox_of(main=ran(None)), READY)
    assert decide(alive, Memory(), 500).memory.termination == Termination(500, 530)


@st.composite
def facts(draw: st.DrawFn) -> Facts:
    records = {"main": ran(draw(st.sampled_from([None, 0, 1])))} if draw(st.booleans()) else {}
    pod = make_pod(draw(st.sampled_from(["Always", "OnFailure", "Never"])), deleting=draw(st.booleans()))
    volumes = pod_volumes(
        wanted=draw(st.booleans()),
        held=draw(st.booleans()),
        stale=draw(st.booleans()),
        releasing=draw(st.booleans()),
    )
    return Facts(
        pod if draw(st.booleans()) else None,
        sandbox_of(running=draw(st.booleans()), **records) if draw(st.booleans()) else None,
        volumes,
        shutting_down=draw(st.booleans()),
    )


@given(facts())
def test_volumes_are_let_go_and_pods_removed_only_when_no_process_is_left(known: Facts) -> None:
    done = set(next_actions(known))
    if done & {Do.RELEASE_VOLUMES, Do.DELETE, Do.FORGET}:
        assert not known.running
    if done & {Do.DELETE, Do.FORGET}:
        assert not known.volumes.wanted
        assert not known.volumes.held


@given(facts())
def test_nothing_is_started_for_a_pod_that_is_to_end(known: Facts) -> None:
    if known.pod is None or known.pod.deleting or known.shutting_down:
        assert not set(next_actions(known)) & {Do.START_SANDBOX, Do.START_CONTAINER, Do.WANT_VOLUMES}
