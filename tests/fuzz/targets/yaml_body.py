"""YAML bodies: read or refused, at most 200 levels deep, no more than three mebibytes of it from aliases, and
JSON."""

from __future__ import annotations

import msgspec
from tests.fuzz.targets.json_body import depth

from mooring.apiserver.encodings.yaml_body import MAX_REPEATED_BYTES, BadYaml, load

SEEDS = [
    b"kind: Pod\nmetadata:\n  name: x\nspec:\n  containers:\n  - name: a\n    args: ['1', 2, 0x3]\n",
    b"a: &a [x, y]\nb: &b [*a, *a]\nc: [*b, *b]\n",
    b"a: &x {k: 1}\nb: {<<: *x, l: !!str 2}\n",
    b"- !!binary aGk=\n- >\n  folded\n  text\n- |+\n  kept\n\n---\nb: 2\n",
    b"? complex\n: {yes: no, ~: null}\n",
]


def check(data: bytes) -> None:
    try:
        value = load(data, 200)
    except BadYaml:
        return
    assert depth(value) <= 202
    written = msgspec.json.encode(value)
    assert len(written) <= MAX_REPEATED_BYTES * 6 + len(data) * 8
    msgspec.json.decode(written)
