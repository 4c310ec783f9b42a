"""Why a volume is not attached where it is wanted, or is not deleted."""

from __future__ import annotations

from mooring.controllers.attachdetach.decide import (
    Action,
    Attachment,
    NodeState,
    Policy,
    Terms,
    VolumeDecision,
    VolumeState,
    decide,
    demands_of,
    is_detached,
)
from mooring.kube.objects import PersistentVolume
from mooring.kube.reason import Reason
from mooring.volumes.attachment_lock import Lock, lock_of
from mooring.volumes.errors import VolumeError
from mooring.volumes.spec import VolumeSpec
from mooring.why.cause import Cause, about, fine
from mooring.why.explain_nodes import explain_absence, explain_node
from mooring.why.snapshot import Snapshot

_DOING = (Action.ATTACH, Action.GRANT, Action.REPORT, Action.RESTORE, Action.RESTAMP, Action.DETACH)
_NEXT = {
    "LockDamaged": "when no node uses the volume: kubectl annotate pv {name} mooring.dev/attached-to-",
    "Detached": "this ends by itself, within a minute for CSI volumes; on another node the pod would have it at once",
    "ClosedNode": "this ends by itself when the node's agent answers; after a restart of its machine at the latest",
}
"""What a person can do, by the code of a reason that does not come from a node."""


def explain_volume(pv: PersistentVolume, known: Snapshot) -> Cause:
    """Explains a PersistentVolume: its deletion, its phase, its attachments."""
    if pv.deleting:
        return _vanishing(pv, known)
    failed = known.warning(pv)
    if pv.status.phase == "Failed" or (pv.status.phase == "Released" and failed is not None):
        code, message = (failed.reason, failed.message) if failed else ("VolumeFailed", pv.status.message)
        step = f"mend what the storage says; or delete the volume there, then: kubectl delete pv {pv.name}"
        return Cause(about(pv), Reason(code, message), since=_when(failed), next_step=step)
    stuck = explain_attachments(VolumeSpec.of_persistent_volume(pv), known)
    if stuck is not None:
        return Cause(
            about(pv), stuck.reason, since=stuck.since, next_step=stuck.next_step, causes=stuck.causes
        )
    if pv.status.phase == "Released" and pv.spec.persistent_volume_reclaim_policy == "Retain":
        reference = pv.spec.claim_ref
        whose = f"{reference.namespace}/{reference.name}" if reference else "a claim"
        message = f"volume {pv.name} keeps the data of claim {whose}, which is gone (Retain)"
        step = f"to give it to a new claim: kubectl patch pv {pv.name} --type json -p "
        step += """'[{"op":"remove","path":"/spec/claimRef"}]'; to give it up: kubectl delete pv """ + pv.name
        return Cause(about(pv), Reason("Retained", message), next_step=step)
    return fine(
        pv, f"volume {pv.name} is {pv.status.phase or 'new'}{_where(pv, known)}", pv.status.phase or "Healthy"
    )


def _where(pv: PersistentVolume, known: Snapshot) -> str:
    name = known.unique_name(VolumeSpec.of_persistent_volume(pv))
    nodes = (
        [each.spec.node_name for each in known.attachments_of(name) if each.status.attached] if name else []
    )
    return f" and attached to node {', '.join(nodes)}" if nodes else ""


def _vanishing(pv: PersistentVolume, known: Snapshot) -> Cause:
    held = ", ".join(pv.metadata.finalizers) or "nothing"
    reference = pv.spec.claim_ref
    claim = known.claims.get(f"{reference.namespace}/{reference.name}") if reference else None
    if claim is not None and pv.status.phase == "Bound":
        message = f"volume {pv.name} is being deleted, and kept because claim {claim.key} is bound to it"
        step = f"delete the claim: kubectl -n {claim.namespace} delete pvc {claim.name}"
    else:
        message = f"volume {pv.name} is being deleted, and held by {held}"
        step = "the controller that set the finalizer removes it when its work is done: look at its log"
    failed = known.warning(pv)
    why = Cause(about(pv), Reason(failed.reason, failed.message), since=_when(failed)) if failed else None
    since = pv.metadata.deletion_timestamp or ""
    return Cause(about(pv), Reason("HeldByFinalizer", message), since=since, next_step=step).because(why)


def explain_attachments(spec: VolumeSpec, known: Snapshot, node: str = "") -> Cause | None:
    """Returns the first of the attach/detach controller's decisions about the volume that is
    not settled, or None.

    With `node`: the decision about that node alone.
    """
    volume = known.unique_name(spec)
    if not volume:
        return None
    state = volume_state(volume, spec, known)
    for decision in decide(state):
        if decision.action is not Action.SETTLED and node in ("", decision.node):
            return _stuck(spec, state, decision, known)
    return None


def volume_state(volume: str, spec: VolumeSpec, known: Snapshot) -> VolumeState:
    """Returns the state on which the attach/detach controller would decide."""
    records = known.attachments_of(volume)
    attachability = known.attachability
    demands = demands_of(known.users(volume))
    concerned = {demand.node for demand in demands} | {record.spec.node_name for record in records}
    return VolumeState(
        volume=volume,
        several_nodes=attachability.several_nodes(spec),
        demands=demands,
        attachments=tuple(Attachment.of(record) for record in records),
        nodes={name: NodeState.of(known.nodes[name], volume) for name in concerned if name in known.nodes},
        terms=Terms(Policy(), revokes=attachability.revokes(volume, spec)),
        locked=attachability.needs_lock(spec),
        lock=_lock(spec.persistent_volume),
    )


def _lock(persistent_volume: PersistentVolume | None) -> Lock | None:
    try:
        return lock_of(persistent_volume)
    except VolumeError:
        return None


def _stuck(spec: VolumeSpec, state: VolumeState, decision: VolumeDecision, known: Snapshot) -> Cause:
    record = next((r for r in known.attachments_of(state.volume) if r.spec.node_name == decision.node), None)
    subject = f"volumeattachment/{record.name}" if record is not None else _subject(spec)
    reason = decision.reason
    if decision.reason.code == "MultiAttach":
        return Cause(_subject(spec), reason, next_step=_advice(state, known)).because(
            *_holders(state, decision, known)
        )
    if record is not None and reason.code in ("Attaching", "Detaching"):
        error = record.status.detach_error if record.deleting else record.status.attach_error
        since = (
            error.time if error else record.metadata.deletion_timestamp or record.metadata.creation_timestamp
        ) or ""
        step = (
            "the attacher tries again by itself, with growing pauses; mend what the storage says"
            if error
            else ""
        )
        return Cause(subject, reason, since=since, next_step=step).because(_node(decision.node, known))
    if decision.action in _DOING:
        step = "this lasts moments; if not, see whether the attach/detach controller runs: mooring status"
        return Cause(subject, reason, next_step=step)
    step = _NEXT.get(reason.code, "")
    return Cause(subject, reason, next_step=step.format(name=spec.name)).because(_node(decision.node, known))


def _subject(spec: VolumeSpec) -> str:
    return f"{'pv' if spec.persistent_volume is not None else 'volume'}/{spec.name}"


def _holders(state: VolumeState, decision: VolumeDecision, known: Snapshot) -> list[Cause | None]:
    """Returns which other nodes have the volume: their VolumeAttachments, pods, and a node
    with which something is wrong."""
    found: list[Cause | None] = []
    for record in known.attachments_of(state.volume):
        if record.spec.node_name == decision.node or is_detached(record):
            continue
        node = record.spec.node_name
        pods = [demand.pods for demand in state.demands if demand.node == node]
        whom = f" for pod {', '.join(pods[0])}" if pods else ", no pod there wants it any more"
        doing = "is being detached from" if record.deleting else "is attached to"
        message = f"the volume {doing} node {node}{whom}"
        held = Cause(f"volumeattachment/{record.name}", Reason("AttachedElsewhere", message))
        since = record.metadata.deletion_timestamp or record.metadata.creation_timestamp or ""
        found.append(Cause(held.about, held.reason, since=since).because(_node(node, known)))
    return found


def _advice(state: VolumeState, known: Snapshot) -> str:
    for demand in state.demands:
        held = any(each.node == demand.node for each in state.attachments)
        node = known.nodes.get(demand.node)
        if held and demand.starting and node is not None and node.ready == "True":
            return f"delete one of the pods ({', '.join(demand.pods)} has the volume), or let both run on one node"
    return ""


def _node(name: str, known: Snapshot) -> Cause | None:
    node = known.nodes.get(name)
    if node is None:
        return explain_absence(name, known)
    return explain_node(node, known) if node.ready != "True" else None


def _when(event: object) -> str:
    return getattr(event, "last_timestamp", "") or ""
