"""What the pods and claims of a StatefulSet are made of, and which template is kept as which revision.

https://kubernetes.io/docs/concepts/workloads/controllers/statefulset (stable identities, retention of claims,
revision history), and the labels that its page names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from mooring.controllers.statefulset import controller
from mooring.kube import revisions
from mooring.kube.objects import ControllerRevision, Object, PersistentVolumeClaim, Pod, StatefulSet
from mooring.kube.revisions import Owner, Revisions
from mooring.simulation.checks.second_opinions import near_statefulsets as near
from mooring.simulation.checks.second_opinions.question import Question
from mooring.simulation.checks.second_opinions.statefulsets import REVISION, revision_of

Found = Iterable[tuple[str, Any, Any]]
"""Places, what is there, and what should be."""


def _differences(what: str, found: Found) -> Iterator[str]:
    for place, given, expected in found:
        if given != expected:
            yield f"{place} of {what} is {given}, and not {expected}"


def _head(template: Mapping[str, Any], field: str) -> dict[str, str]:
    """The labels, or the annotations, that a template has."""
    metadata: dict[str, Any] = template.get("metadata") or {}
    return metadata.get(field) or {}


def _owner(owner: Object) -> dict[str, Any]:
    kind = owner.RESOURCE
    return {
        "apiVersion": f"{kind.group}/{kind.version}".removeprefix("/"),
        "kind": kind.kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def of_pod(
    answer: dict[str, Any], asked: Any, stateful_set: StatefulSet, ordinal: int, revision: str
) -> Iterator[str]:
    """A pod is made of the template of its revision, where that is kept, else of the present one. Its name,
    host name, subdomain, its labels and its claims' names are its identity's, whatever the template says."""
    chosen = revision_of(stateful_set, ordinal, revision)
    kept = None if chosen == revision else asked._revisions.get(stateful_set.namespace, chosen)
    chosen = chosen if kept is not None else revision
    template = stateful_set.spec.template if kept is None else kept.data["spec"]["template"]
    spec, name = template["spec"], f"{stateful_set.name}-{ordinal}"
    identity = {
        "statefulset.kubernetes.io/pod-name": name,
        "apps.kubernetes.io/pod-index": f"{ordinal}",
        REVISION: chosen,
    }
    names = [each["metadata"]["name"] for each in stateful_set.spec.volume_claim_templates]
    volumes = [each for each in spec.get("volumes") or () if each["name"] not in names]
    volumes += [
        {"name": each, "persistentVolumeClaim": {"claimName": f"{each}-{name}"}} for each in names
    ]  # fmt: skip
    head = answer["metadata"]
    yield from _differences(
        f"pod {name} of {chosen}",
        [
            ("name", (head["namespace"], head["name"]), (stateful_set.namespace, name)),
            ("labels", head["labels"], _head(template, "labels") | identity),
            ("annotations", head["annotations"], _head(template, "annotations")),
            ("owner", head["ownerReferences"], [_owner(stateful_set)]),
            (
                "spec",
                answer["spec"],
                spec | {"hostname": name, "subdomain": stateful_set.spec.service_name, "volumes": volumes},
            ),
        ],
    )


def of_claims(answer: list[dict[str, Any]], stateful_set: StatefulSet, ordinal: int) -> Iterator[str]:
    """Each template gives a claim `<template>-<set>-<ordinal>`, which the set's selector finds by labels.
    With whenDeleted=Delete the set is its owner from the beginning."""
    policy = stateful_set.spec.persistent_volume_claim_retention_policy
    owners = [_owner(stateful_set)] if policy.when_deleted == "Delete" else []
    templates = stateful_set.spec.volume_claim_templates
    if len(answer) != len(templates):
        yield f"{stateful_set.name} has {len(templates)} templates of claims, and not {len(answer)}"
    for claim, template in zip(answer, templates, strict=False):
        head, asked = claim["metadata"], template["metadata"]
        name = f"{asked['name']}-{stateful_set.name}-{ordinal}"
        labels = _head(template, "labels") | stateful_set.spec.selector.match_labels
        yield from _differences(
            f"claim {name}",
            [
                ("name", (head["namespace"], head["name"]), (stateful_set.namespace, name)),
                ("labels", head["labels"], labels),
                ("annotations", head["annotations"], _head(template, "annotations")),
                ("spec", claim["spec"], template["spec"]),
                ("owner", head.get("ownerReferences") or [], owners),
            ],
        )


def _goes(claim: PersistentVolumeClaim, stateful_set: StatefulSet, name: str, pod: Pod | None) -> bool:
    """Whether one of its owners has the name of the set, or of the identity's pod, and is another one."""
    here = {
        ("apps/v1", "StatefulSet", stateful_set.name): stateful_set.uid,
        ("v1", "Pod", name): pod.uid if pod is not None else None,
    }
    owners = [
        (each.uid, (each.api_version, each.kind, each.name)) for each in claim.metadata.owner_references
    ]
    return any(place in here and here[place] != uid for uid, place in owners)


def of_stale(
    answer: bool, claim: PersistentVolumeClaim, stateful_set: StatefulSet, name: str, pod: Pod | None
) -> Iterator[str]:
    """A claim of a former set or pod of this name is about to be deleted with it."""
    if answer != _goes(claim, stateful_set, name, pod):
        yield f"claim {claim.key} {'does not go' if answer else 'goes'} with a former owner"


def of_claim_there(
    answer: bool, asked: Any, stateful_set: StatefulSet, body: Any, ordinal: int
) -> Iterator[str]:
    """Only a claim that goes is waited for: all others can be used, or made."""
    if answer:
        return
    found = asked._claims.get(f"{stateful_set.namespace}/{body['metadata']['name']}")
    name = f"{stateful_set.name}-{ordinal}"
    pods = asked._pods.by_index("owner", stateful_set.uid)
    pod = next((each for each in pods if each.name == name), None)
    if found is None or not (found.deleting or _goes(found, stateful_set, name, pod)):
        yield f"claim {body['metadata']['name']} is waited for, and does not go"


def of_owners(
    answer: list[dict[str, Any]] | None,
    stateful_set: StatefulSet,
    claim: PersistentVolumeClaim,
    name: str,
    pod: Pod | None,
    condemned: bool,
) -> Iterator[str]:
    """The retention policy. With whenScaled=Delete a claim goes with its pod that is scaled away, with
    whenDeleted=Delete one that stays goes with the set; else with neither. Owners that are no business of
    the set stay as they are, and where one of them is its controller, the claim gets no other."""
    held = [
        {
            "apiVersion": each.api_version,
            "kind": each.kind,
            "name": each.name,
            "uid": each.uid,
            "controller": each.controller,
            "blockOwnerDeletion": each.block_owner_deletion,
        }
        for each in claim.metadata.owner_references
    ]
    if _goes(claim, stateful_set, name, pod):
        if answer is not None:
            yield f"claim {claim.key} goes with a former owner, and gets others"
        return
    of_set = {stateful_set.uid} if pod is None else {stateful_set.uid, pod.uid}
    others = [each for each in held if each["uid"] not in of_set]
    policy, owner = stateful_set.spec.persistent_volume_claim_retention_policy, None
    if condemned and policy.when_scaled == "Delete":
        owner = pod
    elif policy.when_deleted == "Delete":
        owner = stateful_set
    if any(each["controller"] for each in others):
        owner = None
    expected = {(owner.uid, True)} if owner is not None else set[tuple[str, bool]]()
    after = held if answer is None else [{"controller": False, **each} for each in answer]
    given = {(each["uid"], each["controller"]) for each in after if each["uid"] in of_set}
    kept = [each["uid"] for each in after if each["uid"] not in of_set]
    if given != expected or kept != [each["uid"] for each in others]:
        yield f"claim {claim.key} is owned by {given} and {kept}, and not by {expected} and {len(others)} others"
    elif answer is not None and {(e["uid"], e["controller"]) for e in held} == given | {
        (e["uid"], e["controller"]) for e in others
    }:
        yield f"claim {claim.key} has these owners already"


def said(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Each field of a template with its path. What Go writes where nothing is said does not count: null, and
    empty `resources`."""
    if isinstance(value, dict):
        yield *path, "{}"
        for name, each in cast("dict[str, Any]", value).items():
            if each is not None and not (name == "resources" and each == {}):
                yield from said(each, (*path, name))
    elif isinstance(value, list):
        items = cast("list[Any]", value)
        yield *path, "[]", len(items)
        for number, each in enumerate(items):
            yield from said(each, (*path, number))
    else:
        yield *path, value


def _keeps(revision: ControllerRevision, template: Mapping[str, Any]) -> bool:
    """Whether it is this template that the revision keeps."""
    kept = {name: each for name, each in revision.data["spec"]["template"].items() if name != "$patch"}
    return kept == template or set(said(kept)) == set(said(template))


def numbers_before(asked: Any, owner: Owner) -> dict[str, int]:
    """The numbers of the revisions that it knew when it was asked: others may write while it does."""
    return {each.name: each.revision for each in asked._cache.by_index("owner", owner.uid)}


def of_present(answer: str, before: Mapping[str, int], asked: Any, owner: Owner) -> Iterator[str]:
    """The present template has one revision, the newest: one that is kept already is used again, whatever its
    name is, and gets the highest number."""
    held: list[ControllerRevision] = asked._cache.by_index("owner", owner.uid)
    known = [each for each in held if before.get(each.name) == each.revision]
    chosen = next((each for each in held if each.name == answer), None)
    if chosen is None or not _keeps(chosen, owner.spec.template):
        alike = [each.name for each in known if _keeps(each, owner.spec.template)]
        if alike or chosen is not None:
            yield f"{answer} is taken for the template of {owner.key}, and not one of {alike}"
    elif not owner.deleting and any(each.revision > chosen.revision for each in known):
        yield f"{answer} is not the newest revision of {owner.key}"


def of_revision_body(answer: dict[str, Any], owner: Owner, number: int, salt: int = 0) -> Iterator[str]:
    """A ControllerRevision has the template, as a patch that replaces what is there."""
    head, template = answer["metadata"], answer["data"]["spec"]["template"]
    label = head["name"].removeprefix(f"{owner.name}-")
    yield from _differences(
        f"revision {head['name']}",
        [
            ("namespace", head["namespace"], owner.namespace),
            ("labels", head["labels"], _head(owner.spec.template, "labels") | {REVISION: label}),
            ("owner", head["ownerReferences"], [_owner(owner)]),
            ("template", template, {**owner.spec.template, "$patch": "replace"}),
            ("number", answer["revision"], number),
        ],
    )


QUESTIONS = (
    Question(controller.StatefulSetController, "_body", of_pod, near=near.BODIES),
    Question(controller, "claim_bodies", of_claims, near=near.CLAIMS),
    Question(controller.StatefulSetController, "_ensure_claim", of_claim_there),
    Question(controller, "is_stale", of_stale, near=near.GOES),
    Question(controller, "claim_owners", of_owners, near=near.OWNERS),
    Question(Revisions, "present", of_present, before=numbers_before),
    Question(revisions, "revision_body", of_revision_body),
)
