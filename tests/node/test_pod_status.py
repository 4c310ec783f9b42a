"""What a pod's status says."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from pod_volumes import pod_volumes

from mooring.kube.objects import Condition, Container, ObjectMeta, Pod, PodSpec, PodStatus
from mooring.kube.reason import Reason
from mooring.kube.times import parse_time
from mooring.node.pods.facts import Facts, Memory, Restart
from mooring.node.pods.status import Surroundings, is_ahead, pod_status
from mooring.node.runtime import ContainerRecord, Sandbox
from mooring.node.volumes.decide import PodVolumes

NOW = "2030-01-01T00:00:00Z"
AROUND = Surroundings("10.0.0.1", NOW, {})
READY = pod_volumes(wanted=True)


def make_pod(policy: str = "Always", init: bool = False, **status: Any) -> Pod:
    return Pod(
        metadata=ObjectMeta(name="web-0", namespace="default", uid="u", generation=3),
        spec=PodSpec(
            containers=(Container(name="main", image="app"),),
            init_containers=(Container(name="init", image="app"),) if init else (),
            restart_policy=policy,
        ),
        status=PodStatus(**status),
    )


def record(code: int | None = None, **fields: Any) -> ContainerRecord:
    end = None if code is None else 10.0
    return ContainerRecord(
        **{"attempt": 0, "started_at": 1.0, "finished_at": end, "exit_code": code, **fields}
    )


def facts(pod: Pod, running: bool = True, volumes: PodVolumes = READY, **records: ContainerRecord) -> Facts:
    return Facts(pod, Sandbox(running=running, containers=records) if records else None, volumes)


def status_of(known: Facts, memory: Memory | None = None, around: Surroundings = AROUND) -> dict[str, Any]:
    return pod_status(known, memory or Memory(), around)


def state(status: dict[str, Any]) -> dict[str, Any]:
    return status["containerStatuses"][0]["state"]


def conditions(status: dict[str, Any]) -> dict[str, str]:
    return {condition["type"]: condition["status"] for condition in status["conditions"]}


def test_a_pod_that_waits_for_a_volume_says_which_and_why() -> None:
    waiting = pod_volumes(wanted=True, waiting={"data": Reason("WaitingForAttach", "not attached yet")})
    status = status_of(facts(make_pod(), volumes=waiting))
    assert status["phase"] == "Pending"
    assert state(status) == {
        "waiting": {"reason": "ContainerCreating", "message": "volume data: not attached yet"}
    }


def test_a_running_pod_is_ready_and_has_the_nodes_address() -> None:
    status = status_of(facts(make_pod(), main=record()))
    assert status["phase"] == "Running"
    assert status["podIP"] == status["hostIP"] == "10.0.0.1"
    assert conditions(status) == {"Initialized": "True", "ContainersReady": "True", "Ready": "True"}


def test_containers_behind_init_containers_are_initializing() -> None:
    status = status_of(facts(make_pod(init=True), init=record()))
    assert state(status)["waiting"]["reason"] == "PodInitializing"
    assert conditions(status)["Initialized"] == "False"
    assert status["phase"] == "Pending"


@pytest.mark.parametrize("known", [{}, {"init": record()}])
def test_the_init_containers_that_have_not_ended_are_named(known: dict[str, Any]) -> None:
    status = status_of(facts(make_pod(init=True), **known))
    (condition,) = (each for each in status["conditions"] if each["type"] == "Initialized")
    assert condition["reason"] == "ContainersNotInitialized"
    assert condition["message"] == "containers with incomplete status: [init]"


def test_every_container_that_waits_in_a_pod_with_init_containers_says_that_the_pod_initializes() -> None:
    status = status_of(facts(make_pod(init=True)))
    assert status["initContainerStatuses"][0]["state"]["waiting"]["reason"] == "PodInitializing"
    assert state(status)["waiting"]["reason"] == "PodInitializing"
    assert state(status_of(facts(make_pod())))["waiting"]["reason"] == "ContainerCreating"


def test_the_status_and_each_condition_name_the_generation_that_they_are_of() -> None:
    status = status_of(facts(make_pod(), main=record()))
    assert status["observedGeneration"] == 3
    assert {condition["observedGeneration"] for condition in status["conditions"]} == {3}


def test_a_container_in_its_backoff_says_so_and_the_pod_stays_running() -> None:
    memory = Memory(restarts={"main": Restart(attempt=2, ended_at=0, delay=20)})
    status = status_of(facts(make_pod(), main=record(3, attempt=2)), memory)
    assert state(status)["waiting"]["reason"] == "CrashLoopBackOff"
    assert "back-off 20s" in state(status)["waiting"]["message"]
    assert status["containerStatuses"][0]["restartCount"] == 2
    assert status["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 3
    assert status["phase"] == "Running"


def test_a_start_error_names_its_cause() -> None:
    status = status_of(facts(make_pod("Never"), main=record(128, error="command 'x' does not exist")))
    terminated = state(status)["terminated"]
    assert (terminated["reason"], terminated["exitCode"]) == ("StartError", 128)
    assert terminated["message"] == "command 'x' does not exist"
    assert status["phase"] == "Failed"


def test_a_container_that_cannot_be_made_says_why() -> None:
    problems = {"main": Reason("CreateContainerConfigError", "Secret 's' does not exist")}
    status = status_of(facts(make_pod()), around=Surroundings("", NOW, problems))
    assert state(status)["waiting"] == {
        "reason": "CreateContainerConfigError",
        "message": "Secret 's' does not exist",
    }


def test_the_attempt_before_is_the_last_state() -> None:
    status = status_of(facts(make_pod(), main=record(attempt=1, last=record(7))))
    assert status["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 7


def test_a_phase_that_is_final_is_kept() -> None:
    assert status_of(facts(make_pod(phase="Failed"), running=False, main=record(0)))["phase"] == "Failed"


def test_a_pod_that_ran_is_not_pending_again_when_its_machine_has_lost_its_containers() -> None:
    assert status_of(facts(make_pod(phase="Running"), running=False))["phase"] == "Running"


def test_the_time_of_a_condition_is_kept_while_it_does_not_change() -> None:
    held = Condition(type="Ready", status="True", last_transition_time="2029-01-01T00:00:00Z")
    lost = Condition(type="ContainersReady", status="False", last_transition_time="2029-01-01T00:00:00Z")
    status = status_of(facts(make_pod(conditions=(held, lost)), main=record()))
    times = {condition["type"]: condition["lastTransitionTime"] for condition in status["conditions"]}
    assert times["Ready"] == "2029-01-01T00:00:00Z"
    assert times["ContainersReady"] == NOW


@pytest.mark.parametrize("status", ["True", "False"])
def test_a_time_of_a_condition_that_has_not_come_was_said_by_a_wrong_clock_and_is_not_kept(
    status: str,
) -> None:
    others = Condition(type="PodScheduled", status="True", last_transition_time="2030-01-01T05:00:00Z")
    held = Condition(type="Ready", status=status, last_transition_time="2030-01-01T01:00:00Z")
    pod = make_pod(conditions=(others, held))
    found = status_of(facts(pod, main=record()))
    times = {condition["type"]: condition["lastTransitionTime"] for condition in found["conditions"]}
    assert times["Ready"] == NOW
    now = parse_time(NOW)
    assert [is_ahead(pod, now + timedelta(hours=hours)) for hours in (0, 1)] == [True, False]


def test_the_same_facts_give_the_same_status() -> None:
    known = facts(make_pod(), main=record())
    assert status_of(known) == status_of(known)


def test_a_pod_has_no_address_before_its_sandbox_and_then_its_own() -> None:
    assert "podIP" not in status_of(facts(make_pod()))
    known = Facts(
        make_pod(), Sandbox(running=True, address="10.88.1.2", containers={"main": record()}), READY
    )
    status = status_of(known)
    assert (status["podIP"], status["podIPs"], status["hostIP"]) == (
        "10.88.1.2",
        [{"ip": "10.88.1.2"}],
        "10.0.0.1",
    )


def test_a_pod_is_ready_when_its_gates_are_open() -> None:
    for gate, ready in (("False", "False"), ("True", "True")):
        pod = make_pod(conditions=(Condition(type="example.com/gate", status=gate),))
        gated = replace(pod.spec, readiness_gates=({"conditionType": "example.com/gate"},))
        status = status_of(facts(replace(pod, spec=gated), main=record()))
        assert conditions(status)["Ready"] == ready
        assert conditions(status)["ContainersReady"] == "True"


def test_last_words_and_deadlines_are_told() -> None:
    ended = record(1, message="out of ideas")
    status = status_of(facts(make_pod("Never"), main=ended))
    assert state(status)["terminated"]["message"] == "out of ideas"
    overdue = Facts(make_pod(), None, READY, overdue=True)
    assert (status_of(overdue)["phase"], status_of(overdue)["reason"]) == ("Failed", "DeadlineExceeded")


EVICTED = pod_volumes(wanted=True, evicted=Reason("Evicted", "it uses more than it may"))


@pytest.mark.parametrize(
    ("policy", "records", "over"),
    [
        ("Always", {"main": record()}, {"overdue": True}),
        ("Always", {"main": record()}, {"volumes": EVICTED}),
        ("Never", {"main": record(0), "helper": record()}, {}),
        ("Never", {"main": record(1), "helper": record()}, {}),
    ],
    ids=["past its deadline", "evicted", "succeeded, with a sidecar", "failed, with a sidecar"],
)
def test_a_pod_has_not_ended_as_long_as_one_of_its_containers_runs(
    policy: str, records: dict[str, ContainerRecord], over: dict[str, Any]
) -> None:
    """Others take one that has ended for one that writes nothing any more: its claim, its name, its disk."""
    known = dataclasses.replace(facts(make_pod(policy, phase="Running"), **records), **over)
    assert status_of(known)["phase"] == "Running"
    assert "reason" not in status_of(known)
    ended = {name: each if each.exit_code is not None else record(137) for name, each in records.items()}
    known = dataclasses.replace(facts(make_pod(policy, phase="Running"), **ended), **over)
    assert status_of(known)["phase"] == ("Succeeded" if ended["main"].exit_code == 0 else "Failed")


def test_a_pod_whose_machine_has_lost_its_containers_has_ended_without_a_word_of_theirs() -> None:
    known = dataclasses.replace(facts(make_pod(), running=False, main=record()), overdue=True)
    assert status_of(known)["phase"] == "Failed"
