"""What is read live before the data of a volume is destroyed, in which order, and what follows from it; and
that a claim is let go after its volume is written.

Sources: docs/protocol.md, "Reclaim": first the mark, from which on nothing attaches the volume, then all that
may have it still; and "a disk is never forgotten".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mooring.controllers.provisioning.controller import ProvisioningController
from mooring.controllers.provisioning.reclaim import Reclaimer
from mooring.kube.errors import AlreadyExists
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim, Pod, StorageClass, VolumeAttachment
from mooring.simulation.checks.second_opinions.provisionings import BEGUN, maker_of
from mooring.simulation.checks.second_opinions.question import Question
from mooring.simulation.checks.second_opinions.reclaiming import of_end, of_mark, of_users
from mooring.simulation.checks.second_opinions.server_requests import (
    Mark,
    Request,
    begins,
    found_live,
    listed_live,
    requests_since,
)


def of_marked(answer: bool, mark: Mark, asked: Reclaimer, pv: PersistentVolume) -> Iterator[str]:
    """The very volume is to be reclaimed, as a live read shows it, and is still of the same claim."""
    shown = found_live(mark, PersistentVolume, pv.name)
    if not shown:
        yield f"whether {pv.name} is to be reclaimed was not read live"
    elif shown[-1] is None or shown[-1].uid != pv.uid:
        if answer:
            yield f"{pv.name} of uid {pv.uid} is to be reclaimed, and is not there"
    elif shown[-1].spec.claim_ref != pv.spec.claim_ref:
        if answer:
            yield f"{pv.name} is to be reclaimed, and is of another claim by now"
    else:
        yield from of_mark(answer, shown[-1])


def of_no_claim(answer: bool, mark: Mark, asked: Reclaimer, pv: PersistentVolume) -> Iterator[str]:
    """The claim that the volume names is read live."""
    named = pv.spec.claim_ref
    shown = found_live(mark, PersistentVolumeClaim, f"{named.namespace}/{named.name}") if named else [None]
    if not shown:
        yield f"the claim of {pv.name} was not read live"
    else:
        yield from of_end(answer, pv, shown[-1])


def of_attached(answer: Sequence[str], mark: Mark, asked: Reclaimer, pv: PersistentVolume) -> Iterator[str]:
    """All nodes to which a live VolumeAttachment of the volume names."""
    live = listed_live(mark, VolumeAttachment)
    if live is None:
        yield f"whether {pv.name} is attached was not read live"
        return
    names = [each.spec.node_name for each in live if each.spec.source.persistent_volume_name == pv.name]
    if sorted(answer) != sorted(names):
        yield f"{pv.name} counts as attached to {answer}, and is attached to {names}"


def of_pods(answer: Sequence[Pod], mark: Mark, asked: Reclaimer, pv: PersistentVolume) -> Iterator[str]:
    """Pods of the claim's namespace are listed live; a pod that uses the claim counts, unless a live read of
    the claim shows another one."""
    named = pv.spec.claim_ref
    live = listed_live(mark, Pod, named.namespace) if named is not None else []
    if named is None or live is None:
        yield f"which pods use {pv.name} was not read live"
        return
    key = f"{named.namespace}/{named.name}"
    if any(shown is not None for shown in found_live(mark, PersistentVolumeClaim, key)):
        return
    yield from of_users(answer or (), key, live)


def of_others(answer: Sequence[str], mark: Mark, asked: Reclaimer, pv: PersistentVolume) -> Iterator[str]:
    """People may name a disk twice, so all volumes are listed live for theirs; a provisioner names each
    volume that it makes once, and a list of all would cost too much."""
    listed = listed_live(mark, PersistentVolume) is not None
    if listed == bool(maker_of(pv)):
        yield f"{pv.name}, made by {maker_of(pv) or 'people'}: all volumes are {'' if listed else 'not '}listed"


def of_reclaiming(
    answer: PersistentVolume | None, mark: Mark, asked: Reclaimer, pv: PersistentVolume, *how: object
) -> Iterator[str]:
    """Nothing is destroyed before all has been read: the mark first, then the claim, what is attached, and
    the pods that may have it mounted; and the mark once more."""
    reads = [each for each in requests_since(mark) if each.verb in ("get", "list")]
    order = [each.kind for each in reads]
    expected = [PersistentVolume, PersistentVolumeClaim, VolumeAttachment, Pod]
    first = [kind for number, kind in enumerate(order) if kind not in order[:number]]
    if answer and [kind for kind in first if kind in expected] != expected:
        yield f"{pv.name} is reclaimed after reads of {[kind.__name__ for kind in first]}"
    elif answer and not any(_is_of_the_mark(each, pv) for each in reads[order.index(Pod) :]):
        yield f"{pv.name} is reclaimed, and its mark is not read once more"


def of_a_claim_let_go(
    answer: None, mark: Mark, asked: Any, claim: PersistentVolumeClaim, storage_class: StorageClass
) -> Iterator[str]:
    """A claim keeps the finalizer that says that a volume is being made until that volume is written, or is
    known to be there."""
    known = False
    for each in requests_since(mark):
        known |= _is_written(each)
        if _lets_go(each, claim) and not known:
            yield f"claim {claim.key} is let go, and the volume that was made for it is not written"


def _is_of_the_mark(each: Request, pv: PersistentVolume) -> bool:
    return each.verb == "get" and each.kind is PersistentVolume and each.key == pv.name


def _is_written(each: Request) -> bool:
    of_volume = each.verb == "create" and each.kind is PersistentVolume
    return of_volume and (each.succeeded or isinstance(each.answer, AlreadyExists))


def _lets_go(each: Request, claim: PersistentVolumeClaim) -> bool:
    if each.verb != "patch" or each.kind is not PersistentVolumeClaim or each.key != claim.key:
        return False
    return BEGUN not in each.body.get("metadata", {}).get("finalizers", [BEGUN])


QUESTIONS = (
    Question(Reclaimer, "_is_marked", of_marked, before=begins),
    Question(Reclaimer, "_claim_is_gone", of_no_claim, before=begins),
    Question(Reclaimer, "_attached_to", of_attached, before=begins),
    Question(Reclaimer, "_used_by", of_pods, before=begins),
    Question(Reclaimer, "_named_by_others", of_others, before=begins),
    Question(Reclaimer, "_reclaim", of_reclaiming, before=begins),
    Question(ProvisioningController, "_provision", of_a_claim_let_go, before=begins),
)
