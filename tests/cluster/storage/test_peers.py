"""Who is connected, as the kernel lists it."""

from __future__ import annotations

import socket
from ipaddress import IPv4Address

from hypothesis import given
from hypothesis import strategies as st

from mooring.cluster.storage.peers import parse, peers

AT = IPv4Address("10.88.0.3")
TABLE = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0300580A:0CBC 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   1: 0300580A:0CBC 0101580A:8000 01 00000000:00000000 00:00000000 00000000     0        0 2 1 0 20 4 30 10 -1
   2: 0300580A:0CBC 0102580A:8000 04 00000000:00000000 00:00000000 00000000     0        0 3 1 0 20 4 30 10 -1
   3: 0400580A:0CBC 0103580A:8000 01 00000000:00000000 00:00000000 00000000     0        0 4 1 0 20 4 30 10 -1
   4: 0300580A:0CBD 0103580A:8000 01 00000000:00000000 00:00000000 00000000     0        0 5 1 0 20 4 30 10 -1
"""


def test_only_established_connections_to_that_address_and_port_count() -> None:
    assert parse(TABLE, AT, 3260) == {IPv4Address("10.88.1.1")}


@given(st.text() | st.lists(st.sampled_from([*TABLE.splitlines(), "   5: 0:0 0:0 01 x"])).map("\n".join))
def test_any_text_is_understood_as_far_as_it_goes(text: str) -> None:
    parse(text, AT, 3260)


def test_a_connection_of_this_host_is_seen_while_it_is_open() -> None:
    here = IPv4Address("127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert peers(here, port) == set()
        with socket.create_connection(("127.0.0.1", port)):
            assert peers(here, port) == {here}
