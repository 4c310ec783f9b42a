"""Mutants of fencing: the gaps of fencing operators in use (G1 to G11), and their like (N1 to N7)."""

# pyright: basic
# What is replaced is private to its owner and taken by name, whatever its type.
from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from mooring.controllers.attachdetach import release as judged
from mooring.controllers.fencing import controller as fencing
from mooring.controllers.fencing import (
    decide,
    deciding_nodes,
    detection,
    hearing_out,
    letting_in,
    orders,
    releasing,
    unfencing,
)
from mooring.controllers.fencing.controller import FencingController
from mooring.controllers.fencing.decisions import Action, do
from mooring.controllers.fencing.ladder import Judged
from mooring.controllers.fencing.orders import Orders
from mooring.controllers.fencing.polls import Polls
from mooring.controllers.fencing.steps import Steps
from mooring.fence.interface import Outcome, State
from mooring.kube.reason import Reason
from mooring.simulation.parts.fence_device import FenceDevice
from mooring.simulation.search.mutants import scenarios
from mooring.simulation.search.mutants.mutant import Mutant, Patch, always
from mooring.volumes.node_fences import Phase


def _counts(when: Any) -> Any:
    """An answer counts as a fence when this holds of it, whatever else there is to say."""

    def make(original: Any) -> Any:
        def judge(answer: Any, confirmations: Any, **given: Any) -> Any:
            if when(answer, confirmations):
                return Judged(Outcome.FENCED, Reason("Mutant", "believed"))
            return original(answer, confirmations, **given)

        return judge

    return make


def _said_off(answer: Any, _: Any) -> bool:
    return answer.outcome is Outcome.FENCED


def _unknown(answer: Any, _: Any) -> bool:
    return answer.outcome is Outcome.UNKNOWN


def _was_off(answer: Any, _: Any) -> bool:
    return answer.outcome is Outcome.FENCED and answer.before is State.SHUT


def _assumed(original: Any) -> Any:
    """So long after its order a fence counts, whatever was answered."""
    return _counts(lambda answer, _: answer.outcome is not Outcome.NOT_FENCED)(original)


def _only_untainted(original: Any) -> Any:
    """What is taken back of a release is the taint; the evidence on VolumeAttachments stays."""

    async def withdraw(client: Any, fence: Any, accept: Any) -> None:
        await releasing.welcome(client, fence.status.target.node_name, accept)

    return withdraw


def _of_any_boot(original: Any) -> Any:
    async def release(client: Any, fence: Any, *given: Any) -> int:
        node = await client.find(releasing.Node, fence.status.target.node_name)
        if node is None:
            return await original(client, fence, *given)
        target = replace(fence.status.target, node_uid=node.uid, boot_id=node.status.node_info.boot_id)
        return await original(client, replace(fence, status=replace(fence.status, target=target)), *given)

    return release


def _not_written(original: Any) -> Any:
    """A successor does not know an order that was written, and the one that it gives is not written."""

    async def intend(self: Any, fence: Any, decision: Any) -> Any:
        return fence

    return intend


def _forgotten(original: Any) -> Any:
    """A fence that is deleted is let go at once, whatever it has done."""

    def decide_fence(fence: Any, *more: Any, **given: Any) -> Any:
        if fence.deleting and fence.status.phase not in Phase.OVER:
            return do(Action.CLOSE, Phase.FENCING, Reason("Deleted", "it was deleted"))
        return original(fence, *more, **given)

    return decide_fence


def _nothing(original: Any) -> Any:
    async def nothing(*args: Any, **given: Any) -> bool:
        return False

    return nothing


def _free_at_once(original: Any) -> Any:
    """A fence is over as soon as it was released and the machine was switched on."""

    def in_force(fence: Any, *more: Any, **given: Any) -> Any:
        if fence.status.released_at and fence.status.power_on_at:
            return do(Action.CLOSE, Phase.UNFENCED, Reason("Mutant", "it was switched on"))
        return original(fence, *more, **given)

    return in_force


def _at_once(original: Any) -> Any:
    """Fences are counted in what the policy was when each was looked at, not one after the other."""

    def __init__(self: Any, *args: Any, **given: Any) -> None:  # noqa: N807 - it stands for that
        original(self, *args, **given)
        self._beginning = _NoLock()

    return __init__


def _lost_at_any_word(original: Any) -> Any:
    """A node that once did not answer counts as lost although it answers."""

    def is_lost(signals: Any, policy: Any) -> Any:
        found = original(signals, policy)
        return (
            Reason("Mutant", "it is lost") if getattr(found, "reason", found).code == "SeenHealthy" else found
        )

    return is_lost


class _NoLock:
    """Fences that begin do not wait for one another."""

    async def __aenter__(self) -> None:
        return

    async def __aexit__(self, *error: Any) -> None:
        return


MUTANTS: dict[str, Mutant] = {
    "G1": Mutant(
        "what was ordered counts as done, whatever was answered",
        "medik8s/self-node-remediation: a reboot is assumed after a time; #354",
        ("S18",),
        scenarios.FENCES,
        (Patch(orders, "judge", _assumed),),
    ),
    "G2": Mutant(
        "a node counts as lost although it answers: a verdict of a while ago is not taken back",
        "medik8s/self-node-remediation: clocks and computed times are trusted",
        ("S17",),
        scenarios.FENCES,
        (
            Patch(detection, "is_lost", _lost_at_any_word),
            Patch(deciding_nodes, "is_lost", _lost_at_any_word),
        ),
    ),
    "G3": Mutant(
        "an order without an answer counts as done: unknown is fenced",
        "medik8s/self-node-remediation: the error of a reboot is logged and swallowed",
        ("S18",),
        scenarios.FENCES,
        (Patch(orders, "judge", _counts(_unknown)),),
    ),
    "G4": Mutant(
        "a device that says that a machine is off is believed though the second source disagrees",
        "medik8s/self-node-remediation: a peer's cached answer counts",
        ("S18",),
        scenarios.LYING,
        (Patch(orders, "judge", _counts(_said_off)),),
    ),
    "G5": Mutant(
        "an order is not written before it is given: after a restart it is given anew",
        "medik8s/fence-agents-remediation: what was run is kept in memory",
        ("S17",),
        scenarios.FENCES,
        (Patch(Orders, "intend", _not_written),),
    ),
    "G6": Mutant(
        "what a machine has in its present boot is released because of a fence of an earlier one",
        "medik8s/fence-agents-remediation: the taint is set on a node that comes back",
        ("S17", "S18"),
        scenarios.RETURNING,
        (
            Patch(releasing, "release", _of_any_boot),
            Patch(decide, "is_same_boot", always(True)),
            Patch(decide, "may_run_still", always(True)),
            Patch(letting_in, "is_same_boot", always(True)),
            Patch(orders, "is_same_boot", always(True)),
            Patch(hearing_out, "may_run_still", always(True)),
            Patch(unfencing, "is_same_boot", always(True)),
        ),
    ),
    "G6b": Mutant(
        "evidence of an earlier boot releases what the node has now, and is never taken back",
        "medik8s/fence-agents-remediation: what is released is named by the node alone",
        (
            "S18",
            "S23",
        ),
        scenarios.SHUT_OUT_AGAIN,
        (Patch(judged, "evidence_holds", always(True)), Patch(releasing, "withdraw", _only_untainted)),
    ),
    "G8": Mutant(
        "a fence that is deleted is forgotten, whatever it has done",
        "csi-addons NetworkFence: its finalizer is simply removed",
        ("S18",),
        scenarios.FENCES,
        (Patch(fencing, "decide_fence", _forgotten),),
    ),
    "G9": Mutant(
        "a fence in force is never looked at again: what came since is not released",
        "csi-addons NetworkFence: it fires once",
        (
            "L1",
            "L3",
            "L6",
        ),
        scenarios.LOST_FOR_GOOD,
        (Patch(Steps, "_verify", _nothing),),
        omits="what is never released is never had twice: its pods wait for ever",
    ),
    "G10": Mutant(
        "whose device it is, is not compared, and nothing else is asked",
        "csi-addons NetworkFence: an address that another machine has by now is fenced",
        ("S18",),
        scenarios.SWAPPED,
        (
            Patch(orders, "judge", _counts(_said_off)),
            Patch(FenceDevice, "_wrong", always(None)),
        ),
    ),
    "G11": Mutant(
        "a fence is over, and its taint is gone, before another boot has reported",
        "medik8s/node-healthcheck-operator: a healthy verdict deletes the request",
        ("S18",),
        scenarios.FENCES,
        (Patch(decide, "in_force", _free_at_once),),
    ),
    "N1": Mutant(
        "two fences that begin at once do not count one another in the budget",
        "fencing (hazard)",
        ("S17",),
        scenarios.MANY_LOST,
        (Patch(FencingController, "__init__", _at_once),),
    ),
    "N2": Mutant(
        "the budget is not looked at",
        "fencing (hazard)",
        ("S17",),
        scenarios.MANY_LOST,
        (Patch(deciding_nodes, "over_budget", always(None)),),
    ),
    "N3": Mutant(
        "a storm is not looked at",
        "kubernetes/kubernetes#28832: the network of the control plane is lost",
        ("S17",),
        scenarios.STORMS,
        (Patch(deciding_nodes, "storm", always(None)),),
    ),
    "N6": Mutant(
        "what peers say is not looked at: a node that they hear is fenced",
        "fencing (hazard)",
        ("S17",),
        scenarios.HEARD,
        (Patch(deciding_nodes, "held_by_peers", always(None)),),
    ),
    "N7": Mutant(
        "a peer's word has expired as soon as it comes in",
        "fencing (hazard)",
        ("S17",),
        scenarios.HEARD,
        (Patch(Polls, "stated", always(set())),),
    ),
    "N4": Mutant(
        "what is released is not read live before: the boot that is named is not compared",
        "fencing (hazard)",
        ("S18",),
        scenarios.RETURNING,
        (Patch(releasing, "is_same_boot", always(True)),),
    ),
    "N5": Mutant(
        "that a machine was off already counts, though its device had never said otherwise",
        "fencing (hazard)",
        ("S18",),
        scenarios.LYING,
        (Patch(orders, "judge", _counts(_was_off)),),
    ),
}
