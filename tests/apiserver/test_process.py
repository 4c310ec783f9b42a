"""A server on this machine: port, tokens, kubeconfig, and the HTTP adapter over loopback."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from waiting import until

from mooring.apiserver.data_directory import load_tokens
from mooring.apiserver.process import PortBusy, serve
from mooring.apiserver.store.sqlite_log import LogBusy

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


class Client:
    """An HTTP client of a running server."""

    def __init__(self, running: Any) -> None:
        self.url = running.url
        connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=running.authority))
        headers = {"authorization": f"Bearer {running.tokens.admin()}"}
        self.session = aiohttp.ClientSession(headers=headers, connector=connector)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.session.close()

    async def send(self, method: str, path: str, **options: Any) -> tuple[int, Any]:
        async with self.session.request(method, self.url + path, **options) as answer:
            return answer.status, json.loads(await answer.read())


async def test_what_was_written_is_there_after_a_restart(tmp_path: Path) -> None:
    running = await serve(data_dir=tmp_path)
    async with Client(running) as client:
        assert (await client.send("POST", CONFIGMAPS, json={"metadata": {"name": "a"}}))[0] == 201
        version = (await client.send("GET", CONFIGMAPS))[1]["metadata"]["resourceVersion"]
        await client.send("POST", CONFIGMAPS, json={"metadata": {"name": "b"}})
    await running.close()
    running = await serve(data_dir=tmp_path)
    async with Client(running) as client:
        found = (await client.send("GET", CONFIGMAPS))[1]
        assert [item["metadata"]["name"] for item in found["items"]] == ["a", "b"]
        query = f"?watch=1&resourceVersion={version}&timeoutSeconds=1"
        async with client.session.get(running.url + CONFIGMAPS + query) as watch:
            event = json.loads(await watch.content.readline())
        assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "b")
    await running.close()


async def test_a_watch_over_http_tells_as_it_happens_and_is_released_when_the_client_goes(
    tmp_path: Path,
) -> None:
    running = await serve(data_dir=tmp_path)
    async with Client(running) as client:
        async with client.session.get(f"{running.url}{CONFIGMAPS}?watch=true") as watch:
            for name in "abc":
                await client.send("POST", CONFIGMAPS, json={"metadata": {"name": name}})
                event = json.loads(await watch.content.readline())
                assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", name)
            channels = running.server._reader._broadcasters["configmaps"]._channels
            assert channels
        await until(lambda: not channels)
    await running.close()


async def test_a_connection_that_does_not_read_holds_up_nobody_and_gets_everything_when_it_does(
    tmp_path: Path,
) -> None:
    running = await serve(data_dir=tmp_path)
    async with Client(running) as client, Client(running) as other:
        query = f"{running.url}{CONFIGMAPS}?watch=true"
        async with client.session.get(query) as slow, other.session.get(query) as quick:
            slow.connection.transport.pause_reading()
            versions: list[str] = []
            for number in range(80):
                body = {"metadata": {"name": f"c{number}"}, "data": {"text": "x" * 100_000}}
                written = (await client.send("POST", CONFIGMAPS, json=body))[1]
                versions.append(written["metadata"]["resourceVersion"])
                assert versions[-1] in await next_line(quick)
            slow.connection.transport.resume_reading()
            for version in versions:
                assert f'"resourceVersion":"{version}"' in await next_line(slow)
    await running.close()


async def test_a_connection_that_does_not_read_for_too_long_is_told_so(tmp_path: Path) -> None:
    running = await serve(data_dir=tmp_path)
    running.server.store.window = 5
    async with Client(running) as client, client.session.get(f"{running.url}{CONFIGMAPS}?watch=true") as slow:
        slow.connection.transport.pause_reading()
        for number in range(80):
            body = {"metadata": {"name": f"c{number}"}, "data": {"text": "x" * 100_000}}
            assert (await client.send("POST", CONFIGMAPS, json=body))[0] == 201
        slow.connection.transport.resume_reading()
        types: list[str] = []
        while "ERROR" not in types:
            event = json.loads(await next_line(slow))
            types.append(event["type"])
        assert event["object"]["code"] == 410
        assert 0 < len(types) < 80
        assert await slow.content.read() == b""
    await running.close()


async def next_line(watch: aiohttp.ClientResponse) -> str:
    """The next line, however long."""
    line = b""
    while not line.endswith(b"\n"):
        line += await watch.content.readuntil(b"\n")
    return line.decode()


async def test_many_writers_at_once_are_all_answered(tmp_path: Path) -> None:
    running = await serve(data_dir=tmp_path)
    async with Client(running) as client:
        bodies = [{"metadata": {"name": f"c{n}"}} for n in range(100)]
        answers = await asyncio.gather(*(client.send("POST", CONFIGMAPS, json=body) for body in bodies))
        assert [status for status, _ in answers] == [201] * 100
        versions = {answer["metadata"]["resourceVersion"] for _, answer in answers}
        assert len(versions) == 100
    await running.close()


async def test_a_stranger_is_refused_and_a_large_body_too(tmp_path: Path) -> None:
    running = await serve(data_dir=tmp_path)
    async with Client(running) as client:
        status, answer = await client.send("GET", CONFIGMAPS, headers={"authorization": "Bearer x"})
        assert (status, answer["kind"]) == (401, "Status")
        status, answer = await client.send("POST", CONFIGMAPS, data=io.BytesIO(b"x" * (3 * 1024 * 1024 + 1)))
        assert (status, answer["reason"]) == (413, "RequestEntityTooLarge")
    await running.close()


async def test_a_name_in_a_path_may_be_encoded(tmp_path: Path) -> None:
    running = await serve(data_dir=tmp_path)
    async with Client(running) as client:
        roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
        assert (await client.send("POST", roles, json={"metadata": {"name": "system:x y"}}))[0] == 201
        assert (await client.send("GET", f"{roles}/system:x%20y"))[0] == 200
    await running.close()


async def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    running = await serve(data_dir=tmp_path / "a")
    port = int(running.url.rpartition(":")[2])
    with pytest.raises(PortBusy, match=f"port {port} on 127.0.0.1 is in use"):
        await serve(data_dir=tmp_path / "b", port=port)
    await running.close()
    again = await serve(data_dir=tmp_path / "b", port=port)
    await again.close()


async def test_a_data_directory_has_one_server(tmp_path: Path) -> None:
    running = await serve(data_dir=tmp_path)
    with pytest.raises(LogBusy):
        await serve(data_dir=tmp_path)
    await running.close()


async def test_secrets_are_for_their_owner_only(tmp_path: Path) -> None:
    running = await serve(data_dir=tmp_path, kubeconfig=tmp_path / "elsewhere" / "config")
    for path in (tmp_path / "tokens.json", running.kubeconfig, tmp_path / "store.db"):
        assert path.stat().st_mode & 0o077 == 0, path
    await running.close()


async def test_node_tokens_can_be_minted_beside_a_running_server(tmp_path: Path) -> None:
    running = await serve(data_dir=tmp_path)
    token = load_tokens(tmp_path).node("n1")
    async with Client(running) as client:
        headers = {"authorization": f"Bearer {token}"}
        body = {"metadata": {"name": "n1"}}
        assert (await client.send("POST", "/api/v1/nodes", json=body, headers=headers))[0] == 201
        assert (await client.send("POST", CONFIGMAPS, json=body, headers=headers))[0] == 403
    await running.close()


async def test_a_server_is_trusted_by_its_own_kubeconfig(tmp_path: Path) -> None:
    running = await serve(data_dir=tmp_path)
    config = json.loads(running.kubeconfig.read_text())
    authority = base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=authority)
    token = config["users"][0]["user"]["token"]
    headers = {"authorization": f"Bearer {token}"}
    async with aiohttp.request("GET", running.url + CONFIGMAPS, headers=headers, ssl=context) as answer:
        assert answer.status == 200
    await running.close()
