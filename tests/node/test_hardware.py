"""What a Node says of its machine."""

from __future__ import annotations

import platform

import pytest

from mooring.node import hardware
from mooring.node.hardware import Hardware, operating_system


def test_the_operating_system_is_named_as_it_names_itself(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: {"PRETTY_NAME": "Debian GNU/Linux 13"})
    assert operating_system() == "Debian GNU/Linux 13"


def test_a_name_of_any_length_is_a_short_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: {"PRETTY_NAME": "x" * 5000})
    assert len(operating_system()) == hardware.LONGEST_NAME


def test_a_system_without_a_name_has_none(monkeypatch: pytest.MonkeyPatch):
    def nameless() -> dict[str, str]:
        raise OSError("no os-release")

    monkeypatch.setattr(platform, "freedesktop_os_release", nameless)
    assert operating_system() == ""
    assert Hardware(1, 1, "amd64", "6.1").system == ""
