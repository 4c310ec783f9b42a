"""What can be decided about the pods of a DaemonSet, and how a pod is judged. Pure."""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import NamedTuple

from mooring.kube.decision import Decision
from mooring.kube.objects import DaemonSet, Pod
from mooring.kube.percentages import portion
from mooring.kube.readiness import available_at
from mooring.kube.reason import Reason
from mooring.kube.revisions import REVISION


class Action(Enum):
    """What to do on a node."""

    CREATE = "Create"
    DELETE = "Delete"


class PodDecision(Decision[Action], frozen=True, gc=False):
    """What to do on one node. `node`: for CREATE. `pod`: for DELETE."""

    node: str = ""
    pod: Pod | None = None


MISSING = Reason("Missing", "the node should have a pod of the set, and has none")
FAILED = Reason("FailedDaemonPod", "it has failed")
SUCCEEDED = Reason("SucceededDaemonPod", "it has ended, and a daemon does not end")
SURPLUS = Reason("TooMany", "the node has another pod of the set")
NOT_HERE = Reason("NotHere", "the set does not select its node, or does not tolerate the node's taints")
NO_NODE = Reason("NodeGone", "the node that it was made for does not exist")
OUTDATED = Reason("Outdated", "is of an older template")
REPLACED = Reason("Replaced", "a pod of the present template is available on its node")
SURGE = Reason("Surge", "the present template's pod is made before the old one goes")


class Judge(NamedTuple):
    """Judges pods of a set. `revision`: the hash of its present template."""

    daemon_set: DaemonSet
    revision: str
    now: datetime

    def available(self, pod: Pod) -> bool:
        moment = available_at(pod, self.daemon_set.spec.min_ready_seconds)
        return moment is not None and moment <= self.now

    def updated(self, pod: Pod) -> bool:
        return pod.metadata.labels.get(REVISION) == self.revision


def surge_of(daemon_set: DaemonSet, nodes: int) -> int:
    """On how many of the nodes a new pod may be beside an old one that is available."""
    strategy = daemon_set.spec.update_strategy
    if strategy.type != "RollingUpdate":
        return 0
    return portion(strategy.rolling_update.max_surge, nodes, up=True)


def create(node: str, reason: Reason) -> PodDecision:
    return PodDecision(Action.CREATE, reason, node)


def delete(pod: Pod, reason: Reason) -> PodDecision:
    return PodDecision(Action.DELETE, reason, pod=pod)
