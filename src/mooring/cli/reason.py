"""`mooring reason`: what a reason code means and what can be done about it. Needs no cluster."""

from __future__ import annotations

import json
from dataclasses import asdict

import click
from click.shell_completion import CompletionItem

from mooring.cli.output import fail
from mooring.kube.printable import printable

WIDTH = 100


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from mooring.why.reason_pages import pages

    typed = incomplete.lower()
    return [CompletionItem(code) for code in pages() if code.lower().startswith(typed)]


@click.command()
@click.argument("codes", nargs=-1, metavar="[CODE]...", shell_complete=_complete)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def reason(codes: tuple[str, ...], output: str) -> None:
    """Says what a reason code means, and what can be done about it.

    CODE is what `mooring why`, events, conditions and metric labels name: MultiAttach, InUse, ...
    Without one: all codes, a line each.

    It asks no cluster and needs no network.
    """
    from mooring.why.reason_pages import near, pages

    known = pages()
    for code in codes:
        if code not in known:
            meant = near(code)
            hint = f": perhaps {', '.join(meant)}" if meant else "; `mooring reason` lists all"
            fail(f"there is no reason code {printable(code)[:80]}{hint}")
    chosen = [known[code] for code in codes or known]
    if output == "json":
        click.echo(json.dumps([asdict(each) for each in chosen], indent=2, ensure_ascii=False))
    elif not codes:
        for each in chosen:
            click.echo(
                f"{each.code:34}{'to do' if each.acts else '':7}{(each.means or each.says[0])[:WIDTH]}"
            )
    else:
        for number, each in enumerate(chosen):
            head, *rest = each.lines()
            click.echo("\n" * bool(number) + click.style(head, fg="yellow"))
            for paragraph in rest:
                click.echo(f"\n{_wrapped(paragraph)}")


def _wrapped(paragraph: str) -> str:
    lines = paragraph.splitlines()
    return "\n".join(
        click.wrap_text(line, WIDTH, subsequent_indent="  " if line.startswith("- ") else "")
        for line in lines
    )


COMMANDS = (reason,)
