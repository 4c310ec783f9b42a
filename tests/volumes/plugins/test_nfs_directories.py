"""Directories of NFS exports as volumes: where they are made, that they are emptied and removed as they
should be, and that nothing outside of the export is ever touched. The scripts are run for real, in a
directory of this machine in the export's place.
"""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mooring.kube.objects import (
    NFSVolumeSource,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    VolumeResourceRequirements,
)
from mooring.mounts.blocking import blocking
from mooring.volumes.errors import InvalidSpec, OutcomeUnknown, VolumeError
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.interfaces import ContentSource, VolumeOptions
from mooring.volumes.matching import PROVISIONED_BY
from mooring.volumes.plugins import nfs_directories
from mooring.volumes.plugins.nfs import NFSPlugin
from mooring.volumes.plugins.nfs_provisioning import EXPORT, LONGEST_NAME, escaped, names_of
from mooring.volumes.plugins.nfs_source import PLUGIN_NAME
from mooring.volumes.plugins.programs import Ended
from mooring.volumes.spec import VolumeSpec

PV_NAME = "pvc-1b4e28ba-2fa1-11d2-883f-0016d3cca427"
SERVER = {"server": "files", "path": "/srv/claims"}


class Export:
    """An export, and the controllers' machine."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.directory = root, root / "export"
        self.directory.mkdir()
        self.calls: list[tuple[str, ...]] = []
        self.hangs = False
        self.said = ""
        self.plugin = NFSPlugin(self._run)
        self.settings = {"recycle": "this-machine"}
        monkeypatch.setattr(nfs_directories, "find_tool", lambda name: name)
        self.plugin.init(ControllerVolumeHost(lambda: pytest.fail("no clock"), {PLUGIN_NAME: self.settings}))

    async def _run(self, *words: str, deadline_s: float) -> Ended:
        """The script itself, in a directory that the export is bound to: what NFS adds is left out."""
        self.calls.append(words)
        assert words[:7] == ("unshare", "--mount", "--propagation", "private", "--", "sh", "-c")
        if self.hangs:
            return Ended(None)
        if self.said:
            return Ended(32, errors=self.said)
        script = words[7].replace('mount -t nfs -o "$1" -- "$2" "$root"', f"root={self.directory}")
        assert script != words[7]
        command = ["sh", "-c", script, *words[8:]]
        done = await blocking(subprocess.run, command, capture_output=True, text=True, check=False)
        return Ended(done.returncode, done.stdout, done.stderr)

    def provision(self, claim: PersistentVolumeClaim | None = None, **parameters: str) -> PersistentVolume:
        options = VolumeOptions(
            pv_name=PV_NAME,
            claim=claim or made_claim(),
            mount_options=("nfsvers=4.2",),
            parameters={**SERVER, **parameters},
        )
        return asyncio.run(self.plugin.new_provisioner(options).provision())

    def delete(self, pv: PersistentVolume) -> None:
        asyncio.run(self.plugin.new_deleter(VolumeSpec.of_persistent_volume(pv)).delete())

    def recycle(self, path: str = "/srv/claims", events: list[str] | None = None) -> None:
        source = NFSVolumeSource(server="files", path=path)
        spec = PersistentVolumeSpec(nfs=source, capacity={"storage": "3Gi"}, mount_options=("nfsvers=3",))
        pv = PersistentVolume(metadata=ObjectMeta(name="pv"), spec=spec)
        told = events if events is not None else []
        asyncio.run(
            self.plugin.recycle(
                "pv", VolumeSpec.of_persistent_volume(pv), lambda kind, said: told.append(said)
            )
        )

    def tree(self) -> list[str]:
        return sorted(str(path.relative_to(self.directory)) for path in self.directory.rglob("*"))


@pytest.fixture
def export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Export:
    return Export(tmp_path, monkeypatch)


def made_claim(**fields: Any) -> PersistentVolumeClaim:
    """`labels` and `annotations` are its metadata's."""
    meta = {key: fields.pop(key) for key in ("labels", "annotations", "name", "namespace") if key in fields}
    spec = {"resources": VolumeResourceRequirements(requests={"storage": "1Gi"}), **fields}
    return PersistentVolumeClaim(
        metadata=ObjectMeta(**{"name": "data", "namespace": "shop", **meta}),
        spec=PersistentVolumeClaimSpec(access_modes=("ReadWriteMany",), storage_class_name="nfs", **spec),
    )


def test_a_claim_gets_a_directory_of_its_own(export: Export) -> None:
    pv = export.provision()
    name = f"shop-data-{PV_NAME}"
    assert pv.spec.nfs == NFSVolumeSource(server="files", path=f"/srv/claims/{name}")
    assert pv.metadata.annotations == {PROVISIONED_BY: PLUGIN_NAME, EXPORT: "/srv/claims"}
    assert (pv.spec.capacity, pv.spec.mount_options) == ({"storage": "1Gi"}, ("nfsvers=4.2",))
    assert export.tree() == [name]
    assert stat.S_IMODE((export.directory / name).stat().st_mode) == 0o777
    words = export.calls[0][9:]
    assert words[:2] == ("nfsvers=4.2,soft,timeo=100,retrans=2,nosuid,nodev,noexec", "files:/srv/claims")
    assert export.provision() == pv


def test_a_pattern_says_where_and_a_mode_who_may(export: Export) -> None:
    claim = made_claim(labels={"team": "a"}, annotations={"example.com/kind": "logs"})
    pattern = "x-${.PVC.labels.team}/${.PVC.annotations.example.com/kind}/${.PVC.name}"
    export.provision(claim, pathPattern=pattern, mode="0750")
    assert export.tree() == ["x-a", "x-a/logs", f"x-a/logs/data-{PV_NAME}"]
    assert stat.S_IMODE((export.directory / f"x-a/logs/data-{PV_NAME}").stat().st_mode) == 0o750
    assert stat.S_IMODE((export.directory / "x-a").stat().st_mode) == 0o755


@pytest.mark.parametrize(
    "value", ["../../etc", "..", ".", "/etc", "a/b", "$(touch x)", "`x`", "a\nb", "-rf", "..%2f", "ä", " "]
)
def test_a_value_adds_no_directory_and_leads_nowhere_else(export: Export, value: str) -> None:
    claim = made_claim(annotations={"p": value})
    pv = export.provision(claim, pathPattern="${.PVC.annotations.p}/${.PVC.annotations.p}")
    first, second = (each for each in export.tree())
    assert second.startswith(f"{first}/") and second.count("/") == 1
    assert not first.startswith(".")
    export.delete(pv)
    assert export.tree() == [first]


@given(value=st.text(min_size=1, max_size=40))
def test_whatever_a_value_is_it_is_one_plain_name(value: str) -> None:
    assume(len(escaped(value)) + len(PV_NAME) + len("%2E-") <= LONGEST_NAME)  # else it is refused
    names = names_of("${.PVC.labels.l}", made_claim(labels={"l": value}), PV_NAME)
    assert len(names) == 1
    assert names[0].endswith(PV_NAME) and not names[0].startswith(".")
    assert not set("/\0\n ") & set(names[0]) and names[0].isascii()


@given(st.text(max_size=20), st.text(max_size=20))
def test_two_values_have_two_names(one: str, other: str) -> None:
    assert (escaped(one) == escaped(other)) == (one == other)


@pytest.mark.parametrize(
    "parameters",
    [
        {"pathPattern": "/a"},
        {"pathPattern": "a//b"},
        {"pathPattern": "a b"},
        {"pathPattern": "${.PVC.uid}"},
        {"pathPattern": "${.PVC.labels.missing}"},
        {"pathPattern": "$(id)"},
        {"pathPattern": "/".join("abcdefghi")},
        {"pathPattern": "x" * 300},
        {"mode": "777777"},
        {"mode": "u+s"},
        {"mode": "4777"},
        {"server": ""},
        {"server": "-o"},
        {"path": "srv"},
        {"path": "/srv/../etc"},
        {"other": "x"},
    ],
)
def test_a_class_that_cannot_be_meant_makes_nothing(export: Export, parameters: dict[str, str]) -> None:
    with pytest.raises(InvalidSpec):
        export.provision(**parameters)
    assert export.calls == []


def test_dots_of_a_pattern_are_no_way_out(export: Export) -> None:
    export.provision(pathPattern="../${.PVC.name}")
    assert export.tree() == ["%2E.", f"%2E./data-{PV_NAME}"]


@pytest.mark.parametrize("fields", [{"volume_mode": "Block"}, {"resources": VolumeResourceRequirements()}])
def test_a_claim_that_a_directory_cannot_be_is_refused(export: Export, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidSpec):
        export.provision(made_claim(**fields))


def test_content_of_another_volume_is_refused(export: Export) -> None:
    options = VolumeOptions(PV_NAME, made_claim(), parameters=SERVER, content=ContentSource(volume="x"))
    with pytest.raises(InvalidSpec, match="content of another volume"):
        asyncio.run(export.plugin.new_provisioner(options).provision())


@pytest.mark.parametrize("link", ["shop", f"shop/data-{PV_NAME}"])
def test_a_link_on_the_export_is_not_followed(export: Export, link: str) -> None:
    """Clients with the whole export mounted could put one there."""
    outside = export.root / "outside"
    outside.mkdir(mode=0o700)
    (outside / f"data-{PV_NAME}").mkdir(mode=0o700)
    (outside / f"data-{PV_NAME}/kept").touch()
    place = export.directory / link
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(outside)
    with pytest.raises(VolumeError, match="a link or a file"):
        export.provision(pathPattern="${.PVC.namespace}/${.PVC.name}")
    assert stat.S_IMODE(outside.stat().st_mode) == 0o700
    name = f"/srv/claims/shop/data-{PV_NAME}"
    with pytest.raises(VolumeError, match="a link or a file"):
        export.delete(made_pv(name))
    assert (outside / f"data-{PV_NAME}/kept").exists()


def made_pv(path: str, by: str = PLUGIN_NAME, within: str = "/srv/claims") -> PersistentVolume:
    return PersistentVolume(
        metadata=ObjectMeta(name=PV_NAME, annotations={PROVISIONED_BY: by, EXPORT: within}),
        spec=PersistentVolumeSpec(nfs=NFSVolumeSource(server="files", path=path)),
    )


def test_a_deleted_volume_is_gone_with_all_in_it_and_the_others_stay(export: Export) -> None:
    pv = export.provision(pathPattern="${.PVC.namespace}/${.PVC.name}")
    place = export.directory / f"shop/data-{PV_NAME}"
    (place / "a/.b").mkdir(parents=True)
    (place / "a/file").touch()
    outside = export.root / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    (place / "link").symlink_to(outside)
    (export.directory / "shop/other").mkdir()
    export.delete(pv)
    assert export.tree() == ["shop", "shop/other"]
    assert (outside / "kept").exists()
    export.delete(pv)


def test_it_is_moved_aside_before_anything_of_it_is_removed(export: Export) -> None:
    """A removal that ended in its middle leaves no half volume under its name, and is finished."""
    pv = export.provision()
    (name,) = export.tree()
    os.rename(export.directory / name, export.directory / f"{nfs_directories.ASIDE}{name}")
    (export.directory / f"{nfs_directories.ASIDE}{name}" / "rest").touch()
    export.delete(pv)
    assert export.tree() == []


@pytest.mark.parametrize(
    "pv",
    [
        made_pv(f"/srv/claims/a-{PV_NAME}", by="example.com/nfs"),
        made_pv(f"/srv/claims/a-{PV_NAME}", within=""),
        made_pv(f"/srv/other/a-{PV_NAME}"),
        made_pv("/srv/claims/data"),
        made_pv("/srv/claims"),
        made_pv(f"/srv/claims//a-{PV_NAME}"),
        made_pv(f"/srv/claims/./a-{PV_NAME}"),
    ],
)
def test_what_was_not_made_so_is_never_removed(export: Export, pv: PersistentVolume) -> None:
    with pytest.raises(InvalidSpec, match="is not removed"):
        export.delete(pv)
    assert export.calls == []


def test_a_recycled_export_is_empty_and_still_there(export: Export) -> None:
    (export.directory / "a/.b").mkdir(parents=True)
    (export.directory / ".hidden").touch()
    events: list[str] = []
    export.recycle(events=events)
    assert export.tree() == [] and export.directory.is_dir()
    assert events == ["everything in files:/srv/claims is being removed"]
    assert export.calls[0][9].startswith("nfsvers=3,soft")


STANDS_STILL = """#!/bin/sh
case "$*" in
*-delete) if mkdir "{0}/began" 2>/dev/null; then while ! [ -e "{0}/go" ]; do sleep 0.01; done; fi ;;
esac
PATH="{1}" exec find "$@"
"""
"""A `find` that, the first time that it is to remove anything, first stands still."""


def test_who_stood_still_while_it_emptied_an_export_removes_nothing_of_its_next_claim(
    export: Export, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its successor has emptied it meanwhile, and another claim has it."""
    program, path = export.root / "bin/find", os.environ["PATH"]
    program.parent.mkdir()
    program.write_text(STANDS_STILL.format(export.root, path))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{path}")
    (export.directory / "data").mkdir()
    with ThreadPoolExecutor() as other:
        late = other.submit(export.recycle)
        try:
            while not (export.root / "began").exists():
                time.sleep(0.01)
            export.recycle()
            assert export.tree() == []
            (export.directory / "data").mkdir()
        finally:
            (export.root / "go").touch()
        with suppress(VolumeError):
            late.result()
    assert export.tree() == ["data"]


def test_what_is_left_aside_is_removed_the_next_time(export: Export) -> None:
    (export.directory / f"{nfs_directories.ASIDE}Wx3fQ0aa/rest").mkdir(parents=True)
    export.recycle()
    assert export.tree() == []


def test_without_the_operators_word_nothing_is_recycled(export: Export) -> None:
    export.settings.clear()
    with pytest.raises(InvalidSpec, match="recycle=this-machine"):
        export.recycle()
    assert export.calls == []


def test_all_that_a_server_exports_is_never_recycled(export: Export) -> None:
    with pytest.raises(InvalidSpec, match="all that the server exports"):
        export.recycle("/")
    assert export.calls == []


def test_a_server_that_hangs_is_told_of_and_it_goes_on_from_there(export: Export) -> None:
    export.hangs = True
    with pytest.raises(OutcomeUnknown, match="within 390 s"):
        export.recycle()
    with pytest.raises(OutcomeUnknown, match="within 60 s"):
        export.provision()


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("mount.nfs: access denied by server", "let that in"),
        ("mkdir: cannot create directory: Permission denied", "no_root_squash"),
        ("unshare: unshare failed: Operation not permitted", "run as root"),
        ("mount: unknown filesystem type 'nfs'", "modprobe nfs"),
    ],
)
def test_a_failure_says_what_to_do(export: Export, said: str, told: str) -> None:
    export.said = said
    with pytest.raises(VolumeError, match=told):
        export.provision()
