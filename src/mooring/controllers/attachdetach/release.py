"""When the volume of a node that does not answer may be taken from it. Pure.

In order of trust (design section 2): the evidence of a fence; an out-of-service taint in force; an operator's
statement; under a policy, the deletion of the Node; a timer, where a detach revokes. The deletion of a Node alone
releases nothing. All of it is judged on the answer of the un-report, never on an earlier read (protocol.md C7).
"""

from __future__ import annotations

from datetime import timedelta

from mooring.controllers.attachdetach.state import Attachment, NodeState, Terms, Verdict
from mooring.kube.reason import Reason
from mooring.kube.times import format_time, parse_time
from mooring.volumes.names import FORCE_DETACH_SINCE, NODE_ABSENT_SINCE
from mooring.volumes.statements import evidence_holds, statement_holds

ABSENCE_S = 40.0
"""Seconds between two live reads that both find no Node."""

FORCED = {
    "Broken": "broken",
    "Fenced": "fenced",
    "OutOfService": "out-of-service",
    "ConfirmedDead": "confirmed-dead",
    "NodeDeleted": "node-deleted",
    "ForceDetachTimeout": "timeout",
}
"""Reason of a forced release to its label in upstream's metric of forced detaches."""


def refused(code: str, message: str) -> Verdict:
    """The volume stays where it is."""
    return Verdict(False, False, Reason(code, message))


def release_silent(node: NodeState | None, attachment: Attachment, terms: Terms) -> Verdict:
    """Whether what a silent or absent node has may be released, by whose word."""
    word = _word(node, attachment)
    if word is not None:
        return Verdict(True, True, word)
    return _absence(node, attachment, terms) or _timer(node, attachment, terms)


def _word(node: NodeState | None, attachment: Attachment) -> Reason | None:
    """What somebody who knows has said."""
    where, seen = f"node {attachment.node}", node.node if node is not None else None
    evidence, statement = attachment.evidence, attachment.statement
    if evidence is not None and evidence_holds(evidence, seen, attachment.node_uid, attachment.absent_since):
        return Reason("Fenced", f"{where} was fenced by {evidence.by} (boot {evidence.boot_id or 'unknown'})")
    if node is not None and node.out_of_service:
        return Reason("OutOfService", f"{where} was declared out of service")
    if statement is not None and statement_holds(statement, seen, attachment.node_uid):
        whom = f"{statement.by or 'an operator'} has stated at {statement.at or 'some time'}"
        return Reason("ConfirmedDead", f"{whom} that {where} (uid {statement.node_uid}) is dead")
    return None


def _absence(node: NodeState | None, attachment: Attachment, terms: Terms) -> Verdict | None:
    """The deletion of the Node, where the policy takes it for a statement: absent in two live reads after the mark."""
    if node is not None or not (terms.policy.node_deletion_confirms_death and terms.revokes):
        return None
    where = f"Node {attachment.node} was deleted"
    if not (attachment.marked and attachment.absent_since):
        reason = Reason("NodeDeleted", f"{where}: its volumes are released if it stays away")
        return Verdict(False, False, reason, begin=NODE_ABSENT_SINCE, look=True)
    left = ABSENCE_S - _elapsed(attachment.absent_since, terms)
    if left > 0:
        return Verdict(False, False, Reason("NodeDeleted", f"{where}: it is looked for once more"), after=left)
    return Verdict(True, True, Reason("NodeDeleted", f"{where}, which counts as the word that its machine is off"))


def _timer(node: NodeState | None, attachment: Attachment, terms: Terms) -> Verdict:
    kept = _kept(node, attachment)
    limit = terms.policy.force_detach_after
    if not (limit and terms.revokes):
        return kept
    if not attachment.force_since:
        return kept._replace(begin=FORCE_DETACH_SINCE)
    left = limit - _elapsed(attachment.force_since, terms)
    if left > 0:
        due = format_time(parse_time(attachment.force_since) + timedelta(seconds=limit))
        message = f"{kept.reason.message}; it is taken from there at {due}: the storage then cuts the node off"
        return kept._replace(reason=Reason(kept.reason.code, message), after=left)
    said = f"node {attachment.node} has not answered since {attachment.force_since}, longer than {limit:g} s"
    return Verdict(True, True, Reason("ForceDetachTimeout", f"{said}; the storage cuts it off"))


def _kept(node: NodeState | None, attachment: Attachment) -> Verdict:
    where = f"node {attachment.node}"
    if node is None:
        message = f"{where} does not exist any more; whether its machine still writes is not known"
        return refused("NodeGone", f"{message}; if it is certainly off: mooring node confirm-dead {attachment.node}")
    if node.tainted and node.taint_spent:
        return refused("TaintSpent", f"{where} has reported under its out-of-service taint: set the taint anew")
    advice = f"if the machine is certainly off, say so: mooring node confirm-dead {attachment.node}"
    return refused("NodeNotAnswering", f"{where} does not answer and may still write; {advice}")


def _elapsed(since: str, terms: Terms) -> float:
    return (terms.now - parse_time(since)).total_seconds()
