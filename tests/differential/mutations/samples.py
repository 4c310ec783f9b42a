"""The valid objects that mutations start from, read from `samples/*.yaml`. Pure but for reading them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import yaml

from mooring.apiserver.objects.kinds import BUILT_IN, Kind
from mooring.apiserver.schema.facts import message_of

Obj = dict[str, Any]
FOLDER = Path(__file__).parent / "samples"
NAMESPACE = "mutations"
APART = "apart"
"""Where the samples are that would limit what the others may be."""


@dataclass(frozen=True)
class Sample:
    """A valid object and where it is sent."""

    obj: Obj

    @property
    def name(self) -> str:
        """What reports call it: `Pod/plain`, `events.k8s.io Event/sample.2`."""
        group = self.obj["apiVersion"].rpartition("/")[0] if self.obj["kind"] == "Event" else ""
        return f"{group} {self.obj['kind']}/{self.obj['metadata']['name']}".strip()

    @cached_property
    def kind(self) -> Kind | None:
        """The built-in kind, or None for a custom one."""
        group, _, version = self.obj["apiVersion"].rpartition("/")
        found = (
            each
            for each in BUILT_IN.all
            if (each.group, each.version, each.name) == (group, version, self._kind)
        )
        return next(found, None)

    @property
    def _kind(self) -> str:
        return str(self.obj["kind"])

    @property
    def message(self) -> str | None:
        """Its type among the API's own."""
        return message_of(self.kind.group, self.kind.version, self._kind) if self.kind else None

    @property
    def collection(self) -> str:
        """The path that it is created at."""
        version, kind = self.obj["apiVersion"], self.kind
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        namespaced = kind is None or kind.namespaced
        plural = kind.plural if kind else f"{self._kind.lower()}s"
        return (
            f"{root}/namespaces/{self.obj['metadata'].get('namespace', NAMESPACE)}/{plural}"
            if namespaced
            else f"{root}/{plural}"
        )

    @property
    def path(self) -> str:
        """Its own path."""
        return f"{self.collection}/{self.obj['metadata']['name']}"


@cache
def samples() -> dict[str, Sample]:
    """Every sample by its name, in the order of the files: a custom object comes after its definition."""
    texts = (path.read_text() for path in sorted(FOLDER.glob("*.yaml")))
    found = [Sample(obj) for text in texts for obj in yaml.safe_load_all(text)]
    return {each.name: each for each in found}
