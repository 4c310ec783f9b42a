"""The table of a node's rights, played whole: every verb on every kind and subresource, on what is its own
and what is not. What the table does not give is refused; what it gives is granted."""

from __future__ import annotations

import pytest
import rights_world as world
from rights_world import OTHER, OWN, collection, name_of, request_of, rows, send

from mooring.apiserver import ADMIN, node_user
from mooring.apiserver.access.node_rights import NODE, WITHHELD, Scope, by_resource
from mooring.apiserver.objects.kinds import KINDS, Kind

RIGHTS = by_resource(NODE)


@pytest.fixture
def played(serve):
    """Plays a story with the server, the uid of the own Node, and `node(method, path, …)` that asks as it."""

    def play(story):
        async def whole(api):
            async def admin(method, path, body=None, query=(), content=""):
                return await send(api.server, ADMIN, method, path, body, query, content)

            async def node(method, path, body=None, query=(), content=""):
                return await send(api.server, node_user(OWN), method, path, body, query, content)

            uid = await world.make(admin)
            await story(node, admin, uid)

        serve(whole)

    return play


def granted(kind: Kind, subresource: str, verb: str, node: str) -> bool:
    """What the table says."""
    resource = f"{kind.plural}/{subresource}" if subresource else kind.plural
    right = RIGHTS.get((kind.group, resource), {}).get(verb)
    return right is not None and (node == OWN or right.scope is Scope.ALL)


def test_the_table_holds_for_every_verb_on_every_kind(played):
    async def story(node, admin, uid):
        asked = 0
        for kind, subresource, verb in rows():
            for whose in (OWN, OTHER):
                method, path, body, query, content = request_of(kind, subresource, verb, whose, uid)
                if verb == "update" and kind.plural in world.COLLECTIONS:
                    _, body = await admin("GET", f"{collection(kind)}/{name_of(kind.plural, whose)}")
                status, answer = await node(method, path, body, query, content)
                outcome = (kind.name, subresource, verb, whose, status, answer)
                assert status < 500 or status == 501, outcome
                assert (status not in (403, 405)) == granted(kind, subresource, verb, whose), outcome
                asked += 1
        assert asked > 700

    played(story)


def test_the_table_names_only_what_is_served():
    served = {(kind.group, resource) for kind in KINDS for resource in (kind.plural, *subresources(kind))}
    assert set(RIGHTS) <= served
    assert not set(WITHHELD) & set(RIGHTS)


def subresources(kind: Kind) -> list[str]:
    return [f"{kind.plural}/{each}" for each in kind.subresources]


def test_secrets_are_read_by_their_name_and_only_what_a_pod_here_names(played):
    async def story(node, admin, uid):
        path = world.COLLECTIONS["secrets"]
        for name in ("secret", "stage", "publish", "image", "env"):
            assert (await node("GET", f"{path}/{OWN}-{name}"))[0] == 200, name
            assert (await node("GET", f"{path}/{OTHER}-{name}"))[0] == 403, name
            for watch in ([], [("watch", "1")]):
                query = [("fieldSelector", f"metadata.name={OWN}-{name}"), *watch]
                assert (await node("GET", path, None, query))[0] == 200, name
        for query in ([], [("limit", "1")], [("watch", "1")], [("labelSelector", "!x")]):
            assert (await node("GET", path, None, query))[0] == 403
            assert (await node("GET", "/api/v1/secrets", None, query))[0] == 403
        for name in (f"{OWN}-controller", "free-secret", "no-such"):
            status, answer = await node("GET", f"{path}/{name}")
            assert (status, "no relationship found between node 'n1'" in answer["message"]) == (403, True)

    played(story)


def test_what_a_pod_names_is_readable_from_its_binding_to_its_end(played):
    async def story(node, admin, uid):
        path = world.COLLECTIONS["configmaps"]
        pod = {"metadata": {"name": "late"}, "spec": {"containers": [{"name": "c", "image": "i"}], "volumes": [
            {"name": "v", "projected": {"sources": [{"configMap": {"name": "free-config"}}]}},
            {"name": "w", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        ]}}  # fmt: skip
        pod["spec"]["volumes"].pop()
        await admin("POST", world.COLLECTIONS["pods"], pod)
        assert (await node("GET", f"{path}/free-config"))[0] == 403
        binding = {"target": {"name": OWN}}
        assert (await admin("POST", f"{world.COLLECTIONS['pods']}/late/binding", binding))[0] == 201
        assert (await node("GET", f"{path}/free-config"))[0] == 200
        assert (await node("DELETE", f"{world.COLLECTIONS['pods']}/late", {"gracePeriodSeconds": 0}))[
            0
        ] == 200
        assert (await node("GET", f"{path}/free-config"))[0] == 403
        assert (await node("GET", f"{path}/{OWN}-config"))[0] == 200

    played(story)


def test_a_claim_that_is_not_there_yet_is_not_found_rather_than_refused(played):
    async def story(node, admin, uid):
        volume = {"name": "v", "persistentVolumeClaim": {"claimName": "later"}}
        spec = {"nodeName": OWN, "containers": [{"name": "c", "image": "i"}], "volumes": [volume]}
        assert (await admin("POST", world.COLLECTIONS["pods"], {"metadata": {"name": "p"}, "spec": spec}))[
            0
        ] == 201
        assert (await node("GET", f"{world.COLLECTIONS['persistentvolumeclaims']}/later"))[0] == 404
        assert (await node("GET", f"{world.COLLECTIONS['persistentvolumes']}/later"))[0] == 403

    played(story)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}, "modify taints"),
        (
            {"metadata": {"labels": {"node-restriction.kubernetes.io/x": "y"}}},
            "modify labels: node-restriction",
        ),
        ({"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}}, "modify labels"),
        ({"metadata": {"labels": {"x.k8s.io/y": "z"}}}, "modify labels"),
        ({"spec": {"configSource": {"configMap": {"name": "x"}}}}, "configSource"),
        (
            {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]}},
            "owner",
        ),
    ],
)
@pytest.mark.parametrize("path", ["", "/status"])
def test_a_node_cannot_change_of_its_node_what_steers_pods_or_states_something(played, change, words, path):
    async def story(node, admin, uid):
        before = await admin("GET", f"/api/v1/nodes/{OWN}")
        for content in ("application/merge-patch+json", "application/strategic-merge-patch+json"):
            status, answer = await node("PATCH", f"/api/v1/nodes/{OWN}{path}", change, (), content)
            assert (status, words in answer["message"]) == (403, True), answer
        assert await admin("GET", f"/api/v1/nodes/{OWN}") == before

    played(story)


def test_a_node_sets_the_labels_of_kubelets(played):
    async def story(node, admin, uid):
        labels = {"kubernetes.io/os": "linux", "topology.kubernetes.io/zone": "z", "x.node.kubernetes.io/a": "b",
                  "kubelet.kubernetes.io/a": "b", "example.com/a": "b", "a": "b"}  # fmt: skip
        patch = {"metadata": {"labels": labels}}
        assert (await node("PATCH", f"/api/v1/nodes/{OWN}", patch, (), "application/merge-patch+json"))[
            0
        ] == 200

    played(story)


def test_a_new_node_has_its_name_and_taints_but_no_statement_of_an_operator(serve):
    async def story(api):
        node = api.acting_as(node_user("new"))

        def body(**spec):
            return {"metadata": {"name": "new"}, "spec": spec}

        out = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
        refusal = await api.refused(403, node.create("/api/v1/nodes", body(taints=[out])))
        assert "out of service" in refusal.message
        await api.refused(403, node.create("/api/v1/nodes", {"metadata": {"name": "another"}}))
        await api.refused(403, node.create("/api/v1/nodes", {"metadata": {"generateName": "new"}}))
        restricted = {"metadata": {"name": "new", "labels": {"node-role.kubernetes.io/master": ""}}}
        await api.refused(403, node.create("/api/v1/nodes", restricted))
        await node.create("/api/v1/nodes", body(taints=[{"key": "startup", "effect": "NoSchedule"}]))
        await api.refused(403, node.delete("/api/v1/nodes/new"))

    serve(story)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"serviceAccountName": "n2-account"}, "serviceaccounts"),
        ({"serviceAccount": "n2-account"}, "serviceaccounts"),
        ({"imagePullSecrets": [{"name": "n2-secret"}]}, "secrets"),
        ({"containers": [{"name": "c", "image": "i", "envFrom": [{"secretRef": {"name": "s"}}]}]}, "secrets"),
        ({"initContainers": [{"name": "i", "image": "i", "envFrom": [{"configMapRef": {"name": "s"}}]}]}, "configmaps"),
        ({"volumes": [{"name": "v", "secret": {"secretName": "n2-secret"}}]}, "secrets"),
        ({"volumes": [{"name": "v", "configMap": {"name": "c"}}]}, "configmaps"),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "n2-claim"}}]}, "persistentvolumeclaims"),
        ({"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}}]},
         "persistentvolumeclaims (via ephemeral volumes)"),
        ({"volumes": [{"name": "v", "csi": {"driver": "d"}}]}, "csidrivers"),
        ({"volumes": [{"name": "v", "flexVolume": {"driver": "a/b", "secretRef": {"name": "s"}}}]}, "secrets"),
        ({"volumes": [{"name": "v", "projected": {"sources": [{"secret": {"name": "s"}}]}}]}, "secrets"),
        ({"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]},
         "serviceaccounts (via projected volumes)"),
        ({"resourceClaims": [{"name": "r", "resourceClaimName": "x"}]}, "resourceclaims"),
    ],
)  # fmt: skip
def test_a_mirror_refers_to_nothing_of_the_api(played, spec, words):
    async def story(node, admin, uid):
        status, answer = await node("POST", world.COLLECTIONS["pods"], world.mirror(OWN, uid, **spec))
        assert (status, f"can not create pods that reference {words}" in answer["message"]) == (
            403,
            True,
        ), answer

    played(story)


def test_a_mirror_is_its_nodes_own(played):
    async def story(node, admin, uid):
        path = world.COLLECTIONS["pods"]
        good = world.mirror(
            OWN, uid, volumes=[{"name": "v", "emptyDir": {}}, {"name": "h", "hostPath": {"path": "/x"}}]
        )
        owner = good["metadata"]["ownerReferences"][0]
        owners = ([], [owner, owner], [{**owner, "uid": "x"}], [{**owner, "controller": False}],
                  [{**owner, "name": OTHER}], [{**owner, "blockOwnerDeletion": True}])  # fmt: skip
        for wrong in owners:
            meta = {**good["metadata"], "ownerReferences": wrong}
            status, _ = await node("POST", path, {**good, "metadata": meta})
            assert status == 403, wrong
        assert (await node("POST", path, {**good, "metadata": {**good["metadata"], "annotations": {}}}))[
            0
        ] == 403
        assert (await node("POST", path, world.mirror(OTHER, uid)))[0] == 403
        assert (await node("POST", path, good))[0] == 201

    played(story)


def test_of_a_pod_a_node_writes_the_status_alone(played):
    async def story(node, admin, uid):
        path, merge = f"{world.COLLECTIONS['pods']}/{OWN}-pod", "application/merge-patch+json"
        assert (await node("PATCH", f"{path}/status", {"status": {"phase": "Running"}}, (), merge))[0] == 200
        for change in (
            {"metadata": {"labels": {"app": "web"}}},
            {"status": {"resourceClaimStatuses": [{"name": "r", "resourceClaimName": "x"}]}},
        ):
            assert (await node("PATCH", f"{path}/status", change, (), merge))[0] == 403, change
            assert (await node("PATCH", path, change, (), merge))[0] == 403
        other = f"{world.COLLECTIONS['pods']}/{OTHER}-pod"
        assert (await node("PATCH", f"{other}/status", {"status": {"phase": "Failed"}}, (), merge))[0] == 403
        assert (await node("POST", f"{other}/eviction", {"metadata": {"name": f"{OTHER}-pod"}}))[0] == 403
        assert (await node("POST", f"{path}/eviction", {"metadata": {"name": f"{OWN}-pod"}}))[0] == 201

    played(story)


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"status": {"capacity": {"storage": "2Gi"}, "conditions": []}}, 200),
        ({"status": {"allocatedResourceStatuses": {"storage": "NodeResizeInProgress"}}}, 200),
        ({"status": {"phase": "Lost"}}, 403),
        ({"status": {"accessModes": ["ReadWriteMany"]}}, 403),
        ({"metadata": {"finalizers": ["x/y"]}}, 403),
        ({"metadata": {"annotations": {"a": "b"}}}, 403),
        (
            {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]}},
            403,
        ),
        ({"spec": {"volumeName": "n2-volume"}}, 403),
    ],
)
def test_of_a_claim_a_node_says_how_large_it_is(played, change, status):
    async def story(node, admin, uid):
        path = f"{world.COLLECTIONS['persistentvolumeclaims']}/{OWN}-claim/status"
        answer = await node("PATCH", path, change, (), "application/merge-patch+json")
        assert answer[0] == status, answer

    played(story)


def test_an_eviction_that_is_refused_spends_no_budget(played):
    async def story(node, admin, uid):
        pod, merge = f"{world.COLLECTIONS['pods']}/{OTHER}-pod", "application/merge-patch+json"
        budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
        await admin("POST", budgets, {"metadata": {"name": "b"}, "spec": {"selector": {}, "minAvailable": 0}})
        counts = {"observedGeneration": 1, "disruptionsAllowed": 5, "currentHealthy": 5, "desiredHealthy": 0}
        await admin("PATCH", f"{budgets}/b/status", {"status": counts}, (), merge)
        ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
        await admin("PATCH", f"{pod}/status", ready, (), merge)
        eviction = {"metadata": {"name": f"{OTHER}-pod"}}
        assert (await node("POST", f"{pod}/eviction", eviction))[0] == 403
        assert (await admin("GET", f"{budgets}/b"))[1]["status"]["disruptionsAllowed"] == 5
        assert (await admin("POST", f"{pod}/eviction", eviction))[0] == 201
        assert (await admin("GET", f"{budgets}/b"))[1]["status"]["disruptionsAllowed"] == 4

    played(story)
