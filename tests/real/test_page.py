"""The live page on the real kube-apiserver, with the rights that docs/page.md asks for and no others."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import page_cluster as made
import pytest
import yaml
from tests.real.server import RealServer
from waiting import until

from mooring.kube.client import Client
from mooring.kube.http import HttpTransport
from mooring.kube.objects import Node, PersistentVolumeClaim
from mooring.kube.tls import Trust
from mooring.page.following import Following

pytestmark = pytest.mark.timeout(120)
PAGE = Path(__file__).parents[2] / "docs/page.md"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNT = {"kind": "ServiceAccount", "name": "page", "namespace": "default"}
CLAIM = {
    "metadata": {"name": "of-the-page", "namespace": "default"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "there-is-none",
        "resources": {"requests": {"storage": "1Gi"}},
    },
}


@pytest.fixture
async def admin(real: RealServer) -> AsyncGenerator[Client]:
    client = Client(HttpTransport(real.url, token=real.token, trust=trust(real)))
    yield client
    await client.close()


def trust(real: RealServer) -> Trust:
    return Trust(authority=real.authority.read_bytes())


def role() -> dict[str, Any]:
    """As the page in docs has it."""
    return yaml.safe_load(re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)[0])


async def reader(real: RealServer, admin: Client) -> Client:
    """A client of a service account that has this role alone."""
    account = {"metadata": {"name": ACCOUNT["name"]}}
    await admin.request("POST", "/api/v1/namespaces/default/serviceaccounts", body=account)
    await admin.request("POST", f"{RBAC}/clusterroles", body=role())
    reference = {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": role()["metadata"]["name"],
    }
    binding = {"metadata": {"name": "page"}, "roleRef": reference, "subjects": [ACCOUNT]}
    await admin.request("POST", f"{RBAC}/clusterrolebindings", body=binding)
    path = "/api/v1/namespaces/default/serviceaccounts/page/token"
    answer = json.loads(await admin.request("POST", path, body={"spec": {}}))
    return Client(HttpTransport(real.url, token=answer["status"]["token"], trust=trust(real)))


async def test_with_the_rights_of_its_page_it_reads_everything_and_explains(real: RealServer, admin: Client):
    client = await reader(real, admin)
    model = made.model()
    following = Following(client, model, lambda batch: None)
    task = asyncio.create_task(following.run())
    try:
        await asyncio.wait_for(following.begun.wait(), 60)
        await until(lambda: following.reads() == [], "all is read", state=following.reads)
        await admin.create(Node, {"metadata": {"name": "of-the-page"}})
        await admin.create(PersistentVolumeClaim, CLAIM, "default")
        await until(lambda: "pvc/default/of-the-page" in model.tables["stuck"], "the claim is explained")
        assert "of-the-page" in model.tables["nodes"]
        assert model.tables["stuck"]["pvc/default/of-the-page"]["chain"][0]["code"] == "ProvisioningFailed"
    finally:
        task.cancel()
        await client.close()
