"""One moment of the page as one file that stands alone: markup, style, script and state. Pure.

The file's own policy allows its style and its script by their hashes, and nothing else: no address, and no
script that a name might contain. The state is JSON in an element of its own, in which no `<` is left.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import msgspec

STYLE, SCRIPT = "<!-- style -->", "<!-- script -->"
"""Where the page's markup has its links to style and script, each in a line of its own."""


def embedded(value: Any) -> str:
    """JSON that an element `script` can hold: it cannot end that element, nor begin a comment in it."""
    text = msgspec.json.encode(value).decode()
    for character, escape in (
        ("<", "\\u003c"),
        (">", "\\u003e"),
        ("&", "\\u0026"),
        ("\u2028", "\\u2028"),
        ("\u2029", "\\u2029"),
    ):
        text = text.replace(character, escape)
    return text


def standalone(markup: str, style: str, script: str, moment: Any) -> str:
    """The whole file. Raises ValueError if the style or the script could end its own element."""
    if "</" in style or "</script" in script.lower() or "<!--" in script:
        raise ValueError("the page's own style or script would end its element")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>'
    body = (
        f'<script type="application/json" id="state">{embedded(moment)}</script>\n'
        f'<script type="module">{script}</script>'
    )
    return _replaced(_replaced(markup, STYLE, head), SCRIPT, body)


def _replaced(markup: str, mark: str, by: str) -> str:
    """Replaces the line after the mark, which is the link for the server's page."""
    before, _, rest = markup.partition(mark)
    return before + by + "\n" + rest.partition("\n")[2].partition("\n")[2]


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
