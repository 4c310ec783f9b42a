"""Who is let in, what is answered, and that nothing can be written."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import page_cluster as made
import pytest
from page_cluster import model, settle
from yarl import URL

from mooring.page.model import Model
from mooring.page.server import PageServer
from mooring.page.streams import Streams

HOSTILE = "<img src=x onerror=alert(1)>"


class Page:
    """A page that is served, and a browser's cookie jar."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.streams = Streams(model)
        self.streams.facts = dict
        self.server = PageServer(model, self.streams, dict)
        self.session = aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.server.admission.port}"

    async def get(self, path: str, **options: Any) -> tuple[int, str]:
        async with self.session.get(URL(self.base + path, encoded=True), **options) as answer:
            return answer.status, await answer.text()

    async def enter(self) -> None:
        async with self.session.get(self.server.address) as answer:
            assert answer.status == 200

    def change(self, old: Any, new: Any) -> None:
        self.model.apply(old, new)
        if (batch := self.model.flush()) is not None:
            self.streams.tell(batch)


@contextlib.asynccontextmanager
async def served(*objects: Any) -> AsyncIterator[Page]:
    page = Page(settle(model(), *objects))
    page.model.record()
    async with page.server.serving(0), page.session:
        yield page


async def test_without_the_cookie_nothing_is_shown():
    async with served(made.volume("secret-name")) as page:
        for path in (
            "/",
            "/js/main.js",
            "/api/state",
            "/api/history",
            "/api/life?volume=v",
            "/api/export",
            "/x",
        ):
            status, text = await page.get(path)
            assert status == 401
            assert "secret-name" not in text


async def test_the_token_is_exchanged_for_a_cookie_that_no_script_and_no_other_site_gets():
    async with served() as page:
        async with page.session.get(page.server.address, allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (303, "/")
            cookie = answer.headers["Set-Cookie"]
            assert "HttpOnly" in cookie
            assert "SameSite=Strict" in cookie
            assert page.server.admission.token not in cookie
        status, text = await page.get("/")
        assert (status, page.server.admission.token in text) == (200, False)


@pytest.mark.parametrize("token", ["", "wrong", "%E2%82%AC", "a" * 1000])
async def test_a_wrong_token_gives_no_cookie(token: str):
    async with served() as page:
        where = URL(f"{page.base}/?token={token}", encoded=True)
        async with page.session.get(where) as answer:
            assert answer.status == 401
            assert "Set-Cookie" not in answer.headers


async def test_the_cookie_of_another_page_on_this_host_is_none():
    async with served() as page, served() as other:
        await other.enter()
        (cookie,) = other.session.cookie_jar
        name = page.server.admission.cookie_name
        status, _ = await page.get("/api/state", headers={"Cookie": f"{name}={cookie.value}"})
        assert status == 401


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:{port}", ""]
)
async def test_a_request_by_another_name_is_refused_also_with_the_token(host: str):
    async with served() as page:
        await page.enter()
        named = host.replace("{port}", str(page.server.admission.port))
        for path in ("/api/state", f"/?token={page.server.admission.token}"):
            status, text = await page.get(path, headers={"Host": named})
            assert status in (400, 421)
            assert "volumes" not in text


async def test_this_host_has_three_names():
    async with served() as page:
        await page.enter()
        for name in ("127.0.0.1", "localhost", "[::1]"):
            status, _ = await page.get("/api/state", headers={"Host": f"{name}:{page.server.admission.port}"})
            assert status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "TRACE", "NONSENSE"])
async def test_nothing_but_get_is_answered(method: str):
    async with served() as page:
        await page.enter()
        for path in ("/", "/api/state", "/api/changes", "/x"):
            async with page.session.request(method, page.base + path) as answer:
                assert answer.status in (400, 405)


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_another_sites_page_may_link_here_and_read_nothing(site: str):
    async with served() as page:
        await page.enter()
        headers = {"Sec-Fetch-Site": site}
        assert (await page.get("/", headers=headers))[0] == 200
        for path in ("/api/state", "/js/main.js", "/api/changes", "/api/export"):
            assert (await page.get(path, headers=headers))[0] == 403


async def test_every_answer_carries_the_strict_policy():
    async with served() as page:
        for path in ("/", "/x", "/api/state"):
            async with page.session.get(page.base + path) as answer:
                assert_strict(answer.headers)
        await page.enter()
        for path in (
            "/",
            "/js/main.js",
            "/page.css",
            "/page.svg",
            "/api/state",
            "/api/life?volume=x",
            "/api/changes",
            "/x",
        ):
            async with page.session.get(page.base + path) as answer:
                assert_strict(answer.headers)


def assert_strict(headers: Any) -> None:
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert "Access-Control-Allow-Origin" not in headers


async def test_the_page_has_no_inline_script_or_style():
    async with served() as page:
        await page.enter()
        _, text = await page.get("/")
        assert text.count("<script") == 1
        assert '<script type="module" src="/js/main.js"></script>' in text
        assert "<style" not in text
        assert " style=" not in text
        assert " onclick" not in text


async def test_the_state_has_the_rows_and_a_hostile_name_is_json_only():
    async with served(made.volume(HOSTILE)) as page:
        await page.enter()
        async with page.session.get(f"{page.base}/api/state") as answer:
            assert answer.content_type == "application/json"
            assert HOSTILE in (await answer.json())["volumes"]
        status, text = await page.get("/api/export")
        assert status == 200
        assert HOSTILE not in text


async def events(answer: aiohttp.ClientResponse, number: int) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    kind = ""
    async for line in answer.content:
        name, _, value = line.decode().strip().partition(": ")
        if name == "event":
            kind = value
        elif name == "data":
            found.append((kind, json.loads(value)))
            if len(found) == number:
                break
    return found


async def test_a_change_is_sent_and_only_what_has_changed():
    async with served(*made.cluster(2, 2)) as page:
        await page.enter()
        state = json.loads((await page.get("/api/state"))[1])
        where = f"{page.base}/api/changes?epoch={state['epoch']}&since={state['version']}"
        async with page.session.get(where) as answer:
            page.change(None, made.volume("new", phase="Available"))
            ((kind, data),) = await events(answer, 1)
        assert kind == "delta"
        assert [(table, key) for table, key, _ in data["changes"]] == [("volumes", "new")]


async def test_who_comes_back_is_sent_what_came_meanwhile():
    async with served() as page:
        await page.enter()
        state = json.loads((await page.get("/api/state"))[1])
        where = f"{page.base}/api/changes?epoch={state['epoch']}&since=0"
        page.change(None, made.volume("a"))
        page.change(None, made.volume("b"))
        headers = {"Last-Event-ID": str(page.model.version - 1)}
        async with page.session.get(where, headers=headers) as answer:
            ((_, data),) = await events(answer, 1)
        assert [key for _, key, _ in data["changes"]] == ["b"]


@pytest.mark.parametrize("query", ["", "?epoch=another&since=1", "?since=x", "?epoch={epoch}&since=999999"])
async def test_who_has_another_state_is_told_to_begin_anew(query: str):
    async with served(made.volume("v")) as page:
        await page.enter()
        epoch = json.loads((await page.get("/api/state"))[1])["epoch"]
        async with page.session.get(f"{page.base}/api/changes{query.replace('{epoch}', epoch)}") as answer:
            assert await events(answer, 1) == [("reset", {})]


async def test_there_is_a_bound_on_open_pages(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("mooring.page.server.MOST_STREAMS", 1)
    async with served() as page:
        await page.enter()
        state = json.loads((await page.get("/api/state"))[1])
        where = f"/api/changes?epoch={state['epoch']}&since={state['version']}"
        async with page.session.get(page.base + where):
            assert (await page.get(where))[0] == 503


async def test_a_stream_ends_with_the_server():
    async with served() as page:
        await page.enter()
        state = json.loads((await page.get("/api/state"))[1])
        where = f"{page.base}/api/changes?epoch={state['epoch']}&since={state['version']}"
        cookies = {page.server.admission.cookie_name: page.server.admission.cookie}
        elsewhere = aiohttp.ClientSession(cookies=cookies)
        answer = await elsewhere.get(where)
        assert answer.status == 200
    async with elsewhere, answer:
        with contextlib.suppress(aiohttp.ClientError):
            assert await asyncio.wait_for(answer.content.read(), 10) == b""


async def test_a_life_that_is_not_known_is_404_and_says_no_name():
    async with served() as page:
        await page.enter()
        status, text = await page.get("/api/life?volume=%3Cscript%3E")
        assert status == 404
        assert "script" not in text


async def test_the_exported_file_has_the_moment_the_hour_and_the_lives():
    async with served(*made.cluster(1, 2)) as page:
        await page.enter()
        page.change(None, made.volume("new", phase="Available"))
        status, text = await page.get("/api/export?at=1234")
        assert status == 200
        state = json.loads(text.partition('id="state">')[2].partition("</script>")[0])
        assert state["at"] == 1234
        assert len(state["history"]) == 1
        assert {"volume=v-0-0", "node=node-0"} <= set(state["lives"])
