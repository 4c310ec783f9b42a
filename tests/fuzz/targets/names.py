"""Names of objects: one segment of a path that means itself, one entry of a directory, one line for a
terminal."""

from __future__ import annotations

import os
from urllib.parse import unquote

from mooring.kube.errors import InvalidRequest
from mooring.kube.objects.segments import LONGEST_SEGMENT, segment
from mooring.kube.printable import printable
from mooring.kube.selectors import field_equals, parse_field_selector
from mooring.volumes.directories import entry
from mooring.volumes.errors import InvalidSpec

SEEDS = [
    b"web-0",
    b"x HTTP/1.1\r\nHost: h\r\n\r\nDELETE /api/v1/namespaces/victim/secrets/precious?x=",
    b"..",
    b"a%2fb",
    b"system:node:a",
    "größe\u202e".encode(),
    b"a,b=c\\d",
    b"\x1b[2J",
]
_SHORT = 10_000


def check(data: bytes) -> None:
    name = data.decode(errors="surrogateescape")
    try:
        made = segment(name)
    except InvalidRequest:
        pass
    else:
        assert made.isascii() and made.isprintable() and len(made) <= LONGEST_SEGMENT
        assert not set(made) & set(' /?#"<>\\^`{|}[]')
        assert made not in (".", "..") and unquote(made) == name and "/" not in name
    try:
        path = os.path.normpath(f"/base/{entry(name)}")
    except InvalidSpec:
        pass
    else:
        assert path == f"/base/{name}" and os.path.dirname(path) == "/base"
    shown = printable(name)
    assert len(shown.splitlines()) <= 1 and "\x1b" not in shown
    if len(name) < _SHORT:
        assert parse_field_selector(field_equals("metadata.name", name)).terms == (
            ("metadata.name", True, name),
        )
