"""What is so when the binder, or the provisioner, is done with a claim or a volume; and what they must have
read live before.

Sources: docs/protocol.md, "Reclaim": data is destroyed upon what is called released, and a protection that is
gone does not come back; `kube/controller.py`: a key whose work ends well does not come back by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, cast

from mooring.controllers.binding.controller import BindingController
from mooring.controllers.binding.decide import Action, ClaimDecision, decide_claim
from mooring.controllers.provisioning.controller import ProvisioningController
from mooring.kube.errors import KubeError
from mooring.kube.keys import ClaimKey, VolumeKey
from mooring.kube.objects import Object, PersistentVolume, PersistentVolumeClaim, Pod
from mooring.simulation.checks.second_opinions.binding_writes import RESIZER
from mooring.simulation.checks.second_opinions.bindings import BOUND, may_have, users_of
from mooring.simulation.checks.second_opinions.memories import Memories
from mooring.simulation.checks.second_opinions.question import Question
from mooring.simulation.checks.second_opinions.queues import is_brought_up
from mooring.simulation.checks.second_opinions.server_requests import (
    Mark,
    begins,
    differ,
    found_live,
    listed_live,
    requests_since,
)
from mooring.simulation.checks.second_opinions.work_left import (
    CLAIM_PROTECTION,
    VOLUME_PROTECTION,
    left_of,
)
from mooring.volumes.default_class import default_class

PROTECTED_BY: Mapping[type[Object], str] = {
    PersistentVolumeClaim: CLAIM_PROTECTION,
    PersistentVolume: VOLUME_PROTECTION,
}


def of_work(answer: None, mark: Mark, asked: Any, key: ClaimKey | VolumeKey) -> Iterator[str]:
    """When work on a key has ended well, nothing is left to be done about it, as far as is known; or it is
    looked at again. Not judged where a live read was newer than the caches; and of what was deleted, or has
    lost a finalizer, the cache is told later that it goes."""
    if is_brought_up(asked.queue, key):
        return
    if differ(mark, asked) or _is_let_go(mark, key):
        return
    if left := left_of(asked, key):
        yield f"{left} {key} is left to be done, and nothing looks at it again"


def _is_let_go(mark: Mark, key: ClaimKey | VolumeKey) -> bool:
    kind = PersistentVolumeClaim if isinstance(key, ClaimKey) else PersistentVolume
    writes = [each for each in requests_since(mark, kind=kind) if each.succeeded and each.key == key.name]
    return any(
        each.verb == "delete" or (each.verb == "patch" and "finalizers" in each.body.get("metadata", {}))
        for each in writes
    )


# --- claims


def what_is_decided(asked: Any, claim: PersistentVolumeClaim) -> ClaimDecision:
    """By the rule itself, which has its own opinion."""
    named, storage_class = asked._volumes.get(claim.spec.volume_name), asked._classes.get(claim.storage_class)
    default = default_class(asked._classes.items())
    return decide_claim(claim, named, asked._free, storage_class, default, asked._chosen)


def of_a_claim_that_waits(
    answer: None, decided: ClaimDecision, asked: Any, claim: PersistentVolumeClaim
) -> Iterator[str]:
    """It says what it waits for."""
    told = asked.recorder._last_reasons.get((claim.uid, ""))
    if decided.action is Action.WAIT and told != decided.reason:
        yield f"claim {claim.key} waits ({decided.reason.message}), and says {told}"


def of_protection(answer: bool, mark: Mark, asked: Any, claim: PersistentVolumeClaim) -> Iterator[str]:
    """That no pod uses a claim is believed after a live list alone: its protection does not come back."""
    live = listed_live(mark, Pod, claim.namespace)
    if not answer and (live is None or users_of(claim, live)):
        seen = "was not asked live" if live is None else f"live list shows {users_of(claim, live)}"
        yield f"claim {claim.key} counts as used by no pod: {seen}"
    if answer and not users_of(claim, [*asked._pods.items(), *(live or ())]):
        yield f"claim {claim.key} counts as used, and no pod is known that uses it"


def of_a_loss(
    answer: None, mark: Mark, asked: Any, claim: PersistentVolumeClaim, decision: ClaimDecision
) -> Iterator[str]:
    """A claim is told to be lost after a live read that shows no volume of its own. What that shows instead
    is known from then on."""
    name = claim.spec.volume_name
    told = any(
        each.body.get("status", {}).get("phase") == "Lost"
        for each in requests_since(mark, "patch", PersistentVolumeClaim)
    )
    shown = found_live(mark, PersistentVolume, name)
    if told and name and not shown:
        yield f"claim {claim.key} is told to be lost, and its volume was not read live"
    if told and shown and may_have(claim, shown[-1]):
        yield f"claim {claim.key} is told to be lost, and has {name}"
    if not told and shown and may_have(claim, shown[-1]):
        yield from _of_something_newer(asked, claim, shown[-1])


def _of_something_newer(asked: Any, claim: PersistentVolumeClaim, pv: PersistentVolume) -> Iterator[str]:
    cache = asked._volumes
    if may_have(claim, cache.get(pv.name)) or cache.version >= int(pv.metadata.resource_version):
        return
    yield f"claim {claim.key} has {pv.name}, as a live read showed, and the cache does not"


TOLD: Memories[list[str]] = Memories(list)
"""By the task that binds a claim: its writes that have marked keys."""


def of_a_write(
    answer: object,
    asked: Any,
    each: PersistentVolume | PersistentVolumeClaim,
    patch: Mapping[str, Any],
    *subresource: object,
    tell: bool = True,
) -> tuple[()]:
    """Whether a write marks keys is noted."""
    task = asyncio.current_task()
    told = TOLD.known(task) if task is not None else None
    if told is not None and tell and RESIZER not in patch.get("metadata", {}).get("annotations", {}):
        told.append(each.key)
    return ()


def binding_begins(*asked: object) -> list[str]:
    told = TOLD.of(asyncio.current_task())
    told.clear()
    return told


def of_quiet_writes(
    answer: object, told: list[str], asked: Any, claim: PersistentVolumeClaim, pv: PersistentVolume
) -> Iterator[str]:
    """What is written to bind a claim does not wake it: if the next write fails, it waits for its backoff."""
    if told:
        yield f"claim {claim.key} is being bound to {pv.name}, and is woken by the writes of {told}"


# --- volumes


def of_finalizers(answer: Any, mark: Mark, asked: Any, each: Any) -> Iterator[str]:
    """What stays is protected, and what is protected is not written; nothing that goes gets a finalizer."""
    protection = PROTECTED_BY[type(each)]
    writes = requests_since(mark, "patch", cast("type[Object]", type(each)))
    due = not each.deleting and protection not in each.metadata.finalizers
    if bool(writes) is not due:
        yield f"{each.key} has {each.metadata.finalizers}, and is written {len(writes)} times"
    elif due and not isinstance(answer, KubeError) and protection not in answer.metadata.finalizers:
        yield f"{each.key} is to be protected, and has {answer.metadata.finalizers}"


def of_its_owners(answer: list[PersistentVolumeClaim], asked: Any, pv: PersistentVolume) -> Iterator[str]:
    """The claims that were bound to it for good, and have it still, or may have it again."""
    expected = {
        each.key
        for each in asked._claims.items()
        if each.spec.volume_name == pv.name and BOUND in each.metadata.annotations and may_have(each, pv)
    }
    if {each.key for each in answer} != expected:
        yield f"{pv.name} is to be bound anew to {[each.key for each in answer]}, and not to {expected}"


def of_a_volumes_claim(
    answer: PersistentVolumeClaim | None, mark: Mark, asked: Any, pv: PersistentVolume
) -> Iterator[str]:
    """The claim of the volume is the very one that it names. That it is gone is believed after a live read
    alone: what was kept in the volume may be deleted."""
    named = pv.spec.claim_ref
    if named is None or not named.uid:
        if answer is not None:
            yield f"{pv.name} names no claim for good, and has {answer.key}"
        return
    key = f"{named.namespace}/{named.name}"
    shown = found_live(mark, PersistentVolumeClaim, key)
    if answer is not None and (answer.key, answer.uid) != (key, named.uid):
        yield f"{pv.name} names claim {key} of uid {named.uid}, and has {answer.key} of uid {answer.uid}"
    if answer is None and not shown:
        yield f"claim {key} of {pv.name} counts as gone, and was not read live"
    if answer is None and shown and shown[-1] is not None and shown[-1].uid == named.uid:
        yield f"claim {key} of {pv.name} counts as gone, and a live read shows it"


QUESTIONS = (
    Question(BindingController, "reconcile", of_work, before=begins),
    Question(ProvisioningController, "reconcile", of_work, before=begins),
    Question(BindingController, "_reconcile_claim", of_a_claim_that_waits, before=what_is_decided),
    Question(BindingController, "_in_use", of_protection, before=begins),
    Question(BindingController, "_lose", of_a_loss, before=begins),
    Question(BindingController, "_bind", of_quiet_writes, before=binding_begins, refusals=(KubeError,)),
    Question(BindingController, "_patch_claim", of_a_write),
    Question(BindingController, "_patch_volume", of_a_write),
    Question(BindingController, "_protected_claim", of_finalizers, before=begins, refusals=(KubeError,)),
    Question(BindingController, "_protected_volume", of_finalizers, before=begins, refusals=(KubeError,)),
    Question(BindingController, "_to_be_bound_anew", of_its_owners),
    Question(BindingController, "_claim_of", of_a_volumes_claim, before=begins),
)
