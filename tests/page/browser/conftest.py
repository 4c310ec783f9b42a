"""A real browser on a page that is really served: Debian's Chromium, driven by Playwright.

Where one of the two is missing the tests here are skipped, and say which, unless MOORING_BROWSER is set: then
that is an error.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import page_cluster as made
import pytest
import pytest_asyncio

from mooring.kube.objects import Object
from mooring.page.model import Model
from mooring.page.server import PageServer
from mooring.page.streams import Streams
from mooring.page.truth import Seen

CHROMIUM = os.environ.get("MOORING_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


def missing() -> str:
    """What is missing for these tests, and how it is had; "" if nothing is."""
    try:
        import playwright.async_api  # noqa: F401
    except ImportError:
        return "no Playwright: make setup"
    return "" if CHROMIUM else "no Chromium: apt-get install --no-install-recommends chromium"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    why = missing()
    if not why:
        return
    if os.environ.get("MOORING_BROWSER"):
        raise pytest.UsageError(f"MOORING_BROWSER is set, and there is {why}")
    for item in items:
        if "tests/page/browser" in str(item.path):
            item.add_marker(pytest.mark.skip(reason=why))


class Shown:
    """A page in a browser, and the model behind it."""

    def __init__(self, browser: Any, model: Model, *, truth: bool, explained: bool) -> None:
        self.model, self.browser, self.truth, self.explained = model, browser, truth, explained
        self.streams = Streams(model)
        self.streams.facts = self.facts
        self.server = PageServer(model, self.streams, self.facts)
        self.said: list[str] = []
        self.reads: list[dict[str, str]] = []
        self.page: Any = None

    def facts(self) -> dict[str, Any]:
        return {
            "cluster": "https://127.0.0.1:6443",
            "now": made.NOW_MS,
            "truth": self.truth,
            "connected": True,
            "reads": self.reads,
            "begun": True,
        }

    async def open(self, **context: Any) -> Any:
        """A new window, as `browser.new_context` takes it. What the browser complains of is in `said`."""
        options: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}, **context}
        window = await self.browser.new_context(**options)
        self.page = await window.new_page()
        self.page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        await self.page.goto(self.server.address)
        await self.page.wait_for_selector("body[data-painted]", timeout=60_000)
        return self.page

    async def close(self) -> None:
        if self.page is not None:
            await self.page.context.close()

    def change(self, old: Object | None, new: Object | None) -> None:
        """One change of the cluster, told to the browser."""
        self.model.apply(old, new)
        self.tell()

    def see(self, seen: Seen) -> None:
        self.model.see(seen)
        self.tell()

    def tell(self) -> None:
        for batch in (self.model.flush(), self.model.explain(lambda: False) if self.explained else None):
            if batch is not None:
                self.streams.tell(batch)


Show = Callable[..., AbstractAsyncContextManager[Shown]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Any]:
    from playwright.async_api import async_playwright

    async with async_playwright() as tool:
        started = await tool.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        await started.close()


@pytest.fixture
def show(browser: Any) -> Show:
    """Serves a page about these objects, in which all is well until something is changed."""

    @contextlib.asynccontextmanager
    async def showing(
        *objects: Object, truth: bool = False, explained: bool = True
    ) -> AsyncGenerator[Shown, None]:
        moment = iter(range(made.NOW_MS, made.NOW_MS + 10**9, 10))
        shown = Shown(browser, made.model(now=lambda: next(moment)), truth=truth, explained=explained)
        for each in objects:
            shown.model.apply(None, each)
        shown.model.record()
        shown.model.explain(lambda: not explained)
        shown.model.history.forget(10**15)  # all is as it began
        async with shown.server.serving(0):
            yield shown
            await shown.close()
            complaints = [each for each in shown.said if not each.startswith(("debug", "log"))]
            assert complaints == []

    return showing
