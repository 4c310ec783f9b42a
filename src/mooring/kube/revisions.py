"""The history of a pod template: ControllerRevisions, of which each keeps one template.

One rule for the controllers that keep such a history (StatefulSets, DaemonSets).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, cast

import msgspec

from mooring.kube.client import Client
from mooring.kube.errors import AlreadyExists, Conflict
from mooring.kube.informer import Informer
from mooring.kube.objects import ControllerRevision, DaemonSet, StatefulSet
from mooring.kube.owners import derived_name, owner_reference, template_hash

REVISION = "controller-revision-hash"
"""The label of a pod that names the revision it was made from."""

Owner = StatefulSet | DaemonSet
COLLISIONS = 10
"""So many names are tried for a revision."""
LONGEST_OWNER = 223
"""Characters of the owner's name that are in a revision's (upstream: `ControllerRevisionName`)."""


def revision_name(owner: Owner, salt: int = 0) -> str:
    """`<owner>-<hash of the pod template>`; `salt` gives another name after a collision."""
    return name_by_hash(owner, template_hash(owner.spec.template, salt))


def name_by_hash(owner: Owner, digest: str) -> str:
    """The name of the owner's revision with this hash."""
    return derived_name(owner.name[:LONGEST_OWNER], f"-{digest}")


def hash_of(name: str) -> str:
    """The hash in a revision's name."""
    return name.rpartition("-")[2]


def revision_body(owner: Owner, number: int, salt: int = 0) -> dict[str, Any]:
    """Returns the ControllerRevision that keeps the present template."""
    metadata: dict[str, Any] = owner.spec.template.get("metadata") or {}
    labels: dict[str, str] = metadata.get("labels") or {}
    data = {"spec": {"template": {**owner.spec.template, "$patch": "replace"}}}
    return {
        "metadata": {
            "name": revision_name(owner, salt),
            "namespace": owner.namespace,
            "labels": {**labels, REVISION: template_hash(owner.spec.template, salt)},
            "ownerReferences": [owner_reference(owner)],
        },
        # Upstream's controllers and clients compare bytes: they know a revision whose fields are in order.
        "data": msgspec.json.decode(msgspec.json.encode(data, order="sorted")),
        "revision": number,
    }


def template_of(revision: ControllerRevision) -> dict[str, Any]:
    """Returns the template that a ControllerRevision keeps."""
    template: dict[str, Any] = revision.data["spec"]["template"]
    return {key: value for key, value in template.items() if key != "$patch"}


def same_template(one: Any, other: Any) -> bool:
    """Whether two templates say the same. What Go wrote for an absent value (`creationTimestamp: null`,
    `resources: {}`), which differs between versions of Kubernetes, does not count."""
    return _stated(one) == _stated(other)


def _stated(value: Any) -> Any:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {
            name: _stated(each)
            for name, each in fields.items()
            if each is not None and (name, each) != ("resources", {})
        }
    return [_stated(each) for each in cast("list[Any]", value)] if isinstance(value, list) else value


class Revisions:
    """Keeps the history. `cache` has an index "owner" by the uid of the controller."""

    def __init__(self, client: Client, cache: Informer[ControllerRevision]) -> None:
        self._client = client
        self._cache = cache

    def call_when_changed(self, kind: str, look: Callable[[str], object]) -> None:
        """Calls `look` with the key of the owner, of this kind, of each revision that is made, changed or
        taken away by another: the owner's present template may have none any more, or not the newest. So does
        a request of its own that took effect late."""

        def changed(old: ControllerRevision | None, new: ControllerRevision | None) -> None:
            for each in (old, new):
                owner = each.controller if each is not None else None
                if each is not None and owner is not None and owner.kind == kind:
                    look(f"{each.namespace}/{owner.name}")

        self._cache.add_handler(changed)

    def get(self, namespace: str, name: str) -> ControllerRevision | None:
        return self._cache.get(f"{namespace}/{name}")

    async def present(self, owner: Owner) -> str:
        """Returns the name of the present template's revision, which is made if it does not exist. A revision
        that is rolled back to becomes the newest again.

        A revision is known by its template, not by its name: one that kube-controller-manager made, which
        names it otherwise, is taken over, so that no pod has to be replaced."""
        held = self._cache.by_index("owner", owner.uid)
        alike = [each for each in held if same_template(template_of(each), owner.spec.template)]
        found = max(alike, key=lambda each: each.revision, default=None)
        name = revision_name(owner) if found is None else found.name
        if owner.deleting:
            return name
        newest = max((each.revision for each in held if each is not found), default=0)
        if found is None:
            return await self._create(owner, newest + 1)
        if found.revision <= newest:
            written = await self._client.revise(found, {"revision": newest + 1})
            self._cache.accept(written, tell=False)
        return name

    async def _create(self, owner: Owner, number: int) -> str:
        """Returns its name: another one, where a former owner of that name has one of the same template,
        which will go with it.

        Raises NotFound or Conflict if the owner, read live, is not there any more: with a cache that does not
        show that yet, the garbage collector would take away what is made, again and again."""
        live = await self._client.get(type(owner), owner.name, owner.namespace)
        if live.uid != owner.uid:
            raise Conflict(f"another {owner.RESOURCE.kind} {owner.key} has its name by now", status=409)
        for salt in range(COLLISIONS):
            try:
                body = revision_body(owner, number, salt)
                made = await self._client.create(ControllerRevision, body, owner.namespace)
            except AlreadyExists:
                made = await self._client.get(ControllerRevision, revision_name(owner, salt), owner.namespace)
            if made.controller is None or made.controller.uid == owner.uid:
                # It is ours, or was left behind with the pods that are of it.
                self._cache.accept(made, tell=False)
                return made.name
        raise Conflict(f"all names for a revision of {owner.key} are taken by its predecessors'", status=409)

    async def delete_old(self, owner: Owner, used: Collection[str]) -> None:
        """Deletes revisions that are not in `used`, beyond `revisionHistoryLimit`, the oldest first. A limit
        below zero is none."""
        held, limit = self._cache.by_index("owner", owner.uid), owner.spec.revision_history_limit
        idle = sorted((each for each in held if each.name not in used), key=lambda each: each.revision)
        for each in idle[: max(len(idle) - limit, 0) if limit >= 0 else 0]:
            await self._client.delete(ControllerRevision, each.name, each.namespace, uid=each.uid)
