"""The API server's address for machines: nodes alone are served there, by a certificate that they can
check."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Iterator
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mooring.apiserver.process import NoSuchAddress, PortBusy, Running, serve
from mooring.apiserver.transport import tls
from mooring.cluster.machines.network import plug, unplug

pytestmark = pytest.mark.root

NODES, SECRETS = "/api/v1/nodes", "/api/v1/namespaces/default/secrets"


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    yield str(plug(tmp_path / "node-1", IPv4Network("10.88.0.0/16")).host)
    unplug(tmp_path / "node-1")


@pytest.fixture
async def running(tmp_path: Path, address: str) -> AsyncIterator[Running]:
    before = await serve(data_dir=tmp_path / "api")  # the data directory of a cluster that had no machines
    await before.close()
    running = await serve(data_dir=tmp_path / "api", machines_address=address)
    assert running.authority.read_bytes() == before.authority.read_bytes(), "kubeconfigs became worthless"
    yield running
    await running.close()


async def ask(running: Running, host: str, authority: Path, path: str, token: str) -> tuple[int, Any]:
    port = running.url.rpartition(":")[2]
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=authority))
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with (
        aiohttp.ClientSession(headers=headers, connector=connector) as session,
        session.get(f"https://{host}:{port}{path}") as answer,
    ):
        body = await answer.read()
        return answer.status, json.loads(body) if body.startswith(b"{") else body.decode()


async def test_a_node_is_served_there_with_the_rights_of_a_node(
    running: Running, address: str, tmp_path: Path
) -> None:
    authority, token = tls.of(tmp_path / "api", address).authority, running.tokens.node("node-1")
    own = f"{NODES}?fieldSelector=metadata.name%3Dnode-1"
    assert (await ask(running, address, authority, own, token))[0] == 200
    assert (await ask(running, address, authority, SECRETS, token))[0] == 403


async def test_the_administrator_and_roles_are_refused_there_and_told_where_they_are_served(
    running: Running, address: str, tmp_path: Path
) -> None:
    authority = tls.of(tmp_path / "api", address).authority
    for token in (running.tokens.admin(), running.tokens.role("attacher")):
        status, answer = await ask(running, address, authority, NODES, token)
        assert (status, answer["reason"]) == (403, "Forbidden")
        assert "is served at 127.0.0.1" in answer["message"]
        assert (await ask(running, address, authority, f"{NODES}/x/proxy/stats/summary", token))[0] == 403
    assert (await ask(running, "127.0.0.1", running.authority, NODES, running.tokens.admin()))[0] == 200


async def test_without_a_credential_only_the_servers_health_is_told_there(
    running: Running, address: str, tmp_path: Path
) -> None:
    authority = tls.of(tmp_path / "api", address).authority
    for token in ("", "x", f"{running.tokens.node('node-1')}0"):
        assert (await ask(running, address, authority, NODES, token))[0] == 401
    assert await ask(running, address, authority, "/readyz", "") == (200, "ok")


async def test_the_two_addresses_have_certificates_of_their_own(
    running: Running, address: str, tmp_path: Path
) -> None:
    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        await ask(running, address, running.authority, "/readyz", "")
    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        await ask(running, "127.0.0.1", tls.of(tmp_path / "api", address).authority, "/readyz", "")


async def test_an_address_that_the_host_has_not_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoSuchAddress, match=r"203\.0\.113\.7 is no address of this host"):
        await serve(data_dir=tmp_path / "api", machines_address="203.0.113.7")
    running = await serve(data_dir=tmp_path / "api")  # nothing of the first is left
    await running.close()


async def test_a_port_that_is_taken_at_that_address_alone_is_named(tmp_path: Path, address: str) -> None:
    taken = await asyncio.start_server(lambda reader, writer: None, address, 0)
    port = taken.sockets[0].getsockname()[1]
    with pytest.raises(PortBusy, match=f"port {port} on {address} is in use"):
        await serve(data_dir=tmp_path / "other", port=port, machines_address=address)
    taken.close()
