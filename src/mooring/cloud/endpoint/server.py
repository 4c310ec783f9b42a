"""The endpoint: EC2's API, the instances' metadata services, and the control API, all on loopback addresses.

    http://127.0.0.1:PORT/                EC2, by the query protocol; requests are signed with the cloud's key
    http://127.0.0.1:PORT/_cloud/...      control: settings, counters, instances; unsigned, loopback only
    http://127.169.A.B:PORT/latest/...    IMDSv2 of instance number A * 256 + B

It checks only the access key and the region of a signature. A request is answered when all its changes are
durable.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, cast

import structlog
from aiohttp import web

from mooring.cloud.actions.instance_views import view
from mooring.cloud.cloud import Cloud
from mooring.cloud.data_directory import Credentials
from mooring.cloud.endpoint.metadata import Described, MetadataService
from mooring.cloud.endpoint.query import form_of, parse_request, render_answer, render_error
from mooring.cloud.errors import Ec2Error
from mooring.cloud.records.resources import Instance, Volume
from mooring.cloud.settings import to_json

_log = structlog.get_logger(__name__)
LOOPBACK = "127.0.0.1"
CONTROL = "/_cloud"
_CREDENTIAL = re.compile(r"Credential=([^/]+)/[0-9]{8}/([^/]+)/ec2/aws4_request")
_LONGEST_FORM = 1024 * 1024
_FORM_TYPES = ("application/x-www-form-urlencoded", "application/octet-stream")
"""The second is aiohttp's default for a body without a type."""
_NO_TEXT = re.compile(r"[\ud800-\udfff]")
_MOST_INSTANCES = 1024
_IDLE_S = 90.0


@dataclass
class Server:
    """Answers HTTP requests for a cloud; `serving` makes it listen."""

    cloud: Cloud
    credentials: Credentials
    rng: Random
    port: int = 0
    runner: web.AppRunner | None = None
    _metadata: dict[str, MetadataService] = field(default_factory=dict[str, MetadataService])

    def application(self) -> web.Application:
        """The routes. The address on which a request arrives identifies the instance."""
        app = web.Application(client_max_size=_LONGEST_FORM, middlewares=[self._by_address])
        app.router.add_route("GET", "/", self._ec2)
        app.router.add_route("POST", "/", self._ec2)
        app.router.add_get(CONTROL, self._show)
        app.router.add_get(f"{CONTROL}/settings", self._settings)
        app.router.add_patch(f"{CONTROL}/settings", self._configure)
        app.router.add_get(f"{CONTROL}/counters", self._counters)
        app.router.add_delete(f"{CONTROL}/counters", self._reset)
        app.router.add_post(f"{CONTROL}/instances", self._launch)
        return app

    @property
    def endpoint(self) -> str:
        """The URL of EC2's API."""
        return f"http://{LOOPBACK}:{self.port}"

    async def listen(self, port: int) -> None:
        """Listens for EC2's API; port 0 becomes a real one. Raises OSError."""
        assert self.runner is not None
        await self.runner.setup()
        site = web.TCPSite(self.runner, LOOPBACK, port)
        await site.start()
        self.port = self.runner.addresses[0][1]
        await self.listen_for_instances()

    async def listen_for_instances(self) -> None:
        """Starts the metadata service of every present instance that has none yet. Raises OSError."""
        assert self.runner is not None
        for instance in self._instances():
            address = _metadata_address(instance)
            if address not in self._metadata:
                self._metadata[address] = MetadataService(self.cloud.region.clock, self.rng)
                await web.TCPSite(self.runner, address, self.port).start()

    def shown(self) -> dict[str, Any]:
        """The cloud's state in JSON's types: instances in the order of their launch, and volumes."""
        volumes = sorted(self.cloud.region.store.volumes.records.values(), key=lambda volume: volume.created)
        return {
            "endpoint": self.endpoint,
            "region": self.cloud.settings.region,
            "instances": [self._instance_shown(each) for each in self._instances()],
            "volumes": [_volume_shown(each) for each in volumes],
        }

    def _instances(self) -> list[Instance]:
        found = self.cloud.region.store.instances.records.values()
        return sorted((each for each in found if each.state != "terminated"), key=lambda each: each.number)

    def _instance_shown(self, instance: Instance) -> dict[str, str]:
        return {
            "instance_id": instance.id,
            "instance_type": instance.type,
            "zone": instance.zone,
            "state": instance.state,
            "metadata_endpoint": f"http://{_metadata_address(instance)}:{self.port}",
        }

    # --- EC2

    async def _ec2(self, request: web.Request) -> web.Response:
        request_id = _uuid(self.rng)
        try:
            form = await _form(request)
            self._authenticate(request.headers)
            action = form.get("Action", "")
            if not action:
                raise Ec2Error("MissingAction", "The request must contain the parameter Action")
            answer = await self.cloud.call(action, parse_request(action, form))
            if action == "RunInstances":
                await self.listen_for_instances()
            return _xml(200, render_answer(action, answer, request_id))
        except web.HTTPRequestEntityTooLarge:
            error = Ec2Error(
                "RequestEntityTooLarge", f"The request is larger than {_LONGEST_FORM} bytes", 413
            )
            return _xml(error.status, render_error(error, request_id))
        except Ec2Error as error:
            return _xml(error.status, render_error(error, request_id))
        except Exception:
            _log.exception("a request could not be answered")
            error = Ec2Error("InternalError", "An internal error has occurred", 500)
            return _xml(error.status, render_error(error, request_id))

    def _authenticate(self, headers: Mapping[str, str]) -> None:
        found = _CREDENTIAL.search(headers.get("Authorization", ""))
        if found is None:
            message = (
                "The request must be signed (AWS Signature Version 4): `mooring cloud env` gives the keys"
            )
            raise Ec2Error("MissingAuthenticationToken", message, 403)
        if found[1] != self.credentials.access_key:
            raise Ec2Error("AuthFailure", "AWS was not able to validate the provided access credentials", 401)
        if found[2] != self.cloud.settings.region:
            raise Ec2Error(
                "AuthFailure", f"Credential should be scoped to a valid region, not {found[2]!r}", 401
            )

    # --- control

    async def _show(self, _: web.Request) -> web.Response:
        return web.json_response(self.shown())

    async def _settings(self, _: web.Request) -> web.Response:
        return web.json_response(to_json(self.cloud.settings))

    async def _configure(self, request: web.Request) -> web.Response:
        try:
            self.cloud.configure(await _json(request))
        except ValueError as error:
            return web.json_response({"error": str(error)}, status=400)
        return web.json_response(to_json(self.cloud.settings))

    async def _counters(self, _: web.Request) -> web.Response:
        return web.json_response(self.cloud.counters())

    async def _reset(self, _: web.Request) -> web.Response:
        self.cloud.reset_counters()
        return web.json_response({})

    async def _launch(self, request: web.Request) -> web.Response:
        try:
            wanted = await _json(request)
            unknown = wanted.keys() - {"count", "instance_type", "zone"}
            if (
                unknown
                or not isinstance(wanted.get("count"), int)
                or not 0 <= wanted["count"] <= _MOST_INSTANCES
            ):
                count = f"the number of instances that there shall be, at most {_MOST_INSTANCES}"
                raise ValueError(f"give count ({count}), instance_type, zone")
            if not all(isinstance(wanted.get(name, ""), str) for name in ("instance_type", "zone")):
                raise ValueError("instance_type and zone are texts")
            launched = self.cloud.launch(**wanted)
        except (ValueError, Ec2Error) as error:
            return web.json_response({"error": str(error)}, status=400)
        await self.listen_for_instances()
        return web.json_response({"instances": launched})

    # --- who asks what

    @web.middleware
    async def _by_address(self, request: web.Request, handler: Any) -> web.StreamResponse:
        address = _local_address(request)
        if address in self._metadata:
            return self._instance_metadata(address, request)
        if request.path.startswith(CONTROL) and (_is_foreign(request.host) or "Origin" in request.headers):
            return web.json_response({"error": "the control API is for this machine only"}, status=403)
        return await handler(request)

    def _instance_metadata(self, address: str, request: web.Request) -> web.Response:
        reply = self._metadata[address].answer(
            request.method, request.path, request.headers, self._described(address)
        )
        return web.Response(status=reply.status, text=reply.text, headers=dict(reply.headers))

    def _described(self, address: str) -> Described | None:
        found = (each for each in self._instances() if _metadata_address(each) == address)
        instance = next(found, None)
        if instance is None:
            return None
        shown = view(self.cloud.region, instance)
        return Described(
            shown, self.cloud.settings.region, self.credentials.access_key, self.credentials.secret_key
        )


def _volume_shown(volume: Volume) -> dict[str, Any]:
    attached = [f"{each.instance} {each.device} {each.state}" for each in volume.attachments]
    return {
        "volume_id": volume.id,
        "size": volume.size,
        "type": volume.type,
        "zone": volume.zone,
        "state": volume.state,
        "attached": ", ".join(attached),
        "name": volume.tags.get("Name") or volume.tags.get("CSIVolumeName", ""),
    }


@asynccontextmanager
async def serving(cloud: Cloud, credentials: Credentials, port: int, rng: Random) -> AsyncGenerator[Server]:
    """Serves while entered. Raises OSError if the port is taken."""
    server = Server(cloud, credentials, rng)
    server.runner = web.AppRunner(
        server.application(),
        access_log=None,
        handle_signals=False,
        auto_decompress=False,
        keepalive_timeout=_IDLE_S,
    )
    try:
        await server.listen(port)
        yield server
    finally:
        await server.runner.cleanup()


async def _form(request: web.Request) -> dict[str, str]:
    """The parameters of the query and of the body. Raises Ec2Error (MalformedQueryString)."""
    form = dict(request.query)
    if request.method == "POST":
        body = await request.read()
        if body and request.content_type not in _FORM_TYPES:
            raise Ec2Error(
                "MalformedQueryString", f"A body must be {_FORM_TYPES[0]}, not {request.content_type}"
            )
        form |= form_of(body)
    if any(map(_NO_TEXT.search, (*form, *form.values()))):
        raise Ec2Error("MalformedQueryString", "The query string contains what is not UTF-8")
    return form


async def _json(request: web.Request) -> dict[str, Any]:
    try:
        body = json.loads(await request.read())
    except RecursionError:
        raise ValueError("the body is nested too deep") from None
    if not isinstance(body, dict):
        raise ValueError("the body must be a JSON object")
    return cast("dict[str, Any]", body)


def _metadata_address(instance: Instance) -> str:
    return f"127.169.{instance.number >> 8 & 255}.{instance.number & 255}"


def _local_address(request: web.Request) -> str:
    name = request.transport.get_extra_info("sockname") if request.transport else None
    return name[0] if name else LOOPBACK


def _is_foreign(host: str) -> bool:
    name = host.rpartition(":")[0] or host
    return not (name.startswith("127.") or name == "localhost")


def _uuid(rng: Random) -> str:
    digits = f"{rng.getrandbits(128):032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _xml(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=text, content_type="text/xml")
