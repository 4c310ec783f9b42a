"""JSON bodies: read or refused, at most 200 levels deep, and what is read can be written."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.apiserver.encodings.body import read, repeated_fields
from mooring.apiserver.errors import ApiError

SEEDS = [
    b'{"kind":"Pod","a":[1,2.5,null,true,"x"]}',
    b"[[[[[[]]]]]]",
    b'{"a":1,"a":2}',
    b'"\\ud83d\\ude00"',
    b"1e5",
]


def depth(value: Any) -> int:
    """How deep lists and objects are nested."""
    here, deep = [value], 0
    while here := [
        each
        for one in here
        if isinstance(one, dict | list)
        for each in (one.values() if isinstance(one, dict) else one)
    ]:
        deep += 1
    return deep


def check(data: bytes) -> None:
    try:
        value = read(data, "application/json")
    except ApiError:
        return
    assert depth(value) <= 202
    assert msgspec.json.decode(msgspec.json.encode(value)) == value
    repeated_fields(data)
