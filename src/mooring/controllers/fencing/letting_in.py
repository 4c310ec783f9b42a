"""When a node that a storage has shut out of volumes may be let in again without a new boot. Pure.

A client that is let in replays what it had not written. So nothing of the old attachments may be left: on the
node, by the word of its own agent, which looks at its mounts before it speaks and publishes a volume before
it mounts one; in the API, where no VolumeAttachment by which the fence released something may exist; and at
the storage, which refuses the node and has no session of it. Once that was so, it stays so for that boot:
what the node mounts from then on, it mounts under an attachment that was made after.

Evidence names the boot, and would hold for the new attachment, too. So nothing is released any more from
*before* the look on: `status.lettingIn` is written first, `releasing.release` reads it live after it has
listed the records that it writes on, and a record that the look does not find cannot be written on later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from mooring.controllers.fencing.decisions import Action, FenceDecision, do
from mooring.controllers.fencing.detection import Held
from mooring.controllers.fencing.same_boot import is_same_boot
from mooring.fence.interface import Mechanism, Scope, SessionMechanism
from mooring.kube.objects import Node
from mooring.kube.objects.fencing import FenceAttempt, FenceTarget, NodeFence
from mooring.kube.reason import Reason
from mooring.volumes.names import RECONSTRUCTED, STATUS_WRITE, split_volume_name, volume_attachment_name
from mooring.volumes.node_fences import Phase
from mooring.volumes.statements import last_report

LOOK_S = 5.0
"""Seconds after which a node that answers, and has something left, is looked at again."""
MOST_NAMES = 5
LET_IN = "LetIn"


def is_told(proof: FenceAttempt, mechanism: Mechanism | None) -> bool:
    """Whether the storage can show that it has no session of the node, and which volumes that is about."""
    return proof.scope == Scope.STORAGE and bool(proof.volumes) and isinstance(mechanism, SessionMechanism)


def is_wanted(fence: NodeFence) -> bool:
    """Whether it is to be let in when it answers: what a person has ordered, a person takes back."""
    asked = fence.spec.unfence or fence.deleting
    return asked or (bool(fence.status.released_at) and not fence.spec.override)


def decide_letting_in(
    fence: NodeFence,
    target: FenceTarget,
    node: Node | None,
    proof: FenceAttempt,
    records: Collection[str] | None,
) -> FenceDecision | None:
    """What is done so that a node which is shut out is let in, in the same boot; None if nothing is. What was
    written down once is gone through with: it stays true, and the order may have been given."""
    status, where = fence.status, f"node {target.node_name}"
    if node is None or not is_same_boot(node, target):
        return None
    if status.let_in_at:
        message = f"{where} has nothing left of what it was shut out of: {proof.mechanism} lets it in"
        if status.power_on_at:
            return do(Action.CLOSE, Phase.UNFENCED, Reason(LET_IN, message))
        return do(Action.UNFENCE, Phase.FENCED, Reason(LET_IN, message))
    message = f"{where} answers, and says that it has unmounted what it was shut out of: that is looked at"
    if status.letting_in:
        return do(Action.LOOK_FOR_REST, Phase.FENCED, Reason("LettingIn", message))
    if records is None or node.ready != "True" or not is_wanted(fence):
        return None
    held = what_is_left(target, proof, node, records)
    if held is not None:
        return FenceDecision(Action.WAIT, held.reason, Phase.FENCED)
    return do(Action.STOP_RELEASING, Phase.FENCED, Reason("LettingIn", message))


def what_is_left(
    target: FenceTarget, proof: FenceAttempt, node: Node, records: Collection[str]
) -> Held | None:
    """What of the old attachments is left at the node of that boot, or is not known to be gone. `records`:
    its VolumeAttachments, by name."""
    where = f"node {target.node_name}"
    if node.ready != "True":
        return _wait("NodeSilent", f"{where} does not answer: what it has mounted is not known")
    marks = node.metadata.annotations
    if marks.get(RECONSTRUCTED) != target.boot_id or STATUS_WRITE not in marks:
        return _wait("NoOwnWord", f"{where} has no agent that tells what it has mounted: restart its machine")
    if not proof.report or last_report(node) == proof.report:
        return _wait("NotReported", f"{where} has not reported since it was shut out")
    if attached := sorted(proof.volumes[each] for each in records if each in proof.volumes):
        message = f"{where} is let in once it has unmounted {_named(attached)} and that is detached"
        return _wait("StillAttached", message)
    if used := sorted(_in_use(target.node_name, node, proof, records)):
        message = f"{where} is let in once it has unmounted {_named(used)}"
        return _wait("StillMounted", message)
    return None


def _in_use(where: str, node: Node, proof: FenceAttempt, records: Collection[str]) -> Iterable[str]:
    """What it says that it has of the fence's volumes, and all that it has without a VolumeAttachment, as if
    that was taken from it."""
    for volume in {*node.status.volumes_in_use, *(each.name for each in node.status.volumes_attached)}:
        try:
            record = volume_attachment_name(*split_volume_name(volume), where)
        except ValueError:
            yield volume
            continue
        if record in proof.volumes or record not in records:
            yield volume


def _named(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{', '.join(names[:MOST_NAMES])}{more}"


def _wait(code: str, message: str) -> Held:
    return Held(Reason(code, message), LOOK_S)
