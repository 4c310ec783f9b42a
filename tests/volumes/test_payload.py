"""Files that change together."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.volumes.errors import InvalidSpec
from mooring.volumes.payload import CURRENT, PayloadFile, check_path, digest, write_payload


def files(**contents: str) -> dict[str, PayloadFile]:
    return {name.replace("__", "/"): PayloadFile(text.encode(), 0o644) for name, text in contents.items()}


def shown(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): path.read_text()
        for name in os.listdir(directory)
        if not name.startswith("..")
        for path in ([directory / name, *(directory / name).rglob("*")])
        if path.is_file()
    }


def test_the_directory_shows_the_payload(tmp_path: Path):
    assert write_payload(tmp_path / "v", files(a="1", conf__b="2"))
    assert shown(tmp_path / "v") == {"a": "1", "conf/b": "2"}


@pytest.mark.parametrize("left", ["nothing of it", "its name", "its half"])
def test_files_whose_content_a_power_loss_took_are_written_again(tmp_path: Path, left: str):
    write_payload(tmp_path, files(a="first", conf__b="second"))
    lost = tmp_path / CURRENT / "conf" / "b"
    lost.write_bytes(b"sec" if left == "its half" else b"")
    if left == "nothing of it":
        lost.unlink()
    assert write_payload(tmp_path, files(a="first", conf__b="second"))
    assert shown(tmp_path) == {"a": "first", "conf/b": "second"}
    assert not write_payload(tmp_path, files(a="first", conf__b="second"))


def test_the_same_payload_again_changes_nothing(tmp_path: Path):
    write_payload(tmp_path, files(a="1"))
    before = os.readlink(tmp_path / CURRENT)
    assert not write_payload(tmp_path, files(a="1"))
    assert os.readlink(tmp_path / CURRENT) == before


def test_an_update_adds_changes_and_removes(tmp_path: Path):
    write_payload(tmp_path, files(a="1", b="1", old__c="1"))
    assert write_payload(tmp_path, files(a="2", b="1", new="1"))
    assert shown(tmp_path) == {"a": "2", "b": "1", "new": "1"}


def test_who_has_the_old_files_open_reads_all_old_ones(tmp_path: Path):
    write_payload(tmp_path, files(a="1", b="1"))
    old = os.open(tmp_path / CURRENT, os.O_RDONLY)
    with open(tmp_path / "a") as a:
        write_payload(tmp_path, files(a="2", b="2"))
        assert a.read() == "1"
    os.close(old)
    assert shown(tmp_path) == {"a": "2", "b": "2"}


def test_only_the_current_version_is_kept(tmp_path: Path):
    for version in "123":
        write_payload(tmp_path, files(a=version))
    assert len([name for name in os.listdir(tmp_path) if name.startswith("..")]) == 2


def test_what_a_crash_left_behind_is_completed_and_tidied(tmp_path: Path):
    payload = files(a="1")
    (tmp_path / f"..{digest(payload)}").mkdir()
    (tmp_path / f"..{digest(payload)}" / "half").touch()
    (tmp_path / "..data_tmp").symlink_to("..nowhere")
    (tmp_path / "..0123").mkdir()
    write_payload(tmp_path, payload)
    assert shown(tmp_path) == {"a": "1"}
    assert set(os.listdir(tmp_path)) == {"a", CURRENT, f"..{digest(payload)}"}


def test_modes_are_set_and_a_change_of_mode_is_a_change(tmp_path: Path):
    write_payload(tmp_path, {"a": PayloadFile(b"", 0o600)})
    assert (tmp_path / "a").stat().st_mode & 0o7777 == 0o600
    assert write_payload(tmp_path, {"a": PayloadFile(b"", 0o755)})
    assert (tmp_path / "a").stat().st_mode & 0o7777 == 0o755


def test_a_group_may_read_what_it_is_given(tmp_path: Path):
    write_payload(tmp_path, {"a": PayloadFile(b"", 0o600)}, group=os.getgid())
    status = (tmp_path / "a").stat()
    assert (status.st_mode & 0o7777, status.st_gid) == (0o640, os.getgid())


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "a/../../x", "..data", "..x/y", "."])
def test_a_path_that_leads_elsewhere_is_refused_before_anything_is_written(tmp_path: Path, path: str):
    with pytest.raises(InvalidSpec):
        write_payload(tmp_path / "v", {path: PayloadFile(b"", 0o644)})
    assert not (tmp_path / "v").exists()


@given(st.text(min_size=1))
def test_an_accepted_path_stays_inside(path: str):
    try:
        check_path(path)
    except InvalidSpec:
        return
    assert os.path.normpath(os.path.join("/v", path)).startswith("/v/")


PAYLOADS = st.dictionaries(
    st.text(max_size=3), st.builds(PayloadFile, st.binary(max_size=3), st.integers(0, 7)), max_size=3
)


@given(PAYLOADS, PAYLOADS)
def test_only_equal_payloads_have_the_same_digest(one: dict[str, PayloadFile], other: dict[str, PayloadFile]):
    assert (digest(one) == digest(other)) == (one == other)


def _modes(directory: Path) -> dict[str, int]:
    """Of the directory and all that its user sees, links followed."""
    found = {
        ".": directory,
        **{name: directory / name for name in ("top", "conf", "conf/deep", "conf/deep/b")},
    }
    return {name: stat.S_IMODE(path.stat().st_mode) for name, path in found.items()}


NESTED = {"top": PayloadFile(b"1", 0o600), "conf/deep/b": PayloadFile(b"2", 0o400)}
GIVEN = {".": 0o2755, "top": 0o640, "conf": 0o2755, "conf/deep": 0o2755, "conf/deep/b": 0o440}


def test_directories_are_the_groups_and_pass_it_on(tmp_path: Path):
    write_payload(tmp_path / "v", NESTED, group=os.getgid())
    assert _modes(tmp_path / "v") == GIVEN
    assert stat.S_IMODE((tmp_path / "v" / CURRENT).stat().st_mode) == 0o2755


def test_directories_can_be_entered_by_all_whatever_the_umask_is(tmp_path: Path):
    before = os.umask(0o077)
    try:
        write_payload(tmp_path, NESTED)
    finally:
        os.umask(before)
    assert [_modes(tmp_path)[name] for name in ("conf", "conf/deep")] == [0o755, 0o755]


def test_what_a_crash_left_ungiven_is_given_by_the_next_write(tmp_path: Path):
    write_payload(tmp_path / "v", NESTED, group=os.getgid())
    for path in (tmp_path / "v", tmp_path / "v" / CURRENT / "conf"):
        path.chmod(0o755)
    assert write_payload(tmp_path / "v", NESTED, group=os.getgid()) is False
    assert _modes(tmp_path / "v") == GIVEN
    changed = {**NESTED, "top": PayloadFile(b"new", 0o600)}
    assert write_payload(tmp_path / "v", changed, group=os.getgid())
    assert _modes(tmp_path / "v") == GIVEN
