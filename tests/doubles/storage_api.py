"""Controllers of storages whose services have gone, played over real HTTPS: Flocker's control service and
Photon Controller, as their public clients know them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncGenerator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from mooring.apiserver.transport.tls import Certificates, ensure
from mooring.kube.times import wall_clock

Body = dict[str, Any]


def certificates(directory: Path) -> Certificates:
    """An authority, and a server of it at 127.0.0.1."""

    def put(path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return ensure(directory, wall_clock, put)


def client(directory: Path, name: str) -> tuple[Path, Path]:
    """A certificate that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(wall_clock() - timedelta(hours=1))
        .not_valid_after(wall_clock() + timedelta(hours=1))
        .sign(key, hashes.SHA256())
    )
    files = directory / f"{name}.crt", directory / f"{name}.key"
    files[0].write_bytes(made.public_bytes(Encoding.PEM))
    files[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return files


class PlayedApi:
    """A server. `trouble` by the first words of a request (`POST /vms`): "hang", "drop", a status, or bytes
    that are the answer."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Body | None]] = []
        self.trouble: dict[str, str | int | bytes] = {}
        self.late: list[asyncio.Task[None]] = []

    @contextlib.asynccontextmanager
    async def serving(self, context: ssl.SSLContext) -> AsyncGenerator[str, None]:
        """Its URL."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        try:
            yield f"https://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.text()) if request.can_read_body else None
        self.asked.append((request.method, request.path_qs, body))
        words = f"{request.method} {request.path}"
        trouble = next((each for start, each in self.trouble.items() if words.startswith(start)), None)
        if trouble == "hang":
            await asyncio.sleep(3600)
        if trouble == "drop":
            assert request.transport is not None
            request.transport.abort()
        if isinstance(trouble, int):
            return web.json_response({"message": f"no: {trouble}\n\x1b[31m"}, status=trouble)
        if isinstance(trouble, bytes):
            return web.Response(body=trouble, content_type="application/json")
        status, answer = self.answer(request.method, request.path, dict(request.query), body, request)
        return web.json_response(answer, status=status)

    def answer(
        self, method: str, path: str, query: dict[str, str], body: Body | None, request: web.Request
    ) -> tuple[int, Any]:
        raise NotImplementedError

    def orders(self) -> list[str]:
        """What was asked for that changes something."""
        return [path for method, path, _ in self.asked if method == "POST"]


class PlayedFlocker(PlayedApi):
    """`nodes`: UUIDs by address; `at`: where datasets are; `names`: their names. `arrives` is called with a
    dataset that is told to move, and says whether it comes."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: dict[str, str] = {}
        self.at: dict[str, str | None] = {}
        self.names: dict[str, str] = {}
        self.arrives: Callable[[str], bool] = lambda uuid: True

    def answer(
        self, method: str, path: str, query: dict[str, str], body: Body | None, request: web.Request
    ) -> tuple[int, Any]:
        if path == "/v1/state/nodes":
            return 200, [{"uuid": uuid, "host": host} for host, uuid in self.nodes.items()]
        if path == "/v1/state/datasets":
            return 200, [{"dataset_id": uuid, "primary": at, "path": "/etc"} for uuid, at in self.at.items()]
        if path == "/v1/configuration/datasets":
            return 200, [self._configured(uuid) for uuid in self.at]
        uuid = path.removeprefix("/v1/configuration/datasets/")
        if method == "POST" and uuid in self.at and body is not None:
            if self.arrives(uuid):
                self.at[uuid] = body["primary"]
            return 200, self._configured(uuid)
        return 404, {"description": "no such dataset"}

    def _configured(self, uuid: str) -> Body:
        return {"dataset_id": uuid, "deleted": False, "metadata": {"name": self.names.get(uuid, "")}}


class PlayedPhoton(PlayedApi):
    """`vms`: names of machines by identifier; `disks`: who has them. An order is a task, which ends after it
    was asked about `slow` times; `fails`: with what; `lost`: it says done, and nothing has happened."""

    def __init__(self, token: str = "") -> None:
        super().__init__()
        self.token = token
        self.vms = {"vm-1": "node-1", "vm-2": "node-2"}
        self.disks: dict[str, list[str]] = {}
        self.slow, self.fails, self.lost = 0, "", False
        self._effects: dict[str, tuple[int, Callable[[], None]]] = {}

    def answer(
        self, method: str, path: str, query: dict[str, str], body: Body | None, request: web.Request
    ) -> tuple[int, Any]:
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            return 401, {"code": "InvalidAuthToken", "message": "the token is not known"}
        words = path.strip("/").split("/")
        if words[0] == "disks" and words[1] in self.disks:
            vms = self.disks[words[1]]
            return 200, {"id": words[1], "state": "ATTACHED" if vms else "DETACHED", "vms": vms}
        if words[0] == "projects" and words[1:] == ["p-1", "vms"]:
            found = [{"id": each, "name": name} for each, name in self.vms.items() if name == query["name"]]
            return 200, {"items": found}
        if words[0] == "vms" and body is not None:
            return 201, self._task(words[1], words[2], body["diskId"])
        if words[0] == "tasks":
            return 200, self._state(words[1])
        return 404, {"code": "DiskNotFound", "message": f"{path} is not there"}

    def _task(self, vm: str, order: str, disk: str) -> Body:
        def act() -> None:
            self.disks[disk] = [vm] if order == "attach_disk" else []

        task = f"t-{len(self._effects)}"
        self._effects[task] = (self.slow, act)
        return {"id": task, "state": "QUEUED"}

    def _state(self, task: str) -> Body:
        left, act = self._effects[task]
        self._effects[task] = (left - 1, act)
        if left > 0:
            return {"id": task, "state": "STARTED"}
        if self.fails:
            errors = [{"code": "StateError", "message": self.fails}]
            return {"id": task, "state": "ERROR", "steps": [{"errors": errors}]}
        if not self.lost:
            act()
        return {"id": task, "state": "COMPLETED"}
