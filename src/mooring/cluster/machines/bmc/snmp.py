"""An SNMP agent (v1, v2c, v3) for one device of `mib`.

Packets are pysnmp's to parse; which values there are is `mib`'s to say, and what they are at this moment the
door's. A silent device's request is dropped. What is asked again while it is under way, as clients do, is
done once, and each request for it is answered. With v3, only authenticated requests are answered.
"""
# pyright: basic
# pysnmp has no types that strict checking could use.

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import structlog
from pysnmp.carrier.asyncio.dgram import udp
from pysnmp.entity import config
from pysnmp.entity.engine import SnmpEngine
from pysnmp.entity.rfc3413.cmdrsp import CommandResponderBase
from pysnmp.entity.rfc3413.context import SnmpContext
from pysnmp.proto import rfc1902, rfc1905
from pysnmp.proto.api import v2c

from mooring.cluster.machines.bmc.mib import DOWN, UP, Both, Live, Object, Oid, Tree
from mooring.cluster.machines.bmc.power_switch import Device, DeviceError, Silence, Verb

log = structlog.get_logger(component="bmc")

DATAGRAM = 2048
"""The largest request that is parsed, in bytes."""
VARIABLES = 64
"""So many may one request name, or one GetBulk return."""
PENDING = 64
"""So many requests may be under way."""
USM, NO_AUTH = 3, 1

Ask = Callable[[Device, str, Verb], Awaitable[str]]
Bindings = list[tuple[Any, Any]]


class SnmpError(Exception):
    """`status` is SNMP's name of the error, `index` the number of the variable, from 1."""

    def __init__(self, status: str, index: int) -> None:
        super().__init__(status)
        self.status, self.index = status, index


class Agent:
    """The agent of one tree, on a UDP port while it is open. `community` for v1 and v2c; for v3 the user's
    `password`, which authenticates (SHA) and encrypts (AES)."""

    def __init__(self, tree: Tree, ask: Ask, community: str, user: str, password: str) -> None:
        self._engine = SnmpEngine()
        config.add_v1_system(self._engine, user, community)
        config.add_v3_user(
            self._engine, user, config.USM_AUTH_HMAC96_SHA, password, config.USM_PRIV_CFB128_AES, password
        )
        self._transport = _Transport()
        self._responder = _Responder(self._engine, Requests(tree, ask), self._transport)

    def open(self, address: str, port: int) -> None:
        """Listens."""
        self._transport.open_server_mode((address, port))
        config.add_transport(self._engine, udp.DOMAIN_NAME, self._transport)
        self._engine.transport_dispatcher.job_started(1)

    def close(self) -> None:
        """Listens no more."""
        self._responder.cancel()
        self._engine.transport_dispatcher.close_dispatcher()


class Requests:
    """What an agent answers to one request, whatever its version and its bytes."""

    def __init__(self, tree: Tree, ask: Ask) -> None:
        self._tree, self._ask = tree, ask

    async def read(self, names: Sequence[Oid]) -> Bindings:
        """What Get answers. Raises SnmpError, Silence."""
        return [
            (name, await self._value(name, self._tree.get(name), place))
            for place, name in enumerate(names, 1)
        ]

    async def read_next(self, names: Sequence[Oid]) -> Bindings:
        """What GetNext answers. Raises SnmpError, Silence."""
        return [await self._next(name, place) for place, name in enumerate(names, 1)]

    async def read_bulk(self, names: Sequence[Oid], single: int, repetitions: int) -> Bindings:
        """What GetBulk answers: the first `single` names once, the others again and again. Raises SnmpError,
        Silence."""
        found = await self.read_next(names[:single])
        repeated = list(names[single:])
        for _ in range(repetitions):
            if not repeated or len(found) + len(repeated) > VARIABLES:
                break
            row = await self.read_next(repeated)
            found += row
            if all(value is rfc1905.endOfMibView for _, value in row):
                break
            repeated = [tuple(name) for name, _ in row]
        return found

    async def write(self, bindings: Sequence[tuple[Oid, Any]]) -> None:
        """Does what Set asks for: all or, if one of them cannot be set so, none. Raises SnmpError,
        Silence."""
        orders = [self._order(name, value, place) for place, (name, value) in enumerate(bindings, 1)]
        for place, (machine, verb) in enumerate(orders, 1):
            await self._do(machine, verb, place)

    def _order(self, name: Oid, value: Any, place: int) -> tuple[str, Verb]:
        found = self._tree.get(name)
        if found is None or not found.writes:
            raise SnmpError("notWritable" if found or self._tree.knows_column(name) else "noCreation", place)
        if not isinstance(value, rfc1902.Integer | rfc1902.Integer32):
            raise SnmpError("wrongType", place)
        if int(value) not in found.writes:
            raise SnmpError("wrongValue", place)
        return found.writes[int(value)]

    async def _next(self, name: Oid, place: int) -> tuple[Any, Any]:
        following = self._tree.after(name)
        if following is None:
            return name, rfc1905.endOfMibView
        return following, await self._value(following, self._tree.get(following), place)

    async def _value(self, name: Oid, found: Object | None, place: int) -> Any:
        if found is None:
            return rfc1905.noSuchInstance if self._tree.knows_column(name) else rfc1905.noSuchObject
        match found.value:
            case int(number):
                return rfc1902.Integer32(number)
            case str(text):
                return rfc1902.OctetString(text)
            case Live() as live:
                return rfc1902.Integer32(await self._number(live, place))
            case Both(numbers):
                states = [await self._number(each, place) for each in numbers]
                return rfc1902.Integer32(UP if all(state == UP for state in states) else DOWN)
            case oid:
                return rfc1902.ObjectIdentifier(oid)

    async def _number(self, live: Live, place: int) -> int:
        word = await self._do(live.machine, live.verb, place)
        if word not in live.numbers:
            raise SnmpError("genErr", place)
        return live.numbers[word]

    async def _do(self, machine: str, verb: Verb, place: int) -> str:
        try:
            return await self._ask(self._tree.device, machine, verb)
        except DeviceError as error:
            log.info(
                "refused", device=str(self._tree.device), machine=machine, verb=str(verb), why=str(error)
            )
            raise SnmpError("genErr", place) from error


class _Transport(udp.UdpAsyncioTransport):
    """Drops what is too long before anything looks into it; sends nothing while it is `silent`."""

    silent = False

    def datagram_received(self, datagram: bytes, transportAddress: Any) -> None:  # noqa: N803
        if len(datagram) <= DATAGRAM:
            super().datagram_received(datagram, transportAddress)

    def send_message(self, outgoingMessage: bytes, transportAddress: Any) -> None:  # noqa: N803
        if not self.silent:
            super().send_message(outgoingMessage, transportAddress)


class _Responder(CommandResponderBase):
    """Takes requests from pysnmp, and gives it the answers once they are there."""

    SUPPORTED_PDU_TYPES = (
        rfc1905.GetRequestPDU.tagSet,
        rfc1905.GetNextRequestPDU.tagSet,
        rfc1905.GetBulkRequestPDU.tagSet,
        rfc1905.SetRequestPDU.tagSet,
    )

    def __init__(self, engine: SnmpEngine, requests: Requests, transport: _Transport) -> None:
        super().__init__(engine, SnmpContext(engine))
        self._transport = transport
        self._requests = requests
        self._refused = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: dict[object, list[int]] = {}
        """By what is asked and under way: pysnmp's references, one for each request that asks for it."""

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    def process_pdu(self, snmpEngine, messageProcessingModel, securityModel, *others):  # noqa: N803
        level = others[1]
        self._refused = securityModel == USM and level == NO_AUTH
        super().process_pdu(snmpEngine, messageProcessingModel, securityModel, *others)

    def handle_management_operation(self, snmpEngine, stateReference, contextName, PDU):  # noqa: N803
        bindings = [(tuple(name), value) for name, value in v2c.apiPDU.get_varbinds(PDU)]
        if self._refused:
            self.send_varbinds(snmpEngine, stateReference, "authorizationError", 0, bindings)
        elif len(bindings) > VARIABLES:
            self.send_varbinds(snmpEngine, stateReference, "tooBig", 0, [])
        elif sum(map(len, self._waiting.values())) < PENDING:
            self._take(snmpEngine, stateReference, PDU, bindings)
        else:
            self._drop(snmpEngine, stateReference)

    def _drop(self, engine: SnmpEngine, reference: int) -> None:
        """No answer, by the way that lets pysnmp forget the request."""
        self._transport.silent = True
        try:
            self.send_varbinds(engine, reference, 0, 0, [])
        finally:
            self._transport.silent = False

    def _take(self, engine: SnmpEngine, reference: int, pdu: Any, bindings: Bindings) -> None:
        # Not by the request's number: pysnmp has put one of its own there.
        asked = tuple((name, type(value).__name__, value.prettyPrint()) for name, value in bindings)
        key = pdu.tagSet, int(pdu[1]), int(pdu[2]), asked
        if key in self._waiting:
            self._waiting[key].append(reference)
            return
        self._waiting[key] = [reference]
        task = asyncio.get_running_loop().create_task(self._answer(engine, key, pdu, bindings))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def release_state_information(self, stateReference):  # noqa: N803
        """Keeps what an answer that is still to come needs."""
        if not any(stateReference in references for references in self._waiting.values()):
            super().release_state_information(stateReference)

    async def _answer(self, engine: SnmpEngine, key: object, pdu: Any, bindings: Bindings) -> None:
        try:
            answer = await self._outcome(pdu, bindings)
        finally:
            references = self._waiting.pop(key)
        for reference in references:
            if answer is not None:
                self.send_varbinds(engine, reference, *answer)
            else:
                self._drop(engine, reference)
            self.release_state_information(reference)

    async def _outcome(self, pdu: Any, bindings: Bindings) -> tuple[int | str, int, Bindings] | None:
        """Error status and index, and bindings; None for no answer."""
        try:
            return 0, 0, await self._bindings(pdu, bindings)
        except SnmpError as error:
            return error.status, error.index, bindings
        except Silence:
            return None
        except Exception:
            log.exception("an SNMP request failed")
            return "genErr", 0, bindings

    async def _bindings(self, pdu: Any, bindings: Bindings) -> Bindings:
        names = [name for name, _ in bindings]
        match pdu.tagSet:
            case rfc1905.GetRequestPDU.tagSet:
                return await self._requests.read(names)
            case rfc1905.GetNextRequestPDU.tagSet:
                return await self._requests.read_next(names)
            case rfc1905.GetBulkRequestPDU.tagSet:
                single = max(0, int(v2c.apiBulkPDU.get_non_repeaters(pdu)))
                repetitions = max(0, int(v2c.apiBulkPDU.get_max_repetitions(pdu)))
                return await self._requests.read_bulk(names, single, min(repetitions, VARIABLES))
        await self._requests.write(bindings)
        return bindings
