"""The group policy: PodDisruptionBudgets."""

from __future__ import annotations

from mooring.kube.objects.meta import Condition, LabelSelector, Object, Resource, Struct


class PodDisruptionBudgetSpec(Struct, frozen=True):
    """One of `min_available` and `max_unavailable`: a number of pods, or a percentage ("50%"). No selector
    covers no pod, an empty one all of the namespace."""

    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(Struct, frozen=True):
    """`disrupted_pods`: pods that the server evicted and that have not gone yet -> when."""

    observed_generation: int = 0
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    disrupted_pods: dict[str, str] = {}
    conditions: tuple[Condition, ...] = ()


class PodDisruptionBudget(Object, frozen=True):
    RESOURCE = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
