"""The image and the plugin of krew have the very versions with which Mooring is developed and tested."""

from __future__ import annotations

import re
import tomllib

from .references import ROOT


def pins(name: str) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "requirements" / name).read_text(), re.MULTILINE))


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_what_is_installed_has_the_versions_that_the_tests_have():
    installed, developed = pins("run.txt"), pins("dev.txt")
    assert installed
    assert {name: version for name, version in installed.items() if developed.get(name) != version} == {}


def test_what_is_installed_has_all_that_mooring_needs():
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    named = {normal(re.split(r"[<>=~!\[; ]", each)[0]) for each in needed}
    assert named - {normal(each) for each in pins("run.txt")} == set()
