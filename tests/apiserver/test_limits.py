"""Limits before work: what a body, a patch, a selector or a pattern may cost, and what is answered past
it."""

from __future__ import annotations

import json
import time
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mooring.apiserver.encodings import protobuf, yaml_body
from mooring.apiserver.encodings.body import read, read_object
from mooring.apiserver.errors import BadRequest, Invalid, TooLarge, invalid, invalid_value
from mooring.apiserver.objects.custom import jsonpath, patterns
from mooring.apiserver.objects.patches.json_patch import MAX_COPIED_BYTES, json_patch
from mooring.apiserver.values.hashable import identity, ranks
from mooring.apiserver.work_limit import TooMuch, limited, renew, spend

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
YAML = "application/yaml"


def refused_yaml(body: bytes) -> str:
    with pytest.raises(BadRequest) as refused:
        read(body, YAML)
    return refused.value.message


@pytest.mark.parametrize("opening", [b"[", b"{a: ", b"- ", b"? "])
def test_a_deep_yaml_body_is_refused_after_a_few_events(opening: bytes) -> None:
    with limited(10_000), pytest.raises(yaml_body.BadYaml):  # and not TooMuch
        yaml_body.load(opening * 30_000, 200)


def test_aliases_that_multiply_are_refused_before_anything_is_built_of_them() -> None:
    lines = ["a: &a [x,x,x,x,x,x,x,x,x]"]
    lines += [f"{c}: &{c} [{','.join(['*' + chr(ord(c) - 1)] * 9)}]" for c in "bcdefghi"]
    assert "document contains excessive aliasing" in refused_yaml("\n".join(lines).encode())
    text = b"x: &x " + b"y" * 100_000 + b"\nz: [" + b"*x," * 1000 + b"]"
    assert "document contains excessive aliasing" in refused_yaml(text)


def test_an_alias_is_a_copy_not_the_same_value() -> None:
    value = read(b"a: &x {k: [1]}\nb: *x", YAML)
    value["a"]["k"].append(2)
    assert value["b"] == {"k": [1]}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 010", {"a": 8}),
        ("a: 0x1F", {"a": 31}),
        ("a: 1_000", {"a": 1000}),
        ("a: 08", {"a": 8}),
        ("a: 0o", {"a": "0o"}),
        ("a: 0o17", {"a": 15}),
        ("a: 1e3", {"a": 1000}),
        ("a: 1e400", {"a": "1e400"}),
        ("a: 1:30", {"a": "1:30"}),
        ("a: 2020-01-01", {"a": "2020-01-01"}),
        ("a: 18446744073709551616", {"a": 18446744073709551616}),
        ("a: yes", {"a": True}),
        ("a: 'yes'", {"a": "yes"}),
        ("a: !!str yes", {"a": "yes"}),
        ("a: !!binary aGk=", {"a": "hi"}),
        ("a: !!python/name:os.system x", {"a": "x"}),
        ("on: 1", {"true": 1}),
        ("1.5: a", {"1.5": "a"}),
        ("a: &x {k: 1}\nb:\n  <<: *x\n  k: 2\n  l: 3", {"a": {"k": 1}, "b": {"k": 2, "l": 3}}),
        ("a: 1\n---\nb: 2", {"a": 1}),
        ("a:", {"a": None}),
        ("", None),
    ],
)
def test_yaml_is_read_as_upstream_reads_it(text: str, value: Any) -> None:
    assert read(text.encode(), YAML) == value
    assert read(text.encode("utf-16"), YAML) == value


@pytest.mark.parametrize(
    "text", ["a: .nan", "a: -.inf", "~: a", "a: &a [*a]", "a: *b", "<<: 1", "a: !!int x", "\x00"]
)
def test_yaml_that_json_cannot_express_is_refused(text: str) -> None:
    refused_yaml(text.encode())


texts = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), max_size=5)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
)


@given(values)
def test_json_is_yaml(value: Any) -> None:
    text = json.dumps(value)
    assert yaml_body.load(text.encode(), 200) == json.loads(text)


def test_a_patch_copies_three_mebibytes_and_no_more() -> None:
    value = "x" * (MAX_COPIED_BYTES // 10)
    copies = [{"op": "copy", "from": "/a", "path": f"/{n}"} for n in range(10)]
    assert len(json_patch({"a": value}, copies[:9])) == 10
    with pytest.raises(Invalid, match="accumulated size increase of copy"):
        json_patch({"a": value}, copies)
    doubling = [{"op": "copy", "from": "", "path": f"/{n}"} for n in range(40)]
    with pytest.raises(Invalid, match="accumulated size increase of copy"):
        json_patch({"a": "b"}, doubling)


@pytest.mark.parametrize("op", [["add"], {"a": 1}, None, 5, True])
def test_an_operation_that_is_no_text_is_refused(op: Any) -> None:
    with pytest.raises(Invalid):
        json_patch({}, [{"op": op, "path": "/a", "value": 1}])


def test_a_copy_shares_nothing_with_what_it_was_copied_from() -> None:
    made = json_patch(
        {"a": [1]}, [{"op": "copy", "from": "/a", "path": "/b"}, {"op": "add", "path": "/b/-", "value": 2}]
    )
    assert made == {"a": [1], "b": [1, 2]}


@given(values, values)
@example(False, 0)
@example([True], [1])
@example({"a": 1, "b": 2}, {"b": 2, "a": 1})
def test_values_have_one_identity_exactly_if_they_are_equal_in_json(one: Any, other: Any) -> None:
    equal = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (identity(one) == identity(other)) == equal
    assert ranks([one, other, one])[identity(one)] == 0


@pytest.mark.parametrize("pattern", ["^(a+)+$", "(a|aa)+$", "(.*a){20}$", "^(a?){50}a{50}$"])
def test_a_pattern_takes_time_by_the_length_of_the_text(pattern: str) -> None:
    begun = time.process_time()
    assert not patterns.matches(pattern, "a" * 30_000 + "!" * 30 + "b")
    assert time.process_time() - begun < 5  # backtracking would take the age of the universe


@pytest.mark.parametrize(
    "pattern", ["(?=a)", r"(a)\1", "[", "a{1001}", "x**", "(?P<n", "\ud800", "(x{1000}){1000}"]
)
def test_what_go_takes_for_no_pattern_is_none(pattern: str) -> None:
    with pytest.raises(patterns.BadPattern):
        patterns.check(pattern)


def test_a_definition_with_a_pattern_that_is_none_is_refused(serve: Any) -> None:
    async def story(api: Any) -> None:
        schema = {"type": "object", "properties": {"spec": {"type": "string", "pattern": "(?=a)"}}}
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        names = {"plural": "things", "kind": "Thing"}
        spec = {"group": "x.io", "scope": "Cluster", "names": names, "versions": [version]}
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        refusal = await api.refused(
            422, api.create(path, {"metadata": {"name": "things.x.io"}, "spec": spec})
        )
        (cause,) = refusal.status["details"]["causes"]
        assert cause["field"] == "spec.validation.openAPIV3Schema.properties[spec].pattern"
        assert "must be a valid regular expression, but isn't: error parsing regexp: " in cause["message"]

    serve(story)


@pytest.mark.parametrize(
    "path", [".a" + " " * 60_000, "[?(@" + " " * 60_000, "[?(@.a==" + "'" * 60_000, "['" + "a" * 60_000]
)
def test_a_long_jsonpath_is_refused_unread(path: str) -> None:
    with pytest.raises(jsonpath.BadPath):
        jsonpath.find(path, {})


def test_of_very_many_field_errors_the_first_are_told() -> None:
    refusal = invalid("", "Pod", "p", [invalid_value(f"a[{n}]", "x" * 100, "no") for n in range(100_000)])
    assert len(json.dumps(refusal.status())) < 2**20
    assert refusal.message.endswith(" more]")
    (only,) = invalid("", "Pod", "p", [invalid_value("a", "x" * 2**20, "no")]).details["causes"]
    assert only["field"] == "a"


def test_a_decision_past_its_limit_is_given_up() -> None:
    spend(10**9)  # no limit is set
    with limited(10):
        spend(10)
        with pytest.raises(TooMuch):
            spend(1)
        renew()
        spend(10)
    with limited(10), pytest.raises(TooMuch):
        read(b"[" + b"1," * 100 + b"1]", "application/json")


def _envelope(kind: bytes, message: bytes) -> bytes:
    meta = b"\x0a\x02v1\x12" + bytes([len(kind)]) + kind
    return b"k8s\x00\x0a" + bytes([len(meta)]) + meta + b"\x12" + _varint(len(message)) + message


def _varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


@pytest.mark.parametrize(
    "message",
    [
        b"\xff" * 11,
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"\x0a\x05a",
        b"\x0b",
        b"\x0c\x0c",
        b"\x08\x01",
    ],
)
def test_protobuf_that_does_not_end_or_fit_is_refused(message: bytes) -> None:
    with pytest.raises(BadRequest):
        read_object(_envelope(b"ConfigMap", message), protobuf.MEDIA_TYPE)


def test_a_deep_schema_in_protobuf_is_refused() -> None:
    schema = b""
    for _ in range(2000):  # JSONSchemaProps.not
        schema = b"\xe2\x01" + _varint(len(schema)) + schema
    for field in (b"\x0a", b"\x22", b"\x3a", b"\x12"):  # openAPIV3Schema, schema, versions, spec
        schema = field + _varint(len(schema)) + schema
    meta = b"\x0a\x17apiextensions.k8s.io/v1\x12\x18CustomResourceDefinition"
    body = b"k8s\x00\x0a" + bytes([len(meta)]) + meta + b"\x12" + _varint(len(schema)) + schema
    with pytest.raises(BadRequest, match="deep"):
        read_object(body, protobuf.MEDIA_TYPE)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"[" * 100_000, BadRequest),
        (b'{"a":' * 300 + b"1" + b"}" * 300, BadRequest),
        (b'"' + b"[" * 300 + b'"', None),
        (b"1" * 100_000, BadRequest),
        (b"1e400", BadRequest),
        (b"NaN", BadRequest),
        (b"\xef\xbb\xbf{}", BadRequest),
        (b'"\xff"', BadRequest),
        (b" " * (3 * 2**20 + 1), TooLarge),
    ],
)
def test_json_that_is_too_much_is_refused(body: bytes, error: type[Exception] | None) -> None:
    if error is None:
        assert read(body, "application/json") == msgspec.json.decode(body)
        return
    with pytest.raises(error):
        read(body, "application/json")


@pytest.mark.parametrize(
    "size", ["1e999", "1e-999", "-1e999", "9" * 64, "0x10", "1e9999999999", "٣", "1e", "", ".", True]
)
def test_no_quantity_fails_the_server(serve: Any, size: Any) -> None:
    async def story(api: Any) -> None:
        path = "/api/v1/namespaces/default/persistentvolumeclaims"
        body = json.dumps(
            api.new_claim("c") | {"spec": {"resources": {"requests": {"storage": size}}}}
        ).encode()
        answer = await api.server.call("POST", path, body=body)
        assert answer.status in (201, 400, 422), answer.body

    serve(story)
