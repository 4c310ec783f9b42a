"""Eviction: a pod goes as its disruption budgets allow."""

from __future__ import annotations

import asyncio

import pytest

PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
LABELS = {"app": "web"}


async def running(api, *names, owner=None):
    for name in names:
        await api.pod(name, node="n", labels=LABELS, ownerReferences=[owner] if owner else [])
        ready = [{"type": "Ready", "status": "True"}]
        await api.patch(f"{PODS}/{name}/status", {"status": {"phase": "Running", "conditions": ready}})


async def budget(api, name="web", *, current=0, desired=0, **spec):
    """A budget that a disruption controller has counted."""
    await api.create(
        BUDGETS, {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": LABELS}, **spec}}
    )
    counts = {"currentHealthy": current, "desiredHealthy": desired, "disruptionsAllowed": current - desired}
    return await api.patch(f"{BUDGETS}/{name}/status", {"status": counts | {"observedGeneration": 1}})


def evict(api, name="p", **options):
    return api.create(f"{PODS}/{name}/eviction", {"metadata": {"name": name}, **options})


async def is_going(api, name):
    """Whether the pod is gone, or being deleted."""
    found = (await api.get(PODS))["items"]
    return all("deletionTimestamp" in pod["metadata"] for pod in found if pod["metadata"]["name"] == name)


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
        await budget(api, current=1, desired=1, minAvailable=1)
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
        await budget(api, current=3, desired=2, minAvailable=2)
        results = await asyncio.gather(*(evict(api, name) for name in "abc"), return_exceptions=True)
        assert sum(isinstance(result, dict) for result in results) == 1

    serve(story)


def test_a_budget_that_no_controller_has_counted_yet_says_to_come_again(serve):
    async def story(api):
        await running(api, "p")
        spec = {"selector": {"matchLabels": LABELS}, "minAvailable": 0}
        await api.create(BUDGETS, {"metadata": {"name": "web"}, "spec": spec})
        refusal = await api.refused(429, evict(api))
        assert refusal.status["details"]["retryAfterSeconds"] == 10
        assert "deletionTimestamp" not in (await api.get(f"{PODS}/p"))["metadata"]

    serve(story)


def test_a_budget_whose_count_failed_says_why(serve):
    async def story(api):
        await running(api, "p")
        await budget(api, maxUnavailable=1)
        condition = {
            "type": "DisruptionAllowed",
            "status": "False",
            "reason": "SyncFailed",
            "message": 'found no controllers for pod "p"',
            "lastTransitionTime": "2030-01-01T00:00:00Z",
        }
        await api.patch(f"{BUDGETS}/web/status", {"status": {"conditions": [condition]}})
        [cause] = (await api.refused(429, evict(api))).status["details"]["causes"]
        assert cause["message"].endswith('because it failed sync: found no controllers for pod "p"')

    serve(story)


def test_a_pod_that_is_not_ready_does_not_help_its_budget(serve):
    """Upstream's IfHealthyBudget: it may go if the budget is healthy without it."""

    async def story(api):
        await running(api, "a", "b")
        await api.patch(f"{PODS}/b/status", {"status": {"conditions": []}})
        await budget(api, current=1, desired=1, minAvailable=1)
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
        assert await is_going(api, "p")

    serve(story)


def test_the_count_of_a_disruption_controller_is_spent(serve):
    async def story(api):
        await running(api, "a", "b")
        await budget(api, current=2, desired=1, minAvailable=0)
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
