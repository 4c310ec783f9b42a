"""Why a namespace is not gone yet: what it still holds, as its conditions, pods and claims tell."""

from __future__ import annotations

from mooring.kube.objects import Namespace
from mooring.kube.printable import counted
from mooring.kube.reason import Reason
from mooring.why.cause import Cause, about, fine
from mooring.why.explain_claims import explain_claim
from mooring.why.explain_pods import explain_pod
from mooring.why.snapshot import Snapshot

MOST_EXPLAINED = 10
"""Pods, and claims, that are explained one by one; the rest is counted."""
_ADVICE = {
    "NamespaceDeletionDiscoveryFailure": "an API server that is not there keeps its kinds from being emptied: "
    "`kubectl get apiservices` shows which; mend it, or delete its APIService",
    "NamespaceDeletionContentFailure": "something refuses a deletion: an admission webhook, or missing rights",
    "NamespaceFinalizersRemaining": "the controller that set the finalizer removes it when its work is done: look at "
    "its log",
    "NamespaceContentRemaining": "`kubectl api-resources --namespaced --verbs=list` names the kinds to look for",
}
"""What a person can do about each of upstream's conditions. The first that is True is told."""


def explain_namespace(namespace: Namespace, known: Snapshot) -> Cause:
    """Explains a namespace that is being deleted by the pods and claims that it still holds; if it holds
    none, by its conditions."""
    if not namespace.deleting:
        return fine(namespace, f"namespace {namespace.name} is not being deleted", "Active")
    since = namespace.metadata.deletion_timestamp or ""
    pods = [each for each in known.pods.values() if each.namespace == namespace.name]
    claims = [each for each in known.claims.values() if each.namespace == namespace.name]
    if not pods and not claims:
        return _by_conditions(namespace, since)
    counts = (counted(len(held), what) for what, held in (("pod", pods), ("claim", claims)) if held)
    message = f"namespace {namespace.name} is being deleted, and holds {' and '.join(counts)} still"
    causes = (
        *(explain_pod(each, known) for each in pods[:MOST_EXPLAINED]),
        *(explain_claim(each, known) for each in claims[:MOST_EXPLAINED]),
    )
    return Cause(about(namespace), Reason("NotEmpty", message), since=since).because(*causes)


def _by_conditions(namespace: Namespace, since: str) -> Cause:
    true = {each.type: each for each in namespace.status.conditions if each.status == "True"}
    for kind, step in _ADVICE.items():
        if (said := true.get(kind)) is not None:
            message = f"namespace {namespace.name} is being deleted: {said.message}"
            return Cause(about(namespace), Reason(said.reason, message), since=since, next_step=step)
    message = f"namespace {namespace.name} is being deleted, and holds neither pods nor claims any more"
    step = "this lasts moments; if not, see whether the namespace controller runs"
    return Cause(about(namespace), Reason("Terminating", message), since=since, next_step=step)
