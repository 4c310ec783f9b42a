"""Which port the API server of `mooring up` gets."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.cluster import cluster, holding
from mooring.cluster.cluster import Cluster
from mooring.cluster.holding import Port, PortTaken, choose_port, remember, with_free_port
from mooring.cluster.layout import ClusterError, Layout
from mooring.cluster.options import Options
from mooring.cluster.processes import free_port


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path / "data")
    layout.make()
    return layout


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The usual port, which another program has."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = int(other.getsockname()[1])
        monkeypatch.setattr(holding, "USUAL_PORT", port)
        yield port


def test_the_usual_one_if_it_is_free(layout: Layout, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(holding, "USUAL_PORT", usual := free_port())
    assert choose_port(layout, None, "") == Port(usual)


def test_another_one_if_the_usual_one_is_in_use_and_that_is_said(layout: Layout, taken: int):
    chosen = choose_port(layout, None, "")
    assert chosen.number != taken
    assert chosen.instead_of == taken


def test_a_port_that_was_asked_for_is_never_replaced(layout: Layout, taken: int):
    with pytest.raises(ClusterError, match=f"port {taken} is in use"):
        choose_port(layout, taken, "")


def test_a_port_that_kubeconfigs_have_is_never_replaced(layout: Layout, taken: int):
    remember(layout, taken, 2, "")
    with pytest.raises(ClusterError, match="remembered in"):
        choose_port(layout, None, "")


def test_the_port_of_the_last_run_is_kept_whatever_is_asked(layout: Layout):
    remember(layout, port := free_port(), 2, "")
    assert choose_port(layout, 0, "") == choose_port(layout, None, "") == Port(port)


async def test_a_port_that_another_program_takes_first_is_given_up_for_another_one():
    tries: list[int] = []

    async def start() -> None:
        tries.append(1)
        if len(tries) < 3:
            raise PortTaken("port 1 was taken")

    await with_free_port(start)
    assert len(tries) == 3


async def test_not_for_ever():
    async def start() -> None:
        raise PortTaken("port 1 was taken")

    with pytest.raises(ClusterError, match="port 1 was taken"):
        await with_free_port(start)


@pytest.mark.root
@pytest.mark.cluster
async def test_up_goes_on_with_another_port_where_the_chosen_one_is_taken_meanwhile(
    data_dir: Path, taken: int, monkeypatch: pytest.MonkeyPatch
):
    chosen = iter([Port(taken)])

    def choose(layout: Layout, asked: int | None, address: str) -> Port:
        return next(chosen, None) or choose_port(layout, asked, address)

    monkeypatch.setattr(cluster, "choose_port", choose)
    async with Cluster(Layout(data_dir), Options(nodes=1, port=0)) as running:
        assert running.port != taken
        assert str(running.port) in running.layout.kubeconfig.read_text()


@pytest.mark.root
@pytest.mark.cluster
async def test_a_port_that_was_asked_for_and_is_taken_meanwhile_is_named(
    data_dir: Path, taken: int, monkeypatch: pytest.MonkeyPatch
):
    chosen = iter([Port(taken)])

    def choose(layout: Layout, asked: int | None, address: str) -> Port:
        return next(chosen, None) or choose_port(layout, asked, address)

    monkeypatch.setattr(cluster, "choose_port", choose)
    with pytest.raises(ClusterError, match=f"port {taken} is in use by another program"):
        async with Cluster(Layout(data_dir), Options(nodes=1, port=taken)):
            pass


def test_any_free_one_if_that_is_asked_for(layout: Layout, taken: int):
    assert choose_port(layout, 0, "").number not in (0, taken)
