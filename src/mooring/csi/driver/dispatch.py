"""From a request to a driver's answer, without gRPC: validation, one operation at a time, deadlines, errors,
observers.

Guarantees:
- A driver sees only requests that the specification allows, with paths that it may act on, and never two
  operations on one object at once.
- A deadline or a caller that goes away ends the call, not the operation. The operation runs to its end, and
  until then other calls for the object are ABORTED. An exception are the methods of `Driver.gives_way`: a
  call for one of them cancels the operation, and begins when it has ended. Of several such calls the last one
  counts, also while the first still ends.
- Every exception of a driver is answered with a code: a CsiError's own, or that of `Driver.codes`.
- Observers see every call, without its secrets.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import structlog
from google.protobuf.message import Message

from mooring.csi.client import Exchange, Observer
from mooring.csi.driver.in_flight import InFlight, Key
from mooring.csi.driver.paths import check_paths
from mooring.csi.driver.progress import UnderWay, due_in
from mooring.csi.driver.services import Driver
from mooring.csi.driver.validation import validate
from mooring.csi.errors import Code, CsiError
from mooring.csi.rpc import Identity, Reply, Request, Rpc

_log = structlog.get_logger(__name__)
_IDENTITY = frozenset(Identity.methods())


class Dispatcher:
    """Calls one driver. Belongs to one event loop."""

    def __init__(self, driver: Driver, allowed: Sequence[Path], observers: Sequence[Observer] = ()) -> None:
        """`allowed`: the directories below which the node service may mount."""
        self.driver = driver
        self._allowed = tuple(allowed)
        self._observers = tuple(observers)
        self._in_flight = InFlight()
        self._operations: set[asyncio.Task[Any]] = set()

    async def call(self, rpc: Rpc[Request, Reply], request: Request) -> Reply:
        """The driver's reply. Raises CsiError."""
        started = asyncio.get_running_loop().time()
        reply: Reply | None = None
        code, message = Code.CANCELLED, "the caller went away, or its deadline has passed"
        try:
            reply = await self._answer(rpc, request)
            code, message = Code.OK, ""
            return reply
        except CsiError as error:
            code, message = error.code, error.message
            raise CsiError(code, message, rpc.name) from error
        finally:
            duration_s = asyncio.get_running_loop().time() - started
            exchange = Exchange(rpc.name, rpc.path, started, duration_s, code, message, request, reply)
            for observer in self._observers:
                observer(exchange)

    async def finish(self) -> None:
        """Waits until all operations have ended."""
        while self._operations:
            await asyncio.wait(self._operations)

    async def _answer(self, rpc: Rpc[Request, Reply], request: Request) -> Reply:
        handler = self._handler(rpc)
        validate(request, self.driver.access_modes)
        check_paths(request, self._allowed)
        key = _key(self.driver, rpc, request)
        if key is None:
            return await _run(self.driver, rpc, handler, request)
        return await self._operation(rpc, handler, request, key)

    def _handler(self, rpc: Rpc[Request, Reply]) -> Callable[[Request], Awaitable[Reply]]:
        service = self.driver if rpc in _IDENTITY else self.driver.service_of(rpc)
        if service is None:
            raise CsiError(Code.UNIMPLEMENTED, f"driver {self.driver.name} does not have this method")
        return getattr(service, rpc.attribute)

    async def _operation(
        self,
        rpc: Rpc[Request, Reply],
        handler: Callable[[Request], Awaitable[Reply]],
        request: Request,
        key: Key,
    ) -> Reply:
        """Runs the handler in a task of its own, which outlives this call.

        A handler that were cancelled with its caller would leave half a mount or an attach that nothing
        remembers, and the retry would run beside it.
        """

        def gives_way(method: str) -> bool:
            return rpc.name in self.driver.gives_way.get(method, ())

        async def operation() -> Reply:
            with self._in_flight.claim(key, rpc.name, gives_way) as before:
                await _ended(before)
                return await _run(self.driver, rpc, handler, request)

        task = asyncio.ensure_future(operation())
        self._operations.add(task)
        task.add_done_callback(self._operations.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.cancelled():
                task.add_done_callback(partial(_log_late, rpc.name, key))
                raise
            raise CsiError(
                Code.ABORTED, f"a later call for {key[1]} took its place: see what that one says"
            ) from None


async def _ended(before: Sequence[UnderWay]) -> None:
    """Cancels operations, and waits until they have ended, also when this is cancelled in turn: who takes the
    place of an operation that waits here, and waits for that one alone, is alone on the object."""
    tasks = [each.task for each in before if each.task is not None]
    for task in tasks:
        task.cancel()
    if tasks:
        ending = asyncio.ensure_future(asyncio.wait(tasks))
        try:
            await asyncio.shield(ending)
        finally:
            await ending


def _log_late(method: str, key: Key, task: asyncio.Task[Any]) -> None:
    """Logs the outcome of an operation whose caller has gone: the log is the only place that has it."""
    if task.cancelled():
        return
    if (error := task.exception()) is None:
        _log.info("an operation has ended after its caller was gone", method=method, of=key[1])
    else:
        _log.warning(
            "an operation has failed after its caller was gone", method=method, of=key[1], error=str(error)
        )


async def _run(
    driver: Driver, rpc: Rpc[Request, Reply], handler: Callable[[Request], Awaitable[Reply]], request: Request
) -> Reply:
    try:
        return await handler(request)
    except CsiError:
        raise
    except Exception as error:
        code = driver.code_of(error)
        if code is Code.INTERNAL:
            # As text: some log renderers print the frames' variables, and a request may hold secrets.
            _log.error("a method of the driver failed", method=rpc.name, traceback=traceback.format_exc())
        raise CsiError(code, str(error) or type(error).__name__) from error


def _key(driver: Driver, rpc: Rpc[Any, Any], request: Message) -> Key | None:
    fields = driver.in_flight.get(rpc.name)
    if fields is None:
        return None
    values: list[str] = [getattr(request, name) for name in fields]
    while values and not values[-1]:
        values.pop()
    return (rpc.service, *values)


class LocalChannel:
    """The `Channel` of a client whose driver is in this process: no sockets, and the event loop's clock, so
    it runs in virtual time too."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    async def call(self, rpc: Rpc[Request, Reply], request: Request, timeout_s: float) -> Reply:
        copy = rpc.request.FromString(
            request.SerializeToString()
        )  # caller and driver share nothing, as over a wire
        try:
            with due_in(timeout_s):
                async with asyncio.timeout(timeout_s):
                    return await self._dispatcher.call(rpc, copy)
        except TimeoutError:
            raise CsiError(Code.DEADLINE_EXCEEDED, f"no answer within {timeout_s:g} s", rpc.name) from None

    async def close(self) -> None:
        return
