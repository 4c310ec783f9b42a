"""What is drawn on a terminal fits into its window."""

from __future__ import annotations

import io
import os

import pytest

from mooring.cluster.screen import Screen, coloured, fitted, is_terminal


class Window(io.StringIO):
    """A terminal of a size."""

    def isatty(self) -> bool:
        return True


class Sized(Screen):
    """Draws on a window whose size the test sets."""

    now = os.terminal_size((20, 10))

    @property
    def size(self) -> os.terminal_size:
        return self.now


def test_lines_that_fit_are_drawn_as_they_are():
    assert fitted(["a", "b"], 2) == ["a", "b"]


def test_a_line_that_is_too_long_is_cut():
    out = Window()
    Sized(out).draw(["x" * 30])
    assert out.getvalue().count("x") == 20


@pytest.mark.parametrize(
    ("line", "word", "number"),
    [("n  Ready", "Ready", 32), ("n  NotReady", "NotReady", 31), ("n  attaching?: no", "attaching", 33)],
)
def test_a_state_has_its_colour_as_a_whole_word(line: str, word: str, number: int):
    assert f"\x1b[{number}m{word}\x1b[0m" in coloured(line)


def test_a_word_that_only_looks_like_a_state_has_none():
    assert coloured("detached; AlreadyReady") == "detached; AlreadyReady"


def test_the_last_line_says_how_many_are_left_out():
    assert fitted(["a", "b", "c", "d"], 3, "look there") == ["a", "b", "… 2 more lines: look there"]


@pytest.mark.parametrize("height", [0, 1, 2])
def test_no_window_is_too_small(height: int):
    assert len(fitted(["a", "b", "c"], height)) <= max(height, 1)


def test_what_is_drawn_again_takes_the_place_of_what_was_there():
    out = Window()
    screen = Sized(out)
    screen.draw(["a", "b"])
    assert "\x1b[2F" not in out.getvalue()
    screen.draw(["c"])
    assert out.getvalue().count("\x1b[2F") == 1
    screen.draw(["d"])
    assert out.getvalue().count("\x1b[1F") == 1


def test_after_a_change_of_the_windows_size_everything_is_drawn_anew():
    out = Window()
    screen = Sized(out)
    screen.draw(["a"])
    screen.now = os.terminal_size((10, 10))
    screen.draw(["a"])
    assert "\x1b[2J" in out.getvalue()


def test_a_terminal_that_can_nothing_is_treated_as_a_pipe(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TERM", "xterm")
    assert is_terminal(Window())
    assert not is_terminal(io.StringIO())
    monkeypatch.setenv("TERM", "dumb")
    assert not is_terminal(Window())
