"""Plays upstream's tables about the owners of a StatefulSet's claims against our decision."""

from __future__ import annotations

import itertools
import json
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, TypeVar

from tests.upstream.stateful_set_stage import POLICIES, expect, staged
from tests.upstream.tables import Json

from mooring.controllers.statefulset.identity_objects import claim_owners, is_stale
from mooring.kube.decoding import decoder
from mooring.kube.objects import Object, PersistentVolumeClaim, Pod, StatefulSet

T = TypeVar("T", bound=Object)
Now = Callable[[], datetime]
Owners = list[Json]
OTHER_PODS = [{"apiVersion": "v1", "kind": "Pod", "name": f"rand{n}", "uid": f"rand{n}-uid"} for n in (1, 2)]
UNKNOWN = {"apiVersion": "custom/v1", "kind": "Unknown", "name": "unknown", "uid": "xyz", "controller": True}
RANDOM = {"apiVersion": "custom/v1", "kind": "random", "name": "random", "uid": "abc"}


def decoded(kind: type[T], fields: Json) -> T:
    """The object with these fields."""
    found: T = decoder(kind).decode(json.dumps(fields))
    return found


def _set(name: str, uid: str, policy: Json | None) -> StatefulSet:
    spec = {"persistentVolumeClaimRetentionPolicy": policy} if policy else {}
    return decoded(StatefulSet, {"metadata": {"name": name, "uid": uid}, "spec": spec})


def _pod(name: str, uid: str) -> Pod:
    return decoded(Pod, {"metadata": {"name": name, "uid": uid}})


def _reference(owner: Object, *, controller: bool = True) -> Json:
    resource = owner.RESOURCE
    identity = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": owner.name,
        "uid": owner.uid,
    }
    return {**identity, **({"controller": True} if controller else {})}


def _decided(stateful_set: StatefulSet, pod: Pod, held: Owners, *, condemned: bool) -> Owners | None:
    """The claim's new owners, None if it may stay as it is."""
    claim = decoded(PersistentVolumeClaim, {"metadata": {"name": "claim", "ownerReferences": held}})
    return claim_owners(stateful_set, claim, pod.name, pod, condemned=condemned)


def _after(stateful_set: StatefulSet, pod: Pod, held: Owners, *, condemned: bool) -> Owners:
    found = _decided(stateful_set, pod, held, condemned=condemned)
    return held if found is None else found


def _controls(owner: Object, owners: Owners) -> bool:
    return any(each["uid"] == owner.uid and each.get("controller", False) for each in owners)


def _policy(row: Json) -> Json:
    return {"whenDeleted": row["setDeletePolicy"], "whenScaled": row["scaleDownPolicy"]}


async def _up_to_date(row: Json, now: Now) -> None:
    stateful_set = _set("stateful-set", "ss-456", _policy(row))
    ordinal = row.get("ordinal", 0)
    pod = _pod(f"pod-{ordinal}", "pod-123")
    condemned = ordinal >= row.get("replicas", 0)
    for others, of_pod, of_set in itertools.product((False, True), repeat=3):
        held = [_reference(pod)] * of_pod + [_reference(stateful_set)] * of_set + OTHER_PODS * others
        stays = _decided(stateful_set, pod, held, condemned=condemned) is None
        wanted = of_pod == row.get("needsPodRef", False) and of_set == row.get("needsSetRef", False)
        expect(stays == wanted, f"{held} {'stays' if stays else 'does not stay'}")


async def _edge(row: Json, now: Now) -> None:
    stateful_set, pod = _set("stateful-set", "ss-456", row["policy"]), _pod("pod-1", "pod-123")
    stays = _decided(stateful_set, pod, row["ownerRefs"], condemned=True) is None
    expect(stays == row.get("shouldMatch", False), "stays" if stays else "does not stay")


async def _updated(row: Json, now: Now) -> None:
    stateful_set, pod = _set("ss", "ss-123", _policy(row)), _pod("pod-8", "pod-456")
    for of_pod, of_set, extra in itertools.product((False, True), repeat=3):
        held = [_reference(pod)] * of_pod + [_reference(stateful_set)] * of_set + [RANDOM] * extra
        held += [UNKNOWN] * row.get("unexpectedController", False)
        owners = _after(stateful_set, pod, held, condemned=row.get("condemned", False))
        expect(_controls(pod, owners) == row.get("needsPodRef", False), f"{held}: the pod controls it or not")
        expect(
            _controls(stateful_set, owners) == row.get("needsSetRef", False), f"{held}: the set does or not"
        )


async def _controller_reference(row: Json, now: Now) -> None:
    policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
    stateful_set, pod = _set("sts", "123", policy), _pod("pod-0", "456")
    owners = _after(stateful_set, pod, row.get("originalRefs") or [], condemned=False)
    found = {_identity(each) for each in owners}
    wanted = {_identity(each) for each in row.get("expectedRefs") or []}
    expect(found == wanted, f"the owners are {sorted(found)}, not {sorted(wanted)}")


def _identity(reference: Json) -> tuple[Any, ...]:
    names = ("apiVersion", "kind", "name", "uid")
    return *(reference.get(each, "") for each in names), reference.get("controller", False)


async def _unexpected_controller(row: Json, now: Now) -> None:
    """Upstream adds no controller beside one that is neither the set nor the pod."""
    pod = _pod("pod", "pod-uid")
    for policy in POLICIES:
        for condemned in (False, True):
            stateful_set = _set("set", "set-uid", policy)
            owners = _after(stateful_set, pod, row["refs"], condemned=condemned)
            by_pod = bool(policy) and policy["whenScaled"] == "Delete" and condemned
            by_set = bool(policy) and policy["whenDeleted"] == "Delete" and not by_pod
            free = not row.get("shouldReportUnexpectedController", False)
            found = _controls(stateful_set, owners), _controls(pod, owners)
            wanted = (by_set and free, by_pod and free)
            expect(found == wanted, f"{policy}, condemned {condemned}: controlled by set, by pod: {found}")


async def _non_controller(row: Json, now: Now) -> None:
    """A claim that the set or the pod owns without controlling it never stays as it is. One that both control
    does not stay either; each other one does with some policy."""
    pod = _pod("pod", row["podUID"])
    held = row.get("refs") or []
    stays = any(
        _decided(_set("set", row["setUID"], policy), pod, held, condemned=condemned) is None
        for policy in POLICIES
        for condemned in (False, True)
    )
    both = {row["podUID"], row["setUID"]} == {each["uid"] for each in held}
    wanted = not row.get("nonController", False) and not both
    expect(stays == wanted, f"{held} {'stays' if stays else 'never stays'}")


async def _stale(row: Json, now: Now) -> None:
    """Upstream's pod without a uid is one that does not exist yet."""
    stateful_set = _set("set", "set-uid", {"whenDeleted": "Retain", "whenScaled": "Delete"})
    pod = None if row.get("skipPodUID") else _pod("set-3", "123")
    owners = {"exists": [], "stale": ["stale"], "with-ref": ["123"]}
    claims = [
        decoded(
            PersistentVolumeClaim,
            {
                "metadata": {
                    "ownerReferences": [
                        _reference(_pod("set-3", uid), controller=False) for uid in owners[state]
                    ]
                }
            },
        )
        for state in row.get("claimStates") or []
        if state != "missing"
    ]
    stale = any(is_stale(each, stateful_set, "set-3", pod) for each in claims)
    expect(stale == row.get("expected", False), "stale" if stale else "not stale")


async def _written(row: Json, now: Now) -> None:
    """The decision is written to the claim of a pod."""
    stage = await staged(now)
    await stage.round()
    refs = [
        {"apiVersion": "example.com/v1", "kind": "Owner", "uid": "u", **each}
        for each in row.get("ownerRef") or []
    ]
    [claim] = stage.claims.values()
    await stage.api.patch(
        PersistentVolumeClaim, claim.name, {"metadata": {"ownerReferences": refs}}, claim.namespace
    )
    await stage.edit(persistentVolumeClaimRetentionPolicy={"whenDeleted": "Delete", "whenScaled": "Retain"})
    await stage.round()
    owned = any(each.uid == stage.set.uid for each in stage.claims[claim.name].metadata.owner_references)
    expect(owned == row.get("expectRef", False), f"the set {'owns' if owned else 'does not own'} the claim")


PLAYS: dict[str, Callable[..., Awaitable[None]]] = {
    "TestIsClaimOwnerUpToDate": _up_to_date,
    "TestClaimOwnerUpToDateEdgeCases": _edge,
    "TestUpdateClaimOwnerRefForSetAndPod": _updated,
    "TestUpdateClaimControllerRef": _controller_reference,
    "TestHasUnexpectedController": _unexpected_controller,
    "TestNonController": _non_controller,
    "TestPodClaimIsStale": _stale,
    "TestStatefulPodControlUpdatePodClaimForRetentionPolicy": _written,
}
