"""Mutants of what is done by force: by whose word, when a timer runs, and what is left on the node
afterwards."""

# pyright: basic
# What is replaced is private to its owner and taken by name, whatever its type.
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from mooring.controllers.attachdetach import controller, decide, handshake, index, release
from mooring.controllers.attachdetach.locks import Locks
from mooring.controllers.attachdetach.release import Release, ReleaseDecision
from mooring.controllers.attachdetach.state import NO_POLICY, Terms
from mooring.kube.objects import Pod
from mooring.kube.reason import Reason
from mooring.node.volumes.manager import VolumeManager
from mooring.node.volumes.volume import WantedVolume
from mooring.simulation.search.mutants import scenarios
from mooring.simulation.search.mutants.mutant import Mutant, Patch, always
from mooring.volumes import out_of_service
from mooring.volumes.names import FORCE_DETACH_REPORT, FORCE_DETACH_SINCE


def _release(when: Any) -> Any:
    """The volume may be taken when this holds of the node, whatever else there is to say."""

    def make(original: Any) -> Any:
        def may_release(node: Any, *more: Any, **given: Any) -> Any:
            if when(node):
                return ReleaseDecision(Release.FORCE, Reason("OutOfService", "whatever the node says"))
            return original(node, *more, **given)

        return may_release

    return make


def _judges(when: Any) -> tuple[Patch, ...]:
    return (Patch(decide, "may_release", _release(when)), Patch(handshake, "may_release", _release(when)))


def _begins_everywhere(original: Any) -> Any:
    """A detach for which a node that answers has to be waited for starts the timer, too."""

    def may_release(node: Any, attachment: Any, terms: Terms = NO_POLICY) -> Any:
        verdict = original(node, attachment, terms)
        begins = verdict.reason.code == "InUse" and terms.revokes and not attachment.force_since
        return replace(verdict, begin=FORCE_DETACH_SINCE) if begins else verdict

    return may_release


def _goes_on_everywhere(original: Any) -> Any:
    """It is erased when the volume is wanted again, and not when the node answers."""

    def to_erase(node: Any, attachment: Any, demand: Any) -> Any:
        erased = original(node, attachment, demand)
        its_own = (FORCE_DETACH_SINCE, FORCE_DETACH_REPORT)
        return tuple(each for each in erased if demand is not None or each[0] not in its_own)

    return to_erase


def _not_looked_at_after_it(original: Any) -> Any:
    """When it has run out, the un-report's answer is not looked at: the cache has said that it does not use
    the volume."""

    def may_release(node: Any, attachment: Any, terms: Terms = NO_POLICY) -> Any:
        verdict, limit = original(node, attachment, terms), terms.policy.force_detach_after
        running = bool(limit and attachment.force_since)
        if verdict.allowed or not running or release._elapsed(attachment.force_since, terms) < limit:
            return verdict
        return ReleaseDecision(Release.ALLOW, Reason("ForceDetachTimeout", "the timer has run out"))

    return may_release


def _runs(pod: Pod) -> bool:
    return any(each.state.running is not None for each in pod.status.container_statuses)


def _with_statuses(original: Any) -> Any:
    def kept(pod: Pod, *more: Any) -> Pod:
        made = original(pod, *more)
        return replace(made, status=replace(made.status, container_statuses=pod.status.container_statuses))

    return kept


def _and_what_runs(original: Any) -> Any:
    return lambda pod: (*original(pod), _runs(pod))


def _but_what_does_not_run(original: Any) -> Any:
    def demands_of(users: Iterable[Pod]) -> Any:
        return original([pod for pod in users if _runs(pod) or not pod.deleting])

    return demands_of


def _nothing(original: Any) -> Any:
    async def nothing(*args: Any, **given: Any) -> None:
        return

    return nothing


MUTANTS: dict[str, Mutant] = {
    "B14": Mutant(
        "no statement that a silent node is dead counts: its volumes are never released",
        "kubernetes/kubernetes#65392",
        ("L1", "L3"),
        scenarios.LOST,
        (Patch(release, "_stated", always(None)),),
        omits="what is never released is never had twice: its pods wait for ever",
    ),
    "B18": Mutant(
        "after a release by force the node may have the volume again at once, and takes its old mount for the new one:"
        " neither the closed node nor the attachment's identity is looked at",
        "kubernetes/kubernetes#119273; protocol counterexample C16",
        ("S4'",),
        scenarios.TAKEN,
        (
            Patch(decide, "_closed", always(None)),
            Patch(Locks, "_refuse_closed", _nothing),
            Patch(VolumeManager, "_verify", _nothing),
            Patch(WantedVolume, "taken_over", always(False)),
        ),
    ),
    "C11": Mutant(
        "a taint under which the node has reported counts still",
        "protocol counterexample C11",
        ("S7", "S1"),
        scenarios.MISTAKEN,
        (Patch(out_of_service, "spent", always(False)),),
    ),
    "H1": Mutant(
        "the timer of a forced detach also runs for nodes that answer, and when it has run out, what the un-report's"
        " answer says of the node's use is not looked at",
        "kube-controller-manager 1.36 (hazard)",
        ("S7",),
        scenarios.TIMED,
        (
            Patch(decide, "may_release", _begins_everywhere),
            Patch(decide, "_timers_to_erase", _goes_on_everywhere),
            Patch(handshake, "may_release", _not_looked_at_after_it),
        ),
    ),
    "H2": Mutant(
        "an out-of-service taint releases the volumes of a node that answers",
        "kube-controller-manager 1.36 (hazard)",
        ("S7",),
        scenarios.OPERATORS,
        _judges(lambda node: node is not None and node.tainted),
    ),
    "H3a": Mutant(
        "a Node that does not exist releases its volumes",
        "kube-controller-manager 1.36 (hazard)",
        ("S7",),
        scenarios.NODES,
        _judges(lambda node: node is None),
    ),
    "H5": Mutant(
        "a pod that is being deleted, and of which no container runs by its statuses, wants nothing any more",
        "kube-controller-manager 1.36 (hazard)",
        ("S7",),
        scenarios.NOT_STARTED,
        (
            Patch(index, "trimmed_pod", _with_statuses),
            Patch(index, "_of_pod_matters", _and_what_runs),
            Patch(controller, "demands_of", _but_what_does_not_run),
        ),
    ),
}
