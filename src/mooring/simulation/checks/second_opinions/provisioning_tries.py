"""What is known to be there for a claim after tries that have failed, and what becomes of the claim then.

Sources: docs/protocol.md, "Reclaim" (a disk is never forgotten); upstream's external-provisioner, which tells
errors that are final from those after which a volume may be in the making, and gives a claim back to the
scheduler if its node has no room (ProvisioningReschedule). Of a mark that another process may have written
nothing is known: a leader that has lost its lease may go on for a while (docs/safety.md, `two-leaders`).

For which claims nothing can be there is remembered here as well, from the answers and what the watch tells
alone. Who goes on with what another process has begun signs it first: then nothing is certain any more for
the other one, and its late writes are refused (docs/protocol.md, C3).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from mooring.controllers.provisioning.begun_claims import BegunClaims
from mooring.controllers.provisioning.controller import ProvisioningController
from mooring.controllers.provisioning.request import Requests
from mooring.kube.errors import KubeError
from mooring.kube.objects import Node, PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.simulation.checks.second_opinions.bindings import SELECTED_NODE
from mooring.simulation.checks.second_opinions.memories import Memories
from mooring.simulation.checks.second_opinions.near_arguments import given, near_to, of, said
from mooring.simulation.checks.second_opinions.provisionings import (
    ASKED_BY,
    BEGUN,
    DELAYED,
    SIGNED,
    signed_by,
    wants,
)
from mooring.simulation.checks.second_opinions.question import Question
from mooring.volumes.errors import InvalidSpec, NodeUnsuited, NotAsked, StorageFull, StorageRefused
from mooring.volumes.interfaces import ModifiableVolumePlugin

UNTOUCHED: Memories[set[str]] = Memories(set)
"""Of each provisioner: uids of claims that it has marked as begun, that have had that mark since and no other
signature, and of which each try had certainly no effect."""


BEGUN_FOR: Memories[dict[str, str]] = Memories(dict)
"""Of each provisioner: uid of a claim that has had that mark since → the node whose Node it has seen last."""


LET_GO: Memories[dict[str, Mapping[str, str | None]]] = Memories(dict)
"""Of each provisioner: uid of a claim that it has let go last → with which annotations."""


def of_finalizers(
    answer: PersistentVolumeClaim,
    asked: Any,
    claim: PersistentVolumeClaim,
    finalizers: Sequence[str],
    annotations: Mapping[str, str | None],
) -> Iterable[str]:
    """By this write a claim is held, or let go."""
    LET_GO.of(asked).pop(claim.uid, None)
    if BEGUN not in finalizers:
        LET_GO.of(asked)[claim.uid] = annotations
    elif (last := (annotations.get(ASKED_BY) or "").rpartition(" ")[2]) == claim.metadata.resource_version:
        SIGNED.of(asked)[claim.uid] = last
    else:
        SIGNED.of(asked).pop(claim.uid, None)  # it takes its signature back
    return ()


def _is_signed_by_it_alone(asked: Any, claim: PersistentVolumeClaim) -> bool:
    return BEGUN in claim.metadata.finalizers and signed_by(claim) == [SIGNED.of(asked).get(claim.uid)]


def of_a_beginning(answer: PersistentVolumeClaim, asked: Any, claim: PersistentVolumeClaim) -> Iterator[str]:
    """Who writes first that it has begun knows that nothing is there, unless its end, or that of the mark, or
    another one who asks, is told already. What is asked for is written down, and by whom."""
    known = asked._claims.get(claim.key)
    told = known is None or known.uid != claim.uid or not _is_signed_by_it_alone(asked, known)
    if BEGUN not in claim.metadata.finalizers and not told:
        UNTOUCHED.of(asked).add(claim.uid)
    if BEGUN not in answer.metadata.finalizers:
        yield f"claim {claim.key} is not marked, and its volume is about to be made"
    if SIGNED.of(asked).get(claim.uid) not in signed_by(answer):
        yield f"claim {claim.key} is not signed by who is about to ask for its volume"


def of_a_change(
    answer: None, asked: Any, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None
) -> Iterable[str]:
    """A claim that is told without the mark may be marked by another process next: also if this one tries to,
    and has no answer. So may one be that another has signed. Of one that has gone nothing is to be known any
    more."""
    told = new or old
    if told is not None and (new is None or BEGUN not in new.metadata.finalizers):
        BEGUN_FOR.of(asked).pop(told.uid, None)
    if new is not None and not _is_signed_by_it_alone(asked, new):
        UNTOUCHED.of(asked).discard(new.uid)
    return ()


def of_a_try(
    answer: PersistentVolume | Exception, asked: Any, claim: PersistentVolumeClaim, provisioner: Any
) -> Iterable[str]:
    """A disk may be there unless the storage was not asked, or has refused."""
    if not isinstance(answer, StorageRefused | NotAsked | InvalidSpec):
        UNTOUCHED.of(asked._begun).discard(claim.uid)
    return ()


def _is_untouched(asked: Any, claim: PersistentVolumeClaim) -> bool:
    """Of a claim whose end was told nothing is remembered."""
    begun = asked._begun
    known = begun._claims.get(claim.key)
    return known is not None and known.uid == claim.uid and claim.uid in UNTOUCHED.of(begun)


def _is_nothing_there(asked: Any, claim: PersistentVolumeClaim, error: Exception) -> bool:
    """Its storage, or its own words, say that nothing can be; or all that was tried so far is known to have
    had no effect."""
    return isinstance(error, StorageRefused | InvalidSpec) or _is_untouched(asked, claim)


def of_nothing(answer: bool, asked: Any, claim: PersistentVolumeClaim, error: Exception) -> Iterator[str]:
    if answer != _is_nothing_there(asked, claim, error):
        yield f"after {type(error).__name__} nothing is there for {claim.key}: {answer}"


def of_elsewhere(
    answer: bool, asked: Any, claim: PersistentVolumeClaim, storage_class: StorageClass
) -> Iterator[str]:
    """A volume may be made for another node if the scheduler chooses nodes for its class, and nothing is
    there yet."""
    delayed = storage_class.volume_binding_mode == DELAYED
    if answer != (delayed and _is_untouched(asked, claim)):
        yield f"claim {claim.key} can have a volume elsewhere: {answer}"


def of_selected_node(
    answer: Node | Exception | None, asked: Any, claim: PersistentVolumeClaim, storage_class: StorageClass
) -> Iterator[str]:
    """The scheduler says on the claim which node it has chosen. If that has gone, a volume that may be there
    is asked for at its place all the same; where nothing is there the scheduler chooses another."""
    name = claim.metadata.annotations.get(SELECTED_NODE)
    elsewhere = storage_class.volume_binding_mode == DELAYED and _is_untouched(asked, claim)
    if isinstance(answer, NodeUnsuited):
        if not elsewhere:
            yield f"claim {claim.key} is not made for {name}, and its volume may be there"
    elif isinstance(answer, Node):
        BEGUN_FOR.of(asked._begun)[claim.uid] = answer.name
        if answer.name != name:
            yield f"the node of claim {claim.key} is {answer.name}, and not {name}"
    elif answer is None and name and (elsewhere or BEGUN_FOR.of(asked._begun).get(claim.uid) == name):
        yield f"claim {claim.key} is made anywhere, and node {name} is selected"


def untouched_before(
    asked: Any, claim: PersistentVolumeClaim, written: StorageClass, *prepared: object
) -> bool:
    """Asked before the try: what is known of a claim is gone when it has been let go."""
    return _is_untouched(asked, claim)


def of_a_failure(
    answer: PersistentVolume | Exception,
    was_untouched: bool,
    asked: Any,
    claim: PersistentVolumeClaim,
    written: StorageClass,
    *prepared: object,
) -> Iterator[str]:
    """A claim for which nothing is there is let go if it wants nothing any more, unless another process may
    be asking for it, and given back to the scheduler if its node cannot have it."""
    if not isinstance(answer, Exception) or isinstance(answer, KubeError):
        return
    let_go = LET_GO.of(asked._begun).get(claim.uid)
    delayed = written.volume_binding_mode == DELAYED
    untouched = was_untouched if let_go is not None else _is_untouched(asked, claim)
    unsuited = isinstance(answer, StorageFull | NodeUnsuited) and delayed and untouched
    unwanted = _is_nothing_there(asked, claim, answer) and not wants(claim, written, asked._ours)
    unwanted = unwanted and len(signed_by(claim)) < 2
    if (unsuited or unwanted) and let_go is None:
        yield f"claim {claim.key} is kept, and nothing is there for it ({type(answer).__name__})"
    if unsuited and SELECTED_NODE not in (let_go or {}):
        yield f"claim {claim.key} keeps its node, which cannot have its volume"


def of_attributes(
    answer: Mapping[str, str] | Exception, asked: Any, claim: PersistentVolumeClaim, plugin: object
) -> Iterator[str]:
    """A claim that names no VolumeAttributesClass asks for none; one that does has no volume of a storage
    whose volumes have no attributes, and one of another by what the class says."""
    name, can = claim.spec.volume_attributes_class_name, isinstance(plugin, ModifiableVolumePlugin)
    if not name and answer != {}:
        yield f"claim {claim.key} names no VolumeAttributesClass, and its volume gets {answer}"
    if name and not can and not isinstance(answer, InvalidSpec):
        yield f"claim {claim.key} is of VolumeAttributesClass {name}, and its volume can have no attributes"
    if name and can and isinstance(answer, InvalidSpec) and "have no attributes" in str(answer):
        yield f"claim {claim.key} is refused, and its volume can have attributes"


ERRORS = (StorageRefused(""), StorageFull(""), InvalidSpec(""), NotAsked(""), NodeUnsuited(""), OSError(""))
OF_ERRORS = near_to([given("error", *ERRORS)], share=2.0)
OF_CLASSES = near_to(of("storage_class", said("volume_binding_mode", "Immediate", DELAYED)), share=2.0)
"""What a provisioner remembers stays as it is; with which error a try ended, and of which class, could be
otherwise."""


QUESTIONS = (
    Question(Requests, "_attributes", of_attributes, refusals=(Exception,)),
    Question(BegunClaims, "_set_finalizers", of_finalizers),
    Question(BegunClaims, "_changed", of_a_change),
    Question(BegunClaims, "begin", of_a_beginning),
    Question(ProvisioningController, "_ask", of_a_try, refusals=(Exception,)),
    Question(ProvisioningController, "_is_nothing_there", of_nothing, near=OF_ERRORS),
    Question(ProvisioningController, "_can_go_elsewhere", of_elsewhere, near=OF_CLASSES),
    Question(ProvisioningController, "_selected_node", of_selected_node, refusals=(NodeUnsuited,)),
    Question(ProvisioningController, "_make", of_a_failure, before=untouched_before, refusals=(Exception,)),
)
