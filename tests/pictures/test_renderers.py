"""What renderers make of it: CairoSVG, which knows neither `paint-order` nor media queries, and a browser,
which says how wide texts really are.

Each is skipped where it is not there, and says so.
"""

from __future__ import annotations

import io
import os
import shutil

import pytest

from mooring.pictures.looks import Look
from mooring.pictures.model import Band, Group, Lane, Line, Mark, Panel, Picture, Row, Shade, Stretch
from mooring.pictures.picture import render

CHROMIUM = os.environ.get("MOORING_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
PICTURE = Picture(
    "One volume, 3 nodes: what the API reports, and what is true",
    [
        Panel(
            [
                Group(
                    "data-recorder-0",
                    [
                        Row(f"node-{n}", [Lane("reported"), Lane("true", [Band(n, n + 2, Look.MOUNTED)])])
                        for n in (1, 2)
                    ],
                    [
                        Line(
                            "pod recorder-0",
                            [Stretch(1, 4, "on node-1"), Stretch(4, 9, "away 5.0 s", away=True)],
                        )
                    ],
                    [Shade(2, 3, "Two nodes COULD have written: waited, because WHICH & WHAT", wrong=True)],
                )
            ],
            10,
            marks=[Mark(0.1 * number, f"Event @ {number}: MMWW — kill -9") for number in range(5)],
        )
    ],
    ["S7: No detach begins, or takes effect, while the device is mounted on that node. ὕδωρ 水 שלום"],
    ["    92.007 s  the API says of data-db-0 on n1: detaching"],
)


def test_cairosvg_shows_the_labels():
    try:
        import cairosvg
        from PIL import Image
    except (ImportError, OSError) as error:
        pytest.skip(f"needs CairoSVG and the library cairo: {error}")

    def inked(label: str) -> int:
        """Pixels that are as dark as ink."""
        drawn = render(Picture("", [Panel([], 10, marks=[Mark(5, label)])]))
        image = Image.open(io.BytesIO(cairosvg.svg2png(drawn.encode()))).convert("L")
        return sum(image.histogram()[:100])

    assert inked("WWWWWWWW") > inked(" ") + 50


async def test_texts_are_no_wider_in_a_browser_than_they_were_taken_for():
    api = pytest.importorskip("playwright.async_api", reason="no Playwright: make setup")
    if not CHROMIUM:
        pytest.skip("no Chromium: apt-get install --no-install-recommends chromium")
    async with api.async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = await browser.new_page(viewport={"width": 1280, "height": 800})
        await page.set_content(f"<body style='margin:0'>{render(PICTURE)}</body>")
        boxes = await page.evaluate(
            "[...document.querySelectorAll('svg text')].map(t => {const b = t.getBBox();"
            "return [b.x, b.y, b.x + b.width, b.y + b.height, t.lastChild.data]})"
        )
        size = await page.evaluate(
            "(b => [b.width, b.height])(document.querySelector('svg').viewBox.baseVal)"
        )
        await browser.close()
    assert len(boxes) > 20
    for number, one in enumerate(boxes):
        assert one[0] >= 0, one
        assert one[2] <= size[0], one
        for other in boxes[number + 1 :]:
            apart = (
                one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] + 4 or other[3] <= one[1] + 4
            )
            assert apart, (one, other)
