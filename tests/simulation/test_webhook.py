"""An admission webhook that is down refuses what it is to be asked about, and nothing else."""

from __future__ import annotations

from collections import Counter

import pytest

from mooring.controllers.statefulset.controller import StatefulSetController
from mooring.kube.errors import KubeError
from mooring.kube.transport import Request
from mooring.simulation.cluster import swarm
from mooring.simulation.cluster.plan import make_plan
from mooring.simulation.cluster.scenario import DEFAULT, PlanStep, Scenario
from mooring.simulation.parts.webhook import KINDS, RULES, DeadWebhook, drawn
from mooring.simulation.run import play

PODS = "/api/v1/namespaces/default/pods"
CREATES, UPDATES, ALL = RULES


@pytest.mark.parametrize(
    ("method", "path", "refusing"),
    [
        ("POST", PODS, (CREATES, UPDATES, ALL)),
        ("PATCH", f"{PODS}/a", (UPDATES, ALL)),
        ("PUT", f"{PODS}/a", (UPDATES, ALL)),
        ("PATCH", f"{PODS}/a/status", (ALL,)),
        ("POST", f"{PODS}/a/binding", (ALL,)),
        ("DELETE", f"{PODS}/a", ()),
        ("GET", f"{PODS}/a", ()),
        ("GET", PODS, ()),
        ("POST", "/api/v1/persistentvolumes", ()),
    ],
)
def test_what_a_webhook_is_to_be_asked_about_is_refused(method: str, path: str, refusing: tuple[object, ...]):
    request = Request(method, path)
    for rule in RULES:
        assert DeadWebhook("pods", rule).refuses("placing", request) is (rule in refusing)
        assert not DeadWebhook("pods", rule).refuses("user", request)


def test_each_kind_has_a_webhook_of_each_rule():
    assert len({drawn(how) for how in range(12)}) == len(KINDS) * len(RULES) == 12
    assert DeadWebhook("volumeattachments", CREATES).refuses(
        "attaching", Request("POST", "/apis/storage.k8s.io/v1/volumeattachments")
    )


SCENARIO = Scenario(sets={"db": 2}, minutes=14, nodes=2)
PLAN = (PlanStep(60, "restart-set", "db"), PlanStep(61, "webhook-fails", "api", 60, 2))


def test_work_goes_on_when_the_webhook_answers_again(monkeypatch: pytest.MonkeyPatch):
    refused = Counter[str]()
    refuses = DeadWebhook.refuses

    def note(self: DeadWebhook, sender: str, request: Request) -> bool:
        answer = refuses(self, sender, request)
        refused[request.method] += answer
        return answer

    monkeypatch.setattr(DeadWebhook, "refuses", note)
    assert play(0, SCENARIO, plan=PLAN).violations == []
    assert refused["POST"] > 1


def test_work_that_goes_on_as_if_it_had_not_been_refused_is_found(monkeypatch: pytest.MonkeyPatch):
    create = StatefulSetController._create

    async def swallow(self: StatefulSetController, *asked: object) -> None:
        try:
            await create(self, *asked)  # type: ignore[arg-type]
        except KubeError:
            return

    monkeypatch.setattr(StatefulSetController, "_create", swallow)
    assert "P3" in play(0, SCENARIO, plan=PLAN).invariants


def test_six_of_twenty_seeds_of_the_swarm_have_a_webhook_that_fails():
    drawn_kinds = [{step.what for step in make_plan(seed, swarm.drawn(seed, DEFAULT))} for seed in range(20)]
    assert sum("webhook-fails" in kinds for kinds in drawn_kinds) == swarm.BESIDE["webhook-fails"]
