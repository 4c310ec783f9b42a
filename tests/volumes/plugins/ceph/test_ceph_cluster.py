"""How a Ceph cluster is reached, by what volumes say: read, or refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mooring.kube.objects import (
    ObjectMeta,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeSpec,
    RBDVolumeSource,
    Secret,
    SecretReference,
    Volume,
)
from mooring.volumes.errors import ContentMissing, InvalidSpec, VolumeError
from mooring.volumes.plugins.ceph.cluster import (
    Cluster,
    Monitor,
    addresses,
    cluster,
    key_of_file,
    key_of_secret,
    monitor,
    read_key,
)
from mooring.volumes.spec import VolumeSpec

KEY = "AQAuSQpr61qKGRAAMWahESmYt2SzQCvg+soMoA=="


def of(*, namespace: str = "", inline: bool = False, claimed: str = "", **source: Any) -> Cluster:
    made = RBDVolumeSource(**{"monitors": ("10.0.0.1",), "image": "i", **source})
    if inline:
        return cluster(VolumeSpec.of_volume(Volume(name="v", rbd=made)), made, "/etc/k", namespace)
    claim = ObjectReference(namespace=claimed, name="c") if claimed else None
    spec = PersistentVolumeSpec(rbd=made, claim_ref=claim)
    pv = PersistentVolume(metadata=ObjectMeta(name="v"), spec=spec)
    return cluster(VolumeSpec.of_persistent_volume(pv), made, "/etc/k", namespace)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("10.0.0.1", Monitor("10.0.0.1", 6789)),
        ("10.0.0.1:3301", Monitor("10.0.0.1", 3301)),
        ("[fd00:0::1]:6790", Monitor("fd00::1", 6790)),
        ("ceph-mon1", Monitor("ceph-mon1", 6789)),
        ("mon.example.com:1", Monitor("mon.example.com", 1)),
    ],
)
def test_a_monitor_is_a_host_and_a_port(text: str, found: Monitor) -> None:
    assert monitor(text, "v") == found
    assert monitor(str(found), "v") == found


WRONG = [
    "",
    ":6789",
    "a b",
    "a,b",
    "10.0.0.1:0",
    "10.0.0.1:65536",
    "10.0.0.300",
    "fe80::1",
    "[fe80::1%eth0]",
    "a=b",
]
WRONG += ["[mon]", "-a", "a/", "10.0.0.1\n", "é"]


@pytest.mark.parametrize("text", WRONG)
def test_what_cannot_be_a_monitor_is_refused(text: str) -> None:
    with pytest.raises(InvalidSpec, match="correct it"):
        monitor(text, "v")


@pytest.mark.parametrize("monitors", [(), ("10.0.0.1",) * 17])
def test_there_must_be_monitors_and_not_too_many(monitors: tuple[str, ...]) -> None:
    with pytest.raises(InvalidSpec, match="monitors"):
        of(monitors=monitors)


@pytest.mark.parametrize("user", ["a,name=admin", "a b", "-a", "a=b", "ü"])
def test_a_user_cannot_bring_options_of_its_own(user: str) -> None:
    with pytest.raises(InvalidSpec, match="Ceph user"):
        of(user=user)


def test_the_secret_of_a_persistent_volume_is_where_it_says_or_with_its_claim() -> None:
    assert of(secret_ref=SecretReference(name="s", namespace="x"), claimed="shop").secret == SecretReference(
        name="s", namespace="x"
    )
    assert of(secret_ref=SecretReference(name="s"), claimed="shop").secret == SecretReference(
        name="s", namespace="shop"
    )
    assert of().secret is None


def test_the_secret_of_a_pods_own_volume_is_the_pods() -> None:
    found = of(secret_ref=SecretReference(name="s"), inline=True, namespace="shop").secret
    assert found == SecretReference(name="s", namespace="shop")


def test_a_key_is_under_its_name_or_all_there_is() -> None:
    assert key_of_secret({"key": f"{KEY}\n".encode(), "userID": b"x"}, "Secret a/b") == KEY
    assert key_of_secret({"anything": KEY.encode()}, "Secret a/b") == KEY


@pytest.mark.parametrize(
    "contents",
    [
        {},
        {"a": KEY.encode(), "b": KEY.encode()},
        {"key": b"hunter2,x=y"},
        {"key": b""},
        {"key": b"\xff" * 40},
    ],
)
def test_what_cannot_be_a_key_is_refused_and_not_shown(contents: dict[str, bytes]) -> None:
    with pytest.raises(InvalidSpec) as raised:
        key_of_secret(contents, "Secret a/b")
    assert "Secret a/b" in str(raised.value)
    assert "hunter2" not in str(raised.value)


KEYRING = f'[client.admin]\n\tkey = {KEY[:-6]}AAAA==\n[client.pods]\n\tkey = {KEY}\n\tcaps mon = "allow r"\n'


@pytest.mark.parametrize("content", [f"{KEY}\n", KEYRING])
def test_a_file_of_the_node_is_a_keyring_or_the_key_alone(content: str) -> None:
    assert key_of_file(content.encode(), "pods", "/etc/ceph/keyring") == KEY


@pytest.mark.parametrize(
    "content", [b"root:x:0:0:root:/root:/bin/bash\n", KEYRING.replace("pods", "others").encode()]
)
def test_another_file_of_the_node_is_refused_and_nothing_of_it_is_shown(content: bytes) -> None:
    with pytest.raises(InvalidSpec) as raised:
        key_of_file(content, "pods", "/etc/passwd")
    assert "root:" not in str(raised.value)
    assert KEY not in str(raised.value)


class Host:
    """Has one Secret."""

    async def get_secret(self, namespace: str, name: str) -> Secret | None:
        data = {"key": "QVFBdVNRcHI2MXFLR1JBQU1XYWhFU21ZdDJTelFDdmcrc29Nb0E9PQ=="}
        return Secret(data=data) if (namespace, name) == ("shop", "s") else None


HOST: Any = Host()


async def test_the_key_is_read_of_the_secret_each_time() -> None:
    named = of(secret_ref=SecretReference(name="s"), claimed="shop")
    assert await read_key(HOST, named) == KEY
    with pytest.raises(ContentMissing, match=r"Secret shop/t.* does not exist"):
        await read_key(HOST, of(secret_ref=SecretReference(name="t"), claimed="shop"))
    with pytest.raises(InvalidSpec, match="use a PersistentVolume"):
        await read_key(HOST, of(secret_ref=SecretReference(name="s"), inline=True))


async def test_without_a_secret_the_nodes_file_serves(tmp_path: Path) -> None:
    file = tmp_path / "keyring"
    asked = Cluster((Monitor("10.0.0.1"),), "pods", None, str(file))
    with pytest.raises(ContentMissing, match="add secretRef"):
        await read_key(HOST, asked)
    file.write_text(KEYRING)
    assert await read_key(HOST, asked) == KEY


async def test_a_fifo_in_the_place_of_the_file_keeps_nothing_waiting(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "keyring")
    with pytest.raises(ContentMissing):
        await read_key(HOST, Cluster((Monitor("10.0.0.1"),), "pods", None, str(tmp_path / "keyring")))


async def test_monitors_are_resolved_and_those_that_cannot_be_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import asyncio

    async def resolve(host: str, port: int, **_: Any) -> Any:
        known = {"mon-a": "10.0.0.7", "10.0.0.1": "10.0.0.1", "fd00::1": "fd00::1"}
        if host not in known:
            raise OSError(host)
        return [(0, 0, 0, "", (known[host], port))]

    monkeypatch.setattr(asyncio, "get_running_loop", lambda: SimpleNamespace(getaddrinfo=resolve))
    found = Cluster((Monitor("mon-a"), Monitor("mon-b"), Monitor("fd00::1", 1), Monitor("10.0.0.1")), "u")
    monkeypatch.setattr("mooring.volumes.plugins.ceph.cluster.asyncio.timeout", lambda seconds: _Never())
    assert await addresses(found) == ["10.0.0.7:6789", "[fd00::1]:1", "10.0.0.1:6789"]
    with pytest.raises(VolumeError, match="cannot resolve"):
        await addresses(Cluster((Monitor("mon-b"),), "u"))


class _Never:
    async def __aenter__(self) -> None: ...

    async def __aexit__(self, *_: object) -> None: ...
