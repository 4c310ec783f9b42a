"""Requests that would take the serving thread for too long are decided in a copy of the process (`fork`).

The copy has everything that a decision reads, as of one moment, and runs the same code (`Server.handle`);
only its store records writes instead of making them (`Store.rehearse`). It returns these writes and the
answer, as bytes. The server makes the writes if every object that the decision read is still at the same
version; otherwise the request is decided again. So, as upstream, a write is always computed from the state
that it replaces. The copy has its own limits of CPU time and memory, which bound the cost of any request.

Guarantees: the serving thread pays only for a fork and for copying bytes; a copy never uses a socket or file
of the server; at most `AT_ONCE` copies run, and at most `WAITING` requests wait for their turn.
"""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import resource
import signal
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, NoReturn

import msgspec
import structlog

from mooring.apiserver.encodings.negotiation import negotiate
from mooring.apiserver.errors import ApiError, Conflict, Internal, StoreFailed, TooLarge, TooManyRequests
from mooring.apiserver.message import Request, Response
from mooring.apiserver.requests.reads import respond
from mooring.apiserver.server import Server, failure
from mooring.apiserver.store.forked_writes import Rehearsal

AT_ONCE = 2
WAITING = 64
CPU_S = 20
MEMORY_BYTES = 512 * 1024 * 1024
"""The memory that a copy may use beyond the server's own, in bytes."""
PATIENCE_S = 60.0
TRIES = 4
_PIECE = 1024 * 1024
_NICER = 5

log = structlog.get_logger(__name__)


class _Outcome(NamedTuple):
    """The result of a copy: an answer, and the writes behind it."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    rehearsal: Rehearsal


class Aside:
    """Decides requests of one server in copies of this process."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0

    async def answer(self, request: Request) -> Response:
        """As `Server.handle`, only that it never gives a stream."""
        if self._waiting >= WAITING:
            return failure(
                TooManyRequests("too many large requests, please try again later", retryAfterSeconds=1)
            )
        self._waiting += 1
        try:
            async with self._turns:
                return await self._decided(request)
        except (ApiError, StoreFailed) as error:
            return failure(error)
        finally:
            self._waiting -= 1

    async def _decided(self, request: Request) -> Response:
        store, plain = self._server.store, _in_json(request)
        for _ in range(TRIES):
            seed = self._server.random.getrandbits(64)
            outcome: _Outcome = await in_copy(partial(_rehearsed, self._server, plain, seed))
            if store.is_as_seen(outcome.rehearsal):
                break
        else:
            raise Conflict(
                "the object was changed again and again while the request was decided; please try again"
            )
        made = store.perform(outcome.rehearsal)
        await asyncio.gather(*made.done)
        if outcome.rehearsal.writes:
            await self._server.clean_up(request)
        elif request.method != "GET":
            await store.settled()  # as in `Server`: a refusal, too, says what lasts
        answer = Response(outcome.status, outcome.headers, made.renumbered(outcome.body))
        if plain is request or answer.status >= 300:
            return answer
        return await in_copy(lambda: _in_wanted_encoding(request, answer))


def _in_json(request: Request) -> Request:
    """A write whose answer is in JSON: there alone the numbers of the versions can be put in afterwards."""
    accept = request.headers.get("accept", "")
    if request.method == "GET" or not ("protobuf" in accept or "yaml" in accept):
        return request
    headers = {**request.headers, "accept": "application/json"}
    return msgspec.structs.replace(request, headers=headers)


def _in_wanted_encoding(request: Request, answer: Response) -> Response:
    try:
        accepted = negotiate(request.headers.get("accept", ""), protobuf=True)
        return respond(answer.status, answer.body, accepted)
    except ApiError:
        return answer


def _rehearsed(server: Server, request: Request, seed: int) -> _Outcome:
    """Decides in a copy, with a seed of its own, so that two copies do not draw the same random numbers."""
    server.random.seed(seed)
    rehearsal = server.store.rehearse()
    loop = asyncio.new_event_loop()
    try:
        answer = loop.run_until_complete(server.handle(request))
        if answer.stream is not None:
            answer = failure(
                TooLarge("Request entity too large: what is selected costs too much for a stream")
            )
    except MemoryError:
        raise
    except Exception as error:
        log.exception("request failed", method=request.method, path=request.path)
        answer, rehearsal = failure(Internal(f"Internal error occurred: {error!r}")), Rehearsal()
    return _Outcome(answer.status, dict(answer.headers), answer.body, rehearsal)


async def in_copy(job: Callable[[], Any]) -> Any:
    """What `job` returns in a copy of this process; it must be something that pickle knows.

    Raises TooLarge if it takes more time or memory than a copy may have.
    """
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    with warnings.catch_warnings():
        # Newer Pythons warn of a fork beside threads, whose locks may be held: a copy takes none of these, it
        # computes.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        _be_copy(job, writer)
    os.close(writer)
    try:
        async with asyncio.timeout(PATIENCE_S):
            written = await _all_of(reader)
    except TimeoutError:
        written = b""
    finally:
        os.close(reader)
        await _end(pid)
    if not written:
        raise TooLarge(
            f"Request entity too large: it takes more than {CPU_S} s of CPU time or more memory than it may"
        )
    return pickle.loads(written)  # nosec B301 # of a copy of this very process


def _be_copy(job: Callable[[], Any], writer: int) -> NoReturn:
    try:
        gc.disable()
        os.nice(_NICER)
        signal.set_wakeup_fd(-1)
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, signal.SIG_DFL)
        os.closerange(3, writer)
        os.closerange(writer + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        _limit(resource.RLIMIT_CPU, CPU_S)
        _limit(resource.RLIMIT_AS, _size() + MEMORY_BYTES)
        left = memoryview(pickle.dumps(job(), protocol=5))
        while left:
            left = left[os.write(writer, left) :]
    except MemoryError:
        pass  # an empty answer says so
    except BaseException:
        log.exception("a copy failed")
    finally:
        os._exit(0)


def _limit(which: int, most: int) -> None:
    _, hard = resource.getrlimit(which)
    bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(which, (bound, bound))


def _size() -> int:
    """The bytes of this process's address space."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


async def _all_of(reader: int) -> bytes:
    """Everything that comes out of a pipe until its other end is closed."""
    loop, pieces = asyncio.get_running_loop(), list[bytes]()
    ended: asyncio.Future[None] = loop.create_future()

    def more() -> None:
        with suppress(BlockingIOError):
            piece = os.read(reader, _PIECE)
            pieces.append(piece)
            if not piece and not ended.done():
                ended.set_result(None)

    loop.add_reader(reader, more)
    try:
        await ended
    finally:
        loop.remove_reader(reader)
    return b"".join(pieces)


async def _end(pid: int) -> None:
    """Ends a copy, if it has not ended, and lets go of it."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    await asyncio.shield(asyncio.to_thread(os.waitpid, pid, 0))
