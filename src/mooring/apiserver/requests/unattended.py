"""What the server keeps although no part of Mooring acts on it, said to the client as a warning.

A kind that upstream's controllers, or others that the user runs, may act on is served all the same. kubectl
prints a warning beside its answer, so that a user does not wait for what never comes. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from mooring.apiserver.errors import Obj
from mooring.apiserver.values.dotted import object_at
from mooring.kube.claim_quota import counts_claims

_UNATTENDED: Mapping[str, str] = {
    "cronjobs.batch": "no Jobs are made of it",
    "horizontalpodautoscalers.autoscaling": "nothing is scaled by it",
    "limitranges": "its limits are not enforced",
    "certificatesigningrequests.certificates.k8s.io": "nothing is approved or signed",
    "servicecidrs.networking.k8s.io": "no addresses are handed out of it",
    "ipaddresses.networking.k8s.io": "no address is configured by it",
    "validatingadmissionpolicies.admissionregistration.k8s.io": "nothing is refused by it",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": "nothing is refused by it",
    "resourceclaims.resource.k8s.io": "no device is allocated",
    "resourceclaimtemplates.resource.k8s.io": "no device is allocated",
}
"""Kinds by their storage names -> what does not happen."""


def warning_of(storage: str, obj: Obj) -> str | None:
    """Returns what to tell a client that writes this object; None if a part of Mooring acts on it."""
    name = str(obj.get("kind") or "")
    if (missing := _UNATTENDED.get(storage)) is not None:
        return (
            f"no part of Mooring acts on a {name}: it is kept, and {missing} unless another controller does"
        )
    if storage == "services":
        return _of_service(obj)
    if storage == "jobs.batch":
        return _of_job(object_at(obj, "spec"))
    if storage == "resourcequotas":
        others = sorted(each for each in object_at(obj, "spec.hard") if not counts_claims(each))
        if others:
            return f"Mooring enforces quotas of claims and their storage only, not {', '.join(others)}"
    return None


def _of_job(spec: Obj) -> str | None:
    if spec.get("managedBy") not in (None, "kubernetes.io/job-controller"):
        return f"Mooring leaves this Job to its manager, {spec['managedBy']}"
    unknown = sorted(each for each in _NOT_OF_JOBS if spec.get(each) is not None)
    if unknown:
        return f"Mooring runs Jobs without {', '.join(unknown)}: what it says is not acted on"
    return None


_NOT_OF_JOBS = ("podFailurePolicy", "successPolicy", "backoffLimitPerIndex", "maxFailedIndexes")


def _of_service(service: Obj) -> str | None:
    spec = object_at(service, "spec")
    if spec.get("clusterIP") == "None" or spec.get("type") == "ExternalName":
        return None
    return (
        "no part of Mooring gives a Service an address or a DNS name: it is kept, and nothing is routed to it"
    )
