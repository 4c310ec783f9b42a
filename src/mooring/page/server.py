"""Serves the page on loopback: its files, the state, the changes as they come, lives, and a moment as a file.

Guarantees: it listens on 127.0.0.1 only; it answers GET and nothing else, so that no request can write; every
answer but the one to the token needs the cookie; every answer has the headers of `admission`.

    /?token=...          exchanges the token for a cookie, and leads to /
    /                    the page; /page.css, /page.svg and /js/*.js are its files
    /api/state           all rows; /api/history the last hour; /api/changes?since=VERSION the events
    /api/life?volume=ID  or ?node=ID
    /api/export          the moment and the last hour as one file
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from importlib.resources import files
from itertools import islice
from typing import Any

import msgspec
from aiohttp import web

from mooring.page.admission import HEADERS, Admission
from mooring.page.export import standalone
from mooring.page.history import History
from mooring.page.life import node_life, volume_life
from mooring.page.model import Model
from mooring.page.scripts import SCRIPTS, as_one, path_of
from mooring.page.streams import Streams

LOOPBACK = "127.0.0.1"
MOST_STREAMS = 32
MOST_EXPORTED = 20_000
"""So many of the latest changes go into an exported file."""
MOST_LIVES = 100
"""And the lives of so many volumes and nodes: what is stuck, and what that concerns, goes first."""
MOST_CHOSEN = 8
FILES = {
    "/page.css": "text/css",
    "/page.svg": "image/svg+xml",
    **{f"/{path_of(script)}": "text/javascript" for script in SCRIPTS},
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

NO_ACCESS = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Mooring</title>
<h1>This page needs its address with the token</h1>
<p>Open the address that <code>mooring page</code> has printed. If you have just done so by a link on another page,
<a href="/">go on</a>.</p></html>"""


class PageServer:
    """One server for a model. `facts` gives what is said of the connection, beside the rows."""

    def __init__(
        self, model: Model, streams: Streams, facts: Callable[[], dict[str, Any]], *, token: str = ""
    ) -> None:
        self._model, self._streams, self._facts = model, streams, facts
        self.admission = Admission(token)
        self._epoch = secrets.token_hex(8)
        self._open = 0

    @property
    def address(self) -> str:
        """With the token."""
        return f"http://{LOOPBACK}:{self.admission.port}/?token={self.admission.token}"

    def application(self) -> web.Application:
        """The routes."""
        app = web.Application(middlewares=[self._admit], client_max_size=1)
        app.router.add_get("/", self._page)
        for path in FILES:
            app.router.add_get(path, self._file)
        app.router.add_get("/api/state", self._state)
        app.router.add_get("/api/history", self._history)
        app.router.add_get("/api/changes", self._changes)
        app.router.add_get("/api/life", self._life)
        app.router.add_get("/api/export", self._export)
        return app

    @contextlib.asynccontextmanager
    async def serving(self, port: int) -> AsyncGenerator[None, None]:
        """Listens; port 0 becomes a real one. Raises OSError."""
        runner = web.AppRunner(
            self.application(), access_log=None, handler_cancellation=True, shutdown_timeout=0.5
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, LOOPBACK, port).start()
            self.admission.port = int(runner.addresses[0][1])
            yield
        finally:
            await runner.cleanup()

    # --- who may come in

    @web.middleware
    async def _admit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        refused = self._refusal(request)
        if refused is None:
            try:
                answer = await handler(request)
            except web.HTTPException as error:
                answer = web.Response(status=error.status, text=error.text)
        else:
            answer = refused
        if not answer.prepared:
            answer.headers.update(HEADERS)
        return answer

    def _refusal(self, request: web.Request) -> web.Response | None:
        admission, opening = self.admission, request.path == "/"
        if not admission.knows_host(request.host):
            return web.Response(status=421, text="this server has another name")
        if request.method != "GET":
            return web.Response(
                status=405, text="GET only: nothing is written here", headers={"Allow": "GET"}
            )
        if admission.from_elsewhere(request.headers.get("Sec-Fetch-Site", ""), opening=opening):
            return web.Response(status=403, text="asked by another site")
        if opening and "token" in request.query:
            return self._exchange(request.query["token"])
        if not admission.takes_cookie(request.cookies.get(admission.cookie_name, "")):
            return web.Response(status=401, text=NO_ACCESS, content_type="text/html")
        return None

    def _exchange(self, token: str) -> web.Response:
        if not self.admission.takes_token(token):
            return web.Response(status=401, text=NO_ACCESS, content_type="text/html")
        answer = web.Response(status=303, headers={"Location": "/"})
        answer.set_cookie(
            self.admission.cookie_name, self.admission.cookie, httponly=True, samesite="Strict", path="/"
        )
        return answer

    # --- what is served

    async def _page(self, request: web.Request) -> web.Response:
        return web.Response(text=asset("page.html"), content_type="text/html")

    async def _file(self, request: web.Request) -> web.Response:
        return web.Response(text=asset(request.path[1:]), content_type=FILES[request.path])

    async def _state(self, request: web.Request) -> web.Response:
        return _json({"epoch": self._epoch, "facts": self._facts(), **self._model.state()})

    async def _history(self, request: web.Request) -> web.Response:
        return _json(shown(self._model.history))

    async def _life(self, request: web.Request) -> web.Response:
        query = request.query
        found = None
        if "volume" in query:
            found = volume_life(query["volume"], self._model)
        elif "node" in query:
            found = node_life(query["node"], self._model)
        if found is None:
            raise web.HTTPNotFound(text="not known here, neither now nor in the last hour")
        return _json(found)

    async def _changes(self, request: web.Request) -> web.StreamResponse:
        if self._open >= MOST_STREAMS:
            raise web.HTTPServiceUnavailable(text="too many pages are open")
        said = request.headers.get("Last-Event-ID") or request.query.get("since", "")
        version = int(said) if said.isdecimal() and len(said) < 19 else -1
        if request.query.get("epoch") != self._epoch:
            version = -1
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream", **HEADERS})
        self._open += 1
        try:
            await answer.prepare(request)
            async with contextlib.aclosing(self._streams.since(version)) as pieces:
                async for piece in pieces:
                    await answer.write(piece)
        except ConnectionError:
            pass
        finally:
            self._open -= 1
        return answer

    async def _export(self, request: web.Request) -> web.Response:
        moment = {
            "epoch": self._epoch,
            "facts": self._facts(),
            **self._model.state(),
            "history": shown(self._model.history, MOST_EXPORTED),
            "lives": self._lives(request.query.getall("volume", [])),
        }
        at = request.query.get("at", "")
        if at.isdecimal() and len(at) < 16:
            moment["at"] = int(at)
        text = standalone(asset("page.html"), asset("page.css"), as_one(asset), moment)
        headers = {"Content-Disposition": f'attachment; filename="mooring-{self._model.version}.html"'}
        return web.Response(text=text, content_type="text/html", headers=headers)

    def _lives(self, chosen: list[str]) -> dict[str, Any]:
        lives: dict[str, Any] = {}
        for table, key in islice(dict.fromkeys(self._worth_telling(chosen)), MOST_LIVES):
            if table == "volumes":
                lives[f"volume={key}"] = volume_life(key, self._model)
            else:
                lives[f"node={key}"] = node_life(key, self._model)
        return {key: life for key, life in lives.items() if life is not None}

    def _worth_telling(self, chosen: list[str]) -> Iterator[tuple[str, str]]:
        tables = self._model.tables
        yield from (("volumes", key) for key in chosen[:MOST_CHOSEN])
        for row in tables["stuck"].values():
            table, key = row.get("of", ("", ""))
            if table == "pods":
                yield from (("volumes", each) for each in tables["pods"].get(key, {}).get("volumes", ()))
            elif table:
                yield table, key
        yield from (("nodes", key) for key in tables["nodes"])
        yield from (("volumes", key) for key in tables["volumes"])


def shown(history: History, most: int = 0) -> list[Any]:
    """The history as the page takes it: version, time, and changes with before and after; with `most`, the
    latest changes up to that number."""
    batches, left = list(history), most or history.changes
    first = len(batches)
    while first and len(batches[first - 1].changes) <= left:
        first -= 1
        left -= len(batches[first].changes)
    return [[batch.version, batch.at, batch.changes] for batch in batches[first:]]


def asset(name: str) -> str:
    """A file of the page."""
    return (files("mooring.page") / "assets" / name).read_text("utf-8")


def _json(value: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")
