"""The parts of an explanation: an object, what is wrong with it and why, and what the reader can do next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from mooring.kube.objects import Object
from mooring.kube.reason import Reason
from mooring.why.reason_pages import more


@dataclass(frozen=True)
class Cause:
    """`about` is "kind/namespace/name" (or "kind/name"). `ok`: nothing is wrong here. `since` is an RFC 3339
    time or "", and so is `until`: `then` happens at that time at the latest. `next_step` is what a person can
    do, or "" if waiting is all there is to do. `causes` are the causes of this one."""

    about: str
    reason: Reason
    ok: bool = False
    since: str = ""
    next_step: str = ""
    until: str = ""
    then: str = ""
    causes: tuple[Cause, ...] = ()

    def because(self, *causes: Cause | None) -> Cause:
        """Returns the same with these further causes; None, and causes where nothing is
        wrong, are left out."""
        return replace(
            self, causes=(*self.causes, *(each for each in causes if each is not None and not each.ok))
        )

    @property
    def roots(self) -> Iterator[Cause]:
        """Yields the ends of the chain: causes without a further cause."""
        if not self.causes:
            yield self
        for each in self.causes:
            yield from each.roots

    def as_json(self) -> dict[str, Any]:
        """For `-o json`: keys are stable, and absent where there is nothing to say."""
        found: dict[str, Any] = {
            "object": self.about,
            "ok": self.ok,
            "reason": self.reason.code,
            "message": self.reason.message,
        }
        if self.since:
            found["since"] = self.since
        if self.until:
            found["until"], found["then"] = self.until, self.then
        if self.next_step:
            found["nextStep"] = self.next_step
        if not self.ok and (command := more([self.reason.code])):
            found["more"] = command
        if self.causes:
            found["causes"] = [each.as_json() for each in self.causes]
        return found


def about(obj: Object) -> str:
    """Returns how an object is named here: "pod/default/app-0", "node/n1", by the short
    names that people type."""
    kind = obj.RESOURCE.kind
    return f"{SHORT.get(kind, kind.lower())}/{obj.key}"


SHORT = {
    "Deployment": "deploy",
    "Namespace": "ns",
    "PersistentVolumeClaim": "pvc",
    "PersistentVolume": "pv",
    "StatefulSet": "sts",
    "StorageClass": "storageclass",
    "VolumeAttachment": "volumeattachment",
    "VolumeSnapshot": "snapshot",
}


def fine(obj: Object, message: str, code: str = "Healthy") -> Cause:
    """Returns the explanation that nothing is wrong with the object."""
    return Cause(about(obj), Reason(code, message), ok=True)
