"""What GlusterFS volumes, Endpoints and logs say, and what of it reaches `mount`."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.kube.objects import (
    EndpointAddress,
    Endpoints,
    EndpointSubset,
    GlusterfsVolumeSource,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeSpec,
    Volume,
)
from mooring.volumes.errors import InvalidSpec, VolumeError
from mooring.volumes.plugins.glusterfs.source import (
    MOST_SERVERS,
    Share,
    last_line,
    mount_words,
    servers,
    share,
    user_options,
)
from mooring.volumes.spec import VolumeSpec

LOG, DIRECTORY = "/var/lib/a/x.log", "/var/lib/a/x"


def of_pod(path: str = "vol", **fields: str) -> VolumeSpec:
    source = GlusterfsVolumeSource(endpoints="servers", path=path, **fields)  # type: ignore[arg-type]
    return VolumeSpec.of_volume(Volume(name="data", glusterfs=source))


def persistent(options: Sequence[str] = (), namespace: str | None = None) -> VolumeSpec:
    source = GlusterfsVolumeSource(endpoints="servers", path="vol", endpoints_namespace=namespace)
    spec = PersistentVolumeSpec(glusterfs=source, mount_options=tuple(options))
    pv = PersistentVolume(metadata=ObjectMeta(name="pv-1"), spec=spec)
    return VolumeSpec.of_persistent_volume(pv)


def endpoints(*addresses: str) -> Endpoints:
    return Endpoints(subsets=(EndpointSubset(tuple(EndpointAddress(each) for each in addresses)),))


def words(path: str = "vol", addresses: Sequence[str] = ("10.0.0.1",), **fields: object) -> list[str]:
    of = Share("servers", "shop", path, read_only=bool(fields.get("read_only")))
    options = fields.get("options", ())
    return mount_words(of, addresses, LOG, str(fields.get("directory", DIRECTORY)), options)  # type: ignore[arg-type]


def test_the_endpoints_are_the_pods_namespaces():
    assert share(of_pod(), "shop").namespace == "shop"
    assert share(persistent(), "shop").namespace == "shop"


def test_a_persistent_volume_may_name_another_namespace_and_a_pod_may_not():
    assert share(persistent(namespace="gluster"), "shop").namespace == "gluster"
    assert share(of_pod(endpoints_namespace="gluster"), "shop").namespace == "shop"


@pytest.mark.parametrize("path", ["vol", "/vol", "vol/dir/sub.d", "vol/", "/snaps/s-1/vol", "vol_1.tcp"])
def test_a_volume_and_a_directory_in_it_are_paths(path: str):
    assert words(share(of_pod(path), "shop").path)[-1] == f"10.0.0.1:{path}"


@pytest.mark.parametrize(
    "path",
    ["", "/", "-o", "/-o", "//vol", "vol//x", "vol/..", "../vol", "vol/.", "vol,ro", "a b", "a\tb", "vol\n", "v*", "v?",
     "v[a]", "v\\n", "v:w", "10.0.0.2,x:vol", "v\0", "v'", 'v"', "$v", "`v`", "völ", "v" * 1025],
)  # fmt: skip
def test_a_path_that_the_mount_program_would_split_is_refused(path: str):
    with pytest.raises(InvalidSpec, match=r"glusterfs\.path"):
        share(of_pod(path), "shop")


@pytest.mark.parametrize(
    "option", ["", "a b", "acl\n", "x*", "x[", "x\\", 'context="a', "-o acl", "a;b", "ä"]
)
def test_a_mount_option_that_the_mount_program_would_split_is_refused(option: str):
    with pytest.raises(InvalidSpec, match="mountOptions"):
        user_options(persistent([option]))


def test_a_volumes_own_options_come_after_ours_and_read_only_after_all():
    found = words(options=["log-level=INFO", "acl", "rw"], read_only=True)
    assert found == [
        "-t",
        "glusterfs",
        "-o",
        f"log-file={LOG},log-level=ERROR,log-level=INFO,acl,rw,ro",
        "--",
        "10.0.0.1:vol",
    ]


def test_the_other_servers_stand_by():
    found = words(addresses=["10.0.0.1", "10.0.0.2", "fd00::1"])
    assert found[-1] == "10.0.0.1:vol"
    assert "backup-volfile-servers=10.0.0.2:[fd00::1]" in found[3].split(",")


def test_a_dead_client_must_not_take_its_mount_away():
    assert "auto_unmount" not in " ".join(words())


@pytest.mark.parametrize("directory", ["/a b/x", "/a,ro/x", "/a*/x", "-o", "/a\\x"])
def test_a_directory_that_the_mount_program_would_split_is_refused(directory: str):
    with pytest.raises(VolumeError, match="cannot be mounted at"):
        words(directory=directory)


def test_servers_are_the_ready_addresses_each_once_and_not_without_end():
    assert servers(endpoints("10.0.0.2", "10.0.0.1", "10.0.0.2"), "a/b") == ["10.0.0.2", "10.0.0.1"]
    assert len(servers(endpoints(*(f"10.0.{n // 256}.{n % 256}" for n in range(900))), "a/b")) == MOST_SERVERS


@pytest.mark.parametrize(
    "address", ["", "gluster-1", "10.0.0.1,ro", "-o", "10.0.0.1:x", "fe80::1%eth0", "[fd00::1]"]
)
def test_what_is_no_address_is_refused(address: str):
    with pytest.raises(VolumeError, match=r"Endpoints a/b: .* is not the IP address"):
        servers(endpoints("10.0.0.1", address), "a/b")


def test_endpoints_without_an_address_say_so():
    with pytest.raises(VolumeError, match="Endpoints a/b have no ready address"):
        servers(Endpoints(), "a/b")


def test_the_last_line_of_a_log_is_told_without_its_time():
    log = b"[2026-01-01 00:00:00.1 +0000] E [a.c:1:f] 0-x: one\n[2026-01-01 00:00:00.2 +0000] E [a.c:2:g] 0-x: two\n\n"
    assert last_line(log) == "E [a.c:2:g] 0-x: two"
    assert last_line(b"") == last_line(b"\n \n") == ""
    assert last_line(b"a\x1b[31m\xff") == "a?[31m\ufffd"


@given(st.text(max_size=60), st.lists(st.text(max_size=20), max_size=3))
def test_no_text_becomes_another_word_or_another_option(path: str, options: list[str]):
    try:
        of = share(of_pod(path), "shop")
        found = mount_words(of, ["10.0.0.1"], LOG, DIRECTORY, user_options(persistent(options)))
    except InvalidSpec:
        return
    assert found[-1] == f"10.0.0.1:{path}"
    assert found[3].split(",")[:2] == [f"log-file={LOG}", "log-level=ERROR"]
    assert not re.search(r"""[\s*?\[\]\\"'`$;|&<>()]""", "".join(found))
