"""Where a driver may act."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.csi.driver.paths import check_path, check_paths
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi


@pytest.fixture
def allowed(tmp_path: Path) -> Path:
    (tmp_path / "kubelet" / "pods").mkdir(parents=True)
    return tmp_path / "kubelet"


def problem_of(path: str, allowed: Path) -> str:
    """What is wrong with the path; "" if nothing is."""
    try:
        check_path(path, [allowed])
    except ValueError as error:
        return str(error)
    return ""


def test_what_is_below_the_directory_passes_also_if_it_is_not_there_yet(allowed: Path) -> None:
    for path in ("pods", "pods/p1/volumes/v/mount"):
        assert problem_of(f"{allowed}/{path}", allowed) == ""


@pytest.mark.parametrize(
    "path", ["relative", "", "/etc/passwd", "{}/../etc", "{}/a/../b", "{}/./a", "{}", "{}x", "//{}/a"]
)
def test_what_is_elsewhere_does_not(allowed: Path, path: str) -> None:
    with pytest.raises(ValueError, match=r"not below|absolute|must not hold"):
        check_path(path.format(allowed), [allowed])


@pytest.mark.parametrize("link", ["pods", "pods/p1", "pods/p1/mount"])
def test_a_planted_link_is_not_followed_wherever_it_is(allowed: Path, tmp_path: Path, link: str) -> None:
    (tmp_path / "elsewhere" / "p1" / "mount").mkdir(parents=True)
    place = allowed / link
    if place.is_dir():
        place.rmdir()
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="symbolic link"):
        check_path(f"{allowed}/pods/p1/mount", [allowed])


def test_the_directory_itself_may_be_behind_a_link(allowed: Path, tmp_path: Path) -> None:
    (tmp_path / "lib").symlink_to(allowed)
    assert problem_of(f"{tmp_path}/lib/pods/p1", tmp_path / "lib") == ""


def test_a_file_in_the_way_is_named(allowed: Path) -> None:
    (allowed / "file").write_text("")
    with pytest.raises(ValueError, match="cannot be"):
        check_path(f"{allowed}/file/below", [allowed])


def test_a_target_elsewhere_is_invalid_and_a_volume_elsewhere_is_not_found(allowed: Path) -> None:
    with pytest.raises(CsiError) as target:
        check_paths(csi.NodeUnpublishVolumeRequest(volume_id="v", target_path="/etc"), [allowed])
    with pytest.raises(CsiError) as volume:
        check_paths(csi.NodeGetVolumeStatsRequest(volume_id="v", volume_path="some/path"), [allowed])
    assert (target.value.code, volume.value.code) == (Code.INVALID_ARGUMENT, Code.NOT_FOUND)
