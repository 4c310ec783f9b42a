"""Who asks, and that a node and an administrator may not do the same; all that a node may is in
test_node_rights."""

from __future__ import annotations

import base64

import pytest

from mooring.apiserver import ADMIN, Request, Tokens, node_user
from mooring.apiserver.errors import Unauthorized

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
CSINODES = "/apis/storage.k8s.io/v1/csinodes"
ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"
EVENTS = "/api/v1/namespaces/default/events"


def test_a_token_is_its_users_and_nobody_elses():
    tokens = Tokens(b"secret")
    assert tokens.user(tokens.admin()) == ADMIN
    assert tokens.user(tokens.node("a.b-c")) == node_user("a.b-c")
    stolen = tokens.node("a").replace("node.a.", "node.b.")
    for token in ("", "x", stolen, tokens.node("a")[:-1], Tokens(b"other").admin(), tokens.admin() + "é"):
        with pytest.raises(Unauthorized):
            tokens.user(token)


def test_a_node_that_is_called_admin_is_no_administrator():
    tokens = Tokens(b"secret")
    assert tokens.user(tokens.node("admin")) == node_user("admin")
    assert not tokens.user(tokens.node("admin")).is_admin


def test_a_request_without_a_good_token_is_unauthorized(serve):
    async def story(api):
        token = api.server.tokens.admin()
        for header, status in (
            ({}, 401),
            ({"authorization": "Bearer nonsense"}, 401),
            ({"authorization": f"Digest {token}"}, 401),
            ({"authorization": f"Bearer {token}"}, 200),
            ({"authorization": f"bearer  {token}"}, 200),
            ({"authorization": f"Basic {base64.b64encode(f'x:{token}'.encode()).decode()}"}, 401),
        ):
            assert (await api.server.handle(Request("GET", PODS, headers=header))).status == status, header

    serve(story)


def test_health_and_version_need_no_token(serve):
    async def story(api):
        for path in ("/healthz", "/livez", "/readyz", "/version"):
            assert (await api.server.handle(Request("GET", path))).status == 200

    serve(story)


def test_each_check_is_told_to_one_who_asks_for_it(serve):
    async def story(api):
        answer = await api.server.handle(Request("GET", "/readyz", query=(("verbose", ""),)))
        assert answer.body.decode() == "[+]ping ok\n[+]store ok\nreadyz check passed\n"
        assert (await api.server.handle(Request("GET", "/readyz"))).body == b"ok"

    serve(story)


def test_the_check_that_fails_is_told(serve, monkeypatch):
    async def story(api):
        monkeypatch.setattr(type(api.server.store), "trouble", property(lambda store: "disk full"))
        answer = await api.server.handle(Request("GET", "/readyz"))
        assert answer.status == 503
        assert answer.body.decode() == "[+]ping ok\n[-]store failed: disk full\nreadyz check failed\n"
        assert (await api.server.handle(Request("GET", "/livez"))).status == 200

    serve(story)


def test_a_refusal_says_who_may_not_do_what(serve):
    async def story(api):
        node = api.acting_as(node_user("n1"))
        refusal = await api.refused(
            403, node.create("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "x"}})
        )
        assert refusal.message == (
            'configmaps is forbidden: User "system:node:n1" cannot create resource "configmaps" in API group "" '
            'in the namespace "default"'
        )
        refusal = await api.refused(403, node.delete(f"{ATTACHMENTS}/va"))
        assert refusal.message == (
            'volumeattachments.storage.k8s.io "va" is forbidden: User "system:node:n1" cannot delete resource '
            '"volumeattachments" in API group "storage.k8s.io" at the cluster scope'
        )

    serve(story)


def test_a_node_writes_its_own_node_lease_and_csinode_only(serve):
    async def story(api):
        node = api.acting_as(node_user("n1"))
        for path in (NODES, CSINODES, LEASES):
            await node.create(path, {"metadata": {"name": "n1"}})
            await node.patch(f"{path}/n1", {"metadata": {"labels": {"a": "b"}}})
            await api.create(path, {"metadata": {"name": "n2"}})
            await api.refused(403, node.create(path, {"metadata": {"name": "n3"}}))
            await api.refused(403, node.create(path, {"metadata": {"generateName": "n"}}))
            await api.refused(403, node.patch(f"{path}/n2", {"metadata": {"labels": {"a": "b"}}}))
            await api.refused(403, node.delete(f"{path}/n2"))
            await api.refused(403, node.delete(path))
        await node.patch(f"{NODES}/n1/status", {"status": {"volumesInUse": ["v"]}})
        await api.refused(403, node.patch(f"{NODES}/n2/status", {"status": {"volumesInUse": ["v"]}}))
        other = LEASES.replace("kube-node-lease", "default")
        await api.refused(403, node.create(other, {"metadata": {"name": "n1"}}))
        await api.refused(403, node.replace(f"{LEASES}/n3", {"metadata": {"name": "n3"}}))

    serve(story)


def test_a_node_tells_events(serve):
    async def story(api):
        node = api.acting_as(node_user("n1"))
        about = {"name": "p", "namespace": "default"}
        await node.create(EVENTS, {"metadata": {"name": "e"}, "involvedObject": about})
        await node.patch(f"{EVENTS}/e", {"count": 2})
        await api.refused(403, node.delete(f"{EVENTS}/e"))

    serve(story)


def test_a_user_can_ask_what_it_may_do(serve):
    async def story(api):
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        node = api.acting_as(node_user("n1"))
        for asker, attributes, allowed in (
            (api, {"verb": "delete", "resource": "pods"}, True),
            (node, {"verb": "list", "resource": "pods"}, False),
            (
                node,
                {"verb": "list", "resource": "pods", "fieldSelector": {"rawSelector": "spec.nodeName=n1"}},
                True,
            ),
            (
                node,
                {"verb": "list", "resource": "pods", "fieldSelector": {"rawSelector": "spec.nodeName=n2"}},
                False,
            ),
            (node, {"verb": "get", "resource": "nodes", "name": "n1"}, True),
            (node, {"verb": "get", "resource": "nodes", "name": "n2"}, False),
            (node, {"verb": "delete", "resource": "volumeattachments", "group": "storage.k8s.io"}, False),
            (node, {"verb": "get", "resource": "nosuch"}, False),
        ):
            answer = await asker.create(path, {"spec": {"resourceAttributes": attributes}})
            assert answer["status"]["allowed"] is allowed

    serve(story)
