"""`deploy/forced-removal.yaml` on the real kube-apiserver: who may remove a pod by force, and how."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
import waiting
import yaml
from multidict import CIMultiDict
from tests.real.server import RealServer

from mooring.cluster.forced_removal import CONFIRMED, delete
from mooring.cluster.layout import ClusterError
from mooring.kube.client import Client
from mooring.kube.http import HttpTransport
from mooring.kube.objects import Pod
from mooring.kube.tls import Trust

DEPLOY = Path(__file__).parents[2] / "deploy" / "forced-removal.yaml"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}


class Server:
    """Requests in the name of others."""

    def __init__(self, real: RealServer) -> None:
        self._real = real

    async def ask(
        self, method: str, path: str, body: Any = None, user: str = "", *groups: str
    ) -> tuple[int, str]:
        headers = [("authorization", f"Bearer {self._real.token}")]
        headers += [("Impersonate-User", user)] if user else []
        headers += [("Impersonate-Group", group) for group in groups]
        async with (
            aiohttp.ClientSession() as session,
            session.request(
                method,
                self._real.url + path,
                json=body,
                headers=CIMultiDict(headers),
                ssl=self._real.context(),
            ) as answer,
        ):
            return answer.status, await answer.text()

    async def remove(self, name: str, *who: str, grace: int = 0, dry_run: bool = False) -> tuple[int, str]:
        path = f"/api/v1/namespaces/default/pods/{name}"
        options: dict[str, Any] = {"gracePeriodSeconds": grace, **({"dryRun": ["All"]} if dry_run else {})}
        return await self.ask("DELETE", path, options, *who)


@pytest_asyncio.fixture
async def client(real: RealServer) -> AsyncGenerator[Client]:
    trust = Trust(authority=real.authority.read_bytes())
    client = Client(HttpTransport(real.url, token=real.token, trust=trust))
    yield client
    await client.close()


@pytest_asyncio.fixture
async def server(real: RealServer, client: Client) -> AsyncGenerator[Server]:
    """With the policy in force; afterwards without it."""
    server = Server(real)
    documents = [*yaml.safe_load_all(DEPLOY.read_text())]
    for each in documents:
        status, answer = await server.ask("POST", f"{ADMISSION}/{PLURALS[each['kind']]}", each)
        assert status == 201, answer
    await pod(client, "probe")

    async def in_force() -> bool:
        return (await server.remove("probe", dry_run=True))[0] == 403

    try:
        await waiting.until(in_force, "the policy is in force")
        yield server
    finally:
        for each in reversed(documents):
            await server.ask("DELETE", f"{ADMISSION}/{PLURALS[each['kind']]}/{each['metadata']['name']}")
        await waiting.until(lambda: allowed(server, "probe"), "the policy is gone")


async def allowed(server: Server, name: str) -> bool:
    return (await server.remove(name))[0] in (200, 404)


async def pod(client: Client, name: str, node: str = "a-node-that-is-gone", phase: str = "") -> Pod:
    spec = {"containers": [{"name": "main", "image": "x"}], **({"nodeName": node} if node else {})}
    made = await client.create(Pod, {"metadata": {"name": name}, "spec": spec}, "default")
    if phase:
        await client.patch(Pod, name, {"status": {"phase": phase}}, "default", subresource="status")
    return made


async def test_it_is_refused_until_a_person_has_confirmed_it(server: Server, client: Client) -> None:
    await pod(client, "web-0")
    status, answer = await server.remove("web-0")
    assert status == 403
    assert "kubectl mooring delete pod/web-0 -n default says what is risked" in answer
    with pytest.raises(ClusterError, match="may still run there"):
        await delete(client, "default", "web-0", confirmed=False)
    assert await client.find(Pod, "web-0", "default") is not None
    await delete(client, "default", "web-0", confirmed=True)
    assert await client.find(Pod, "web-0", "default") is None


async def test_a_confirmation_of_another_pod_of_that_name_is_none(server: Server, client: Client) -> None:
    made = await pod(client, "web-1")
    await client.revise(made, {"metadata": {"annotations": {CONFIRMED: "another"}}})
    assert (await server.remove("web-1"))[0] == 403
    await delete(client, "default", "web-1", confirmed=True)


@pytest.mark.parametrize(
    "who",
    [
        ("system:node:n", "system:nodes", "system:masters"),
        ("system:serviceaccount:kube-system:pod-garbage-collector", "system:masters"),
        ("system:kube-controller-manager", "system:masters"),
        ("system:serviceaccount:mooring-fencing:mooring-fencing", "system:masters"),
    ],
    ids=lambda who: who[0],
)
async def test_nodes_and_controllers_are_not_asked(
    server: Server, client: Client, who: tuple[str, ...]
) -> None:
    await pod(client, "web-2")
    status, answer = await server.remove("web-2", *who, dry_run=True)
    assert status == 200, answer
    assert (await server.remove("web-2", "a-person", "system:masters", dry_run=True))[0] == 403
    await delete(client, "default", "web-2", confirmed=True)


@pytest.mark.parametrize("of", [{"node": ""}, {"phase": "Succeeded"}, {"phase": "Failed"}])
async def test_a_pod_without_processes_is_removed_by_anyone(
    server: Server, client: Client, of: dict[str, str]
) -> None:
    await pod(client, "web-3", **of)
    assert (await server.remove("web-3"))[0] == 200


async def test_a_deletion_with_its_grace_period_is_not_asked_about(server: Server, client: Client) -> None:
    await pod(client, "web-4")
    assert (await server.remove("web-4", grace=30))[0] == 200
    await delete(client, "default", "web-4", confirmed=True)
