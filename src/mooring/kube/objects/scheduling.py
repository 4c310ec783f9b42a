"""The group scheduling.k8s.io: PriorityClasses."""

from __future__ import annotations

from mooring.kube.objects.meta import Object, Resource


class PriorityClass(Object, frozen=True):
    RESOURCE = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
    value: int = 0
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"
    description: str = ""
