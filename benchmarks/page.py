"""The live page with many volumes: what a change costs the server, and what it costs a browser to draw it.

    python -m benchmarks.page [NODES VOLUMES_EACH]

Needs Debian's Chromium and Playwright (`make setup`).
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from collections.abc import Callable
from typing import Any

sys.path.append("tests/doubles")

import page_cluster as made
from playwright.async_api import async_playwright

from mooring.page.model import Model
from mooring.page.server import PageServer
from mooring.page.streams import Streams

CHANGES = 100


def timed(what: str, work: Callable[[], object]) -> None:
    began = time.perf_counter()
    work()
    print(f"{what}: {(time.perf_counter() - began) * 1000:.1f} ms")


def fill(model: Model, nodes: int, volumes: int) -> None:
    objects = list(made.cluster(nodes, volumes))

    def rows() -> None:
        while model.behind:
            model.flush()

    timed(f"{len(objects)} objects taken", lambda: [model.apply(None, each) for each in objects])
    timed("all rows made", rows)
    timed("everything explained", lambda: model.explain(lambda: False))
    model.record()


class Told:
    """The model, its server, and what a change does."""

    def __init__(self, nodes: int, volumes: int) -> None:
        self.model = made.model(now=lambda: int(time.time() * 1000))
        fill(self.model, nodes, volumes)
        self.streams = Streams(self.model)
        self.streams.facts = self.facts
        self.server = PageServer(self.model, self.streams, self.facts)

    def facts(self) -> dict[str, Any]:
        now = int(time.time() * 1000)
        return {
            "cluster": "a made-up cluster",
            "now": now,
            "truth": False,
            "connected": True,
            "reads": [],
            "begun": True,
        }

    def tell(self) -> None:
        while self.model.busy:
            for batch in (self.model.flush(), self.model.explain(lambda: False)):
                if batch is not None:
                    self.streams.tell(batch)

    def move(self, number: int, nodes: int) -> None:
        volume, node = f"v-{number % nodes}-0", f"node-{number % nodes}"
        self.model.apply(None, made.attachment(volume, node, deleting=number // nodes % 2 == 0))
        self.tell()


async def measured(page: Any, what: str) -> None:
    """What drawing took since the last call, in the browser's own measure."""
    script = (
        "() => { const found = performance.getEntriesByName('mooring-update').map(each => each.duration);"
    )
    took = sorted(await page.evaluate(script + " performance.clearMeasures(); return found; }"))
    if took:
        middle, late = took[len(took) // 2], took[int(len(took) * 0.95)]
        print(
            f"{what}: drawn {len(took)} times, median {middle:.1f} ms, p95 {late:.1f} ms, most {took[-1]:.1f} ms"
        )


async def main(nodes: int, volumes: int) -> None:
    told = Told(nodes, volumes)
    async with told.server.serving(0), async_playwright() as tool:
        browser = await tool.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = await browser.new_page(viewport={"width": 1360, "height": 820})
        await page.goto(told.server.address)
        await page.wait_for_selector("body[data-painted]")
        first = await page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        print(
            f"first paint: {first:.0f} ms; with all rows: {await page.get_attribute('body', 'data-painted')} ms"
        )
        for folded in (True, False):
            await measured(page, "at first")
            for number in range(CHANGES):
                told.move(number if folded else number + nodes, nodes)
                await asyncio.sleep(0.02)
            await page.wait_for_timeout(300)
            await measured(page, f"{CHANGES} changes, nodes {'folded' if folded else 'unfolded'}")
            await page.click("#fold")
        scroll = "async () => { const list = document.querySelector('#list'); for (let i = 0; i < 60; i++) {"
        await page.evaluate(
            scroll + "list.scrollTop += 700; await new Promise(r => requestAnimationFrame(r)); } }"
        )
        await measured(page, "scrolling")
        timed("a node falls silent", lambda: (told.model.apply(None, silent(volumes)), told.tell()))
        await browser.close()


def silent(volumes: int) -> Any:
    return made.node("node-3", ready="Unknown", in_use=tuple(f"v-3-{each}" for each in range(volumes)))


if __name__ == "__main__":
    asyncio.run(main(*(int(each) for each in sys.argv[1:3] or ("400", "50"))))
