"""A Redfish service for one machine: what fence_redfish, sushy and DMTF's client need of DSP0266.

Guarantees: nothing is answered but the service root without the password or a session; bodies are bounded
before they are parsed; PowerState is the door's answer at that moment. A service of ours because
sushy-tools' emulator has its drivers built in, and takes none of a cluster's own.
"""

from __future__ import annotations

import base64
import hmac
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, TypeVar
from uuid import UUID

import msgspec
import structlog
from aiohttp import hdrs, web

from mooring.cluster.machines.bmc.inventory import USER
from mooring.cluster.machines.bmc.power_switch import Device, DeviceError, Silence, Verb
from mooring.cluster.machines.interface import Power

log = structlog.get_logger(component="bmc")

BODY = 8192
"""The longest body, in bytes."""
SESSIONS = 16
SESSION_S = 1800
PENDING = 32
"""So many requests may wait for the door."""
ROOT = "/redfish/v1"
SYSTEM, MANAGER, CHASSIS = f"{ROOT}/Systems", f"{ROOT}/Managers", f"{ROOT}/Chassis"
SESSION_SERVICE = f"{ROOT}/SessionService"
RESETS = {
    "On": Verb.ON,
    "ForceOn": Verb.ON,
    "ForceOff": Verb.OFF,
    "GracefulShutdown": Verb.BUTTON,
    "ForceRestart": Verb.RESET,
    "PowerCycle": Verb.RESET,
}
PUSH = "PushPowerButton"
STATES = {Power.ON: "On", Power.OFF: "Off"}
ENABLED = {"State": "Enabled", "Health": "OK"}

Ask = Callable[[Device, str, Verb], Awaitable[str]]


class Reset(msgspec.Struct):
    """The body of ComputerSystem.Reset."""

    reset_type: str = msgspec.field(name="ResetType")


class Login(msgspec.Struct):
    """The body of a new session."""

    user: str = msgspec.field(name="UserName")
    password: str = msgspec.field(name="Password")


Body = TypeVar("Body", Reset, Login)


class Service:
    """One machine's."""

    def __init__(self, machine: str, uuid: UUID, password: str, ask: Ask) -> None:
        self._machine, self._uuid, self._password, self._ask = machine, uuid, password, ask
        self._sessions: dict[str, tuple[str, float]] = {}
        self._pending = 0

    def application(self) -> web.Application:
        """What an HTTP server runs."""
        app = web.Application(middlewares=[self._guard], client_max_size=BODY)
        system, sessions = f"{SYSTEM}/{self._machine}", f"{SESSION_SERVICE}/Sessions"
        routes = [
            *((hdrs.METH_GET, path, _fixed(document)) for path, document in self._documents().items()),
            (hdrs.METH_GET, system, self._system),
            (hdrs.METH_POST, f"{system}/Actions/ComputerSystem.Reset", self._reset),
            (hdrs.METH_GET, f"{CHASSIS}/{self._machine}", self._chassis),
            (hdrs.METH_GET, sessions, self._list_sessions),
            (hdrs.METH_POST, sessions, self._log_in),
            (hdrs.METH_GET, f"{sessions}/{{id}}", self._session),
            (hdrs.METH_DELETE, f"{sessions}/{{id}}", self._log_out),
        ]
        for method, path, handler in routes:
            app.router.add_route(method, path, handler)
            app.router.add_route(method, f"{path}/", handler)
        return app

    def _documents(self) -> dict[str, dict[str, Any]]:
        """What never changes, by path."""
        name = self._machine
        root = {
            "@odata.type": "#ServiceRoot.v1_5_0.ServiceRoot",
            "Id": "RootService",
            "Name": "Root Service",
            "RedfishVersion": "1.6.0",
            "UUID": str(self._uuid),
            "Systems": _link(SYSTEM),
            "Managers": _link(MANAGER),
            "Chassis": _link(CHASSIS),
            "SessionService": _link(SESSION_SERVICE),
            "Links": {"Sessions": _link(f"{SESSION_SERVICE}/Sessions")},
        }
        manager = {
            "@odata.type": "#Manager.v1_5_0.Manager",
            "Id": "BMC",
            "Name": f"BMC of {name}",
            "ManagerType": "BMC",
            "UUID": str(self._uuid),
            "Status": ENABLED,
            "Links": {
                "ManagerForServers": [_link(f"{SYSTEM}/{name}")],
                "ManagerForChassis": [_link(f"{CHASSIS}/{name}")],
            },
        }
        service = {
            "@odata.type": "#SessionService.v1_1_5.SessionService",
            "Id": "SessionService",
            "Name": "Session Service",
            "ServiceEnabled": True,
            "SessionTimeout": SESSION_S,
            "Status": ENABLED,
            "Sessions": _link(f"{SESSION_SERVICE}/Sessions"),
        }
        collections = {
            SYSTEM: _collection("ComputerSystem", SYSTEM, [f"{SYSTEM}/{name}"]),
            MANAGER: _collection("Manager", MANAGER, [f"{MANAGER}/BMC"]),
            CHASSIS: _collection("Chassis", CHASSIS, [f"{CHASSIS}/{name}"]),
        }
        versions = {"/redfish": {"v1": f"{ROOT}/"}}
        named = {ROOT: root, f"{MANAGER}/BMC": manager, SESSION_SERVICE: service, **collections}
        return versions | {path: {"@odata.id": path, **document} for path, document in named.items()}

    # --- who may ask

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        try:
            if not self._may(request):
                _fail(401, "user name and password, or a session's X-Auth-Token, are wanted")
            return await handler(request)
        except _Failed as error:
            return _error(error.status, str(error))
        except DeviceError as error:
            return _error(503, str(error))
        except Silence:
            if request.transport is not None:
                request.transport.abort()
            return web.Response()  # to a connection that is no more
        except web.HTTPException as error:
            if error.status < 400:
                raise
            return _error(error.status, error.reason)

    def _may(self, request: web.Request) -> bool:
        asked = request.method, request.path.rstrip("/")
        if asked in (("POST", f"{SESSION_SERVICE}/Sessions"), ("GET", "/redfish"), ("GET", ROOT)):
            return True
        token = request.headers.get("X-Auth-Token", "")
        if token:
            self._forget_old_sessions()
            return any(
                hmac.compare_digest(token.encode(), held.encode()) for held, _ in self._sessions.values()
            )
        return self._right(*_basic(request.headers.get("Authorization", "")))

    def _right(self, user: str, password: str) -> bool:
        given, wanted = f"{user}:{password}".encode(), f"{USER}:{self._password}".encode()
        return hmac.compare_digest(given, wanted)

    # --- the machine

    async def _ask_door(self, verb: Verb) -> str:
        if self._pending >= PENDING:
            raise DeviceError(f"{self._machine}: too many requests wait for an answer")
        self._pending += 1
        try:
            return await self._ask(Device.BMC, self._machine, verb)
        finally:
            self._pending -= 1

    async def _power(self) -> Power:
        word = await self._ask_door(Verb.POWER)
        try:
            return Power(word)
        except ValueError:
            raise DeviceError(f"{self._machine}: its power is unknown") from None

    async def _system(self, _: web.Request) -> web.Response:
        path = f"{SYSTEM}/{self._machine}"
        document: dict[str, Any] = {
            "@odata.id": path,
            "@odata.type": "#ComputerSystem.v1_10_0.ComputerSystem",
            "Id": self._machine,
            "Name": self._machine,
            "SystemType": "Virtual",
            "UUID": str(self._uuid),
            "PowerState": STATES[await self._power()],
            "Status": ENABLED,
            "Links": {
                "ManagedBy": [_link(f"{MANAGER}/BMC")],
                "Chassis": [_link(f"{CHASSIS}/{self._machine}")],
            },
            "Actions": {
                "#ComputerSystem.Reset": {
                    "target": f"{path}/Actions/ComputerSystem.Reset",
                    "ResetType@Redfish.AllowableValues": [*RESETS, PUSH],
                }
            },
        }
        return web.json_response(document)

    async def _chassis(self, _: web.Request) -> web.Response:
        document: dict[str, Any] = {
            "@odata.id": f"{CHASSIS}/{self._machine}",
            "@odata.type": "#Chassis.v1_9_0.Chassis",
            "Id": self._machine,
            "Name": f"Chassis of {self._machine}",
            "ChassisType": "RackMount",
            "PowerState": STATES[await self._power()],
            "Status": ENABLED,
            "Links": {
                "ComputerSystems": [_link(f"{SYSTEM}/{self._machine}")],
                "ManagedBy": [_link(f"{MANAGER}/BMC")],
            },
        }
        return web.json_response(document)

    async def _reset(self, request: web.Request) -> web.Response:
        wanted = (await _body(request, Reset)).reset_type
        if wanted == PUSH:
            verb = Verb.BUTTON if await self._power() is Power.ON else Verb.ON
        elif wanted in RESETS:
            verb = RESETS[wanted]
        else:
            _fail(400, f"ResetType {wanted[:64]!r} is none of {', '.join([*RESETS, PUSH])}")
        await self._ask_door(verb)
        return web.Response(status=204)

    # --- sessions

    async def _log_in(self, request: web.Request) -> web.Response:
        login = await _body(request, Login)
        if not self._right(login.user, login.password):
            _fail(401, "wrong user name or password")
        self._forget_old_sessions()
        if len(self._sessions) >= SESSIONS:
            self._sessions.pop(next(iter(self._sessions)))
        name, token = secrets.token_hex(4), secrets.token_urlsafe(24)
        self._sessions[name] = token, time.monotonic() + SESSION_S
        headers = {"X-Auth-Token": token, "Location": f"{SESSION_SERVICE}/Sessions/{name}"}
        return web.json_response(_session(name), status=201, headers=headers)

    async def _list_sessions(self, _: web.Request) -> web.Response:
        self._forget_old_sessions()
        path = f"{SESSION_SERVICE}/Sessions"
        document = _collection("Session", path, [f"{path}/{name}" for name in self._sessions])
        return web.json_response({"@odata.id": path, **document})

    async def _session(self, request: web.Request) -> web.Response:
        return web.json_response(_session(self._known(request)))

    async def _log_out(self, request: web.Request) -> web.Response:
        del self._sessions[self._known(request)]
        return web.Response(status=204)

    def _known(self, request: web.Request) -> str:
        name = request.match_info["id"]
        if name not in self._sessions:
            _fail(404, "no such session")
        return name

    def _forget_old_sessions(self) -> None:
        now = time.monotonic()
        self._sessions = {name: held for name, held in self._sessions.items() if held[1] > now}


def _fixed(document: dict[str, Any]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response(document)

    return answer


def _link(path: str) -> dict[str, str]:
    return {"@odata.id": path}


def _collection(kind: str, path: str, members: list[str]) -> dict[str, Any]:
    return {
        "@odata.type": f"#{kind}Collection.{kind}Collection",
        "Name": f"{kind} Collection",
        "Members": [_link(member) for member in members],
        "Members@odata.count": len(members),
    }


def _session(name: str) -> dict[str, Any]:
    return {
        "@odata.id": f"{SESSION_SERVICE}/Sessions/{name}",
        "@odata.type": "#Session.v1_1_0.Session",
        "Id": name,
        "Name": "User Session",
        "UserName": USER,
    }


def _basic(header: str) -> tuple[str, str]:
    """User and password of a Basic header; empty if there is none."""
    scheme, _, coded = header.partition(" ")
    if scheme.lower() != "basic":
        return "", ""
    try:
        user, _, password = base64.b64decode(coded, validate=True).decode().partition(":")
    except ValueError:
        return "", ""
    return user, password


async def _body(request: web.Request, kind: type[Body]) -> Body:
    try:
        return msgspec.json.decode(await request.read(), type=kind)
    except (ValueError, RecursionError) as error:
        _fail(400, f"the body is not as it should be: {error}")


def _message(status: int, message: str) -> dict[str, Any]:
    """DSP0266, 8.6."""
    code = "Base.1.8.GeneralError" if status >= 500 else "Base.1.8.PropertyValueError"
    info = {"MessageId": code, "Message": message, "Severity": "Critical"}
    return {"error": {"code": code, "message": message, "@Message.ExtendedInfo": [info]}}


def _error(status: int, message: str) -> web.Response:
    headers = {"WWW-Authenticate": 'Basic realm="BMC"'} if status == 401 else {}
    return web.json_response(_message(status, message), status=status, headers=headers)


class _Failed(Exception):
    """A status, and a message for the client."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def _fail(status: int, message: str) -> NoReturn:
    raise _Failed(status, message)
