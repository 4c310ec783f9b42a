"""How a DaemonSet's pods move from one template to the next. Pure.

Without surge at most `maxUnavailable` nodes are without an available pod; with `maxSurge` a new pod is made
beside the old one, which goes when the new one is available. Rules: upstream's daemonset controller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mooring.controllers.daemonset.placement import Placement
from mooring.controllers.daemonset.pod_decision import (
    NOT_HERE,
    OUTDATED,
    REPLACED,
    SURGE,
    Judge,
    PodDecision,
    create,
    delete,
    surge_of,
)
from mooring.kube.objects import DaemonSet, Pod
from mooring.kube.percentages import portion


def roll(
    judge: Judge, places: Mapping[str, Placement], here: Mapping[str, Sequence[Pod]]
) -> list[PodDecision]:
    """Returns the next step of a rolling update."""
    empty: dict[str, Sequence[Pod]] = {name: () for name, place in places.items() if place.runs}
    pairs = {name: _new_and_old(judge, pods) for name, pods in {**empty, **here}.items()}
    wanted = len(empty)
    if surge := surge_of(judge.daemon_set, wanted):
        return _surging(judge, places, pairs, surge, wanted)
    return _replacing(judge, pairs, _unavailable(judge.daemon_set, wanted))


Pair = tuple[Pod | None, Pod | None]
"""The pod of the present template and that of an older one on a node."""


def _new_and_old(judge: Judge, pods: Sequence[Pod]) -> Pair | None:
    """Returns None if there are several of one kind: what is too much goes first."""
    alive = [pod for pod in pods if not pod.deleting]
    new = [pod for pod in alive if judge.updated(pod)]
    old = [pod for pod in alive if not judge.updated(pod)]
    if len(new) > 1 or len(old) > 1:
        return None
    return (new[0] if new else None), (old[0] if old else None)


def _replacing(judge: Judge, pairs: Mapping[str, Pair | None], most: int) -> list[PodDecision]:
    """Without surge: old pods go, so that no more than `most` nodes are without an available one."""
    unavailable = 0
    broken: list[Pod] = []
    candidates: list[Pod] = []
    for pair in pairs.values():
        new, old = pair or (None, None)
        if old is not None and new is None and judge.available(old):
            candidates.append(old)
            continue
        if old is not None and new is None:
            broken.append(old)
        unavailable += new is None or old is not None or not judge.available(new)
    return [delete(pod, OUTDATED) for pod in (*broken, *candidates[: max(most - unavailable, 0)])]


def _surging(
    judge: Judge,
    places: Mapping[str, Placement],
    pairs: Mapping[str, Pair | None],
    most: int,
    wanted: int,
) -> list[PodDecision]:
    """With surge: new pods are made beside old ones, at most `most` beside available ones. An old pod goes
    when the new one is available, or when it is not available itself and its node is none of the set's."""
    surged = available = 0
    deleted: list[PodDecision] = []
    leaving: list[Pod] = []
    at_once: list[str] = []
    candidates: list[str] = []
    for name, pair in pairs.items():
        if pair is None:
            surged += 1
            continue
        new, old = pair
        counted = old or new
        available += counted is not None and judge.available(counted)
        if old is None:
            continue
        runs = name in places and places[name].runs
        if new is not None and judge.available(new):
            deleted.append(delete(old, REPLACED))
        elif new is not None:
            surged += 1
        elif not judge.available(old):
            deleted += [] if runs else [delete(old, NOT_HERE)]
            at_once += [name] if runs else []
        elif runs:
            candidates.append(name)
        else:
            leaving.append(old)
    spare = max(available - wanted, 0)
    chosen = [*at_once, *candidates[: max(most - surged, 0)]]
    return [
        *deleted,
        *(delete(pod, NOT_HERE) for pod in leaving[:spare]),
        *(create(name, SURGE) for name in chosen),
    ]


def _unavailable(daemon_set: DaemonSet, nodes: int) -> int:
    return max(portion(daemon_set.spec.update_strategy.rolling_update.max_unavailable, nodes, up=True), 1)
