"""What is decided about a job's pods, and how they are counted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from mooring.controllers.job.backoff import Backoff
from mooring.controllers.job.decide import Action, Plan, decide
from mooring.controllers.job.indexes import INDEX, parse, text_of
from mooring.controllers.job.pod_body import pod_body, pod_name
from mooring.controllers.job.status import next_status, patch_of
from mooring.controllers.job.view import TRACKING, View
from mooring.kube.objects import Job, JobStatus, ObjectMeta, Pod
from mooring.kube.times import format_time

NOW = datetime(2026, 1, 1, tzinfo=UTC)
replace = msgspec.structs.replace


def job(status: dict[str, Any] | None = None, **spec: Any) -> Job:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}}
    body = {
        "metadata": {"name": "j", "namespace": "ns", "uid": "u"},
        "spec": {"completions": 1, "template": template, **spec},
        "status": status or {},
    }
    return msgspec.convert(body, Job)


def pod(
    name: str,
    phase: str = "Running",
    *,
    tracked: bool = True,
    deleting: bool = False,
    index: int | None = None,
    placed: bool = True,
) -> Pod:
    metadata: dict[str, Any] = {"name": name, "namespace": "ns", "uid": name}
    metadata["finalizers"] = [TRACKING] if tracked else []
    if deleting:
        metadata["deletionTimestamp"] = format_time(NOW)
    if index is not None:
        metadata["annotations"] = {INDEX: str(index)}
    spec = {"nodeName": "n" if placed else ""}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": {"phase": phase}}, Pod)


def plan(of: Job, *pods: Pod, backoff: Backoff | None = None) -> Plan:
    return decide(View(of, pods), backoff or Backoff(), NOW)


def done(of: Job, *pods: Pod, backoff: Backoff | None = None) -> list[tuple[Action, Any]]:
    found = plan(of, *pods, backoff=backoff).decisions
    return [(each.action, each.pod.name if each.pod is not None else each.index) for each in found]


def test_no_more_pods_run_than_successes_are_missing():
    succeeded = job({"succeeded": 2}, completions=3, parallelism=3)
    assert done(succeeded) == [(Action.CREATE, None)]


def test_a_deadline_that_is_meant_as_none_keeps_no_job_from_running():
    endless = job({"startTime": format_time(NOW)}, activeDeadlineSeconds=2**63 - 1)
    assert done(endless) == [(Action.CREATE, None)]


def test_a_pod_keeps_its_finalizer_until_its_end_is_noted():
    ended = pod("p", "Succeeded")
    assert done(job(), ended) == []
    noted = job({"uncountedTerminatedPods": {"succeeded": ["p"]}})
    assert done(noted, ended) == [(Action.UNTRACK, "p")]


def test_a_surplus_pod_is_given_up_before_it_is_deleted_so_that_it_does_not_count():
    found = done(job({"succeeded": 0}, parallelism=1), pod("a"), pod("b", "Pending", placed=False))
    assert found == [(Action.UNTRACK, "b"), (Action.DELETE, "b")]


def test_a_pod_that_was_given_up_is_deleted_by_the_next_controller():
    assert done(job(), pod("a"), pod("b", tracked=False)) == [(Action.DELETE, "b")]


def test_a_terminating_pod_keeps_its_place_only_with_the_policy_failed():
    ending = pod("p", deleting=True)
    assert done(job(podReplacementPolicy="Failed"), ending) == []
    assert done(job(podReplacementPolicy="TerminatingOrFailed"), ending) == [(Action.CREATE, None)]


def test_an_index_of_a_terminating_pod_is_not_given_to_another_with_the_policy_failed():
    indexed = job(completionMode="Indexed", completions=3, parallelism=3, podReplacementPolicy="Failed")
    assert done(indexed, pod("p", deleting=True, index=0)) == [(Action.CREATE, 1), (Action.CREATE, 2)]


def test_a_second_pod_of_an_index_goes():
    indexed = job(completionMode="Indexed", completions=2, parallelism=2)
    found = done(indexed, pod("a", index=0), pod("b", "Pending", index=0, placed=False), pod("c", index=1))
    assert found == [(Action.UNTRACK, "b"), (Action.DELETE, "b")]


def test_pods_of_a_failed_job_are_deleted_only_when_the_failure_is_stored():
    condition = {"type": "FailureTarget", "status": "True", "reason": "BackoffLimitExceeded"}
    failed = {"failed": 7}
    assert done(job(failed), pod("p")) == []
    assert done(job({**failed, "conditions": [condition]}), pod("p")) == [(Action.DELETE, "p")]


def test_nothing_is_made_for_a_job_that_is_being_deleted_and_its_pods_are_let_go():
    going = job()
    going = replace(going, metadata=replace(going.metadata, deletion_timestamp=format_time(NOW)))
    assert done(going, pod("p")) == [(Action.UNTRACK, "p")]


def test_the_backoff_is_waited_for():
    backoff = Backoff(3, NOW - timedelta(seconds=15))
    assert plan(job(), backoff=backoff) == Plan((), 25.0)
    assert Backoff(20, NOW).remaining(NOW) == 600


def test_a_success_ends_the_backoff():
    assert Backoff(5, NOW).after([pod("p", "Succeeded")], []) == Backoff()


def test_a_work_queue_starts_no_pods_after_the_first_success_and_ends_with_its_last():
    queue = job({"succeeded": 1}, completions=None, parallelism=3)
    assert done(queue, pod("a")) == []
    assert not next_status(View(queue, [pod("a")]), NOW).conditions
    conditions = next_status(View(queue, []), NOW).conditions
    assert [each.type for each in conditions] == ["SuccessCriteriaMet"]


def test_a_job_is_complete_when_no_pod_is_ending_any_more():
    met = {"type": "SuccessCriteriaMet", "status": "True", "reason": "CompletionsReached"}
    reached = job({"succeeded": 1, "conditions": [met]})
    waiting = next_status(View(reached, [pod("p", tracked=False, deleting=True)]), NOW)
    assert [each.type for each in waiting.conditions] == ["SuccessCriteriaMet"]
    assert [each.type for each in next_status(View(reached, []), NOW).conditions][-1] == "Complete"


def test_the_pod_of_an_index_keeps_a_variable_that_the_user_set_and_its_name_fits():
    template = {
        "spec": {"containers": [{"name": "c", "env": [{"name": "JOB_COMPLETION_INDEX", "value": "x"}]}]}
    }
    made = job(template=template)
    made = replace(made, metadata=ObjectMeta(name="j" * 63, uid="u"))
    name = pod_name(made, 12, 3)
    body = pod_body(made, 12, name)
    assert body["metadata"]["name"] == name
    assert (name[:58], len(name)) == ("j" * 54 + "-12-", 63)
    assert body["spec"]["containers"][0]["env"] == [{"name": "JOB_COMPLETION_INDEX", "value": "x"}]


def test_a_name_that_is_cut_after_a_dot_is_one_all_the_same():
    made = replace(job(), metadata=ObjectMeta(name="j" * 56 + ".of.day", uid="u"))
    assert pod_name(made, None, 3).startswith("j" * 56 + "-")


@given(st.sets(st.integers(0, 40)))
def test_indexes_are_read_as_they_were_written(indexes: set[int]):
    assert parse(text_of(indexes), 41) == indexes


def _without_nulls(body: dict[str, Any]) -> dict[str, Any]:
    """What a merge patch leaves in an empty object."""
    return {
        key: _without_nulls(value) if isinstance(value, dict) else value
        for key, value in body.items()
        if value is not None
    }


class JobUnderCrashes:
    """What is stored: a job and its pods. The controller's writes and what happens to pods come in any
    order; the controller may end after any of its writes."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.job = job(parallelism=3, backoffLimit=50, **spec)
        self.pods: dict[str, Pod] = {}
        self.ended: dict[str, str] = {}
        self.given_up: set[str] = set()
        self.made = 0

    def step(self, writes: int) -> bool:
        """One step of the controller, which ends after so many writes. Whether it wrote less."""
        decisions = decide(View(self.job, list(self.pods.values())), Backoff(), NOW).decisions
        for each in decisions:
            if writes == 0:
                return False
            writes -= 1
            if each.action is Action.CREATE:
                name = f"p{self.made}"
                self.made += 1
                self.pods[name] = pod(name, "Running", index=each.index)
            elif each.pod is not None and each.action is Action.UNTRACK:
                if not self.pods[each.pod.uid].finished:
                    self.given_up.add(each.pod.uid)
                self._put(each.pod.uid, finalizers=())
            elif each.pod is not None:
                self._put(each.pod.uid, deletion_timestamp=format_time(NOW))
        status = next_status(View(self.job, list(self.pods.values())), NOW)
        if status == self.job.status or writes == 0:
            return status == self.job.status and not decisions
        stored = msgspec.convert(_without_nulls(patch_of(status)), JobStatus)
        assert stored == status
        self.job = replace(self.job, status=stored)
        return False

    def _put(self, uid: str, **metadata: Any) -> None:
        held = self.pods[uid]
        self.pods[uid] = replace(held, metadata=replace(held.metadata, **metadata))
        self._collect()

    def _collect(self) -> None:
        gone = [uid for uid, each in self.pods.items() if each.deleting and each.finished]
        for uid in gone:
            if not self.pods[uid].metadata.finalizers:
                del self.pods[uid]

    def happen(self, number: int, phase: str) -> None:
        """A pod ends, or (phase "") is deleted by a user."""
        running = [uid for uid, each in self.pods.items() if not each.finished]
        if not running:
            return
        uid = running[number % len(running)]
        if not phase:
            self._put(uid, deletion_timestamp=format_time(NOW))
            return
        self.ended[uid] = phase
        self.pods[uid] = replace(self.pods[uid], status=replace(self.pods[uid].status, phase=phase))
        self._collect()

    def settle(self) -> None:
        for _ in range(200):
            if self.step(100):
                if any(each.type == "Complete" for each in self.job.status.conditions):
                    return
                self.happen(0, "Succeeded")
        raise AssertionError(f"the job does not end: {self.job.status}")


EVENTS = st.one_of(
    st.tuples(st.just("step"), st.integers(0, 4)),
    st.tuples(st.sampled_from(["Succeeded", "Failed", ""]), st.integers(0, 5)),
)
SPECS = st.fixed_dictionaries(
    {
        "completions": st.integers(1, 4),
        "completionMode": st.sampled_from(["NonIndexed", "Indexed"]),
        "podReplacementPolicy": st.just("Failed"),
    }
)


@given(SPECS, st.lists(EVENTS, max_size=40))
def test_every_ended_pod_is_counted_exactly_once_whatever_the_order_of_crashes(
    spec: dict[str, Any], events: list[tuple[str, int]]
):
    world = JobUnderCrashes(spec)
    for what, number in events:
        if what == "step":
            world.step(number)
        else:
            world.happen(number, what)
    world.settle()
    counted = [phase for uid, phase in world.ended.items() if uid not in world.given_up]
    status = world.job.status
    assert status.failed == counted.count("Failed")
    if spec["completionMode"] == "NonIndexed":
        assert status.succeeded == counted.count("Succeeded")
    assert status.succeeded >= spec["completions"]
    assert not status.uncounted_terminated_pods.succeeded
    assert not status.uncounted_terminated_pods.failed


def test_a_failure_that_lies_in_the_future_delays_the_next_pod_by_no_more_than_its_backoff():
    backoff = Backoff(2, NOW + timedelta(hours=1)).seen_at(NOW)
    assert backoff.remaining(NOW) == 20
    assert backoff.seen_at(NOW + timedelta(seconds=20)).remaining(NOW + timedelta(seconds=20)) == 0
