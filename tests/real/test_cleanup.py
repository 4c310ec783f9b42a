"""Garbage collection's discovery against the real kube-apiserver."""

from __future__ import annotations

import msgspec
from tests.real.server import RealServer

from mooring.controllers.cleanup import kinds
from mooring.kube.client import Client
from mooring.kube.http import HttpTransport
from mooring.kube.tls import Trust


async def test_one_document_has_the_same_kinds_as_the_groups_one_by_one(real: RealServer):
    transport = HttpTransport(real.url, token=real.token, trust=Trust(authority=real.authority.read_bytes()))
    client = Client(transport)
    found = await kinds.discover(client)
    groups = msgspec.json.decode(await client.request("GET", "/apis"), type=kinds._Document)
    assert sorted(found.resources) == sorted((await kinds._one_by_one(client, groups)).resources)
    assert len(found.resources) > 40
    await client.close()
