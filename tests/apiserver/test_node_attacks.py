"""A stolen node's token, and every way that leads to an object: kinds, subresources, verbs, aliases of paths,
selectors, pages, kinds of patches. Whatever is answered, nothing of others is shown and nothing of others
changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
import rights_world as world
from rights_world import HIDDEN, MARK, OTHER, OWN, collection, name_of, send

from mooring.apiserver import ADMIN, node_user
from mooring.apiserver.objects.kinds import BUILT_IN, KINDS, Kind

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "get", "LIST", "PROPFIND")
PATCHES = (
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/json",
    "",
)
SELECTORS = (
    "metadata.name!=x", "metadata.name=n2", "metadata.name=n2-secret",
    "metadata.name==n2-secret,metadata.name=n1-secret",
    "metadata.name=n1-secret,metadata.name=n2-secret", "metadata.name = n1-secret", "metadata.name=n1-secret,",
    "metadata.namespace=default", "spec.nodeName=n2", "spec.nodeName!=n1", "spec.nodeName=n1,spec.nodeName=n2",
    "spec.nodeName=n1\\,n2", "spec.nodeName=", "spec.nodeName", "type=Opaque", "=", "metadata.name=",
    "Metadata.Name=n1-secret", "metadata.name=n1-secret\x00", "metadata.name=../n2-secret", "spec.nodeName=N1",
)  # fmt: skip
QUERIES: tuple[tuple[tuple[str, str], ...], ...] = (
    (),
    (("limit", "1"),),
    (("watch", "1"), ("resourceVersion", "1")),
    (("watch", "1"), ("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan")),
    (("labelSelector", "!nothing"),),
    (("fieldSelector", "metadata.name=n1-secret"), ("fieldSelector", "metadata.name=n2-secret")),
    (("fieldSelector", ""), ("fieldSelector", "metadata.name=n1-secret")),
    (("includeObject", "Object"),),
    (("dryRun", "All"),),
    (("force", "true"), ("fieldManager", "kubelet")),
    (("pretty", "true"), ("timeoutSeconds", "1")),
    *((("fieldSelector", each),) for each in SELECTORS),
    *((("fieldSelector", each), ("watch", "true")) for each in SELECTORS),
)
FREE = frozenset({"events", "events.events.k8s.io"})
"""What every node may write: nothing that anything else relies on."""


def aliases(path: str, name: str) -> Iterator[str]:
    """Other ways to write the path of an object."""
    collected = path.rpartition("/")[0]
    yield path
    yield f"{path}/"
    yield f"/{path}"
    yield path.replace("/namespaces/", "//namespaces/")
    yield path.replace("/namespaces/default/", "/namespaces//")
    yield path.replace("/namespaces/default/", "/namespaces/./default/")
    yield path.replace("/namespaces/default/", "/namespaces/x/../default/")
    yield path.replace("/namespaces/default/", "/namespaces/default%2F")
    yield path.replace("/api/", "/api/v1/../").replace("/apis/", "/apis/../apis/")
    yield path.replace("/v1/", "/v1/watch/")
    yield path.replace("/namespaces/default/", "/")
    yield path.replace("/v1/", "/v1beta1/")
    yield path.upper()
    yield f"{collected}/{OWN}/../{name}"
    yield f"{collected}/{OWN}%2F..%2F{name}"
    yield f"{collected}/%2e%2e/{collected.rpartition('/')[2]}/{name}"
    yield f"{collected}/{name}%00"
    yield f"{collected}/{name}?x"


def bodies(kind: Kind, name: str, uid: str) -> list[Any]:
    """What changes an object, or makes one, in every form."""
    meta = {"name": name, "labels": {"stolen": "yes"}, "annotations": {"mooring.dev/attached-to": "{}"}}
    full = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": meta}
    owner = {"apiVersion": "v1", "kind": "Node", "name": OWN, "uid": uid}
    taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
    return [
        full,
        {**full, "spec": {"nodeName": OWN, "taints": [taint]}, "status": {"phase": "Failed", "attached": False}},
        {"metadata": {"annotations": {"mooring.dev/node-confirmed-dead": "{}", "mooring.dev/fence-evidence": "{}"}}},
        {"metadata": {"finalizers": None, "ownerReferences": [owner]}},
        [{"op": "add", "path": "/metadata/labels", "value": {"stolen": "yes"}}],
        [{"op": "copy", "from": "/spec", "path": "/metadata/annotations"}],
        {"target": {"kind": "Node", "name": OWN}, "metadata": {"name": name}},
        {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}},
    ]  # fmt: skip


@pytest.fixture
def attacked(serve):
    """Plays `story(node, server, uid)`, and then looks that nothing of others was shown or changed."""

    def play(story):
        async def whole(api):
            async def admin(method, path, body=None):
                return await send(api.server, ADMIN, method, path, body)

            async def node(method, path, body=None, query=(), content=""):
                status, answer = await send(api.server, node_user(OWN), method, path, body, query, content)
                text = answer if isinstance(answer, str) else json.dumps(answer)
                shown = [each for each in (MARK, HIDDEN) if each in text and each not in json.dumps(body)]
                assert not shown, (method, path, query, status, text[:2000])
                return status, answer

            uid = await world.make(admin)
            before = state(api.server)
            await story(node, api.server, uid)
            after = state(api.server)
            assert {key: value for key, value in after.items() if before.get(key) != value} == {}
            assert before.keys() <= after.keys()

        serve(whole)

    return play


def state(server) -> dict[tuple[str, Any], bytes]:
    """Everything that is stored and is not the node's own to write."""
    own = {(plural, name_of(plural.partition(".")[0], OWN)) for plural in map(str, storages())}
    mine = {"nodes", "csinodes.storage.k8s.io", "leases.coordination.k8s.io", "pods"}
    return {
        (storage, item.key): item.body
        for storage in storages()
        if storage not in FREE
        for item in server.store.list(storage)
        if not (storage in mine and (storage, item.key[1]) in own) and not item.key[1].startswith("static-")
        if not (storage == "persistentvolumeclaims" and item.key[1] == f"{OWN}-claim")
    }


def storages() -> list[str]:
    return [*BUILT_IN.by_storage]


def test_no_alias_of_a_path_leads_to_anothers_object(attacked):
    async def story(node, server, uid):
        for kind in KINDS:
            for name in (name_of(kind.plural, OTHER), f"{OTHER}-secret", "free-secret"):
                path = f"{collection(kind)}/{name}"
                for alias in aliases(path, name):
                    for method in METHODS:
                        body = bodies(kind, name, uid)[0] if method in ("POST", "PUT", "PATCH") else None
                        await node(method, alias, body, (), PATCHES[0] if method == "PATCH" else "")

    attacked(story)


def test_no_selector_shows_what_is_anothers(attacked):
    async def story(node, server, uid):
        for kind in KINDS:
            for path in {collection(kind), collection(kind).replace("/namespaces/default", "")}:
                for query in QUERIES:
                    for each in (path, path.replace("/v1/", "/v1/watch/", 1)):
                        await node("GET", each, None, query)

    attacked(story)


def test_no_page_of_a_list_goes_on_where_it_may_not(attacked):
    async def story(node, server, uid):
        path = world.COLLECTIONS["secrets"]
        answer = await send(server, ADMIN, "GET", path, None, [("limit", "1")])
        token = answer[1]["metadata"]["continue"]
        for query in (
            [("continue", token)],
            [("continue", token), ("fieldSelector", f"metadata.name={OWN}-secret")],
        ):
            await node("GET", path, None, query)
            await node("GET", path, None, [*query, ("limit", "500")])

    attacked(story)


def test_no_kind_of_write_changes_what_is_anothers(attacked):
    async def story(node, server, uid):
        for kind in KINDS:
            name = name_of(kind.plural, OTHER)
            for subresource in (
                "",
                *sorted(kind.subresources),
                "status",
                "token",
                "exec",
                "proxy",
                "ephemeralcontainers",
            ):
                path = f"{collection(kind)}/{name}" + (f"/{subresource}" if subresource else "")
                for body in bodies(kind, name, uid):
                    for content in PATCHES:
                        await node("PATCH", path, body, [("force", "true"), ("fieldManager", "m")], content)
                    for method in ("POST", "PUT", "DELETE"):
                        await node(method, path, body)
                        await node(method, collection(kind), body, [("labelSelector", "!x")])

    attacked(story)


def test_what_is_drawn_by_chance_harms_no_one(attacked):
    chance = Random(17)

    async def story(node, server, uid):
        for _ in range(1500):
            kind = chance.choice(KINDS)
            name = name_of(kind.plural, chance.choice((OWN, OTHER)))
            path = chance.choice([*aliases(f"{collection(kind)}/{name}", name), collection(kind)])
            if chance.random() < 0.4:
                path += "/" + chance.choice(
                    [*kind.subresources, "status", "log", "scale", "binding", "eviction"]
                )
            method, query = chance.choice(METHODS[:6]), chance.choice(QUERIES)
            if method in ("DELETE", "PUT", "POST") and name.startswith(OWN):
                continue  # what it may do to its own is not the question
            body = chance.choice(bodies(kind, name, uid)) if method != "GET" else None
            await node(method, path, body, query, chance.choice(PATCHES) if method == "PATCH" else "")

    attacked(story)


def test_a_refusal_does_not_tell_what_is_in_anothers_pod(attacked):
    async def story(node, server, uid):
        path, patch = f"{world.COLLECTIONS['pods']}/{OTHER}-pod", "application/json-patch+json"

        def test(value):
            return [{"op": "test", "path": "/spec/serviceAccountName", "value": value}]

        answers = [
            await node("PATCH", f"{path}/status", test(value), (), patch)
            for value in (f"{OTHER}-account", "x")
        ]
        assert answers[0] == answers[1]
        assert answers[0][0] == 403
        for version in ("1", ""):
            body = {"metadata": {"name": f"{OTHER}-pod", "resourceVersion": version, "uid": version}}
            assert (await node("PUT", f"{path}/status", body))[0] == 403
            assert (await node("DELETE", path, {"preconditions": {"uid": "x"}}))[0] == 403

    attacked(story)


def test_a_create_by_put_or_apply_needs_the_right_to_create(attacked):
    async def story(node, server, uid):
        apply = "application/apply-patch+yaml"
        for path, kind in (
            (world.LEASES, "Lease"),
            (world.COLLECTIONS["csinodes"], "CSINode"),
            ("/api/v1/nodes", "Node"),
        ):
            version = "v1" if kind == "Node" else path.removeprefix("/apis/").partition("/namespaces")[0]
            version = "/".join(version.split("/")[:2])
            for name in ("n3", OTHER):
                body = {"apiVersion": version, "kind": kind, "metadata": {"name": name}}
                assert (await node("PUT", f"{path}/{name}", body))[0] == 403
                assert (await node("PATCH", f"{path}/{name}", body, [("fieldManager", "m")], apply))[0] == 403
                assert (await node("PATCH", f"{path}/{OWN}", body, [("fieldManager", "m")], apply))[0] in (
                    400,
                    403,
                )

    attacked(story)


def test_after_a_restart_and_after_forgotten_changes_the_same_is_granted(serve):
    from mooring.apiserver.access.node_graph import Relations

    async def story(api):
        async def admin(method, path, body=None):
            return await send(api.server, ADMIN, method, path, body)

        await world.make(admin)
        old = Relations(api.server.store)

        def known(relations: Relations) -> list[bool]:
            secrets = [
                f"{node}-{what}" for node in (OWN, OTHER) for what in ("secret", "stage", "controller", "env")
            ]
            return [relations.has(OWN, "secrets", "default", each) for each in secrets]

        expected = known(old)
        assert expected == [True, True, False, True, False, False, False, False]
        await admin("DELETE", f"{world.COLLECTIONS['pods']}/{OTHER}-pod", {"gracePeriodSeconds": 0})
        await admin("DELETE", f"{world.COLLECTIONS['pods']}/{OWN}-pod", {"gracePeriodSeconds": 0})
        for number in range(10_050):  # more changes than the store remembers
            meta = {"metadata": {"name": f"c{number % 7}", "annotations": {"n": str(number)}}}
            await admin(
                "POST" if number < 7 else "PUT",
                world.COLLECTIONS["configmaps"] + ("" if number < 7 else f"/c{number % 7}"),
                meta,
            )
        assert known(old) == known(Relations(api.server.store)) == [False] * 8

    serve(story)
