"""The roles of `deploy/` on the real kube-apiserver: applied as RBAC, each may do what the table says, and no
more."""

from __future__ import annotations

import json
import ssl
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

import pytest
import yaml
from rights_world import rows

from mooring.apiserver.access.roles import EBS_CONTROLLER, ROLES, Rule

from .server import RealServer

pytestmark = pytest.mark.timeout(120)
ACCOUNTS: dict[str, tuple[str, ...]] = {
    "mooring-attach-detach": ("attach-detach",),
    "ebs-csi-controller": EBS_CONTROLLER,
    "ebs-csi-node": ("csi-driver",),
}
"""The service accounts of the manifests, and the roles that the parts with them play."""
MANIFESTS = ("attach-detach.yaml", "ebs-driver/base/rbac.yaml")
ROOT = Path(__file__).parents[2]
GROUP = "/apis/rbac.authorization.k8s.io/v1"
PLURALS = {"ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings", "Role": "roles",
           "RoleBinding": "rolebindings", "ServiceAccount": "serviceaccounts"}  # fmt: skip
NAMESPACE = "kube-system"
NAMED = [rule.resources for rules in ROLES.values() for rule in rules] + [("secrets", "configmaps")]


class Admin:
    """Asks the real server as its administrator, over one connection."""

    def __init__(self, real: RealServer) -> None:
        host, _, port = real.url.removeprefix("https://").rpartition(":")
        context = ssl.create_default_context(cafile=str(real.authority))
        self._connection = HTTPSConnection(host, int(port), timeout=20, context=context)
        self._headers = {"authorization": f"Bearer {real.token}", "content-type": "application/json"}

    def post(self, path: str, body: Any) -> tuple[int, Any]:
        self._connection.request("POST", path, json.dumps(body), self._headers)
        answer = self._connection.getresponse()
        return answer.status, json.loads(answer.read())

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def admin(real: RealServer):
    made = Admin(real)
    try:
        for manifest in MANIFESTS:
            for each in yaml.safe_load_all((ROOT / "deploy" / manifest).read_text()):
                if each["kind"] in PLURALS:
                    status, body = made.post(_collection(each), each)
                    assert status in (201, 409), body
        yield made
    finally:
        made.close()


def _collection(obj: Any) -> str:
    root = "/api/v1" if obj["kind"] == "ServiceAccount" else GROUP
    place = "" if obj["kind"].startswith("Cluster") else f"/namespaces/{NAMESPACE}"
    return f"{root}{place}/{PLURALS[obj['kind']]}"


def _says(rules: list[Rule], verb: str, group: str, resource: str, place: str, name: str) -> bool:
    return any(rule.allows(verb, group, resource, place, name) for rule in rules)


@pytest.mark.parametrize("account", ACCOUNTS)
def test_the_real_server_allows_a_role_what_the_table_says_and_nothing_else(admin: Admin, account: str):
    rules = [rule for role in ACCOUNTS[account] for rule in ROLES[role]]
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}"]
    asked = 0
    for number, (kind, subresource, verb) in enumerate(rows()):
        if number % 5 and not any(kind.plural in named for named in NAMED):
            continue  # of what no role is about, every fifth row
        for place in ("default", NAMESPACE) if kind.namespaced else ("",):
            for name in ("", "mooring-attachdetach") if kind.plural == "leases" else ("",):
                attributes = {
                    "verb": verb, "group": kind.group, "version": kind.version, "resource": kind.plural,
                    "subresource": subresource, "namespace": place, "name": name,
                }  # fmt: skip
                user = f"system:serviceaccount:{NAMESPACE}:{account}"
                spec = {"user": user, "groups": groups, "resourceAttributes": attributes}
                status, answer = admin.post(
                    "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec}
                )
                assert status == 201, answer
                resource = f"{kind.plural}/{subresource}" if subresource else kind.plural
                allowed = _says(rules, verb, kind.group, resource, place, name)
                assert answer["status"]["allowed"] is allowed, (account, attributes, answer["status"])
                asked += 1
    assert asked > 200
