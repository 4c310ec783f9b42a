"""What `mooring node join` writes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mooring.apiserver.data_directory import load_tokens, write_private
from mooring.apiserver.transport import tls
from mooring.cluster.holding import remember
from mooring.cluster.joining import parse_join, prepare
from mooring.cluster.layout import ClusterError, Layout
from mooring.kube.times import wall_clock

AT = Path("/etc/there")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """Of a cluster of two machines that others may join."""
    layout = Layout(tmp_path / "data")
    layout.make()
    layout.apiserver.mkdir(parents=True, exist_ok=True)
    tls.ensure(layout.apiserver, wall_clock, write_private, "192.168.1.10")
    tls.ensure_client(layout.apiserver, wall_clock, write_private)
    remember(layout, 7443, 2, "192.168.1.10/24")
    return layout


def test_a_node_gets_its_own_token_and_the_address_at_which_it_reaches_the_server(
    layout: Layout, tmp_path: Path
):
    command = prepare(layout, "worker", tmp_path / "out", AT)
    config = json.loads((tmp_path / "out" / "kubeconfig").read_text())
    assert config["clusters"][0]["cluster"]["server"] == "https://192.168.1.10:7443"
    assert config["users"][0]["user"]["token"] == load_tokens(layout.apiserver).node("worker")
    assert command.split()[1:] == [
        "--hostname-override=worker", "--kubeconfig=/etc/there/kubeconfig", "--config=/etc/there/kubelet.json",
    ]  # fmt: skip


def test_its_kubelet_answers_this_api_server_alone(layout: Layout, tmp_path: Path):
    prepare(layout, "worker", tmp_path / "out", AT)
    asked = json.loads((tmp_path / "out" / "kubelet.json").read_text())["authentication"]
    assert asked["x509"]["clientCAFile"] == "/etc/there/api-server.crt" and not asked["anonymous"]["enabled"]
    callers = (tmp_path / "out" / "api-server.crt").read_text()
    assert callers == tls.of_client(layout.apiserver).authority.read_text() and "PRIVATE" not in callers


def test_its_files_are_the_owners_only(layout: Layout, tmp_path: Path):
    prepare(layout, "worker", tmp_path / "out", AT)
    assert {oct(path.stat().st_mode & 0o777) for path in (tmp_path / "out").iterdir()} == {"0o600"}
    assert oct((tmp_path / "out").stat().st_mode & 0o777) == "0o700"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("node-1", "is a machine of this cluster"),
        ("node-2", "is a machine of this cluster"),
        ("Worker", "cannot be the name of a node"),
        ("../worker", "cannot be the name of a node"),
        ("a b", "cannot be the name of a node"),
        ("", "cannot be the name of a node"),
        ("x" * 254, "cannot be the name of a node"),
    ],
)
def test_a_name_that_cannot_join_is_refused_and_nothing_is_written(
    layout: Layout, tmp_path: Path, name: str, why: str
):
    with pytest.raises(ClusterError, match=why):
        prepare(layout, name, tmp_path / "out", AT)
    assert not (tmp_path / "out").exists()


def test_a_cluster_that_others_do_not_reach_says_how_it_is_started(layout: Layout, tmp_path: Path):
    remember(layout, 7443, 2, "")
    with pytest.raises(ClusterError, match="mooring up --join ADDRESS/PREFIX"):
        prepare(layout, "worker", tmp_path / "out", AT)


@pytest.mark.parametrize(
    "given",
    ["192.168.1.10", "192.168.1.10/32", "0.0.0.0/0", "127.0.0.1/8", "224.0.0.1/4", "fe80::1/64", "host/24", "", "/",
     "1/2/3", "192.168.1.10/33", "192.168.1.300/24", "0.0.0.0/8"],
)  # fmt: skip
def test_an_address_that_names_no_network_of_other_machines_is_refused(given: str):
    with pytest.raises(ValueError):
        parse_join(given)


def test_an_address_in_a_network_is_taken():
    assert str(parse_join("192.168.1.10/24").network) == "192.168.1.0/24"
