"""Without libstdc++.so.6 only what needs RE2 or gRPC says so and ends; all else runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mooring.cli import main

WITHOUT = (
    "import sys; sys.modules['_re2'] = sys.modules['re2'] = None; from mooring.cli.main import cli, main; "
)


def run(program: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT + program, *words]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_the_version_is_said_and_every_command_explains_itself():
    program = (
        "import click; context = click.Context(cli); main() if sys.argv[1:] else "
        "[cli.get_command(context, name).get_help(context) for name in cli.list_commands(context)]"
    )
    assert run(program).stderr == ""
    assert run(program, "version").stdout.startswith("mooring")


@pytest.mark.parametrize("words", [("up",), ("apiserver",), ("cloud", "--devices", "off")])
def test_what_needs_it_names_the_package_before_anything_is_begun(words: tuple[str, ...], tmp_path: Path):
    data = tmp_path / "data"
    done = run("main()", *words, "--data-dir", str(data))
    assert done.returncode == 1
    assert "apt-get install libstdc++6" in done.stderr
    assert "Traceback" not in done.stderr
    assert not data.exists()


def test_the_doctor_names_the_package(tmp_path: Path):
    done = run("main()", "doctor", "--data-dir", str(tmp_path / "data"))
    assert done.returncode == 1
    assert "apt-get install libstdc++6" in done.stdout


def library() -> list[Path]:
    return list(Path("/usr/lib").glob("*-linux-gnu/libstdc++.so.6"))


@pytest.mark.root
@pytest.mark.skipif(not library(), reason="needs a system whose C++ library can be hidden")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("version",), "kubernetes"),
        (("reason", "InUse"), "What to do"),
        (("why", "pod/x", "--kubeconfig", "/none"), "error: no kubeconfig at /none"),
        (
            ("csi", "attacher", "--csi-address", "unix:///x", "--kubeconfig", "/none"),
            "apt-get install libstdc++6",
        ),
    ],
    ids=lambda each: each[0] if isinstance(each, tuple) else "",
)
def test_where_the_library_is_really_away(words: tuple[str, ...], said: str):
    script = f'mount --bind /dev/null {library()[0]} && exec "$@"'
    mooring = [sys.executable, "-m", "mooring.cli.main", *words]
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", *mooring], check=False, capture_output=True, text=True
    )
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_another_import_that_fails_is_an_error_of_ours_and_stays_one(monkeypatch: pytest.MonkeyPatch):
    def broken(**_: object) -> None:
        raise ImportError("cannot import name 'gone'")

    monkeypatch.setattr(main, "cli", broken)
    with pytest.raises(ImportError, match="gone"):
        main.main()
