"""HorizontalPodAutoscalers. Their controller is upstream's."""

from typing import ClassVar

from mooring.apiserver.defaults import Rules
from mooring.apiserver.strategy import Strategy

_CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}


class Autoscalers(Strategy):
    """One pod at least, and 80 % of the CPU that pods request, unless something else is wanted."""

    defaults: ClassVar[Rules] = {"spec.minReplicas": 1, "spec.metrics": [_CPU]}
