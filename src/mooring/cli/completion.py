"""`mooring completion SHELL`, and what kubectl asks to complete `kubectl mooring …`.

kubectl runs `kubectl_complete-mooring` with the words typed so far, the last of which may be empty. It
reads a candidate a line (with a tab and what it means), and last `:` and a number of cobra's that says what
else may follow.
"""

from __future__ import annotations

import sys

import click
from click.shell_completion import ShellComplete, get_completion_class

VARIABLE = "_MOORING_COMPLETE"
NO_FILES, FILES = 4, 0
"""cobra's ShellCompDirectiveNoFileComp, and its default."""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Prints what SHELL reads to complete the words of `mooring`.

    \b
    bash:  eval "$(mooring completion bash)"        in ~/.bashrc
    zsh:   eval "$(mooring completion zsh)"         in ~/.zshrc
    fish:  mooring completion fish > ~/.config/fish/completions/mooring.fish
    """  # noqa: D301 - \b is the character by which click keeps lines as they are
    from mooring.cli.main import cli

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(cli, {}, "mooring", VARIABLE).source())


def for_kubectl() -> None:
    """The program `kubectl_complete-mooring`."""
    click.echo(answer(sys.argv[1:]))


def answer(words: list[str]) -> str:
    """What kubectl is told of these words."""
    from mooring.cli.main import cli

    typed, incomplete = (words[:-1], words[-1]) if words else ([], "")
    found = ShellComplete(cli, {}, "mooring", VARIABLE).get_completions(typed, incomplete)
    lines = [
        f"{each.value}\t{each.help}" if each.help else each.value for each in found if each.type == "plain"
    ]
    files = any(each.type in ("file", "dir") for each in found)
    return "\n".join([*lines, f":{FILES if files else NO_FILES}"])


COMMANDS = (completion,)
