"""Fields that a kind does not have, and values of the wrong type."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.apiserver import ADMIN, Request
from mooring.apiserver.schema.quantities import canonical
from mooring.kube.quantity import parse_quantity

PODS = "/api/v1/namespaces/default/pods"
STRICT = ("fieldValidation", "Strict")


def odd_pod(api):
    pod = api.new_pod()
    pod["spec"]["containers"][0]["colour"] = "red"
    pod["shape"] = "round"
    return pod


def test_unknown_fields_are_dropped(serve):
    async def story(api):
        made = await api.create(PODS, odd_pod(api))
        assert "shape" not in made
        assert "colour" not in made["spec"]["containers"][0]

    serve(story)


def test_strict_validation_names_every_unknown_field(serve):
    async def story(api):
        refusal = await api.refused(400, api.create(PODS, odd_pod(api), STRICT))
        problems = 'strict decoding error: unknown field "spec.containers[0].colour", unknown field "shape"'
        assert problems == refusal.message.partition("as a Pod: ")[2]
        await api.pod("p")
        patch = {"spec": {"colour": "red"}}
        refusal = await api.refused(422, api.patch(f"{PODS}/p", patch, "merge", STRICT))
        assert 'unknown field "spec.colour"' in refusal.message

    serve(story)


@pytest.mark.parametrize(("wish", "warned"), [("Warn", True), ("", True), ("Ignore", False)])
def test_unknown_fields_are_a_warning_unless_ignored(serve, wish, warned):
    async def story(api):
        body = b'{"metadata": {"name": "c"}, "colour": 1}'
        path = "/api/v1/namespaces/default/configmaps"
        answer = await api.server.handle(Request("POST", path, [("fieldValidation", wish)], {}, body, ADMIN))
        assert answer.status == 201
        assert answer.headers.get("warning") == ('299 - "unknown field \\"colour\\""' if warned else None)

    serve(story)


def test_a_field_given_twice_is_told(serve):
    async def story(api):
        body = b'{"metadata": {"name": "c"}, "data": {"a": "1", "a": "2"}}'
        path = "/api/v1/namespaces/default/configmaps"
        refusal = await api.refused(400, api.send("POST", path, body, [STRICT]))
        assert 'strict decoding error: duplicate field "data.a"' in refusal.message

    serve(story)


def test_a_wish_that_is_none_is_refused(serve):
    async def story(api):
        await api.refused(422, api.create(PODS, api.new_pod(), ("fieldValidation", "Loose")))

    serve(story)


@pytest.mark.parametrize(
    ("spec", "problems"),
    [
        (
            {"containers": "x"},
            "cannot unmarshal string into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            {"containers": [{"name": 1}]},
            "cannot unmarshal number into Go struct field Container.spec.containers.name",
        ),
        (
            {"hostNetwork": "yes"},
            "cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of type bool",
        ),
        (
            {"priority": 1.5},
            "cannot unmarshal number 1.5 into Go struct field PodSpec.spec.priority of type int32",
        ),
        ({"nodeSelector": {"a": {}}}, "of type string"),
        ({"overhead": {"cpu": "much"}}, "quantities must match the regular expression"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_in_the_words_of_upstream(serve, spec, problems):
    async def story(api):
        pod = api.new_pod()
        pod["spec"] |= spec
        assert problems in (await api.refused(400, api.create(PODS, pod))).message

    serve(story)


@pytest.mark.parametrize(
    ("given_", "printed"),
    [("1024Mi", "1Gi"), ("0.5", "500m"), ("1000m", "1"), ("1.5Gi", "1536Mi"), ("0", "0"), ("0Gi", "0"), ("2000", "2k"),
     ("1e3", "1e3"), ("100m", "100m"), ("1Gi", "1Gi"), ("-1024Ki", "-1Mi"), ("0.1n", "1n"), ("512", "512")],
)  # fmt: skip
def test_quantities_are_printed_as_upstream_prints_them(given_, printed):
    assert canonical(given_) == printed


@given(
    st.integers(-(10**15), 10**15),
    st.sampled_from(["", "n", "u", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e3", "E2"]),
)
def test_the_canonical_form_of_a_quantity_is_the_same_number_and_final(number, suffix):
    text = canonical(f"{number}{suffix}")
    assert parse_quantity(text) == parse_quantity(f"{number}{suffix}")
    assert canonical(text) == text
