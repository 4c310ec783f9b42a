"""The protobuf bodies that kubectl sends."""

from __future__ import annotations

import base64
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.apiserver.encodings.protobuf import decode
from mooring.apiserver.errors import ApiError, BadRequest, UnsupportedMediaType

CONTENT_TYPE = "application/vnd.kubernetes.protobuf"


def number(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(tag: int, value: bytes | str | int) -> bytes:
    if isinstance(value, int):
        return number(tag << 3) + number(value)
    data = value.encode() if isinstance(value, str) else value
    return number(tag << 3 | 2) + number(len(data)) + data


def entry(key: str, value: bytes | str) -> bytes:
    return field(1, key) + field(2, value)


def envelope(version: str, kind: str, message: bytes) -> bytes:
    return b"k8s\x00" + field(1, field(1, version) + field(2, kind)) + field(2, message)


def test_a_secret_is_read():
    meta = (
        field(1, "s")
        + field(3, "default")
        + field(8, b"")
        + field(11, entry("a", "b"))
        + field(11, entry("c", ""))
    )
    message = field(1, meta) + field(2, entry("k", b"\x00\xff")) + field(3, "Opaque")
    assert decode(envelope("v1", "Secret", message)) == {
        "kind": "Secret",
        "apiVersion": "v1",
        "metadata": {"name": "s", "namespace": "default", "labels": {"a": "b", "c": ""}},
        "data": {"k": base64.b64encode(b"\x00\xff").decode()},
        "type": "Opaque",
    }


def test_an_eviction_is_read():
    options = field(1, 5) + field(2, field(1, "u"))
    assert decode(envelope("policy/v1", "Eviction", field(1, field(1, "p")) + field(2, options))) == {
        "kind": "Eviction",
        "apiVersion": "policy/v1",
        "metadata": {"name": "p"},
        "deleteOptions": {"gracePeriodSeconds": 5, "preconditions": {"uid": "u"}},
    }


def test_zero_and_negative_numbers_are_read():
    assert decode(envelope("v1", "DeleteOptions", field(1, 0)))["gracePeriodSeconds"] == 0
    assert decode(envelope("v1", "DeleteOptions", field(1, 2**64 - 1)))["gracePeriodSeconds"] == -1


def test_fields_that_are_not_known_are_skipped():
    message = (
        field(1, field(1, "c") + field(99, "x"))
        + number(98 << 3 | 1)
        + b"12345678"
        + field(2, entry("k", "v"))
    )
    assert decode(envelope("v1", "ConfigMap", message))["data"] == {"k": "v"}


def test_a_kind_that_is_not_known_is_told_how_to_be_sent():
    with pytest.raises(UnsupportedMediaType, match="reads Widget as application/json"):
        decode(envelope("example.com/v1", "Widget", b""))


@pytest.mark.parametrize("body", [b"", b"{}", b"k8s\x00\xff", b"k8s\x00" + field(1, 5)])
def test_what_is_no_envelope_is_refused(body):
    with pytest.raises(BadRequest):
        decode(body)


@given(st.binary(max_size=60), st.sampled_from(["Secret", "ConfigMap", "Eviction", "DeleteOptions"]))
def test_any_bytes_are_read_or_refused(message, kind):
    for body in (b"k8s\x00" + message, envelope("v1", kind, message)):
        with suppress(ApiError):
            assert isinstance(decode(body), dict)


def test_a_namespace_is_created_from_protobuf(serve):
    async def story(api):
        body = envelope("v1", "Namespace", field(1, field(1, "x")) + field(2, b"") + field(3, b""))
        made = await api.send("POST", "/api/v1/namespaces", body, content_type=CONTENT_TYPE)
        assert made["metadata"]["name"] == "x"

    serve(story)
