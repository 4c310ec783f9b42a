"""HorizontalPodAutoscalers. Their controller is upstream's."""

from __future__ import annotations

from typing import ClassVar

from mooring.apiserver.objects.defaults import Rules, under
from mooring.apiserver.objects.strategy import Strategy
from mooring.apiserver.objects.validation import autoscaling as valid

_CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}


_UP = {
    "selectPolicy": "Max",
    "stabilizationWindowSeconds": 0,
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_DOWN = {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}


class Autoscalers(Strategy):
    """One pod at least, and 80 % of the CPU that pods request, unless something else is wanted."""

    judges_base = False
    rules = (valid.autoscaler,)
    defaults: ClassVar[Rules] = {
        "spec.minReplicas": 1,
        "spec.metrics": [_CPU],
        **under("spec.behavior?.scaleUp", _UP),
        **under("spec.behavior?.scaleDown", _DOWN),
    }
