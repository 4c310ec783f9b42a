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
    return f"{template['metadata']['name']}-{stateful_set.name}-{ordinal}"


def claim_bodies(stateful_set: StatefulSet, ordinal: int) -> list[dict[str, Any]]:
    """Returns the claims of one identity."""
    bodies: list[dict[str, Any]] = []
    for template in stateful_set.spec.volume_claim_templates:
        metadata: dict[str, Any] = template.get("metadata") or {}
        labels: dict[str, str] = {**(metadata.get("labels") or {}), **stateful_set.spec.selector.match_labels}
        bodies.append(
            {
                "metadata": {
                    "name": claim_name(stateful_set, template, ordinal),
                    "namespace": stateful_set.namespace,
                    "labels": labels,
                    "annotations": metadata.get("annotations") or {},
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
    spec: dict[str, Any] = template.get("spec") or {}
    name = f"{stateful_set.name}-{ordinal}"
    labels: dict[str, str] = {
        **(metadata.get("labels") or {}),
        POD_NAME: name,
        POD_INDEX: str(ordinal),
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


def claim_owners(
    stateful_set: StatefulSet, claim: PersistentVolumeClaim, pod: Pod | None, condemned: bool
) -> list[dict[str, Any]] | None:
    """Returns the claim's owner references as the retention policy wants them, or None if
    they are so already.

    A claim is deleted with its owner: the set, or a condemned pod. Upstream's table: with whenDeleted=Delete
    the set owns the claims of identities that stay; with whenScaled=Delete a pod that is scaled away owns its
    claims. Other owners are kept.
    """
    policy = stateful_set.spec.persistent_volume_claim_retention_policy
    wanted: list[Object] = []
    if policy.when_deleted == "Delete" and not (condemned and policy.when_scaled == "Delete"):
        wanted.append(stateful_set)
    if policy.when_scaled == "Delete" and condemned and pod is not None:
        wanted.append(pod)
    held = claim.metadata.owner_references
    managed = [each for each in held if each.uid == stateful_set.uid or each.kind == "Pod"]
    if {each.uid for each in managed} == {each.uid for each in wanted}:
        return None
    others = [msgspec.to_builtins(each) for each in held if each not in managed]
    return [*others, *({**owner_reference(each), "controller": False} for each in wanted)]
