"""The last lines of files that grow."""

from __future__ import annotations

from pathlib import Path

from mooring.cluster.tails import Tail


def test_only_whole_lines_are_told_each_once(tmp_path: Path):
    path = tmp_path / "log"
    tail = Tail(path, 2)
    assert tail.look() == []
    path.write_text("a\nb")
    assert tail.look() == ["a"]
    with path.open("a") as file:
        file.write("c\n\nd\n")
    assert tail.look() == ["bc", "d"]
    assert list(tail.lines) == ["bc", "d"]
    assert tail.look() == []


def test_a_file_that_is_replaced_or_emptied_is_read_from_its_beginning(tmp_path: Path):
    path = tmp_path / "log"
    path.write_text("old\n")
    tail = Tail(path, 5)
    tail.look()
    path.write_text("n\n")
    assert tail.look() == ["n"]
    new = tmp_path / "new"
    new.write_text("again\n")
    new.rename(path)
    assert tail.look() == ["again"]


def test_of_a_long_file_only_the_end_is_read_at_first(tmp_path: Path):
    path = tmp_path / "log"
    path.write_text("x" * 100_000 + "\nlast\n")
    tail = Tail(path, 5)
    assert tail.look() == ["last"]
    assert list(tail.lines) == ["last"]


def test_a_line_that_is_longer_than_what_is_read_at_first_is_never_told_in_part(tmp_path: Path):
    path = tmp_path / "log"
    path.write_text("x" * 100_000)
    tail = Tail(path, 5)
    assert tail.look() == []
    with path.open("a") as file:
        file.write("its end\nnext\n")
    assert tail.look() == ["next"]
