"""A node's rights on the real kube-apiserver, with its Node authorizer and NodeRestriction, beside ours: the
same requests of the same node in the same world are granted or refused by both."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from http.client import HTTPSConnection
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlencode

import pytest
import rights_world as world
from rights_world import OTHER, OWN, collection, name_of, request_of, rows

from mooring.apiserver import ADMIN, Server, node_user
from mooring.apiserver.access.node_rights import WITHHELD

from .server import RealServer, real_server

pytestmark = pytest.mark.timeout(170)
NODE_TOKEN = "the-node-of-a-test"
FLAGS = ("--authorization-mode=Node", "--enable-admission-plugins=NodeRestriction")
MERGE = "application/merge-patch+json"


@pytest.fixture(scope="module")
def judged(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    users = [f'{NODE_TOKEN},system:node:{OWN},{OWN},"system:nodes"']
    with real_server(programs, tmp_path_factory.mktemp("judged"), flags=FLAGS, users=users) as server:
        yield server


class Both:
    """The world on both servers."""

    def __init__(self, real: RealServer) -> None:
        self._real, self._context = real, ssl.create_default_context(cafile=str(real.authority))
        self._held = self._connect()
        self._ours = Server.in_memory(now=lambda: datetime.now(UTC), random=Random(1))
        self.uids: list[str] = []

    def _connect(self) -> HTTPSConnection:
        host, _, port = self._real.url.removeprefix("https://").rpartition(":")
        return HTTPSConnection(host, int(port), timeout=20, context=self._context)

    def close(self) -> None:
        self._held.close()

    async def start(self) -> None:
        await self._ours.start()
        for admin in (self.admin_of_real, self.admin_of_ours):
            self.uids.append(await world.make(admin))
        for _ in range(100):  # its graph follows the store by watches
            answers = [
                await self.real(NODE_TOKEN, "GET", f"{world.COLLECTIONS[p]}/{name_of(p, OWN)}")
                for p in _RELATED
            ]
            if all(status == 200 for status, _ in answers):
                return
            await asyncio.sleep(0.1)
        raise AssertionError("the node cannot read what its pod needs")

    async def real(
        self, token: str, method: str, path: str, body: Any = None, query: Any = (), content: str = ""
    ):
        target = f"{path}?{urlencode([*query, ('timeoutSeconds', '1')])}"
        data = None if body is None else json.dumps(body)
        headers = {"authorization": f"Bearer {token}", "content-type": content or "application/json"}
        streams = ("watch", "1") in query or ("watch", "true") in query

        def ask() -> tuple[int, Any]:
            connection = self._connect() if streams else self._held
            connection.request(method, target, data, headers)
            answer = connection.getresponse()
            text = "" if streams and answer.status == 200 else _decoded(answer.read())
            if streams:
                answer.close()
                connection.close()
            return answer.status, text

        return await asyncio.to_thread(ask)

    async def admin_of_real(
        self, method: str, path: str, body: Any = None, query: Any = (), content: str = ""
    ):
        return await self.real(self._real.token, method, path, body, query, content)

    async def admin_of_ours(
        self, method: str, path: str, body: Any = None, query: Any = (), content: str = ""
    ):
        return await world.send(self._ours, ADMIN, method, path, body, query, content)

    async def node(
        self, method: str, path: str, bodies: Any, query: Any = (), content: str = ""
    ) -> tuple[Any, Any]:
        """What the real server answers the node, and what ours does."""
        theirs = await self.real(NODE_TOKEN, method, path, bodies[0], query, content)
        ours = await world.send(self._ours, node_user(OWN), method, path, bodies[1], query, content)
        return theirs, ours


_RELATED = (
    "secrets",
    "configmaps",
    "persistentvolumes",
    "persistentvolumeclaims",
    "volumeattachments",
    "pods",
)


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode(errors="replace")


@pytest.fixture(scope="module")
def both(judged: RealServer) -> Iterator[Both]:
    made = Both(judged)
    try:
        asyncio.run(made.start())
        yield made
    finally:
        made.close()


def test_the_real_server_judges_every_row_of_the_table_as_ours(both: Both):
    async def story() -> list[Any]:
        differ: list[Any] = []
        for kind, subresource, verb in rows():
            if (kind.group, kind.plural) in WITHHELD:
                continue
            for whose in (OWN, OTHER):
                asked = [request_of(kind, subresource, verb, whose, uid) for uid in both.uids]
                method, path, _, query, content = asked[0]
                bodies = [each[2] for each in asked]
                if verb == "update" and kind.plural in world.COLLECTIONS:
                    one = f"{collection(kind)}/{name_of(kind.plural, whose)}"
                    bodies = [
                        (await admin("GET", one))[1] for admin in (both.admin_of_real, both.admin_of_ours)
                    ]
                theirs, ours = await both.node(method, path, bodies, query, content)
                either = {theirs[0], ours[0]}
                invalid = (
                    kind.plural == "events" and 403 not in either
                )  # such a body is no event for the real one
                if len(either) > 1 and 405 not in either and not invalid:
                    differ.append(
                        (
                            kind.plural,
                            subresource,
                            verb,
                            whose,
                            theirs[0],
                            ours[0],
                            _message(theirs),
                            _message(ours),
                        )
                    )
        return differ

    assert asyncio.run(story()) == []


CHANGES: tuple[tuple[str, str, Any], ...] = (
    ("PATCH", f"/api/v1/nodes/{OWN}", {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}),
    ("PATCH", f"/api/v1/nodes/{OWN}/status", {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}),
    ("PATCH", f"/api/v1/nodes/{OWN}", {"spec": {"unschedulable": True}}),
    *(("PATCH", f"/api/v1/nodes/{OWN}{sub}", {"metadata": {"labels": {label: "x"}}}) for sub in ("", "/status")
      for label in ("node-restriction.kubernetes.io/x", "a.node-restriction.kubernetes.io/x", "x.k8s.io/a",
                    "kubernetes.io/role", "node-role.kubernetes.io/x", "example.com/a", "kubernetes.io/os",
                    "topology.kubernetes.io/zone", "beta.kubernetes.io/instance-type", "a.kubelet.kubernetes.io/b",
                    "node.kubernetes.io/x", "kubelet.kubernetes.io/y", "mykubernetes.io/z", "plain")),
    ("PATCH", f"/api/v1/nodes/{OWN}", {"metadata": {"annotations": {"a": "b"}, "finalizers": ["x.example.com/y"]}}),
    ("PATCH", f"/api/v1/nodes/{OWN}", {"metadata": {"ownerReferences": [
        {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]}}),
    *(("PATCH", f"/api/v1/namespaces/default/pods/{OWN}-pod/status", change) for change in (
        {"status": {"phase": "Running"}}, {"metadata": {"labels": {"a": "b"}}},
        {"metadata": {"annotations": {"a": "b"}}},
        {"status": {"resourceClaimStatuses": [{"name": "r", "resourceClaimName": "x"}]}})),
    *(("PATCH", f"/api/v1/namespaces/default/persistentvolumeclaims/{OWN}-claim/status", change) for change in (
        {"status": {"capacity": {"storage": "2Gi"}}}, {"status": {"phase": "Lost"}},
        {"metadata": {"annotations": {"a": "b"}}}, {"metadata": {"finalizers": ["x.example.com/y"]}},
        {"metadata": {"labels": {"a": "b"}}}, {"spec": {"volumeName": "n2-volume"}},
        {"status": {"accessModes": ["ReadWriteMany"]}}, {"status": {"conditions": []}})),
    ("POST", "/api/v1/nodes", {"metadata": {"name": "n3"}}),
    ("POST", "/api/v1/nodes", {"metadata": {"name": OWN, "labels": {"node-role.kubernetes.io/x": ""}}}),
    ("POST", world.LEASES, {"metadata": {"name": "n3"}}),
    ("POST", "/apis/storage.k8s.io/v1/csinodes", {"metadata": {"name": "n3"}, "spec": {"drivers": []}}),
    ("POST", "/apis/coordination.k8s.io/v1/namespaces/default/leases", {"metadata": {"name": OWN}}),
)  # fmt: skip


def test_the_real_server_judges_changes_as_ours(both: Both):
    async def story() -> list[Any]:
        differ: list[Any] = []
        for method, path, body in CHANGES:
            content = MERGE if method == "PATCH" else ""
            theirs, ours = await both.node(method, path, (body, body), world.DRY, content)
            if theirs[0] != ours[0]:
                differ.append((method, path, body, theirs[0], ours[0], _message(theirs), _message(ours)))
        return differ

    assert asyncio.run(story()) == []


MIRRORS: tuple[dict[str, Any], ...] = (
    {},
    {"serviceAccountName": "n2-account"},
    {"imagePullSecrets": [{"name": "s"}]},
    {"containers": [{"name": "c", "image": "i", "envFrom": [{"secretRef": {"name": "s"}}]}]},
    {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]},
    {
        "volumes": [
            {
                "name": "v",
                "downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]},
            }
        ]
    },
    {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]},
    {"volumes": [{"name": "v", "configMap": {"name": "s"}}]},
    {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "s"}}]},
    {"volumes": [{"name": "v", "csi": {"driver": "d.example.com"}}]},
    {"volumes": [{"name": "v", "flexVolume": {"driver": "a/b"}}]},
    {"volumes": [{"name": "v", "flexVolume": {"driver": "a/b", "secretRef": {"name": "s"}}}]},
    {"volumes": [{"name": "v", "projected": {"sources": [{"configMap": {"name": "s"}}]}}]},
    {"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]},
    {"nodeName": OTHER},
)


def test_the_real_server_judges_mirrors_as_ours(both: Both):
    async def story() -> list[Any]:
        differ: list[Any] = []
        for number, spec in enumerate(MIRRORS):
            bodies = [world.mirror(OWN, uid, f"m{number}", **spec) for uid in both.uids]
            theirs, ours = await both.node("POST", world.COLLECTIONS["pods"], bodies, world.DRY)
            if theirs[0] != ours[0]:
                differ.append((spec, theirs[0], ours[0], _message(theirs), _message(ours)))
        return differ

    assert asyncio.run(story()) == []


def test_the_real_server_judges_drawn_reads_as_ours(both: Both):
    chance = Random(36)
    fields = ("metadata.name=n1-secret", "metadata.name=n2-secret", "metadata.name!=n1-secret", "spec.nodeName=n1",
              "metadata.name=n1", "spec.nodeName=n2", "spec.nodeName!=n1", "metadata.name=n1-pod", "type=Opaque",
              "metadata.name=n1-secret,type=Opaque", "spec.nodeName=n1,status.phase=Running", "metadata.name=n1-config",
              "metadata.name=n1-secret,metadata.name=n2-secret", "metadata.namespace=default", "")  # fmt: skip

    async def story() -> list[Any]:
        differ: list[Any] = []
        for _ in range(250):
            plural = chance.choice([*world.COLLECTIONS])
            path = world.COLLECTIONS[plural]
            if chance.random() < 0.25:
                path = path.replace("/namespaces/default", "").replace("/namespaces/kube-node-lease", "")
            elif chance.random() < 0.4:
                path += "/" + chance.choice(
                    [
                        name_of(plural, OWN),
                        name_of(plural, OTHER),
                        "none",
                        "free-secret",
                        "n1-stage",
                        "n2-stage",
                    ]
                )
            query = [("fieldSelector", chance.choice(fields))] if chance.random() < 0.8 else []
            if chance.random() < 0.3:
                query.append(("watch", "true"))
            elif chance.random() < 0.3:
                query.append(("limit", "1"))
            theirs, ours = await both.node("GET", path, (None, None), query)
            if theirs[0] != ours[0]:
                differ.append((path, query, theirs[0], ours[0], _message(theirs), _message(ours)))
        return differ

    assert asyncio.run(story()) == []


def _message(answer: Any) -> str:
    return str(answer[1].get("message", "") if isinstance(answer[1], dict) else answer[1])[:200]
