"""The pod of a job. Pure."""

from __future__ import annotations

import copy
from typing import Any

from mooring.controllers.job.indexes import INDEX
from mooring.controllers.job.view import TRACKING
from mooring.kube.objects import Job
from mooring.kube.owners import derived_name, owner_reference, template_hash

INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
LONGEST_PREFIX = 58
"""Characters before the five that tell attempts apart."""


def pod_name(job: Job, index: int | None, attempt: int) -> str:
    """The name of an attempt, as long as upstream's: a create that arrives twice makes one pod."""
    suffix = "-" if index is None else f"-{index}-"
    return derived_name(job.name, suffix, LONGEST_PREFIX) + template_hash({"job": job.uid}, attempt)[:5]


def pod_body(job: Job, index: int | None, name: str) -> dict[str, Any]:
    """Returns the pod to create; `index`: its completion index, in an Indexed job."""
    template = copy.deepcopy(job.spec.template)
    metadata: dict[str, Any] = template.get("metadata") or {}
    kept = {key: metadata[key] for key in ("labels", "annotations", "finalizers") if metadata.get(key)}
    finalizers = [each for each in kept.get("finalizers", ()) if each != TRACKING]
    made: dict[str, Any] = {
        **kept,
        "name": name,
        "finalizers": [*finalizers, TRACKING],
        "ownerReferences": [owner_reference(job)],
    }
    body = {"metadata": made, "spec": template.get("spec") or {}}
    return body if index is None else _indexed(body, job, index)


def _indexed(body: dict[str, Any], job: Job, index: int) -> dict[str, Any]:
    for place in ("labels", "annotations"):
        body["metadata"][place] = {**body["metadata"].get(place, {}), INDEX: str(index)}
    body["spec"]["hostname"] = f"{job.name}-{index}"
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
    containers: list[dict[str, Any]] = [
        *(body["spec"].get("initContainers") or ()),
        *(body["spec"].get("containers") or ()),
    ]
    for container in containers:
        variables: list[dict[str, Any]] = container.get("env") or []
        if all(each.get("name") != INDEX_VARIABLE for each in variables):
            container["env"] = [*variables, {"name": INDEX_VARIABLE, "valueFrom": source}]
    return body
