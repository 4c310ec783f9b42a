"""Which nodes get a pod of a DaemonSet, and which pods go. Pure.

Each node is judged for itself: one that should have a pod gets one, and a pod that has ended is replaced.
Rules: upstream's daemonset controller.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mooring.controllers.daemonset.placement import Placement, by_node, placements
from mooring.controllers.daemonset.pod_decision import (
    FAILED,
    MISSING,
    NO_NODE,
    NOT_HERE,
    REPLACED,
    SUCCEEDED,
    SURGE,
    SURPLUS,
    Action,
    Judge,
    PodDecision,
    create,
    delete,
    surge_of,
)
from mooring.controllers.daemonset.rollout import roll
from mooring.kube.objects import DaemonSet, Node, Pod
from mooring.kube.readiness import ready_since

_ENDED = {"Failed": FAILED, "Succeeded": SUCCEEDED}


def decide(
    daemon_set: DaemonSet, nodes: Sequence[Node], pods: Sequence[Pod], revision: str, now: datetime
) -> list[PodDecision]:
    """Returns what to do. `pods`: those that the set owns. `revision`: the hash of the present template."""
    judge = Judge(daemon_set, revision, now)
    here = by_node(pods)
    places = placements(daemon_set, nodes)
    kept = [
        each for name, place in places.items() for each in _on_node(judge, name, place, here.get(name, []))
    ]
    lost = [
        delete(pod, NO_NODE)
        for name, each in here.items()
        for pod in each
        if name and name not in places and not pod.spec.node_name and not pod.deleting
    ]
    decisions = [*kept, *lost]
    if daemon_set.spec.update_strategy.type != "RollingUpdate":
        return decisions
    going = {each.pod.uid for each in decisions if each.pod is not None}
    coming = {each.node for each in decisions if each.action is Action.CREATE}
    rolled = roll(judge, places, here)
    return [
        *decisions,
        *(
            each
            for each in rolled
            if each.node not in coming and (each.pod is None or each.pod.uid not in going)
        ),
    ]


def _on_node(judge: Judge, node: str, place: Placement, pods: Sequence[Pod]) -> list[PodDecision]:
    """Returns what to do on one node whatever the template."""
    if not pods:
        return [create(node, MISSING)] if place.runs else []
    alive = [pod for pod in pods if not pod.deleting]
    if not place.stays:
        return [delete(pod, NOT_HERE) for pod in alive]
    deleted = [delete(pod, _ENDED[pod.status.phase]) for pod in alive if pod.finished]
    running = [pod for pod in alive if not pod.finished]
    if not surge_of(judge.daemon_set, 1):
        stays = _serving(judge, running)
        return [*deleted, *(delete(pod, SURPLUS) for pod in running if pod is not stays)]
    if not running and place.runs:
        return [*deleted, create(node, SURGE)]
    return [*deleted, *_surplus_beside_surge(judge, running)]


def _serving(judge: Judge, pods: Sequence[Pod]) -> Pod | None:
    """Returns the pod that stays when a node has several: the oldest available one, or else the oldest.

    Upstream keeps the oldest, whether it serves or not, and so may take the only available pod of many nodes
    at once, whatever `maxUnavailable` says.
    """
    return next(filter(judge.available, pods), pods[0] if pods else None)


def _surplus_beside_surge(judge: Judge, running: Sequence[Pod]) -> list[PodDecision]:
    """Of two or more pods one new one stays, and one old one as long as it is ready and the new one is not
    available yet."""
    if len(running) <= 1:
        return []
    new = _serving(judge, [pod for pod in running if judge.updated(pod)])
    old = _serving(judge, [pod for pod in running if not judge.updated(pod)])
    found = [delete(pod, SURPLUS) for pod in running if pod is not new and pod is not old]
    if new is not None and old is not None and (ready_since(old) is None or judge.available(new)):
        found.append(delete(old, REPLACED))
    return found


def status(
    daemon_set: DaemonSet, nodes: Sequence[Node], pods: Sequence[Pod], revision: str, now: datetime
) -> dict[str, int]:
    """Returns the status. Of several pods on a node the oldest counts."""
    judge = Judge(daemon_set, revision, now)
    here = by_node(pods)
    places = placements(daemon_set, nodes)
    wanted = [name for name, place in places.items() if place.runs]
    elsewhere = places.keys() - set(wanted)
    chosen = [here[name][0] for name in wanted if name in here]
    ready = [pod for pod in chosen if ready_since(pod) is not None]
    available = sum(judge.available(pod) for pod in ready)
    return {
        "observedGeneration": daemon_set.metadata.generation,
        "desiredNumberScheduled": len(wanted),
        "currentNumberScheduled": len(chosen),
        "numberMisscheduled": sum(name in here for name in elsewhere),
        "numberReady": len(ready),
        "updatedNumberScheduled": sum(judge.updated(pod) for pod in chosen),
        "numberAvailable": available,
        "numberUnavailable": len(wanted) - available,
    }
