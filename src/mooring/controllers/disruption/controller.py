"""The disruption controller. A key is a PodDisruptionBudget, or a pod whose condition may be stale.

The API server spends what the status allows, so each write carries the resourceVersion of the budget that was
counted: an eviction that is granted meanwhile makes the write fail, and the count is made anew.
"""

from __future__ import annotations

from random import Random
from typing import ClassVar, assert_never

from mooring.controllers.disruption.decide import (
    STALE_CONDITION_S,
    Action,
    BudgetDecision,
    decide,
    decide_uncounted,
    needs_scales,
    said_to_go,
    selector_of,
    unmanaged,
)
from mooring.controllers.disruption.scales import NoScale, Scales
from mooring.kube.client import Client
from mooring.kube.controller import Controller
from mooring.kube.disruption import DISRUPTION_TARGET
from mooring.kube.errors import ApiError
from mooring.kube.first_seen import FirstSeen
from mooring.kube.keys import ObjectKey, PodKey
from mooring.kube.objects import (
    Deployment,
    Object,
    Pod,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from mooring.kube.readiness import ready_since
from mooring.kube.reason import Reason
from mooring.kube.times import Now, format_time


class BudgetKey(ObjectKey, frozen=True, gc=False):
    """A PodDisruptionBudget."""

    kind: ClassVar[str] = "budget"


class DisruptionController(Controller[ObjectKey]):
    """Upstream's disruption controller."""

    name = "controllermanager"  # the source of upstream's events about budgets

    def __init__(self, client: Client, *, now: Now, random: Random) -> None:
        super().__init__(client, now=now, random=random)
        self._seen = FirstSeen[ObjectKey, str]()
        """Evictions that budgets remember, and conditions of pods."""
        self._budgets = self.watch(
            PodDisruptionBudget, lambda budget: [BudgetKey(budget.key)], indexers={"namespace": _namespace}
        )
        self._pods = self.watch(Pod, self._touched, matters=_counts, indexers={"namespace": _namespace})
        kinds = (ReplicaSet, StatefulSet, ReplicationController, Deployment)
        self._scales = Scales(client, [self.watch(kind, self._scaled, matters=_replicas) for kind in kinds])

    async def reconcile(self, key: ObjectKey) -> None:
        """Counts one budget's pods, or takes one pod's stale condition back."""
        if isinstance(key, PodKey):
            await self._clean(key)
            return
        budget = self._budgets.get(key.name)
        ages = self._seen.ages(key, budget.status.disrupted_pods if budget is not None else {})
        if budget is None:
            return
        pods = self._pods_of(budget)
        if not pods:
            self.recorder.once(budget, "Normal", Reason("NoPods", "No matching pods found"))
        await self._carry_out(budget, await self._decide(budget, pods, ages))

    async def _decide(
        self, budget: PodDisruptionBudget, pods: list[Pod], ages: dict[str, float]
    ) -> BudgetDecision:
        if not needs_scales(budget):
            return decide(budget, pods, (), self.now(), ages)
        if (warning := unmanaged(pods)) is not None:
            self.recorder.once(budget, "Warning", warning)
        try:
            scales = await self._scales.of(pods)
        except (NoScale, ApiError) as error:
            message = f"Failed to calculate the number of expected pods: {error}"
            self.recorder.once(budget, "Warning", Reason("CalculateExpectedPodCountFailed", message))
            self.queue.add_backoff(BudgetKey(budget.key))
            return decide_uncounted(budget, str(error), self.now())
        asked = {pod.uid for pod in pods}  # what came meanwhile may want another scale
        pods = [pod for pod in self._pods_of(budget) if pod.uid in asked]
        return decide(budget, pods, scales, self.now(), ages)

    def _pods_of(self, budget: PodDisruptionBudget) -> list[Pod]:
        selector = selector_of(budget)
        pods = self._pods.by_index("namespace", budget.namespace)
        return [pod for pod in pods if selector.matches(pod.metadata.labels)]

    async def _carry_out(self, budget: PodDisruptionBudget, decision: BudgetDecision) -> None:
        for pod in decision.overdue:
            message = f"Pod was expected by PDB {budget.key} to be deleted but it wasn't"
            self.recorder.event(pod, "Warning", "NotDeleted", message)
        if decision.again_s is not None:
            self.queue.add_after(BudgetKey(budget.key), decision.again_s)
        match decision.action:
            case Action.KEEP:
                return
            case Action.UPDATE:
                body = {"status": decision.status}
                self._budgets.accept(await self.client.revise(budget, body, subresource="status"))
                self.log.info("counted", budget=budget.key, reason=str(decision.reason))
            case _:
                assert_never(decision.action)

    async def _clean(self, key: ObjectKey) -> None:
        """Takes back the word that a pod is about to be deleted, two minutes after it was not."""
        pod = self._pods.get(key.name)
        ages = self._seen.ages(key, said_to_go(pod) if pod is not None else {})
        if pod is None or not ages:
            return
        if (left := STALE_CONDITION_S - ages[pod.uid]) > 0:
            self.queue.add_after(key, left)
            return
        condition = {
            "type": DISRUPTION_TARGET,
            "status": "False",
            "lastTransitionTime": format_time(self.now()),
        }
        body = {"status": {"conditions": [condition]}}
        self._pods.accept(await self.client.revise(pod, body, subresource="status", strategy="strategic"))

    def _touched(self, pod: Pod) -> list[ObjectKey]:
        budgets = self._budgets.by_index("namespace", pod.namespace)
        keys: list[ObjectKey] = [
            BudgetKey(each.key) for each in budgets if selector_of(each).matches(pod.metadata.labels)
        ]
        return [*keys, PodKey(pod.key)] if said_to_go(pod) else keys

    def _scaled(self, owner: Object) -> list[ObjectKey]:
        """Marks the budgets of the namespace: how many pods there should be has changed."""
        return [BudgetKey(each.key) for each in self._budgets.by_index("namespace", owner.namespace)]


def _namespace(each: Object) -> list[str]:
    return [each.namespace]


def _counts(pod: Pod) -> object:
    """What a budget's count depends on."""
    target = next((each for each in pod.status.conditions if each.type == DISRUPTION_TARGET), None)
    ready = ready_since(pod) is not None
    return ready, pod.deleting, pod.finished, pod.metadata.labels, pod.metadata.owner_references, target


def _replicas(owner: ReplicaSet | StatefulSet | ReplicationController | Deployment) -> object:
    return owner.spec.replicas, owner.metadata.owner_references
