"""Groups of commands: their help says the whole first sentence of each command, however narrow the window
is."""

from __future__ import annotations

import click

_WHOLE = 10_000
"""Characters: longer than any sentence, so that click does not end it with an ellipsis."""


class Group(click.Group):
    """As click's. Subcommands' sentences are wrapped where click cuts them off."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the section Commands."""
        named = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [
            (name, command.get_short_help_str(_WHOLE))
            for name, command in named
            if command is not None and not command.hidden
        ]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)
