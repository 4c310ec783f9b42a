"""What `deploy/` grants is what `authorization/roles.py` says, right for right; the embedded server judges by
it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
import rights_world as world
import yaml

from mooring.apiserver import ADMIN, Server
from mooring.apiserver.access.roles import EBS_CONTROLLER, ROLES, Rule
from mooring.apiserver.errors import Unauthorized
from mooring.apiserver.message import role_user

from .references import ROOT

Right = tuple[str, str, str, str, str]
"""Namespace, group, resource, verb, name of the object."""
DEPLOY = ROOT / "deploy"


def rights(rules: Iterable[Rule]) -> set[Right]:
    return {
        (rule.namespace, rule.group, resource, verb, name)
        for rule in rules
        for resource in rule.resources
        for verb in rule.verbs
        for name in rule.names or ("",)
    }


def granted(rules: Iterable[Mapping[str, Any]], namespace: str = "") -> set[Right]:
    return {
        (namespace, group, resource, verb, name)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames") or ("",)
    }


def of_manifest(path: str) -> set[Right]:
    """By the roles that it binds: one that others add to theirs grants Mooring nothing."""
    documents = [*yaml.safe_load_all((DEPLOY / path).read_text())]
    bound = {each["roleRef"]["name"] for each in documents if each["kind"].endswith("RoleBinding")}
    found: set[Right] = set()
    for each in documents:
        if each["kind"] in ("ClusterRole", "Role") and each["metadata"]["name"] in bound:
            of_all = each["kind"] == "ClusterRole"
            found |= granted(
                each["rules"], "" if of_all else each["metadata"].get("namespace", "kube-system")
            )
    return found


def test_the_manifest_of_the_attach_detach_controller_grants_its_role():
    assert of_manifest("attach-detach.yaml") == rights(ROLES["attach-detach"])


def test_the_manifest_of_the_fencing_controller_grants_its_role_and_secrets_of_its_own_namespace():
    own: Right = ("mooring-fencing", "", "secrets", "get", "")
    assert of_manifest("fencing.yaml") == rights(ROLES["fencing"]) | {own}


def test_the_manifest_of_the_ebs_driver_grants_the_roles_of_its_sidecars():
    assert of_manifest("ebs-driver/base/rbac.yaml") == set().union(
        *(rights(ROLES[role]) for role in EBS_CONTROLLER)
    )


def test_the_component_for_snapshots_grants_the_rest_of_the_snapshotters_role():
    component = yaml.safe_load((DEPLOY / "ebs-driver/components/snapshots/kustomization.yaml").read_text())
    patches = [yaml.safe_load(each["patch"]) for each in component["patches"] if "patch" in each]
    added = granted(operation["value"] for patch in patches for operation in patch)
    assert added | of_manifest("ebs-driver/base/rbac.yaml") >= rights(ROLES["snapshotter"])
    assert added <= rights(ROLES["snapshotter"])


def test_no_role_reads_secrets_or_reaches_into_pods_and_nodes():
    withheld = {"secrets", "pods/exec", "pods/log", "nodes/proxy", "serviceaccounts/token"}
    for role, rules in ROLES.items():
        assert not {resource for _, _, resource, _, _ in rights(rules)} & withheld, role


@pytest.mark.parametrize("role", ROLES)
def test_the_embedded_server_grants_a_role_what_the_table_says_and_nothing_else(run: Any, role: str):
    mine = rights(ROLES[role])

    async def story() -> None:
        server = Server.in_memory()
        await server.start()

        async def admin(method: str, path: str, body: Any = None) -> world.Answer:
            return await world.send(server, ADMIN, method, path, body)

        uid = await world.make(admin)
        for kind, subresource, verb in world.rows():
            resource = f"{kind.plural}/{subresource}" if subresource else kind.plural
            method, path, body, query, content = world.request_of(kind, subresource, verb, world.OTHER, uid)
            for elsewhere in (path, path.replace("/namespaces/default/", "/namespaces/kube-system/")):
                place = (
                    elsewhere.split("/namespaces/")[1].split("/")[0] if "/namespaces/" in elsewhere else ""
                )
                status, answer = await world.send(
                    server, role_user(role), method, elsewhere, body, query, content
                )
                name = world.name_of(kind.plural, world.OTHER) if verb != "create" or subresource else ""
                may = {(at, kind.group, resource, verb, of) for at in ("", place) for of in ("", name)} & mine
                outcome = (role, method, elsewhere, status, answer)
                assert (status not in (403, 405)) == bool(may), outcome

    run(story())


def test_a_roles_token_is_its_own():
    from mooring.apiserver import Tokens

    tokens = Tokens(b"secret")
    assert tokens.user(tokens.role("attacher")) == role_user("attacher")
    stolen = tokens.role("csi-driver").replace("role.csi-driver.", "role.provisioner.")
    for token in (
        stolen,
        tokens.role("no-such-role"),
        tokens.node("attacher").replace("node.", "role."),
        "role..",
    ):
        with pytest.raises(Unauthorized):
            tokens.user(token)
    assert not role_user("attacher").is_admin
    assert role_user("attacher").node_name is None
