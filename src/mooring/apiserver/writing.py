"""create, update, patch, delete and deletecollection.

Each is: read the newest state, decide with the pure rules of `lifecycle` and `deletion`, write. There is no await
between reading and writing, so no write is computed from a state that has been replaced. An answer is given only when
the write is durable.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from random import Random
from uuid import UUID

from mooring.apiserver import auth, metadata
from mooring.apiserver.body import media_type, read, read_object
from mooring.apiserver.deletion import (
    DeleteOptions,
    Mark,
    Pending,
    Remove,
    check_preconditions,
    deleted,
    ends_with_update,
    parse_options,
)
from mooring.apiserver.errors import (
    AlreadyExists,
    BadRequest,
    Obj,
    Resource,
    UnsupportedMediaType,
    already_exists,
    conflict,
    forbidden,
    invalid,
    invalid_value,
    not_found,
)
from mooring.apiserver.history import Item, Key
from mooring.apiserver.kinds import Kind
from mooring.apiserver.lifecycle import created, revised
from mooring.apiserver.message import ADMIN, Request, Response
from mooring.apiserver.negotiation import negotiate
from mooring.apiserver.patches.json_patch import json_patch
from mooring.apiserver.patches.merge_patch import merge_patch
from mooring.apiserver.patches.strategic_merge import strategic_merge_patch
from mooring.apiserver.reading import respond, selection
from mooring.apiserver.rendering import render, render_list
from mooring.apiserver.routes import Route
from mooring.apiserver.store import Store, decode, encode
from mooring.apiserver.strategy import Admission
from mooring.apiserver.times import stamp

_NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_NAME_TRIES = 8
PERMANENT_NAMESPACES = frozenset({"default", "kube-system", "kube-public"})

Applied = Callable[[Kind, Obj], Obj]
"""A patch, ready to be applied to an object of a kind."""


@dataclass(frozen=True, slots=True)
class Writer:
    """Makes the writes of one store. `now` is the wall clock, `random` makes uids and generated names."""

    store: Store
    now: Callable[[], datetime]
    random: Random

    async def create(self, request: Request, route: Route) -> Response:
        kind, sent = route.kind, self.read_sent(request, route.kind)
        meta = metadata.of(sent)
        self._settle_namespace(meta, route)
        if meta.get("resourceVersion"):
            raise BadRequest("resourceVersion should not be set on objects to be created")
        generated = not meta.get("name") and bool(meta.get("generateName"))
        user = request.user or ADMIN
        for attempt in range(_NAME_TRIES):
            if generated:
                meta["name"] = self._generated_name(meta["generateName"])
            auth.authorize_create(user, route, meta.get("name") or "")
            try:
                item = await self.store_new(kind, sent, dry_run=is_dry_run(request))
            except AlreadyExists:
                if not generated or attempt == _NAME_TRIES - 1:
                    raise
            else:
                return self.answer(request, kind, item, 201)
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def store_new(self, kind: Kind, sent: Obj, *, dry_run: bool = False) -> Item:
        """Create an object whose name and namespace are settled. Raises AlreadyExists, NotFound, Forbidden, Invalid."""
        meta: Obj = sent["metadata"]
        key: Key = (meta.get("namespace") or "", meta.get("name") or "")
        self._check_namespace(kind, key)
        obj = created(kind, sent, self.admission(), uid=self._uid())
        if self.store.head(kind.storage, key) is not None:
            raise already_exists(kind.resource, key[1])
        if kind.conversion:
            obj = kind.conversion.to_stored(obj)
        return self.imagined(key, obj) if dry_run else await self.store.write(kind.storage, key, obj)

    async def update(self, request: Request, route: Route) -> Response:
        kind, sent = route.kind, self.read_sent(request, route.kind)
        meta = metadata.of(sent)
        self._settle_namespace(meta, route)
        if meta.get("name", route.name) != route.name:
            told = f"the name of the object ({meta.get('name')}) does not match the name on the URL ({route.name})"
            raise BadRequest(told)
        meta["name"] = route.name
        head = self.store.head(kind.storage, (route.namespace, route.name))
        if head is None:
            if not kind.strategy.create_on_update or route.subresource:
                raise not_found(kind.resource, route.name)
            item = await self.store_new(kind, sent, dry_run=is_dry_run(request))
            return self.answer(request, kind, item, 201)
        _check_uid(route, meta, head)
        _check_version(route, meta, head)
        item = await self.revise(request, route, head, lambda old: sent)
        return self.answer(request, kind, item)

    async def patch(self, request: Request, route: Route) -> Response:
        apply = patch_of(request)
        head = self.store.head(route.kind.storage, (route.namespace, route.name))
        if head is None:
            raise not_found(route.kind.resource, route.name)

        def patched(old: Obj) -> Obj:
            new = apply(route.kind, old)
            meta = metadata.of(new)
            if meta.get("resourceVersion") and meta["resourceVersion"] != str(head.version):
                raise conflict(route.kind.resource, route.name)
            if meta.get("name") != route.name:
                told = f"the name of the object ({meta.get('name')}) does not match the name on the URL ({route.name})"
                raise BadRequest(told)
            self._settle_namespace(meta, route)
            return new

        return self.answer(request, route.kind, await self.revise(request, route, head, patched))

    async def revise(self, request: Request, route: Route, head: Item, change: Callable[[Obj], Obj]) -> Item:
        """Change the object that `head` is, by every rule of an update; `change` is given its current form."""
        kind = route.kind
        old = decode(head.body)
        if kind.storage == "pods":
            auth.authorize_pod(request.user or ADMIN, route, old)
        seen = kind.conversion.from_stored(old) if kind.conversion else old
        new = revised(kind, change(seen), seen, self.admission(), status=route.subresource == "status")
        if kind.conversion:
            new = kind.conversion.to_stored(new)
        return await self.replace(kind, head, old, new, dry_run=is_dry_run(request))

    async def replace(self, kind: Kind, head: Item, old: Obj, new: Obj, *, dry_run: bool = False) -> Item:
        """Store `new` over `old`, unless they are equal; remove the object if that completes its deletion."""
        if dry_run:
            return self.imagined(head.key, new)
        if ends_with_update(kind, old, new):
            return await self.store.remove(kind.storage, head.key, new)
        if new == old:
            await self.store.settled()
            return head
        return await self.store.write(kind.storage, head.key, new)

    async def delete(self, request: Request, route: Route) -> Response:
        options = delete_options(request)
        return await self.delete_with(request, route, options)

    async def delete_with(self, request: Request, route: Route, options: DeleteOptions) -> Response:
        """Delete one object as `options` say, and answer as a delete is answered."""
        kind = route.kind
        head = self.store.head(kind.storage, (route.namespace, route.name))
        if head is None:
            raise not_found(kind.resource, route.name)
        old = decode(head.body)
        if kind.storage == "pods":
            auth.authorize_pod(request.user or ADMIN, route, old)
        check_preconditions(kind, old, options)
        if kind.storage == "namespaces" and route.name in PERMANENT_NAMESPACES:
            raise forbidden(kind.resource, route.name, "this namespace may not be deleted")
        item, gone = await self._delete(kind, head, old, options)
        if gone and not kind.strategy.returns_deleted:
            return respond(200, encode(_success(kind, item)), negotiate(""))
        return self.answer(request, kind, item)

    async def _delete(self, kind: Kind, head: Item, old: Obj, options: DeleteOptions) -> tuple[Item, bool]:
        """The object's last state, and whether it is gone."""
        match deleted(kind, old, options, self.now()):
            case Pending():
                await self.store.settled()
                return head, False
            case Mark(obj) if options.dry_run:
                return self.imagined(head.key, obj), False
            case Mark(obj):
                return await self.store.write(kind.storage, head.key, obj), False
            case Remove(last) if options.dry_run:
                return self.imagined(head.key, last), True
            case Remove(last):
                return await self.store.remove(kind.storage, head.key, last), True

    async def delete_collection(self, request: Request, route: Route) -> Response:
        kind, options = route.kind, delete_options(request)
        selected = selection(request, route)
        chosen = [item for item in self.store.list(kind.storage) if selected.includes(item)]
        items: list[Item] = []
        for each in chosen:
            head = self.store.head(kind.storage, each.key)
            if head is not None and head.uid == each.uid:
                items.append((await self._delete(kind, head, decode(head.body), options))[0])
        meta: Obj = {"resourceVersion": str(self.store.version)}
        return respond(200, render_list(kind, items, meta, "object", self.now(), "None"), negotiate(""))

    def answer(self, request: Request, kind: Kind, item: Item, status: int = 200) -> Response:
        """One object as the client wants it."""
        accepted = negotiate(request.headers.get("accept", ""))
        rows_hold = request.parameter("includeObject") or "Metadata"
        return respond(status, render(kind, item, accepted.form, self.now(), rows_hold), accepted)

    def admission(self) -> Admission:
        def objects(storage: str) -> list[Obj]:
            return [decode(item.body) for item in self.store.list(storage)]

        return Admission(stamp(self.now()), objects)

    def imagined(self, key: Key, obj: Obj) -> Item:
        """What a dry run answers: the object as it would be stored."""
        meta: Obj = obj["metadata"]
        return Item(key, meta["uid"], int(meta.get("resourceVersion") or 0), {}, {}, encode(obj))

    def read_sent(self, request: Request, kind: Kind) -> Obj:
        """The object in the body, which must be of `kind`. Raises BadRequest."""
        sent = read_object(request.body, request.headers.get("content-type", ""))
        _check_kind(sent, kind)
        return sent

    def _settle_namespace(self, meta: Obj, route: Route) -> None:
        if not route.kind.namespaced:
            meta.pop("namespace", None)
            return
        given = meta.get("namespace") or route.namespace
        if given != route.namespace:
            raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
        if not given:
            raise BadRequest(f"the namespace of the {route.kind.name} is missing: send it to a namespace's path")
        meta["namespace"] = given

    def _check_namespace(self, kind: Kind, key: Key) -> None:
        """Admission plugin NamespaceLifecycle."""
        if not kind.namespaced:
            return
        namespace = self.store.head("namespaces", ("", key[0]))
        if namespace is None:
            raise not_found(_NAMESPACES, key[0])
        if decode(namespace.body)["metadata"].get("deletionTimestamp"):
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {key[0]} is being terminated",
                "field": "metadata.namespace",
            }
            why = f"unable to create new content in namespace {key[0]} because it is being terminated"
            raise forbidden(kind.resource, key[1], why, causes=[cause])

    def _uid(self) -> str:
        return str(UUID(int=self.random.getrandbits(128), version=4))

    def _generated_name(self, base: str) -> str:
        return base[:58] + "".join(self.random.choice(_NAME_LETTERS) for _ in range(5))


def is_dry_run(request: Request) -> bool:
    """Whether the request asks for a dry run. Raises BadRequest for a value that is not All."""
    asked = [value for key, value in request.query if key == "dryRun" and value]
    if any(value != "All" for value in asked):
        raise BadRequest(f'dryRun: Unsupported value: {asked!r}: supported values: "All"')
    return bool(asked)


def delete_options(request: Request) -> DeleteOptions:
    """The options of a delete, from its body or its query."""
    body = read_object(request.body, request.headers.get("content-type", "")) if request.body.strip() else {}
    query = {key: value for key, value in request.query if key != "dryRun"}
    if is_dry_run(request):
        query["dryRun"] = "All"
    return parse_options(body, query)


def patch_of(request: Request) -> Applied:
    """The patch that a request carries. Raises BadRequest or UnsupportedMediaType."""
    content_type = media_type(request.headers.get("content-type", ""))
    if content_type not in _PATCHES:
        told = ", ".join(sorted(_PATCHES))
        raise UnsupportedMediaType(
            f"the body of the request was in an unknown format - accepted media types include: {told}"
        )
    body = read(request.body, "application/yaml" if content_type.endswith("yaml") else "application/json")
    apply = _PATCHES[content_type]
    return lambda kind, obj: apply(kind, obj, body)


def _json(kind: Kind, obj: Obj, body: object) -> Obj:
    return _as_object(json_patch(obj, body))


def _merge(kind: Kind, obj: Obj, body: object) -> Obj:
    return _as_object(merge_patch(obj, body))


def _strategic(kind: Kind, obj: Obj, body: object) -> Obj:
    return strategic_merge_patch(obj, body, kind.name)


_PATCHES: Mapping[str, Callable[[Kind, Obj, object], Obj]] = {
    "application/json-patch+json": _json,
    "application/merge-patch+json": _merge,
    "application/strategic-merge-patch+json": _strategic,
}


def _as_object(value: object) -> Obj:
    if not isinstance(value, dict):
        raise BadRequest("the patch turns the object into something that is no object")
    return value  # pyright: ignore[reportUnknownVariableType]


def _check_kind(sent: Obj, kind: Kind) -> None:
    version, name = sent.get("apiVersion") or kind.api_version, sent.get("kind") or kind.name
    if version != kind.api_version:
        told = f"the API version in the data ({version}) does not match the expected API version ({kind.api_version})"
        raise BadRequest(told)
    if name != kind.name:
        raise BadRequest(f"the kind in the data ({name}) does not match the expected kind ({kind.name})")


def _check_uid(route: Route, meta: Obj, head: Item) -> None:
    if meta.get("uid") and meta["uid"] != head.uid:
        key = "/".join(part for part in ("/registry", route.kind.plural, *head.key) if part)
        why = (
            f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
            f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {head.uid}"
        )
        raise conflict(route.kind.resource, route.name, why)


def _check_version(route: Route, meta: Obj, head: Item) -> None:
    version = meta.get("resourceVersion")
    if not version and not route.kind.strategy.unconditional_update:
        error = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
        raise invalid(route.kind.group, route.kind.plural, route.name, [error])
    if version and version != str(head.version):
        raise conflict(route.kind.resource, route.name)


def _success(kind: Kind, item: Item) -> Obj:
    details = {"name": item.key[1], "group": kind.group, "kind": kind.plural, "uid": item.uid}
    shown = {key: value for key, value in details.items() if value}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": shown}


_NAMESPACES = Resource("", "namespaces")
