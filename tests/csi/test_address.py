"""Addresses of drivers."""

from __future__ import annotations

import pytest

from mooring.csi.address import Address, parse_address
from mooring.csi.errors import EndpointError


@pytest.mark.parametrize("text", ["unix:///run/csi.sock", "unix:/run/csi.sock", "/run/csi.sock"])
def test_three_ways_to_write_a_unix_socket(text: str) -> None:
    assert parse_address(text) == Address(path="/run/csi.sock")


def test_tcp_with_an_ipv6_host() -> None:
    assert parse_address("tcp://[::1]:9000") == Address(host="[::1]", port=9000)


@pytest.mark.parametrize(
    "text",
    ["", "csi.sock", "unix://csi.sock", "tcp://host", "tcp://:1", "tcp://h:x", "tcp://h:70000", "http://a:1"],
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(EndpointError, match="no address of a CSI driver"):
        parse_address(text)


def test_a_path_that_the_kernel_would_not_take_is_refused_with_the_reason() -> None:
    with pytest.raises(EndpointError, match="at most 107 bytes"):
        parse_address("unix:///" + "a" * 107)


def test_an_address_is_shown_so_that_it_can_be_read_again() -> None:
    for text in ("unix:///run/csi.sock", "tcp://127.0.0.1:9000"):
        assert str(parse_address(text)) == text
