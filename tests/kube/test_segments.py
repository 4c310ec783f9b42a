"""No name that a user chooses becomes more than one segment of a request's path."""

from __future__ import annotations

import re
from urllib.parse import unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mooring.kube.client import Client
from mooring.kube.errors import InvalidRequest, Unreachable
from mooring.kube.objects import Namespace, Node, PersistentVolumeClaim, Pod, Secret
from mooring.kube.objects.segments import LONGEST_SEGMENT, segment
from mooring.kube.selectors import field_equals, parse_field_selector
from mooring.kube.transport import Request, Response

SMUGGLED = "x HTTP/1.1\r\nHost: h\r\n\r\nDELETE /api/v1/namespaces/victim/secrets/precious?x="
SEGMENT = re.compile(r"([-A-Za-z0-9._~!$&'()*+,;=:@]|%[0-9A-F]{2})+")  # RFC 3986, section 3.3
NAMES = st.one_of(
    st.text(max_size=50),
    st.text("abc-.~/%?#&= \r\n\t\0\\;:@é\u2028\ud800", max_size=30),
    st.binary(max_size=40).map(lambda raw: raw.decode("latin-1")),
)


@given(NAMES)
@example(SMUGGLED)
@example("..")
@example("a" * (LONGEST_SEGMENT + 1))
def test_a_name_is_one_segment_that_means_itself_or_none_at_all(name: str):
    try:
        made = segment(name)
    except InvalidRequest:
        return
    assert SEGMENT.fullmatch(made)
    assert made not in (".", "..")
    assert unquote(made) == name
    assert "/" not in unquote(made), "servers decode a path before they split it"
    assert len(made) <= LONGEST_SEGMENT


@pytest.mark.parametrize("name", ["web-0", "system:node:a", "kube-root-ca.crt", "a" * 253, "x@y", "1"])
def test_ordinary_names_stay_as_they_are(name: str):
    assert segment(name) == name


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "a%2fb", "%", SMUGGLED, "\ud800", "n" * 2000])
def test_what_no_object_can_be_named_is_refused(name: str):
    with pytest.raises(InvalidRequest):
        segment(name)


@pytest.mark.parametrize("ask", [
    lambda name: Secret.RESOURCE.path("default", name),
    lambda name: Secret.RESOURCE.path(name, "s"),
    lambda name: Node.RESOURCE.path(None, name, "status"),
    lambda name: Pod.RESOURCE.path("default", "p", name),
])  # fmt: skip
def test_nothing_that_makes_up_a_path_is_taken_as_it_is(ask):
    for name in (SMUGGLED, "..", "a/b"):
        with pytest.raises(InvalidRequest):
            ask(name)
    assert ask("a\r\nb c").endswith(("a%0D%0Ab%20c", "a%0D%0Ab%20c/secrets/s", "a%0D%0Ab%20c/status"))


class Nowhere:
    """A transport that keeps what it is given."""

    def __init__(self) -> None:
        self.sent: list[Request] = []

    async def send(self, request: Request) -> Response:
        self.sent.append(request)
        raise Unreachable("nowhere")

    async def close(self) -> None: ...


async def test_an_object_without_a_name_is_not_its_collection():
    """`DELETE .../pods/` without a name would delete all of them."""
    transport = Nowhere()
    client = Client(transport)
    for ask in (
        client.delete(Pod, "", "default"),
        client.delete(Namespace, ""),
        client.delete(Pod, "p", ""),
        client.patch(Pod, "", {}, "default"),
        client.get(Pod, "", "default"),
        client.create_raw(Pod, {}, name="", namespace="default", sub="eviction"),
    ):
        with pytest.raises(InvalidRequest):
            await ask
    assert transport.sent == []


async def test_what_no_object_can_be_named_is_not_found_without_asking():
    transport = Nowhere()
    for name in ("", "..", "a/b", SMUGGLED):
        assert await Client(transport).find(PersistentVolumeClaim, name, "default") is None
    assert transport.sent == []


@given(NAMES)
def test_a_selector_for_one_name_selects_that_name_and_nothing_else(name: str):
    made = parse_field_selector(field_equals("metadata.name", name))
    assert made.terms == (("metadata.name", True, name),)
