"""What may be a mount flag."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.csi.driver.mount_options import refused_options


@pytest.mark.parametrize(
    "flag", ["noatime", "ro", "commit=5", "data=ordered", "errors=remount-ro", "nodev", "uid=0"]
)
def test_options_of_file_systems_pass(flag: str) -> None:
    assert refused_options([flag]) == 0


@pytest.mark.parametrize(
    "flag", ["bind", "loop", "offset=1", "remount", "-o", "X-mount.mkdir", "a,b", "a b", "", "ro\n"]
)
def test_what_is_another_thing_to_do_does_not(flag: str) -> None:
    assert refused_options(["noatime", flag]) == 1


@settings(deadline=None)
@given(st.text())
def test_nothing_that_a_shell_or_a_list_of_options_would_split_passes(flag: str) -> None:
    if refused_options([flag]) == 0:
        assert not set(flag) & set(" ,;|&$`'\"<>()\\\n\0")
        assert not flag.startswith("-")
