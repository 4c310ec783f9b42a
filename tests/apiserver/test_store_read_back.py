"""What a store makes of its log when it is opened: what was written, or an error that names what was not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from noted_log import no_fields

from mooring.apiserver.errors import LogCorrupt
from mooring.apiserver.store.log import Batch, MemoryLog, Record
from mooring.apiserver.store.object_store import Store

WHOLE = {"uid": "u", "namespace": "ns", "name": "a", "resourceVersion": "1"}
NAMED = r"things ns/a of version 1 does not read back"


def opened(body: bytes, namespace: str = "ns") -> Store:
    """A store whose log has the object a, of version 1, with these bytes."""
    log = MemoryLog()
    log.append(Batch([Record(1, "things", namespace, "a", False, body)], [], 0))
    return Store(log, no_fields)


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in WHOLE.items() if name != key}


@pytest.mark.parametrize(
    ("metadata", "namespace"),
    [
        pytest.param(WHOLE, "ns", id="an object of a namespace"),
        pytest.param(without("namespace"), "", id="an object of none"),
        pytest.param({**WHOLE, "namespace": None}, "", id="which may be said"),
        pytest.param({"uid": "u", "resourceVersion": "1"}, "ns", id="what the server keeps without a name"),
    ],
)
def test_what_was_written_is_there_again(metadata: dict[str, Any], namespace: str):
    (item,) = opened(json.dumps({"metadata": metadata}).encode(), namespace).list("things")
    assert (item.key, item.uid, item.version) == ((namespace, "a"), "u", 1)


@pytest.mark.parametrize(
    "metadata",
    [
        {**WHOLE, "uid": ""},
        {**WHOLE, "name": "other"},
        {**WHOLE, "namespace": "other"},
        without("namespace"),
        {**WHOLE, "resourceVersion": "2"},
        {**WHOLE, "resourceVersion": 1},
    ],
)
def test_an_object_that_stands_where_another_one_was_written_is_named(metadata: dict[str, Any]):
    with pytest.raises(LogCorrupt, match=f"{NAMED}: it holds another object or version"):
        opened(json.dumps({"metadata": metadata}).encode())


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"{", id="no JSON"),
        pytest.param(b'{"metadata":{"uid":"\xff"}}', id="no UTF-8"),
        pytest.param(b"[]", id="no object"),
        pytest.param(b"{}", id="no metadata"),
        pytest.param(b'{"metadata":7}', id="metadata that are none"),
        pytest.param(json.dumps({"metadata": without("uid")}).encode(), id="no uid"),
        pytest.param(json.dumps({"metadata": without("resourceVersion")}).encode(), id="no version"),
    ],
)
def test_what_is_no_object_at_all_is_named(body: bytes):
    with pytest.raises(LogCorrupt, match=NAMED):
        opened(body)
