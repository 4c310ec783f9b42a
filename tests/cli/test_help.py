"""Help in a window of any width: nothing is cut off."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from mooring.cli.main import cli

Words = tuple[str, ...]


def commands(command: click.Command, words: Words = ()) -> Iterator[tuple[Words, click.Command]]:
    """All commands and groups, with the words that lead to them."""
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from commands(found, (*words, name))


ALL = dict(commands(cli))


def squeezed(text: str) -> str:
    """Without white space: where lines are broken does not matter, nor that a long word is."""
    return "".join(text.split())


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_every_text_and_every_option_is_there_as_a_whole(words: Words, width: int) -> None:
    printed = CliRunner().invoke(cli, [*words, "--help"], terminal_width=width).output
    shown, command = squeezed(printed), ALL[words]
    assert squeezed((command.help or "").replace("\b", "")) in shown
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert all(name in shown for name in (*parameter.opts, *parameter.secondary_opts))
            assert squeezed(parameter.help or "") in shown


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize(
    "words", [words for words, each in ALL.items() if isinstance(each, click.Group)], ids=" ".join
)
def test_a_group_says_the_first_sentence_of_each_of_its_commands(words: Words, width: int) -> None:
    shown = squeezed(CliRunner().invoke(cli, [*words, "--help"], terminal_width=width).output)
    for each, command in ALL.items():
        if each[:-1] == words and each != words and not command.hidden:
            sentence = " ".join((command.help or "").partition("\n\n")[0].split()).partition(". ")[0]
            assert squeezed(sentence) in shown


WRAPPED = [words for words, each in ALL.items() if "\b" not in (each.help or "")]


@pytest.mark.parametrize("words", WRAPPED, ids=" ".join)
def test_no_line_is_wider_than_the_window(words: Words) -> None:
    printed = CliRunner().invoke(cli, [*words, "--help"], terminal_width=60).output
    assert max(map(len, printed.splitlines())) <= 60
