"""The driver's options, and which values are refused."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.ebs import options
from mooring.ebs.options import CONTROLLER_FLAGS, NODE_FLAGS, Mode, Options, refusals


def test_the_defaults_can_be_started():
    assert refusals(Options(), ()) == []


def test_flags_of_the_other_mode_are_refused_and_all_is_in_mode_all():
    assert refusals(Options(mode=Mode.NODE), CONTROLLER_FLAGS & {"batching"}) == [
        "--batching has no meaning in mode node"
    ]
    assert refusals(Options(mode=Mode.CONTROLLER), {"legacy_xfs"}) == [
        "--legacy-xfs has no meaning in mode controller"
    ]
    assert refusals(Options(), CONTROLLER_FLAGS | NODE_FLAGS) == []


def test_flags_are_named_as_the_fields():
    assert {field.name for field in fields(Options)} >= CONTROLLER_FLAGS | NODE_FLAGS


def test_the_two_ways_to_set_the_limit_exclude_each_other():
    for limit, reserved in ((0, 3), (0, 0), (5, 0)):
        [problem] = refusals(Options(volume_attach_limit=limit, reserved_volume_attachments=reserved), ())
        assert "exclude each other" in problem
    for limit, reserved in ((0, -1), (5, -1), (-1, 0), (-1, 5)):
        assert not refusals(Options(volume_attach_limit=limit, reserved_volume_attachments=reserved), ())


def test_what_is_not_given_is_as_upstream_has_it():
    """Upstream's options documentation, v1.64."""
    given_none = Options()
    assert (given_none.volume_attach_limit, given_none.reserved_volume_attachments) == (-1, -1)
    assert given_none.modify_volume_request_handler_timeout == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (Options(modify_volume_request_handler_timeout=0), "longer than 0"),
        (Options(metrics_cert_file="a", http_endpoint=":80"), "need each other"),
        (Options(metrics_cert_file="a", metrics_key_file="b"), "needs --http-endpoint"),
        (Options(device_dir=Path("dev")), "must be absolute"),
    ],
)
def test_what_cannot_be_is_refused_with_its_reason(options: Options, words: str):
    assert any(words in problem for problem in refusals(options, ()))


@pytest.mark.parametrize(
    "options",
    [
        Options(modify_volume_request_handler_timeout=0.001),
        Options(metrics_cert_file="a", metrics_key_file="b", http_endpoint=":80"),
    ],
)
def test_what_can_be_is_not_refused(options: Options):
    assert refusals(options, ()) == []


def test_tags_are_read_as_upstream_writes_them():
    assert options.parse_tags("a=1, b = two ,c=x=y,") == {"a": "1", "b": "two", "c": "x=y"}
    for text in ("b", "=b", "="):
        with pytest.raises(ValueError, match=f"'{text}' is no tag"):
            options.parse_tags(f"a=1,{text}")


def test_tags_of_volumes_go_before_those_of_everything():
    assert Options(extra_tags={"a": "1", "b": "1"}, extra_volume_tags={"b": "2"}).volume_tags == {
        "a": "1",
        "b": "2",
    }


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2s", 2), ("500ms", 0.5), ("1m30s", 90), ("1.5s", 1.5), ("0", 0), ("1h", 3600), ("2µs", 2e-6)],
)
def test_durations_are_gos(text: str, seconds: float):
    assert options.parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "1", "s", "1s 1s", "-1s", "1d"])
def test_what_is_no_duration_is_refused(text: str):
    with pytest.raises(ValueError, match=f"'{text}' is no duration"):
        options.parse_duration(text)


@given(st.text("0123456789hmsu.µn -", max_size=8))
def test_what_is_no_duration_is_never_taken_for_one(text: str):
    try:
        assert options.parse_duration(text) >= 0
    except ValueError as error:
        assert "no duration" in str(error)


def test_sources_of_metadata():
    assert options.parse_sources("imds,kubernetes") == (True, ["kubernetes"])
    assert options.parse_sources("metadata-labeler") == (False, ["metadata-labeler"])
    with pytest.raises(ValueError, match="unknown source 'ec2'"):
        options.parse_sources("imds,ec2")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":3301", ("0.0.0.0", 3301)),
        ("[::1]:80", ("::1", 80)),
        ("localhost:0", ("localhost", 0)),
        ("a:65535", ("a", 65535)),
    ],
)
def test_an_http_endpoint_is_a_host_and_a_port(text: str, address: tuple[str, int]):
    assert options.parse_host_port(text) == address


@pytest.mark.parametrize("text", ["3301", "host:", "host:65536", "host:x", "host:٣"])
def test_what_is_no_http_endpoint_is_refused(text: str):
    with pytest.raises(ValueError, match="HOST:PORT"):
        options.parse_host_port(text)


def test_upstreams_variable_for_another_ec2_goes_before_amazons():
    assert (
        options.ec2_endpoint({"AWS_ENDPOINT_URL": "c", "AWS_ENDPOINT_URL_EC2": "b", "AWS_EC2_ENDPOINT": "a"})
        == "a"
    )
    assert options.ec2_endpoint({"AWS_ENDPOINT_URL": "c", "AWS_ENDPOINT_URL_EC2": "b"}) == "b"
    assert options.ec2_endpoint({"AWS_EC2_ENDPOINT": ""}) == ""


def test_the_metadata_service_is_where_the_environment_says_or_not_asked():
    assert options.metadata_endpoint({}) == "http://169.254.169.254"
    assert options.metadata_endpoint({"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://x:1/"}) == "http://x:1"
    assert (
        options.metadata_endpoint({"AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE": "IPv6"})
        == "http://[fd00:ec2::254]"
    )
    assert options.metadata_endpoint({"AWS_EC2_METADATA_DISABLED": "TRUE"}) == ""


def test_the_region_is_the_environments():
    assert options.region({"AWS_DEFAULT_REGION": "b", "AWS_REGION": "a"}) == "a"
    assert options.region({"AWS_DEFAULT_REGION": "b"}) == "b"
    assert options.region({}) == ""
