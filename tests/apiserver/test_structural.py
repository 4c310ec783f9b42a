"""The schemas of custom kinds, and the JSONPath of their columns."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.apiserver.objects.custom.jsonpath import BadPath, find
from mooring.apiserver.objects.custom.structural import fill_defaults, pruned, value_errors

SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"type": "integer", "default": 3, "multipleOf": 3, "maximum": 9, "exclusiveMaximum": True},
        "b": {"type": "object", "default": {}, "properties": {"c": {"type": "string", "default": "x"}}},
        "m": {"type": "object", "additionalProperties": {"type": "object", "properties": {"n": {"type": "number"}}}},
        "i": {"x-kubernetes-int-or-string": True},
        "s": {"type": "array", "items": {"type": "string", "minLength": 1}, "x-kubernetes-list-type": "set",
              "maxItems": 2},
        "p": {"type": "string", "pattern": "^[a-z]+$", "nullable": True},
        "t": {"type": "string", "format": "date-time"},
        "one": {"type": "object", "x-kubernetes-preserve-unknown-fields": True,
                "oneOf": [{"required": ["l"]}, {"required": ["r"]}]},
        "any": {"type": "integer", "anyOf": [{"minimum": 5}, {"maximum": 1}], "not": {"enum": [7]}},
    },
}  # fmt: skip


def errors_of(value):
    return [str(each) for each in value_errors(SCHEMA, value)]


@pytest.mark.parametrize(
    "value",
    [{}, {"a": 6}, {"i": "50%"}, {"i": 3}, {"s": ["x", "y"]}, {"p": None}, {"t": "2026-01-01T00:00:00Z"},
     {"one": {"l": 1}}, {"any": 0}, {"m": {"k": {"n": 1.5}}}, {"a": 3.0}],
)  # fmt: skip
def test_what_fits_is_not_complained_about(value):
    assert errors_of(value) == []


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"a": 4}, "should be a multiple of 3"),
        ({"a": 9}, "should be less than 9"),
        ({"a": True}, 'must be of type integer: "boolean"'),
        ({"i": []}, 'must be of type integer,string: "array"'),
        ({"s": ["x", "x"]}, 's[1]: Duplicate value: "x"'),
        ({"s": [""]}, "s[0] in body should be at least 1 chars long"),
        ({"s": ["a", "b", "c"]}, "Too many: 3: must have at most 2 items"),
        ({"p": "A1"}, "should match '^[a-z]+$'"),
        ({"t": "yesterday"}, "must be of type date-time"),
        ({"t": None}, 'must be of type string: "null"'),
        ({"one": {"l": 1, "r": 2}}, "one and only one schema (oneOf)"),
        ({"any": 3}, "at least one schema (anyOf)"),
        ({"any": 7}, "must not validate the schema (not)"),
        ({"m": {"k": {"n": "1"}}}, "m.k.n in body must be of type number"),
    ],
)
def test_what_does_not_fit_is_told(value, words):
    assert any(words in each for each in errors_of(value)), errors_of(value)


def test_defaults_fill_also_what_defaults_made():
    value = {}
    fill_defaults(SCHEMA, value)
    assert value == {"a": 3, "b": {"c": "x"}}


def test_unknown_fields_go_and_are_named_and_a_null_with_a_default_goes_silently():
    unknown = []
    value = {
        "a": None,
        "z": 1,
        "m": {"k": {"n": 1, "o": 2}},
        "one": {"l": {"deep": 1}},
        "metadata": {"name": "x"},
    }
    kept = pruned(SCHEMA, value, unknown)
    assert kept == {"m": {"k": {"n": 1}}, "one": {"l": {"deep": 1}}, "metadata": {"name": "x"}}
    assert unknown == ["z", "m.k.o"]


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "x", "A"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*SCHEMA["properties"], "c", "n", "l", "r"]), inner, max_size=4)
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from([*SCHEMA["properties"], "z"]), anything))
def test_anything_is_pruned_defaulted_and_judged_and_the_second_time_changes_nothing(value):
    kept = pruned(SCHEMA, value, [])
    fill_defaults(SCHEMA, kept)
    value_errors(SCHEMA, kept)
    again: list[str] = []
    assert pruned(SCHEMA, copy.deepcopy(kept), again) == kept
    assert again == []


OBJECT = {
    "spec": {"size": 3, "a.b": "dot", "list": [{"n": "x", "ok": True}, {"n": "y", "ok": False}]},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Old", "status": "False"}]},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.size", [3]),
        ("{.spec.size}", [3]),
        ("$.spec.size", [3]),
        (".spec.nosuch.deeper", []),
        (".spec['a.b']", ["dot"]),
        (r".spec.a\.b", ["dot"]),
        (".spec.list[1].n", ["y"]),
        (".spec.list[-1].n", ["y"]),
        (".spec.list[*].n", ["x", "y"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type!='Ready')].status", ["False"]),
        (".spec.list[?(@.ok==true)].n", ["x"]),
    ],
)
def test_a_path_leads_to_values(path, found):
    assert find(path, OBJECT) == found


@pytest.mark.parametrize("path", ["spec", ".spec[", ".spec[?(x)]", "..", ".a\\"])
def test_a_text_that_is_no_path_is_told(path):
    with pytest.raises(BadPath):
        find(path, OBJECT)
