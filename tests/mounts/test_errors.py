"""What a tool printed is told as far as it fits into an object."""

from __future__ import annotations

import pytest

from mooring.mounts.errors import MESSAGE_CHARACTERS, CommandFailed, FilesystemCheckFailed

VERDICT = "/dev/x: UNEXPECTED INCONSISTENCY; RUN fsck MANUALLY."
LONG = "Clearing orphaned inode\n" * 100_000 + VERDICT


@pytest.mark.parametrize(
    "error", [FilesystemCheckFailed("/dev/x", 4, LONG), CommandFailed(["fsck"], 4, LONG)]
)
def test_of_much_output_the_end_is_told_which_has_the_verdict(error: FilesystemCheckFailed | CommandFailed):
    assert str(error).endswith(VERDICT)
    assert len(str(error)) < MESSAGE_CHARACTERS + 200
    assert error.output == LONG


def test_what_is_short_is_told_as_a_whole():
    assert str(CommandFailed(["mount"], 32, "no such device\n")).endswith("status 32: no such device")
