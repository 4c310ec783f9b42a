"""When a volume may be taken from a node: docs/protocol.md, "When a node does not answer" and "Detach".

Every word by which it may be taken is judged by itself; the most trusted of those that hold is the answer's
reason."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID

from mooring.controllers.attachdetach import decide, handshake
from mooring.controllers.attachdetach.release import Release, ReleaseDecision
from mooring.controllers.attachdetach.state import Attachment, NodeState, Policy, Terms
from mooring.kube.objects import Node
from mooring.simulation.checks.second_opinions.near_states import RELEASES
from mooring.simulation.checks.second_opinions.question import Question
from mooring.volumes.names import FORCE_DETACH_SINCE, NODE_ABSENT_SINCE, STATUS_WRITE

NO_TERMS = Terms(Policy(0.0, False), datetime(1970, 1, 1, tzinfo=UTC), False)
TWO_LOOKS_S = 40.0
"""Between the two live reads that have to find no Node, where its deletion confirms a death."""


def is_of_another_machine(node: NodeState | None, held: Attachment) -> bool:
    """Another machine has the name of the one that the volume was attached to."""
    return node is not None and node.node is not None and is_not_machine(node.node, held.machine)


def is_not_machine(node: Node, recorded: str) -> bool:
    """The Node is not of the recorded machine: both tell a system UUID, or both a provider ID, and these
    differ (docs/fencing.md, "Two machines of one name")."""
    if not recorded or recorded == f"{node.status.node_info.system_uuid} {node.spec.provider_id}":
        return False
    uuid, _, provider = recorded.partition(" ")
    others = "" != provider != node.spec.provider_id != ""
    return others or _differ(node.status.node_info.system_uuid, uuid)


def _differ(one: str, other: str) -> bool:
    """Some kernels show the first three fields of a UUID the other way round."""
    if not one or not other or one == other:
        return False
    try:
        left, right = UUID(one), UUID(other)
    except ValueError:
        return True
    return left not in (right, UUID(bytes=right.bytes_le))


def is_of_its_registration(node: NodeState, held: Attachment) -> bool:
    """The Node is the very one that the volume was attached to. Upstream's controller records no uid: then
    one that is younger than the VolumeAttachment is not the one (C13)."""
    younger = bool(held.created) and held.created < node.created
    known = node.uid == held.node_uid if held.node_uid else not younger
    return known and not is_of_another_machine(node, held)


def lets_go(node: NodeState | None, held: Attachment) -> bool:
    """The node's own word: its Node does not list the volume as in use, and can know that, since it is the
    one that it was attached to, or its agent has looked for old mounts (C5, C13)."""
    if node is None or node.in_use or is_of_another_machine(node, held):
        return False
    return node.reconstructed or is_of_its_registration(node, held)


def answers(node: NodeState | None, held: Attachment) -> bool:
    """Ready is True or False; with False an agent is alive and reports (C10)."""
    return node is not None and node.ready != "Unknown" and not is_of_another_machine(node, held)


def shown_off(node: NodeState | None, held: Attachment) -> bool:
    """Evidence of a fence: of the uid and the boot that the Node shows (C8); where there is no Node of that
    machine, of an order that was given when there was none (C9)."""
    evidence = held.evidence
    if evidence is None:
        return False
    if (seen := _seen(node, held)) is None:
        return evidence.absent and evidence.node_uid == held.node_uid
    shown = seen.status.node_info.boot_id
    return shown != "" and evidence.boot_id == shown and evidence.node_uid == seen.uid


def stated_dead(node: NodeState | None, held: Attachment) -> bool:
    """An operator's statement: about uid, boot and last report of a silent node, or about an absent one, and
    about none of these when it was made about the other (C9, C12b)."""
    statement = held.statement
    if statement is None:
        return False
    seen = _seen(node, held)
    if statement.absent or seen is None:
        return statement.absent and seen is None and statement.node_uid == held.node_uid
    if seen.ready != "Unknown" or statement.node_uid != seen.uid:
        return False
    return statement.boot_id == seen.status.node_info.boot_id and statement.report == reported(node, held)


def reported(node: NodeState | None, held: Attachment) -> str:
    """What tells one report of its agent from the next; "" if none is seen."""
    if (seen := _seen(node, held)) is None:
        return ""
    heartbeats = [each.last_heartbeat_time for each in seen.status.conditions if each.type == "Ready"]
    return seen.metadata.annotations.get(STATUS_WRITE) or next(iter(heartbeats), None) or ""


def _seen(node: NodeState | None, held: Attachment) -> Node | None:
    return None if node is None or is_of_another_machine(node, held) else node.node


def _age_s(since: str, terms: Terms) -> float:
    return terms.ages.get(since, 0.0)


def words_for(node: NodeState | None, held: Attachment, terms: Terms) -> list[str]:
    """The codes of all that permits a release now, the most trusted first."""
    other = is_of_another_machine(node, held)
    silent = not answers(node, held) and not lets_go(node, held)
    deletion_counts = node is None and terms.revokes and terms.policy.node_deletion_confirms_death
    limit = terms.policy.force_detach_after
    timed = terms.revokes and limit > 0 and not deletion_counts
    found = [("Broken", held.broken != ""), ("NotInUse", lets_go(node, held))]
    if silent:
        looked = deletion_counts and held.marked and held.absent_since != ""
        found += [
            ("Fenced", shown_off(node, held)),
            ("OutOfService", node is not None and node.out_of_service and not other),
            ("ConfirmedDead", stated_dead(node, held)),
            ("NodeDeleted", looked and _age_s(held.absent_since, terms) >= TWO_LOOKS_S),
            (
                "ForceDetachTimeout",
                timed and _has_begun(node, held) and _age_s(held.force_since, terms) >= limit,
            ),
        ]
    return [code for code, holds in found if holds]


class Verdict(NamedTuple):
    """What an answer has to say."""

    action: Release
    code: str
    after: float = 0.0
    begin: str = ""


def verdict_on(node: NodeState | None, held: Attachment, terms: Terms) -> Verdict:
    """What permits a release, or why there is none, and which timer begins or runs."""
    if words := words_for(node, held, terms):
        return Verdict(Release.ALLOW if words[0] == "NotInUse" else Release.FORCE, words[0])
    begin, after = _timer(node, held, terms)
    looked_for = begin == NODE_ABSENT_SINCE
    return Verdict(
        Release.LOOK if looked_for else Release.KEEP, _code_of_refusal(node, held, terms), after, begin
    )


def release(
    answer: ReleaseDecision, node: NodeState | None, held: Attachment, terms: Terms = NO_TERMS
) -> Iterator[str]:
    """Also, of a machine that has lost its name to another one, which it is."""
    expected = verdict_on(node, held, terms)
    got = Verdict(answer.action, answer.reason.code, answer.after, answer.begin)
    if got[:2] != expected[:2] or got.begin != expected.begin or abs(got.after - expected.after) > 1e-3:
        yield f"of node {held.node}: {got}, and not {expected}"
    machine = held.machine.strip().split(" ")[0]
    if got.code == "AnotherMachine" and machine not in answer.reason.message:
        yield f"the volume is with machine {machine}, and it is not said: {answer.reason.message}"


def _timer(node: NodeState | None, held: Attachment, terms: Terms) -> tuple[str, float]:
    """The annotation of the timer that has to begin, or "", and the seconds until the one that runs is
    over."""
    if not terms.revokes or answers(node, held):
        return "", 0.0
    if node is None and terms.policy.node_deletion_confirms_death:
        if held.marked and held.absent_since:
            return "", TWO_LOOKS_S - _age_s(held.absent_since, terms)
        return NODE_ABSENT_SINCE, 0.0
    limit = terms.policy.force_detach_after
    if not limit:
        return "", 0.0
    if not _has_begun(node, held):
        return FORCE_DETACH_SINCE, 0.0
    return "", limit - _age_s(held.force_since, terms)


def _has_begun(node: NodeState | None, held: Attachment) -> bool:
    """Whether the timer has, in this silence: a Node that tells another report than it did then has spoken
    since."""
    then, now = held.force_report, reported(node, held)
    return held.force_since != "" and (then in ("", now) or now == "")


def _code_of_refusal(node: NodeState | None, held: Attachment, terms: Terms) -> str:
    if node is None:
        waits = terms.revokes and terms.policy.node_deletion_confirms_death
        return "NodeDeleted" if waits else "NodeGone"
    if is_of_another_machine(node, held):
        return "AnotherMachine"
    if answers(node, held):
        return "InUse"
    return "TaintSpent" if node.tainted and node.taint_spent else "NodeNotAnswering"


QUESTIONS = (
    Question(decide, "may_release", release),
    Question(handshake, "may_release", release, near=RELEASES),
)
