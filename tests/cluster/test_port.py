"""Which port the API server of `mooring up` gets."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.cluster import holding
from mooring.cluster.holding import Port, choose_port, remember
from mooring.cluster.layout import ClusterError, Layout
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


def test_any_free_one_if_that_is_asked_for(layout: Layout, taken: int):
    assert choose_port(layout, 0, "").number not in (0, taken)
