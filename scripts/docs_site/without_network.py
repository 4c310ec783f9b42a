"""A hook of mkdocs: nothing is fetched from outside when the site is read.

For search in a site that was opened as a file, the theme fetches a script; here that is one of our own.
"""

from __future__ import annotations

import re
from typing import Any

FETCHED = "https://unpkg.com/iframe-worker/shim"
OURS = "assets/worker_in_frame.js"
OUTSIDE = re.compile(r"<(?:script|img|iframe)[^>]*\ssrc=\"?https?://[^>]*>|<link[^>]*\shref=\"?https?://[^>]*>")


def on_post_page(output: str, *, page: Any, config: Any) -> str:
    """Raises ValueError for a page that would fetch something else."""
    depth = page.file.dest_uri.count("/")
    return local(output, "../" * depth, page.file.dest_uri)


def on_post_template(output_content: str, *, template_name: str, config: Any) -> str:
    """The pages that no text is the source of: 404.html."""
    return local(output_content, "/", template_name) if template_name.endswith(".html") else output_content


def local(html: str, up: str, where: str) -> str:
    """The page with our own script, `up` being the way to the site's root."""
    found = html.replace(FETCHED, f"{up}{OURS}")
    if (outside := OUTSIDE.search(found)) is not None:
        raise ValueError(f"{where} would fetch {outside[0]}")
    return found
