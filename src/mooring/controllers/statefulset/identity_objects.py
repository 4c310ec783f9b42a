"""The API objects of one StatefulSet identity, as bodies to create: pod and claims. Pure."""

from __future__ import annotations

import copy
from typing import Any

import msgspec

from mooring.controllers.statefulset.decide import POD_INDEX, POD_NAME
from mooring.kube.objects import Object, PersistentVolumeClaim, Pod, StatefulSet
from mooring.kube.owners import owner_reference
from mooring.kube.revisions import REVISION


def claim_name(stateful_set: StatefulSet, template: dict[str, Any], ordinal: int) -> str:
    """`<template>-<set>-<ordinal>`: the claim belongs to the identity and outlives its pods."""
    return f"{claim_stem(stateful_set, template)}-{ordinal}"


def claim_stem(stateful_set: StatefulSet, template: dict[str, Any]) -> str:
    """What the names of a template's claims have before the ordinal."""
    return f"{template['metadata']['name']}-{stateful_set.name}"


def ordinal_in(claim: str) -> int | None:
    """The ordinal at the end of a claim's name; None if there is none as a set writes it."""
    text = claim.rpartition("-")[2]
    return int(text) if text.isdecimal() and str(int(text)) == text else None


def pod_name(stateful_set: StatefulSet, ordinal: int) -> str:
    """`<set>-<ordinal>`."""
    return f"{stateful_set.name}-{ordinal}"


def identity_labels(name: str, ordinal: int) -> dict[str, str]:
    """Returns the labels that tell one pod of a set from the others."""
    return {POD_NAME: name, POD_INDEX: str(ordinal)}


def claim_bodies(stateful_set: StatefulSet, ordinal: int) -> list[dict[str, Any]]:
    """Returns the claims of one identity that is wanted. Each has its owner from the beginning: the set may
    be deleted before anything else is written."""
    owners = [owner_reference(each) for each in _owners_wanted(stateful_set, None, condemned=False)]
    bodies: list[dict[str, Any]] = []
    for template in stateful_set.spec.volume_claim_templates:
        metadata: dict[str, Any] = template["metadata"]
        labels: dict[str, str] = {**(metadata.get("labels") or {}), **stateful_set.spec.selector.match_labels}
        bodies.append(
            {
                "metadata": {
                    "name": claim_name(stateful_set, template, ordinal),
                    "namespace": stateful_set.namespace,
                    "labels": labels,
                    "annotations": metadata.get("annotations") or {},
                    "ownerReferences": owners,
                },
                "spec": copy.deepcopy(template["spec"]),
            }
        )
    return bodies


def pod_body(
    stateful_set: StatefulSet, ordinal: int, revision: str, template: dict[str, Any]
) -> dict[str, Any]:
    """Returns the pod of one identity, made from the template of `revision`."""
    template = copy.deepcopy(template)
    metadata: dict[str, Any] = template.get("metadata") or {}
    spec: dict[str, Any] = template["spec"]
    name = pod_name(stateful_set, ordinal)
    labels: dict[str, str] = {
        **(metadata.get("labels") or {}),
        **identity_labels(name, ordinal),
        REVISION: revision,
    }
    claims = {
        t["metadata"]["name"]: claim_name(stateful_set, t, ordinal)
        for t in stateful_set.spec.volume_claim_templates
    }
    own: list[dict[str, Any]] = spec.get("volumes") or []
    volumes = [volume for volume in own if volume["name"] not in claims]
    volumes += [{"name": key, "persistentVolumeClaim": {"claimName": claim}} for key, claim in claims.items()]
    return {
        "metadata": {
            "name": name,
            "namespace": stateful_set.namespace,
            "labels": labels,
            "annotations": metadata.get("annotations") or {},
            "ownerReferences": [owner_reference(stateful_set)],
        },
        "spec": {**spec, "hostname": name, "subdomain": stateful_set.spec.service_name, "volumes": volumes},
    }


def is_stale(claim: PersistentVolumeClaim, stateful_set: StatefulSet, name: str, pod: Pod | None) -> bool:
    """Whether the claim goes with a former set, or a former pod of this name (`pod`: the present one): the
    garbage collector deletes it, and nothing may use it any more."""
    return _names_another(claim, stateful_set, stateful_set.name, stateful_set) or _names_another(
        claim, Pod(), name, pod
    )


def _names_another(claim: PersistentVolumeClaim, kind: Object, name: str, owner: Object | None) -> bool:
    resource = kind.RESOURCE
    return any(
        (each.api_version, each.kind, each.name) == (resource.api_version, resource.kind, name)
        and (owner is None or each.uid != owner.uid)
        for each in claim.metadata.owner_references
    )


def claim_owners(
    stateful_set: StatefulSet, claim: PersistentVolumeClaim, name: str, pod: Pod | None, condemned: bool
) -> list[dict[str, Any]] | None:
    """Returns the claim's owner references as the retention policy wants them, or None if
    they are so already. `name`: that of the identity's pod; `pod`: the pod, if it exists.

    A claim is deleted with its owner: the set, or a condemned pod. Upstream's table: with whenDeleted=Delete
    the set owns the claims of identities that stay; with whenScaled=Delete a pod that is scaled away owns its
    claims. Other owners are kept; a claim that another controller has is not given a second one, and one that
    goes with a former owner is left to go.
    """
    if is_stale(claim, stateful_set, name, pod):
        return None
    held = claim.metadata.owner_references
    ours = {(each.uid, each.name) for each in (stateful_set, pod) if each is not None}
    managed = [each for each in held if (each.uid, each.name) in ours]
    foreign = any(each.controller and each not in managed for each in held)
    wanted = [] if foreign else _owners_wanted(stateful_set, pod, condemned)
    if {(each.uid, each.controller) for each in managed} == {(each.uid, True) for each in wanted}:
        return None
    others = [msgspec.to_builtins(each) for each in held if each not in managed]
    return [*others, *map(owner_reference, wanted)]


def _owners_wanted(stateful_set: StatefulSet, pod: Pod | None, condemned: bool) -> list[Object]:
    policy = stateful_set.spec.persistent_volume_claim_retention_policy
    if condemned and policy.when_scaled == "Delete":
        return [] if pod is None else [pod]
    return [stateful_set] if policy.when_deleted == "Delete" else []
