"""create, update, patch, delete and deletecollection.

Each reads the newest state, decides with the pure rules of `lifecycle` and `deletion`, and writes. There is
no await between reading and writing, so no write is computed from a state that has been replaced. The answer
is given only when the write is durable.
"""

from __future__ import annotations

from asyncio import gather
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from random import Random
from uuid import UUID

import msgspec

from mooring.apiserver.access import Authorizer, attributes_of
from mooring.apiserver.access.node_restriction import admit_access, admit_create, admit_update
from mooring.apiserver.encodings.negotiation import negotiate
from mooring.apiserver.errors import (
    AlreadyExists,
    BadRequest,
    MethodNotAllowed,
    Obj,
    Resource,
    Unclassified,
    Unreadable,
    already_exists,
    forbidden,
    invalid,
    invalid_value,
    not_found,
)
from mooring.apiserver.message import ADMIN, Request, Response
from mooring.apiserver.objects import metadata
from mooring.apiserver.objects.deletion import (
    DeleteOptions,
    Mark,
    Pending,
    Remove,
    check_preconditions,
    deleted,
    ends_with_update,
)
from mooring.apiserver.objects.forced_removal import risk
from mooring.apiserver.objects.kinds import Kind
from mooring.apiserver.objects.lifecycle import created, revised
from mooring.apiserver.objects.managed_fields import applied, updated
from mooring.apiserver.objects.strategy import Admission
from mooring.apiserver.objects.typed_form import tidied
from mooring.apiserver.requests.claim_admission import CLAIMS, charged
from mooring.apiserver.requests.list_options import rows_hold, selection
from mooring.apiserver.requests.reads import respond
from mooring.apiserver.requests.rendering import render, render_list
from mooring.apiserver.requests.unattended import warning_of
from mooring.apiserver.requests.write_request import (
    check_kind,
    check_same_version,
    check_uid,
    check_version,
    delete_options,
    is_apply,
    is_dry_run,
    manager_of,
    patch_of,
    read_applied,
    read_sent,
    settle_name,
    settle_namespace,
    type_of,
    unknown_fields,
)
from mooring.apiserver.routes import Route
from mooring.apiserver.store.history import Item, Key
from mooring.apiserver.store.object_store import Store, decode, encode
from mooring.apiserver.values.dotted import object_at, text_at
from mooring.apiserver.values.timestamps import stamp
from mooring.apiserver.work_limit import renew

_NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_NAME_TRIES = 8
PERMANENT_NAMESPACES = frozenset({"default", "kube-system", "kube-public"})

_NAMESPACES = Resource("", "namespaces")
_QUOTAS = "resourcequotas"


@dataclass(frozen=True, slots=True)
class Writer:
    """Makes the writes of one store. `now` is the wall clock, `random` makes uids and generated names."""

    store: Store
    authorizer: Authorizer
    now: Callable[[], datetime]
    random: Random

    async def create(self, request: Request, route: Route) -> Response:
        """Creates the object in the body, under its own name or a generated one."""
        kind, sent = route.kind, read_sent(request, route.kind)
        meta = metadata.of(sent)
        settle_namespace(meta, route)
        meta.pop("managedFields", None)
        generated = not meta.get("name") and bool(meta.get("generateName"))
        if kind.custom is not None and kind.custom.terminating:
            refusal = "create not allowed while custom resource definition is terminating"
            raise MethodNotAllowed(refusal, group=kind.group, kind=kind.plural)
        for attempt in range(_NAME_TRIES):
            if generated:
                meta["name"] = self._generated_name(meta["generateName"])
            try:
                item = await self.store_new(kind, sent, request)
            except AlreadyExists:
                if not generated or attempt == _NAME_TRIES - 1:
                    raise
            else:
                return self.answer(request, kind, item, 201)
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def store_new(self, kind: Kind, sent: Obj, request: Request | None = None) -> Item:
        """Creates an object whose name and namespace are settled, as `request` asks, if one does.

        Raises AlreadyExists, NotFound, Forbidden, Invalid.
        """
        kind, sent = _as_stored(kind, sent)
        meta: Obj = sent["metadata"]
        key: Key = (meta.get("namespace") or "", meta.get("name") or "")
        self._check_namespace(kind, key)
        user = (request.user if request is not None else None) or ADMIN
        admit_create(user, kind, sent, self._node)
        obj = created(kind, sent, self.admission(request), uid=self.new_uid())
        admit_create(
            user, kind, obj, self._node
        )  # as it will be stored: no form of what was sent hides anything
        if obj["metadata"].get("resourceVersion"):
            raise Unclassified("resourceVersion should not be set on objects to be created")
        if self.store.head(kind.storage, key) is not None:
            raise already_exists(kind.resource, key[1])
        if request is not None:
            _warn(request, kind, obj)
        return await self._store(kind, key, obj, dry_run=request is not None and is_dry_run(request))

    async def _store(self, kind: Kind, key: Key, obj: Obj, old: Obj | None = None, *, dry_run: bool) -> Item:
        """Stores an object, and in the same step what it takes of its namespace's quotas. Raises
        Forbidden."""
        quotas = charged(obj, old, *self._quotas_and_claims()) if kind.storage == str(CLAIMS) else []
        if dry_run:
            return self.imagined(key, obj)
        writes = [self.store.write(_QUOTAS, _key_of(each), each) for each in quotas]
        item = await self.store.write(kind.storage, key, obj)
        await gather(*writes)
        return item

    def _quotas_and_claims(self) -> tuple[list[Obj], Iterator[Obj]]:
        quotas = [decode(item.body) for item in self.store.heads(_QUOTAS)]
        return quotas, (decode(item.body) for item in self.store.heads(str(CLAIMS)))

    async def update(self, request: Request, route: Route) -> Response:
        """Replaces an object by the one in the body."""
        kind, sent = route.kind, read_sent(request, route.kind)
        meta = metadata.of(sent)
        settle_namespace(meta, route)
        settle_name(meta, route)
        head = self.head(request, route)
        if head is None:
            if not kind.strategy.create_on_update or route.subresource:
                raise not_found(kind.resource, route.name)
            self._authorize_create(request, route)
            item = await self.store_new(kind, sent, request)
            return self.answer(request, kind, item, 201)
        check_uid(route, meta, head)
        check_version(route, meta, head)
        item = await self.revise(request, route, head, lambda old: sent)
        return self.answer(request, kind, item)

    async def patch(self, request: Request, route: Route) -> Response:
        """Changes an object by the patch in the body."""
        if is_apply(request):
            return await self._apply(request, route)
        apply = patch_of(request)
        head = self.head(request, route)
        if head is None:
            raise not_found(route.kind.resource, route.name)

        def patched(old: Obj) -> Obj:
            new = apply(route.kind, old)
            check_kind(new, route.kind)
            meta = metadata.of(new)
            check_same_version(route, meta.get("resourceVersion"), head)
            settle_name(meta, route)
            settle_namespace(meta, route)
            return new

        try:
            item = await self.revise(request, route, head, patched)
        except Unreadable as error:
            sent = request.body.decode(errors="replace")
            raise invalid("", "", "", [invalid_value("patch", sent, error.message)]) from error
        return self.answer(request, route.kind, item)

    async def _apply(self, request: Request, route: Route) -> Response:
        """Server-side apply: create the object, or merge what is sent into it by the ownership of its
        fields."""
        kind, sent = route.kind, read_applied(request, route.kind)
        manager = manager_of(request, route, "Apply")
        meta = metadata.of(sent)
        what = f"{meta.get('namespace') or ''}/{meta.get('name') or ''}; {type_of(sent)}"
        settle_name(meta, route, needed=False)
        settle_namespace(meta, route)
        if "managedFields" in meta:
            raise BadRequest("metadata.managedFields must be nil")
        sent = _declared(kind, sent, what)
        force, now = request.flag("force"), stamp(self.now())
        head = self.head(request, route)
        if head is None and route.subresource:
            raise not_found(kind.resource, route.name)
        if head is None:
            self._authorize_create(request, route)
            new = applied(kind, None, sent, manager, force=force, now=now)
            return self.answer(request, kind, await self.store_new(kind, new, request), 201)
        check_uid(route, meta, head)
        if meta.get("resourceVersion"):
            check_version(route, meta, head)

        def change(old: Obj) -> Obj:
            return applied(kind, old, sent, manager, force=force, now=now)

        return self.answer(request, kind, await self.revise(request, route, head, change))

    def head(self, request: Request, route: Route) -> Item | None:
        """The newest state of the object that a write is about. Raises Forbidden if it is not the user's to
        write."""
        head = self.store.head(route.kind.storage, (route.namespace, route.name))
        if head is not None:
            admit_access(request.user or ADMIN, route, head.fields)
        return head

    async def revise(self, request: Request, route: Route, head: Item, change: Callable[[Obj], Obj]) -> Item:
        """Changes the object that `head` is, by every rule of an update; `change` is given its current
        form."""
        kind = route.kind
        old = decode(head.body)
        seen = kind.conversion.from_stored(old) if kind.conversion else old
        kind, wanted = _as_stored(kind, change(seen))
        user = request.user or ADMIN
        admit_update(user, route, wanted, old)
        new = revised(kind, wanted, old, self.admission(request), status=route.subresource == "status")
        admit_update(user, route, new, old)
        if new.get("spec") != old.get("spec"):
            _warn(request, kind, new)
        if not is_apply(request):
            new = updated(kind, old, new, manager_of(request, route, "Update"), stamp(self.now()))
        return await self.replace(kind, head, old, new, dry_run=is_dry_run(request))

    async def replace(self, kind: Kind, head: Item, old: Obj, new: Obj, *, dry_run: bool = False) -> Item:
        """Stores `new` over `old`, unless they are equal; removes the object if that completes its
        deletion."""
        if dry_run:
            return await self._store(kind, head.key, new, old, dry_run=True)
        if ends_with_update(kind, old, new):
            # As upstream: the answer has the requested state at the old version; watchers get the last state.
            answer = self.imagined(head.key, new)
            await self.store.remove(kind.storage, head.key, old)
            return answer
        if new == old:
            await self.store.settled()
            return head
        return await self._store(kind, head.key, new, old, dry_run=False)

    async def delete(self, request: Request, route: Route) -> Response:
        """Deletes one object, or marks it as being deleted."""
        options = delete_options(request)
        return await self.delete_with(request, route, options)

    async def delete_with(self, request: Request, route: Route, options: DeleteOptions) -> Response:
        """Deletes one object as `options` say, and answers as a delete is answered."""
        kind = route.kind
        head = self.head(request, route)
        if head is None:
            raise not_found(kind.resource, route.name)
        old = decode(head.body)
        check_preconditions(kind, old, options)
        if kind.storage == "namespaces" and route.name in PERMANENT_NAMESPACES:
            raise forbidden(kind.resource, route.name, "this namespace may not be deleted")
        if kind.storage == "pods" and options.grace == 0:
            self._warn_of_force(request, old)
        item, gone = await self.delete_item(kind, head, old, options)
        if gone and not kind.strategy.returns_deleted:
            return respond(200, encode(_success(kind, item)), negotiate(""))
        return self.answer(request, kind, item)

    def _warn_of_force(self, request: Request, pod: Obj) -> None:
        node = self.store.head("nodes", ("", text_at(object_at(pod, "spec"), "nodeName")))
        if (warning := risk(pod, decode(node.body) if node is not None else None)) is not None:
            request.warnings.append(warning)

    async def delete_item(
        self, kind: Kind, head: Item, old: Obj, options: DeleteOptions
    ) -> tuple[Item, bool]:
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
                return await self._removed(kind, head.key, old, last), True

    async def _removed(self, kind: Kind, key: Key, old: Obj, last: Obj) -> Item:
        """Removes an object. If its last state is new (the end of its grace period), watchers get that
        first."""
        writes = [self.store.write(kind.storage, key, last)] if last != old else []
        return (await gather(*writes, self.store.remove(kind.storage, key, last)))[-1]

    async def delete_collection(self, request: Request, route: Route) -> Response:
        """Deletes every object that the request selects; one that changes meanwhile is decided anew.

        The answer shows the objects as they were.
        """
        kind, options = route.kind, delete_options(request)
        selected = selection(request, route)
        chosen = selected.among(self.store.list(kind.storage))
        for each in chosen:
            renew()
            head = self.store.head(kind.storage, each.key)
            if head is not None and head.uid == each.uid:
                await self.delete_item(kind, head, decode(head.body), options)
        meta: Obj = {"resourceVersion": str(self.store.version)}
        return respond(200, render_list(kind, chosen, meta, negotiate(""), self.now(), "None"), negotiate(""))

    def answer(self, request: Request, kind: Kind, item: Item, status: int = 200) -> Response:
        """One object as the client wants it."""
        accepted = negotiate(request.headers.get("accept", ""), protobuf=kind.speaks_protobuf)
        return respond(status, render(kind, item, accepted.form, self.now(), rows_hold(request)), accepted)

    def admission(self, request: Request | None) -> Admission:
        """The context of strategies: the time, the committed objects, and the handling of unknown fields."""

        def objects(storage: str) -> list[Obj]:
            return [decode(item.body) for item in self.store.list(storage)]

        if request is None:
            return Admission(stamp(self.now()), objects)
        return Admission(stamp(self.now()), objects, unknown_fields(request))

    def imagined(self, key: Key, obj: Obj) -> Item:
        """The answer of a dry run: the object as it would be stored."""
        meta: Obj = obj["metadata"]
        return Item(key, meta["uid"], int(meta.get("resourceVersion") or 0), {}, {}, encode(obj))

    def _authorize_create(self, request: Request, route: Route) -> None:
        """Raises Forbidden unless the user may create the object that an update or patch names."""
        wanted = msgspec.structs.replace(attributes_of(route, request), verb="create")
        self.authorizer.authorize(request.user or ADMIN, wanted)

    def _node(self, name: str) -> Obj | None:
        """The newest state of a Node."""
        head = self.store.head("nodes", ("", name))
        return decode(head.body) if head is not None else None

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

    def new_uid(self) -> str:
        """One that no object has yet."""
        return str(UUID(int=self.random.getrandbits(128), version=4))

    def _generated_name(self, base: str) -> str:
        return base[:58] + "".join(self.random.choice(_NAME_LETTERS) for _ in range(5))


def _warn(request: Request, kind: Kind, obj: Obj) -> None:
    if (warning := warning_of(kind.storage, obj)) is not None:
        request.warnings.append(warning)


def _key_of(obj: Obj) -> Key:
    meta: Obj = obj["metadata"]
    return meta.get("namespace") or "", meta["name"]


def _as_stored(kind: Kind, sent: Obj) -> tuple[Kind, Obj]:
    """The object and its kind in the stored version, in which every rule is written."""
    if kind.conversion is None:
        return kind, sent
    return kind.conversion.stored, kind.conversion.to_stored(sent)


def _declared(kind: Kind, sent: Obj, what: str) -> Obj:
    """The applied object, tidied. Unlike other writes, an apply may have no field that its kind lacks."""
    unknown: list[str] = []
    tidy = tidied(kind, sent, unknown, zeroes=False)
    if unknown:
        raise Unclassified(
            f"failed to create typed patch object ({what}): .{unknown[0]}: field not declared in schema"
        )
    return tidy


def _success(kind: Kind, item: Item) -> Obj:
    details = {"name": item.key[1], "group": kind.group, "kind": kind.plural, "uid": item.uid}
    shown = {key: value for key, value in details.items() if value}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": shown}
