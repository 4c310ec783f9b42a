"""Every kind that the API itself has, in protobuf and back."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.apiserver import Request
from mooring.apiserver.encodings import protobuf
from mooring.apiserver.message import ADMIN
from mooring.apiserver.objects.kinds import KINDS
from mooring.apiserver.schema.facts import message, message_of

TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)
SCHEMA = "apiextensions.v1.JSONSchemaProps"
VALUES = {
    "string": TEXT,
    "int32": st.integers(-(2**31), 2**31 - 1).filter(bool),
    "int64": st.integers(-(2**63), 2**63 - 1).filter(bool),
    "double": st.floats(allow_nan=False, allow_infinity=False).filter(bool),
    "bool": st.just(True),
    "bytes": st.binary(min_size=1, max_size=4).map(lambda data: base64.b64encode(data).decode()),
    "Quantity": st.sampled_from(["1", "100m", "1Gi", "1e3"]),
    "IntOrString": st.one_of(st.integers(-5, 2**31 - 1).filter(bool), TEXT),
    "Time": st.one_of(
        st.sampled_from(["1970-01-01T00:00:00Z", "0001-01-01T00:00:00Z"]),
        st.datetimes().map(lambda moment: f"{moment.isoformat(timespec='seconds')}Z"),
    ),
    "MicroTime": st.datetimes().map(lambda moment: f"{moment.isoformat(timespec='microseconds')}Z"),
    "ExtraValue": st.lists(TEXT, min_size=1, max_size=2),
}
ANY_JSON = st.dictionaries(
    TEXT, st.one_of(st.integers(-5, 5), TEXT, st.none(), st.just({})), min_size=1, max_size=2
)


def value(kind, depth):
    if kind in VALUES:
        return VALUES[kind]
    schema = (
        st.deferred(lambda: message_value(SCHEMA, depth - 1)) if depth > 0 else st.just({"type": "string"})
    )
    match kind:
        case "RawExtension" | "FieldsV1" | "JSON":
            return ANY_JSON
        case "JSONSchemaPropsOrBool":
            return st.one_of(st.booleans(), schema)
        case "JSONSchemaPropsOrArray":
            return st.one_of(st.lists(schema, min_size=1, max_size=2), schema)
        case "JSONSchemaPropsOrStringArray":
            return st.one_of(st.lists(TEXT, min_size=1, max_size=2), schema)
    return st.deferred(lambda: message_value(kind, depth - 1))


@st.composite
def message_value(draw, name, depth=5):
    fields = [
        each
        for each in message(name).fields.values()
        if depth > 0 or each.type in VALUES or "JSON" not in each.type
    ]
    obj = {}
    few = (
        []
        if not fields
        else draw(st.lists(st.sampled_from(fields), min_size=1, max_size=3, unique_by=lambda each: each.name))
    )
    for field in few:
        if depth <= 0 and field.type not in VALUES:
            continue
        one = value(field.type, depth)
        shapes = {
            "one": one,
            "list": st.lists(one, min_size=1, max_size=2),
            "map": st.dictionaries(TEXT, one, min_size=1, max_size=2),
        }
        obj[field.name] = draw(shapes[field.shape])
    return obj


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.api_version}/{kind.name}")
def test_an_object_is_the_same_after_protobuf_and_back(kind):
    name = message_of(kind.group, kind.version, kind.name)
    assert name is not None

    @settings(max_examples=25, deadline=None)
    @given(message_value(name))
    def same(fields):
        sent = {"kind": kind.name, "apiVersion": kind.api_version, **fields}
        assert protobuf.decode(protobuf.encode(json.dumps(sent).encode())) == sent

    same()


PROTOBUF = "application/vnd.kubernetes.protobuf"


def test_a_pod_is_created_read_and_listed_in_protobuf(serve):
    async def story(api):
        body = protobuf.encode(json.dumps({"kind": "Pod", "apiVersion": "v1", **api.new_pod()}).encode())
        path = "/api/v1/namespaces/default/pods"
        headers = {"content-type": PROTOBUF, "accept": f"{PROTOBUF}, application/json"}
        made = await api.server.handle(Request("POST", path, (), headers, body, ADMIN))
        assert (made.status, made.headers["content-type"]) == (201, PROTOBUF)
        listed = await api.server.handle(Request("GET", path, (), headers, b"", ADMIN))
        decoded = protobuf.decode(listed.body)
        assert (decoded["kind"], decoded["metadata"]["resourceVersion"]) == (
            "PodList",
            str(api.server.store.version),
        )
        read = await api.get(f"{path}/p")
        assert decoded["items"] == [
            {key: each for key, each in read.items() if key not in ("kind", "apiVersion")}
        ]
        assert protobuf.decode(made.body) == read

    serve(story)


def test_a_watch_in_protobuf_has_frames_with_their_length(serve):
    async def story(api):
        headers = {"accept": PROTOBUF}
        query = [("watch", "1"), ("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan")]
        query += [("allowWatchBookmarks", "true")]
        await api.pod("a")
        watch = await api.server.handle(Request("GET", "/api/v1/pods", query, headers, b"", ADMIN))
        assert watch.headers["content-type"] == f"{PROTOBUF};stream=watch"
        assert [(kind, obj["metadata"].get("name")) for kind, obj in frames(await anext(watch.stream))] == [
            ("ADDED", "a"),
            ("BOOKMARK", None),
        ]
        await api.delete("/api/v1/namespaces/default/pods/a", {"gracePeriodSeconds": 0})
        assert frames(await anext(watch.stream))[-1][0] == "DELETED"
        await watch.stream.aclose()

    serve(story)


def frames(chunk):
    """The events of a chunk: type and object."""
    found = []
    while chunk:
        size, chunk = int.from_bytes(chunk[:4], "big"), chunk[4:]
        parts = dict(protobuf.fields(chunk[:size]))
        held = dict(protobuf.fields(parts[2]))
        found.append((parts[1].decode(), protobuf.decode(held[1])))
        chunk = chunk[size:]
    return found


def test_the_metadata_of_any_kind_is_listed_in_protobuf(serve):
    async def story(api):
        await api.pod("a", labels={"x": "y"})
        accept = f"{PROTOBUF};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
        answer = await api.server.handle(Request("GET", "/api/v1/pods", (), {"accept": accept}, b"", ADMIN))
        decoded = protobuf.decode(answer.body)
        assert (decoded["kind"], decoded["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
        assert [item["metadata"]["labels"] for item in decoded["items"]] == [{"x": "y"}]

    serve(story)
