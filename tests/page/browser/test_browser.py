"""The page in a real browser: its views, live changes, hostile names, keys, narrow windows, accessibility."""

from __future__ import annotations

from importlib.resources import files
from itertools import zip_longest
from pathlib import Path
from typing import Any

import page_cluster as made
import pytest
from tests.page.browser.conftest import Show, Shown

from mooring.page.truth import Seen

HOSTILE = "<img src=x onerror=alert(1)>"
pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="module")]


async def rows(page: Any) -> list[str]:
    """What the list shows, row for row."""
    return await page.eval_on_selector_all(
        ".item:not([hidden])",
        """found => found.sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top)
                        .map(each => each.innerText.replace(/\\s+/g, ' ').trim())""",
    )


async def has(page: Any, text: str, where: str = "body") -> None:
    """Waits until the text is to be read there."""
    await page.wait_for_function(
        "([where, text]) => document.querySelector(where).innerText.replace(/\\s+/g, ' ').includes(text)",
        arg=[where, text],
    )


async def shows(page: Any, wanted: list[str], *, cut: bool = False) -> None:
    """Waits until the list shows these rows; with `cut`, until each begins so."""
    seen: list[str] = []
    for _ in range(100):
        shown = await rows(page)
        seen = [each[: len(want)] if cut else each for each, want in zip_longest(shown, wanted, fillvalue="")]
        if len(shown) == len(wanted) and seen == wanted:
            return
        await page.wait_for_timeout(50)
    assert seen == wanted


def silence(shown: Shown, name: str = "node-0") -> None:
    old = shown.model.world.nodes[name]
    held = tuple(each.name for each in shown.model.world.volumes.values() if each.name.startswith("v-0"))
    shown.change(old, made.node(name, ready="Unknown", in_use=held))


async def test_nodes_are_shown_with_their_volumes_and_these_with_their_pods(show: Show):
    async with show(*made.cluster(2, 2)) as shown:
        page = await shown.open()
        assert await rows(page) == [
            "node-0 ready",
            "v-0-0 1Gi p-v-0-0 in use",
            "v-0-1 1Gi p-v-0-1 in use",
            "node-1 ready",
            "v-1-0 1Gi p-v-1-0 in use",
            "v-1-1 1Gi p-v-1-1 in use",
        ]
        assert "Nothing waits" in await page.inner_text("#waiting")


async def test_a_change_is_shown_without_being_asked_for(show: Show):
    async with show(*made.cluster(1, 1)) as shown:
        page = await shown.open()
        old = made.attachment("v-0-0", "node-0")
        shown.change(old, made.attachment("v-0-0", "node-0", deleting=True))
        await has(page, "detaching", "#rows")


async def test_what_is_stuck_says_why_and_what_to_do(show: Show):
    async with show(*made.cluster(2, 1)) as shown:
        page = await shown.open()
        silence(shown)
        await has(page, "NodeNotAnswering", "#waiting")
        text = await page.inner_text("#waiting")
        assert "node-0 does not answer, and may still write" in text
        assert "pod/default/p-v-0-0" in text  # waits for this
        assert await page.inner_text(".copy code") == "mooring node confirm-dead node-0"
        assert await page.eval_on_selector_all(".item.stuck", "found => found.length") == 2


async def test_the_command_is_copied(show: Show):
    async with show(*made.cluster(1, 1)) as shown:
        page = await shown.open(permissions=["clipboard-read", "clipboard-write"])
        silence(shown)
        await page.click(".copy button")
        await has(page, "Copied", ".copy")
        assert await page.evaluate("navigator.clipboard.readText()") == "mooring node confirm-dead node-0"


async def test_where_true_differs_from_reported_it_stands_out(show: Show):
    async with show(*made.cluster(1, 1), truth=True) as shown:
        page = await shown.open()
        shown.see(Seen({"node-0": "on"}, {"v-0-0": {"node-0": "mounted"}}))
        await has(page, "mounted", "#rows")
        assert await page.query_selector(".differs") is None
        shown.see(Seen({"node-0": "off"}, {"v-0-0": {"node-0": "attached"}}))
        await has(page, "attached, no power", "#rows")
        assert await page.eval_on_selector_all(
            ".true.differs", "found => found.map(each => each.innerText)"
        ) == [
            "no power",
            "attached, no power",
        ]


async def test_a_volumes_life_has_milestones_and_steps(show: Show):
    async with show(*made.cluster(1, 1)) as shown:
        page = await shown.open()
        shown.change(made.attachment("v-0-0", "node-0"), made.attachment("v-0-0", "node-0", attached=False))
        await page.click(".item[aria-level='2']")
        await has(page, "What happened", "#life")
        text = await page.inner_text("#life")
        assert "Attached: waits" in text
        assert "in-use → attaching" in text
        assert "PersistentVolume created" in text


async def test_a_volume_that_a_pod_defines_is_shown_with_its_pod_and_its_life(show: Show):
    async with show(made.node("node-1"), made.pod("p", on="node-1", own=(made.NFS,))) as shown:
        page = await shown.open()
        assert await rows(page) == ["node-1 ready", "p/share p used"]
        await page.click(".item[aria-level='2']")
        await has(page, "Its way", "#life")
        text = await page.inner_text("#life")
        assert "defined by its pod" in text
        assert "nfs" in text
        assert "Claim" not in text


async def test_a_nodes_life_is_shown(show: Show):
    async with show(*made.cluster(1, 1)) as shown:
        page = await shown.open()
        silence(shown)
        await page.click(".item[aria-level='1'] .words")
        await has(page, "ready → silent", "#life")
        assert "Why it is stuck" in await page.inner_text("#life")


async def test_the_past_is_shown_and_the_present_again(show: Show):
    async with show(*made.cluster(1, 1)) as shown:
        page = await shown.open()
        silence(shown)
        await has(page, "does not answer", "#rows")
        for _ in range(2):
            await page.click("#earlier")
        await has(page, "ready", "#rows")
        assert "Nothing waits" in await page.inner_text("#waiting")
        shown.change(None, made.volume("later", phase="Available"))  # the present goes on, unseen
        await page.wait_for_timeout(200)
        assert "later" not in await page.inner_text("#rows")
        await page.click("#live")
        await has(page, "later", "#rows")
        assert "does not answer" in await page.inner_text("#rows")


async def test_a_hostile_name_is_text_everywhere(show: Show):
    evil = made.volume(HOSTILE, claim=HOSTILE)
    pod = made.pod(HOSTILE, on="n", claims=(HOSTILE,), runs=False)
    objects = (made.node("n"), evil, made.claim(HOSTILE), pod, made.event(pod, "FailedMount", HOSTILE))
    async with show(*objects) as shown:
        page = await shown.open()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("dialog", lambda dialog: asked.append("dialog"))
        await has(page, HOSTILE, "#rows")
        await page.click(f"#waiting button:has-text('{HOSTILE[:8]}')")
        await has(page, HOSTILE, "#life")
        await page.fill("#search", HOSTILE)
        await has(page, HOSTILE, "#rows")
        assert (
            await page.eval_on_selector_all("img, #rows script, #panel script", "found => found.length") == 0
        )
        assert not [each for each in asked if "/api/" not in each]


async def test_only_what_is_seen_is_drawn(show: Show):
    async with show(*made.cluster(5, 50)) as shown:
        page = await shown.open()
        assert await page.eval_on_selector_all(".item", "found => found.length") < 80
        await page.evaluate("document.querySelector('#list').scrollTop = 1e9")
        await has(page, "v-4-49", "#rows")


async def test_twenty_thousand_volumes_are_shown_live(show: Show):
    async with show(*made.cluster(400, 50), explained=False) as shown:
        page = await shown.open()
        await has(page, "20,000 in use", "#summary")
        assert len(await rows(page)) < 60  # nodes begin folded
        shown.change(None, made.attachment("v-0-0", "node-0", deleting=True))
        await has(page, "1 detaching", "#summary")
        await page.fill("#search", "v-399-49")
        await shows(page, ["node-399 ready", "v-399-49 1Gi p-v-399-49 in use"])


async def test_who_has_fallen_too_far_behind_begins_anew(show: Show):
    async with show(*made.cluster(1, 1)) as shown:
        page = await shown.open()
        shown.model.apply(None, made.volume("unsaid", phase="Available"))
        shown.model.flush()
        shown.model.history.forget(10**15)
        shown.change(None, made.volume("said", phase="Available"))
        await has(page, "unsaid", "#rows")


async def test_search_and_counts_narrow_the_list(show: Show):
    async with show(*made.cluster(3, 3)) as shown:
        page = await shown.open()
        await page.keyboard.press("/")
        await page.keyboard.type("v-1-2")
        await has(page, "v-1-2", "#rows")
        await shows(page, ["node-1 ready", "v-1-2 1Gi p-v-1-2 in use"])
        await page.keyboard.press("Escape")
        silence(shown)
        await page.click("#summary button:has-text('does not answer')")
        await shows(page, ["node-0 does not answer NodeNotAnswering"], cut=True)


async def test_all_is_done_by_keys_alone(show: Show):
    async with show(*made.cluster(2, 2)) as shown:
        page = await shown.open()
        await page.focus("#list")
        for key in ("ArrowDown", "ArrowDown", "Enter"):
            await page.keyboard.press(key)
        await has(page, "v-0-0", "#life")
        active = await page.get_attribute("#list", "aria-activedescendant")
        assert (await page.inner_text(f"#{active}")).startswith("v-0-0")
        await page.keyboard.press("Escape")
        await page.wait_for_selector("#life", state="hidden")
        for key in ("ArrowLeft", "ArrowLeft"):
            await page.keyboard.press(key)
        await shows(page, ["node-0", "node-1", "v-1-0", "v-1-1"], cut=True)
        await page.keyboard.press("?")
        await page.wait_for_selector("#keys")
        await page.keyboard.press("Escape")
        await page.wait_for_selector("#keys", state="hidden")


async def test_a_tab_of_400_pixels_shows_all_without_scrolling_sideways(show: Show):
    async with show(*made.cluster(2, 2)) as shown:
        page = await shown.open(viewport={"width": 400, "height": 720})
        silence(shown)
        await has(page, "waiting", "#fold-panel")
        assert await page.evaluate("document.documentElement.scrollWidth") <= 400
        assert len(await rows(page)) == 6
        await page.click("#fold-panel")
        await page.wait_for_selector("#waiting .card")
        assert await page.evaluate("document.querySelector('#panel-body').scrollWidth") <= 400


async def test_nothing_jumps_when_something_gets_stuck(show: Show):
    async with show(*made.cluster(2, 2)) as shown:
        page = await shown.open()
        where = "document.querySelector('#list').getBoundingClientRect().toJSON()"
        before = await page.evaluate(where)
        silence(shown)
        await has(page, "NodeNotAnswering", "#waiting")
        assert await page.evaluate(where) == before


async def test_a_right_that_is_missing_is_said(show: Show):
    async with show(*made.cluster(1, 1)) as shown:
        shown.reads.append({"kind": "events", "message": "forbidden", "right": "get, list, watch"})
        page = await shown.open()
        await has(page, "You may not read events", "#waiting")


async def test_the_shared_file_stands_alone(show: Show, tmp_path: Path):
    async with show(*made.cluster(1, 1), made.volume(HOSTILE)) as shown:
        page = await shown.open(accept_downloads=True)
        silence(shown)
        await has(page, "does not answer", "#rows")
        async with page.expect_download() as download:
            await page.click("#export")
        file = tmp_path / "moment.html"
        await (await download.value).save_as(file)
        alone = await shown.browser.new_page()
        alone.on("pageerror", lambda error: shown.said.append(f"error: {error}"))
        alone.on("console", lambda message: shown.said.append(f"{message.type}: {message.text}"))
        asked: list[str] = []
        alone.on("request", lambda request: asked.append(request.url))
        await alone.goto(file.as_uri())
        await has(alone, "does not answer", "#rows")
        await has(alone, HOSTILE, "#rows")
        await alone.click("#earlier")
        await alone.click("#earlier")
        await has(alone, "ready", "#rows")
        await alone.click(".item[aria-level='2']")
        await has(alone, "Its way", "#life")
        assert asked == [file.as_uri()]


async def test_dark_and_light_are_as_the_browser_says(show: Show):
    async with show(*made.cluster(1, 1)) as shown:
        seen = []
        for scheme in ("light", "dark"):
            page = await shown.open(color_scheme=scheme)
            seen.append(await page.evaluate("getComputedStyle(document.body).backgroundColor"))
        assert len(set(seen)) == 2


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_nothing(show: Show, scheme: str):
    """All of axe-core's rules, on each view."""
    axe = files("axe_playwright_python") / "axe.min.js"
    async with show(*made.cluster(2, 2), truth=True) as shown:
        page = await shown.open(color_scheme=scheme, bypass_csp=True)
        silence(shown)
        shown.see(Seen({"node-0": "off"}, {"v-0-0": {"node-0": "attached"}}))
        await has(page, "NodeNotAnswering", "#waiting")
        assert await violations(page, axe.read_text()) == []
        await page.click(".item[aria-level='2']")
        await has(page, "Its way", "#life")
        assert await violations(page, axe.read_text()) == []
        await page.keyboard.press("?")
        assert await violations(page, axe.read_text()) == []


async def violations(page: Any, axe: str) -> list[Any]:
    await page.evaluate(axe)
    return await page.evaluate(
        "axe.run().then(found => found.violations.map(each => [each.id, each.nodes.map(node => node.html)]))"
    )
