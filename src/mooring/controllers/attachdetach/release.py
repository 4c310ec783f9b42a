"""When a volume may be taken from a node: `may_release`, with every rule that it needs. Pure.

In order of trust (docs/protocol.md, "When a node does not answer"):
1. the node itself, which answers and does not use the volume;
2. the evidence of a fence;
3. an out-of-service taint in force;
4. an operator's statement;
5. under a policy, the deletion of the Node;
6. a timer, where a detach revokes the node's access for good.

2 to 6 are a force detach. The deletion of a Node object alone releases nothing (C12).

`may_release` is called twice for one detach: on the cached Node, whether to begin; on the answer of the
un-report, whether to go on. Only the second result releases anything (C7).
"""

from __future__ import annotations

from datetime import timedelta
from enum import Enum

from msgspec.structs import replace

from mooring.controllers.attachdetach.state import NO_POLICY, Attachment, NodeState, Terms
from mooring.kube.decision import Decision
from mooring.kube.objects import Node
from mooring.kube.reason import Reason
from mooring.kube.times import format_time, parse_time
from mooring.volumes.machines import are_two, machine_from, machine_of
from mooring.volumes.names import FORCE_DETACH_SINCE, NODE_ABSENT_SINCE
from mooring.volumes.statements import Evidence, Statement, last_report

ABSENCE_S = 40.0
"""Seconds between the two live reads that must both find no Node before its deletion counts."""

FORCED = {
    "Broken": "broken",
    "Fenced": "fenced",
    "OutOfService": "out-of-service",
    "ConfirmedDead": "confirmed-dead",
    "NodeDeleted": "node-deleted",
    "ForceDetachTimeout": "timeout",
}
"""Reason code of a force detach to its label in upstream's metric of forced detaches."""


class Release(Enum):
    """What may be done with a volume that a node has."""

    KEEP = "Keep"  # it stays
    LOOK = "Look"  # it is marked, and the Node looked for again: only reads after the mark count
    ALLOW = "Allow"  # the node answers, and does not use the volume
    FORCE = "Force"  # against, or without, the node's own report: force detach


class ReleaseDecision(Decision[Release], frozen=True, gc=False):
    """Whether the volume may be taken from the node.

    `after`: seconds until a timer may change the decision; 0 if none runs. `begin`:
    the annotation that starts a timer.
    """

    after: float = 0.0
    begin: str = ""

    @property
    def allowed(self) -> bool:
        return self.action in (Release.ALLOW, Release.FORCE)

    @property
    def forced(self) -> bool:
        return self.action is Release.FORCE


def may_release(node: NodeState | None, attachment: Attachment, terms: Terms = NO_POLICY) -> ReleaseDecision:
    """Whether the volume of `attachment` may be taken from its node. `node` is None if there
    is no such Node."""
    if attachment.broken:
        return _force("Broken", f"broken on purpose: {attachment.broken}")
    if node is None:
        return _force_detach(node, attachment, terms)
    if is_another_machine(node, attachment):
        return _of_another_machine(node, attachment, terms)
    if has_let_go(node, attachment):
        return ReleaseDecision(Release.ALLOW, Reason("NotInUse", f"node {node.name} does not use the volume"))
    if node.ready != "Unknown":
        # Ready=False is an agent that is alive and reports: it is waited for (C10).
        return _keep("InUse", f"node {node.name} still uses the volume and has not unmounted it yet")
    return _force_detach(node, attachment, terms)


# --- the node's own report


def has_let_go(node: NodeState, attachment: Attachment) -> bool:
    """Whether the Node says, and can know, that the volume is not in use there. A Node that was registered
    anew has an empty list of volumes until its agent has looked for old mounts (C13)."""
    speaks = is_same_node(node, attachment) or node.reconstructed
    return speaks and not node.in_use and not is_another_machine(node, attachment)


def is_same_node(node: NodeState, attachment: Attachment) -> bool:
    """Whether the Node is the one that the volume was attached to: by its uid, and its machine where that is
    known. An attachment that upstream's controller made records none: of such a one, a Node that is younger
    than the attachment is another Node."""
    if is_another_machine(node, attachment):
        return False
    if attachment.node_uid:
        return node.uid == attachment.node_uid
    return not attachment.created or node.created <= attachment.created


def is_another_machine(node: NodeState, attachment: Attachment) -> bool:
    """Whether the Node is of a machine that has taken the name of the one that the volume was attached to."""
    if not attachment.machine or node.node is None:
        return False
    return are_two(machine_of(node.node), machine_from(attachment.machine))


# --- force detach: without the node's own report


def _force_detach(node: NodeState | None, attachment: Attachment, terms: Terms) -> ReleaseDecision:
    """A node that does not answer, or whose Node does not exist."""
    stated = _stated(node, attachment)
    if stated is not None:
        return ReleaseDecision(Release.FORCE, stated)
    return _deleted(node, attachment, terms) or _timer(node, attachment, terms)


def _of_another_machine(node: NodeState, attachment: Attachment, terms: Terms) -> ReleaseDecision:
    """The machine that has the volume has lost its Node to another one, and may still run. What that one
    reports, its taint, and evidence of its boot are not about the first, which is judged as one whose Node is
    absent. Its Node was not deleted, so that no deletion counts."""
    stated = _stated(None, attachment)
    if stated is not None:
        return ReleaseDecision(Release.FORCE, stated)
    return _timer(node, attachment, terms)


def _stated(node: NodeState | None, attachment: Attachment) -> Reason | None:
    """What a fence or an operator has stated about the node, if that counts."""
    where, seen = f"node {attachment.node}", node.node if node is not None else None
    evidence, statement = attachment.evidence, attachment.statement
    if evidence is not None and is_fenced(node, attachment):
        return Reason("Fenced", f"{where} was fenced by {evidence.by} (boot {evidence.boot_id or 'unknown'})")
    if node is not None and node.out_of_service:
        return Reason("OutOfService", f"{where} was declared out of service")
    if statement is not None and statement_holds(statement, seen, attachment.node_uid):
        whom = f"{statement.by or 'an operator'} has stated at {statement.at or 'some time'}"
        return Reason("ConfirmedDead", f"{whom} that {where} (uid {statement.node_uid}) is dead")
    return None


def is_fenced(node: NodeState | None, attachment: Attachment) -> bool:
    """Whether evidence of a fence of its node counts, whether or not the node says that it has let go."""
    evidence, seen = attachment.evidence, node.node if node is not None else None
    return evidence is not None and evidence_holds(evidence, seen, attachment.node_uid)


def evidence_holds(evidence: Evidence, node: Node | None, node_uid: str) -> bool:
    """Whether the fence was one of the boot that the API shows now (C8). `node_uid` is the uid recorded on
    the VolumeAttachment. Of an absent Node only a fence counts that had read its absence before it gave its
    order: an earlier one may be of an earlier boot (C9). A uid that is gone never comes back, so that no boot
    has used the volume under it since. No clock is asked."""
    if node is not None:
        boot_id = node.status.node_info.boot_id
        return bool(boot_id) and (evidence.node_uid, evidence.boot_id) == (node.uid, boot_id)
    return evidence.absent and evidence.node_uid == node_uid


def statement_holds(statement: Statement, node: Node | None, node_uid: str) -> bool:
    """Whether the statement is about the node as it shows itself now: a node that has reported again makes it
    void (C12b). `node_uid` is the uid recorded on the VolumeAttachment. One about an absent Node holds for as
    long as that uid is recorded: a boot that was registered in between has not had the volume (C13)."""
    if node is None:
        return statement.absent and statement.node_uid == node_uid
    now = (node.uid, node.status.node_info.boot_id, last_report(node))
    stated = (statement.node_uid, statement.boot_id, statement.report)
    return not statement.absent and node.ready == "Unknown" and stated == now


def _deleted(node: NodeState | None, attachment: Attachment, terms: Terms) -> ReleaseDecision | None:
    """The deletion of the Node, where the policy takes it for a statement: absent in two
    live reads after the mark."""
    if node is not None or not (terms.policy.node_deletion_confirms_death and terms.revokes):
        return None
    where = f"Node {attachment.node} was deleted"
    if not (attachment.marked and attachment.absent_since):
        reason = Reason("NodeDeleted", f"{where}: its volumes are released if it stays away")
        return ReleaseDecision(Release.LOOK, reason, begin=NODE_ABSENT_SINCE)
    left = ABSENCE_S - _elapsed(attachment.absent_since, terms)
    if left > 0:
        return replace(_keep("NodeDeleted", f"{where}: it is looked for once more"), after=left)
    return _force("NodeDeleted", f"{where}, which counts as the word that its machine is off")


def _timer(node: NodeState | None, attachment: Attachment, terms: Terms) -> ReleaseDecision:
    """The time-out of a force detach, where the policy sets one and the storage revokes."""
    refusal = _refusal(node, attachment)
    limit = terms.policy.force_detach_after
    if not (limit and terms.revokes):
        return refusal
    if not attachment.force_since or _has_answered(node, attachment):
        return replace(refusal, begin=FORCE_DETACH_SINCE)
    left = limit - _elapsed(attachment.force_since, terms)
    if left > 0:
        due = format_time(parse_time(attachment.force_since) + timedelta(seconds=limit))
        message = (
            f"{refusal.reason.message}; it is taken from there at {due}: the storage then cuts the node off"
        )
        return replace(refusal, reason=Reason(refusal.reason.code, message), after=left)
    silence = (
        f"node {attachment.node} has not answered since {attachment.force_since}, longer than {limit:g} s"
    )
    return _force("ForceDetachTimeout", f"{silence}; the storage cuts it off")


def report_of(node: NodeState | None, attachment: Attachment) -> str:
    """The last report of the machine that has the volume; "" if its Node does not tell."""
    if node is None or node.node is None or is_another_machine(node, attachment):
        return ""
    return last_report(node.node)


def _has_answered(node: NodeState | None, attachment: Attachment) -> bool:
    """Whether its node has reported since the timer began, when no controller may have looked: then this is
    another silence, for which the timer has not run."""
    known, now = attachment.force_report, report_of(node, attachment)
    return bool(known and now) and known != now


def _refusal(node: NodeState | None, attachment: Attachment) -> ReleaseDecision:
    """The volume stays; the message says what an operator can do."""
    where = f"node {attachment.node}"
    if node is not None and is_another_machine(node, attachment):
        uuid, provider_id = machine_from(attachment.machine)
        machine = uuid or provider_id
        message = (
            f"another machine is {where} now; the volume is with the one that had this name before ({machine}), and "
            "whether that still writes is not known"
        )
        advice = f"if it is certainly off: mooring node confirm-dead {attachment.node} --machine {machine}"
        return _keep("AnotherMachine", f"{message}; {advice}")
    if node is None:
        message = f"{where} does not exist any more; whether its machine still writes is not known"
        return _keep(
            "NodeGone", f"{message}; if it is certainly off: mooring node confirm-dead {attachment.node}"
        )
    if node.tainted and node.taint_spent:
        return _keep("TaintSpent", f"{where} has reported under its out-of-service taint: set the taint anew")
    advice = f"if the machine is certainly off, say so: mooring node confirm-dead {attachment.node}"
    return _keep("NodeNotAnswering", f"{where} does not answer and may still write; {advice}")


def _keep(code: str, message: str) -> ReleaseDecision:
    return ReleaseDecision(Release.KEEP, Reason(code, message))


def _force(code: str, message: str) -> ReleaseDecision:
    return ReleaseDecision(Release.FORCE, Reason(code, message))


def _elapsed(since: str, terms: Terms) -> float:
    return terms.ages.get(since, 0.0)
