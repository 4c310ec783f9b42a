"""Eviction: a pod goes as its disruption budgets allow."""

from __future__ import annotations

import asyncio

import pytest

PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
STATEFULSETS = "/apis/apps/v1/namespaces/default/statefulsets"
LABELS = {"app": "web"}


async def running(api, *names, owner=None):
    for name in names:
        await api.pod(name, node="n", labels=LABELS, ownerReferences=[owner] if owner else [])
        ready = [{"type": "Ready", "status": "True"}]
        await api.patch(f"{PODS}/{name}/status", {"status": {"phase": "Running", "conditions": ready}})


async def budget(api, name="web", **spec):
    return await api.create(
        BUDGETS, {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": LABELS}, **spec}}
    )


def evict(api, name="p", **options):
    return api.create(f"{PODS}/{name}/eviction", {"metadata": {"name": name}, **options})


def test_a_pod_without_a_budget_is_evicted_gracefully(serve):
    async def story(api):
        await running(api, "p")
        assert (await evict(api))["code"] == 201
        assert (await api.get(f"{PODS}/p"))["metadata"]["deletionGracePeriodSeconds"] == 30
        await evict(api, deleteOptions={"gracePeriodSeconds": 0})
        await api.refused(404, api.get(f"{PODS}/p"))

    serve(story)


def test_a_budget_that_needs_the_pod_refuses(serve):
    async def story(api):
        await running(api, "p")
        await budget(api, minAvailable=1)
        refusal = await api.refused(429, evict(api))
        assert refusal.reason == "TooManyRequests"
        assert refusal.message == "Cannot evict pod as it would violate the pod's disruption budget."
        assert refusal.status["details"]["causes"] == [
            {
                "reason": "DisruptionBudget",
                "message": "The disruption budget web needs 1 healthy pods and has 1 currently",
            }
        ]
        assert "deletionTimestamp" not in (await api.get(f"{PODS}/p"))["metadata"]

    serve(story)


def test_evictions_at_once_do_not_together_break_a_budget(serve):
    async def story(api):
        await running(api, "a", "b", "c")
        await budget(api, minAvailable=2)
        results = await asyncio.gather(*(evict(api, name) for name in "abc"), return_exceptions=True)
        assert sum(isinstance(result, dict) for result in results) == 1

    serve(story)


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [({"maxUnavailable": 1}, 1), ({"minAvailable": "50%"}, 2), ({"maxUnavailable": "50%"}, 2)],
)
def test_a_budget_counts_against_what_the_controller_wants(serve, spec, allowed):
    async def story(api):
        made = await api.create(STATEFULSETS, api.new_statefulset(replicas=4))
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "controller": True}
        await running(api, "a", "b", "c", "d", owner=owner | {"uid": made["metadata"]["uid"]})
        await budget(api, **spec)
        results = [await asyncio.gather(evict(api, name), return_exceptions=True) for name in "abcd"]
        assert [isinstance(result, dict) for [result] in results].count(True) == allowed

    serve(story)


def test_a_pod_that_is_not_ready_does_not_help_its_budget(serve):
    """Upstream's IfHealthyBudget: it may go if the budget is healthy without it."""

    async def story(api):
        await running(api, "a", "b")
        await api.patch(f"{PODS}/b/status", {"status": {"conditions": []}})
        await budget(api, minAvailable=1)
        await evict(api, "b")
        await api.refused(429, evict(api, "a"))

    serve(story)


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
def test_a_pod_that_does_not_run_needs_no_budget(serve, phase):
    async def story(api):
        await running(api, "p")
        await api.patch(f"{PODS}/p/status", {"status": {"phase": phase}})
        await budget(api, minAvailable=1)
        await evict(api)

    serve(story)


def test_the_count_of_a_disruption_controller_is_spent(serve):
    async def story(api):
        await running(api, "a", "b")
        await budget(api, minAvailable=0)
        counted = {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1}
        await api.patch(f"{BUDGETS}/web/status", {"status": counted})
        await evict(api, "a")
        status = (await api.get(f"{BUDGETS}/web"))["status"]
        assert status["disruptionsAllowed"] == 0
        assert status["disruptedPods"] == {"a": "2030-01-01T00:00:00Z"}
        await api.refused(429, evict(api, "b"))
        await api.patch(f"{BUDGETS}/web", {"spec": {"minAvailable": 1}})
        refusal = await api.refused(429, evict(api, "b"))
        assert "still being processed by the server" in refusal.status["details"]["causes"][0]["message"]
        assert refusal.status["details"]["retryAfterSeconds"] == 10

    serve(story)


def test_two_budgets_on_one_pod_are_an_error(serve):
    async def story(api):
        await running(api, "p")
        await budget(api, "one", minAvailable=0)
        await budget(api, "two", minAvailable=0)
        refusal = await api.refused(500, evict(api))
        assert "more than one PodDisruptionBudget" in refusal.message

    serve(story)


def test_an_eviction_is_of_the_pod_that_its_path_names(serve):
    async def story(api):
        await running(api, "p")
        await api.refused(400, api.create(f"{PODS}/p/eviction", {"metadata": {"name": "q"}}))
        await api.refused(409, evict(api, deleteOptions={"preconditions": {"uid": "other"}}))
        await evict(api, deleteOptions={"dryRun": ["All"]})
        assert "deletionTimestamp" not in (await api.get(f"{PODS}/p"))["metadata"]

    serve(story)
