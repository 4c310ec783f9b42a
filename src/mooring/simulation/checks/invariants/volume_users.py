"""Which pods use which volume where, as the API has it."""

from __future__ import annotations

from mooring.simulation.checks.invariants.objects import CLAIMS, VOLUMES, object_of
from mooring.simulation.engine.trace import Event, Trace


class Users:
    """Pods that have a node, that use a volume through a claim, and that have not ended. Of a claim whose
    PersistentVolume was made anew, and is bound to nothing, they do not: another claim may have it."""

    def __init__(self, trace: Trace) -> None:
        self._volumes: dict[str, str] = {}  # claim -> volume
        self._free: set[str] = set()  # volumes that no claim has
        self._pods: dict[str, tuple[str, frozenset[str]]] = {}  # uid -> node and claims
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)

    @classmethod
    def of(cls, trace: Trace) -> Users:
        """The one of that trace: its checkers share it."""
        return trace.shared(cls)

    def at(self, volume: str, node: str) -> frozenset[str]:
        """Their uids."""
        if volume in self._free:
            return frozenset()
        return frozenset(
            uid
            for uid, (where, claims) in self._pods.items()
            if where == node and any(self._volumes.get(claim) == volume for claim in claims)
        )

    def _written(self, event: Event) -> None:
        if event.fields["resource"] == CLAIMS:
            self._volumes[event.fields["name"]] = object_of(event).spec.volume_name
        elif event.fields["resource"] == VOLUMES:
            is_free = object_of(event).spec.claim_ref is None
            (self._free.add if is_free else self._free.discard)(event.fields["name"])
        elif event.fields["resource"] == "pods":
            self._pod(event)

    def _pod(self, event: Event) -> None:
        pod, namespace = object_of(event), event.fields["name"].partition("/")[0]
        if pod.ended:
            self._pods.pop(pod.metadata.uid, None)
            return
        claims = frozenset(f"{namespace}/{claim}" for claim in pod.claims)
        self._pods[pod.metadata.uid] = pod.spec.node_name, claims

    def _deleted(self, event: Event) -> None:
        if event.fields["resource"] == CLAIMS:
            self._volumes.pop(event.fields["name"], None)
        elif event.fields["resource"] == "pods":
            self._pods.pop(object_of(event).metadata.uid, None)
