"""The source distribution, the wheel that is built from it, and what runs from that alone."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml
from scripts.docs_site import commands, man

ROOT = Path(__file__).parents[2]
GENERATED = ("_pb2.py", "_pb2.pyi")


def built(source: Path, target: str, out: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(out)]
    done = subprocess.run(command, cwd=source, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (made,) = out.iterdir()
    return made


def lent_packages(folder: Path) -> Path:
    """A folder with what Mooring depends on, from the environment of these tests; neither Mooring nor pip."""
    lent = folder / "lent"
    lent.mkdir()
    for each in Path(sysconfig.get_path("purelib")).iterdir():
        if not each.name.startswith(("pip", "mooring")) and each.suffix != ".pth":
            (lent / each.name).symlink_to(each)
    return lent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("distribution")
    man.write(ROOT / "build/man")  # as `make dist` does it
    with tarfile.open(built(ROOT, "sdist", folder / "sdist")) as archive:
        archive.extractall(folder / "source", filter="data")
    (source,) = (folder / "source").iterdir()
    return built(source, "wheel", folder / "wheel")


def files(wheel: Path) -> set[str]:
    return set(zipfile.ZipFile(wheel).namelist())


def test_an_index_would_take_both(wheel: Path):
    both = [wheel, *(wheel.parents[1] / "sdist").iterdir()]
    done = subprocess.run(
        [Path(sys.executable).with_name("twine"), "check", "--strict", *both],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("PASSED") == 2


def test_the_wheel_has_every_file_of_the_package(wheel: Path):
    own = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src" / "mooring").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".")
    }
    assert "mooring/py.typed" in own
    assert sorted(own - files(wheel)) == []


def test_the_wheel_has_the_manifests_and_not_how_image_and_plugin_are_built(wheel: Path):
    found = {each for each in files(wheel) if each.startswith("mooring/install/manifests/")}
    assert "mooring/install/manifests/ebs-driver/base/controller.yaml" in found
    assert not [each for each in found if "/image/" in each or "/krew/" in each]


def test_the_wheel_has_a_man_page_for_each_command(wheel: Path):
    found = {each.rpartition("/")[2] for each in files(wheel) if "/share/man/man1/" in each}
    assert found == {f"{man.name(command)}.1" for command in commands.walk(commands.tree())}


def test_the_wheel_has_what_was_generated_for_it(wheel: Path):
    assert {each for each in files(wheel) if each.endswith(GENERATED)}


def test_no_file_of_this_machine_is_in_it(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            assert str(ROOT).encode() not in archive.read(name), name


def from_the_wheel(wheel: Path, folder: Path, *words: str) -> str:
    """What a command prints; not from the checkout that the tests run in."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    script = (
        f"import sys; sys.path.insert(0, {str(folder)!r}); import mooring; "
        f"assert mooring.__file__.startswith({str(folder)!r}), mooring.__file__; "
        "from mooring.cli.main import main; main()"
    )
    command = [sys.executable, "-c", script, *words]
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_from_the_wheel_alone_the_manifests_are_printed(wheel: Path, tmp_path: Path):
    words = ("install", "--image", "x:1", "--components", "attach-detach,ebs-driver")
    printed = from_the_wheel(wheel, tmp_path, *words)
    assert {"Deployment", "DaemonSet"} <= {each["kind"] for each in yaml.safe_load_all(printed)}


def test_from_the_wheel_alone_the_page_of_a_reason_is_printed(wheel: Path, tmp_path: Path):
    assert "What to do: " in from_the_wheel(wheel, tmp_path, "reason", "InUse")
