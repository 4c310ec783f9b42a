"""`mooring page`: the live page about any cluster that a kubeconfig leads to. Reads only."""

from __future__ import annotations

import asyncio
import os
import webbrowser

import click

from mooring.cli.output import fail, log_lines
from mooring.cli.parts import KUBECONFIG, run_until_signalled


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="The page's port on 127.0.0.1; 0 for any free one.",
)
@click.option("--context", help="Of the kubeconfig. Default: its current one.")
@click.option("--open", "open_it", is_flag=True, help="Also open it in the browser.")
@KUBECONFIG
def page(port: int, context: str | None, open_it: bool, kubeconfig: str | None) -> None:
    """Shows the cluster in a browser, live: nodes, volumes and pods, what is stuck and why, the last hour.

    It prints the page's address, with a token, and serves it on this machine only, until Ctrl-C. It needs to
    get, list and watch what it shows, writes nothing, and reads no Secrets.
    """
    log_lines("error")
    from mooring.kube import config
    from mooring.kube.times import wall_clock
    from mooring.page.page import showing

    async def serve() -> None:
        access = config.read(config.find(os.environ, kubeconfig), context)
        client = access.client()
        try:
            async with showing(client, port=port, cluster=access.server, now=wall_clock) as server:
                click.echo(server.address)
                if open_it:
                    await asyncio.to_thread(webbrowser.open, server.address)
                await asyncio.Event().wait()
        except OSError as error:
            fail(f"cannot listen on port {port} of 127.0.0.1: {error.strerror or error}")
        finally:
            await client.close()

    run_until_signalled(serve())


COMMANDS = (page,)
