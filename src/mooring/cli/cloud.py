"""`mooring cloud`: EC2's volumes on this machine, for anything that speaks to EC2."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from random import Random, SystemRandom
from typing import TYPE_CHECKING, Any, cast

import click

from mooring.cli.groups import Group
from mooring.cli.output import fail, log_lines, print_table
from mooring.cli.parts import LOG_LEVEL, run_until_signalled
from mooring.cli.tasks import answer_signal

if TYPE_CHECKING:
    from mooring.cloud.data_directory import DataDirectory
    from mooring.cloud.endpoint.server import Server

DEFAULT_PORT = 7480


def default_directory() -> Path:
    """In a cluster's data directory, where `mooring up --cloud` has its cloud."""
    from mooring.cluster.layout import open_layout

    return open_layout(None).cloud


DATA_DIR = click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    help="Where everything is kept. Default: /var/lib/mooring/cloud.",
)
SETTING = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="A delay, a limit or a fault, as `mooring cloud settings` lists them: attaching_s=1,4; several.",
)
JSON = click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table")


@click.group(cls=Group, invoke_without_command=True)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help=f"On 127.0.0.1; 0: any. Default: the last one, {DEFAULT_PORT}.",
)
@DATA_DIR
@click.option(
    "--instances", default=3, show_default=True, type=click.IntRange(0, 1000), help="How many there shall be."
)
@click.option("--instance-type", default="", help="Of instances that are made now. Default: m5.large.")
@click.option(
    "--devices",
    type=click.Choice(["on", "off"]),
    help="Whether attached volumes are block devices (needs root). Default: on for root.",
)
@click.option(
    "--power",
    help="A socket at which instances' machines are switched on and off (docs/cloud.md). Default: none.",
)
@click.option("--seed", type=int, help="The same seed, and the same requests: the same ids and delays.")
@SETTING
@LOG_LEVEL
@click.pass_context
def cloud(
    context: click.Context,
    port: int | None,
    data_dir: Path | None,
    instances: int,
    instance_type: str,
    devices: str | None,
    power: str | None,
    seed: int | None,
    settings: tuple[str, ...],
    log_level: str,
) -> None:
    """An EC2-compatible endpoint on this machine: volumes, snapshots, instances, with EC2's delays and
    quotas.

    As root, an attached volume is a block device of its instance. In the foreground, until Ctrl-C; all state
    is in the data directory, and the next start resumes there.
    """
    if context.invoked_subcommand is not None:
        context.obj = data_dir
        return
    from mooring.cloud.data_directory import DataDirectory
    from mooring.cloud.errors import CloudError
    from mooring.linear_patterns import require

    require()
    real = devices == "on" if devices else os.geteuid() == 0
    if real and os.geteuid() != 0:
        fail(
            "--devices=on needs root: it makes loop devices. With --devices=off there are only records of volumes"
        )
    log_lines(log_level)
    answer_signal()
    directory = DataDirectory((data_dir or default_directory()).absolute())
    rng = Random(seed if seed is not None else SystemRandom().getrandbits(64))
    try:
        run_until_signalled(
            _serve(directory, port, instances, instance_type, real, rng, parsed(settings), power)
        )
    except CloudError as error:
        fail(str(error))


async def _serve(
    directory: DataDirectory,
    port: int | None,
    instances: int,
    instance_type: str,
    real: bool,
    rng: Random,
    settings: dict[str, Any],
    power: str | None,
) -> None:
    from mooring.cloud.process import running

    async with running(directory, port, DEFAULT_PORT, real, rng, settings, power) as server:
        server.cloud.launch(instances, instance_type or server.cloud.settings.instance_type)
        await server.listen_for_instances()
        _greet(server, directory.root, real)
        await asyncio.Event().wait()


def _greet(server: Server, root: Path, real: bool) -> None:
    what = (
        "attached volumes are block devices" if real else "there are only records of volumes (--devices=off)"
    )
    click.echo(f"EC2 ({server.cloud.settings.region}) on {server.endpoint}; {what}")
    print_table([["INSTANCE", "TYPE", "ZONE", "METADATA"], *map(_row, server.shown()["instances"])])
    click.echo(f'for a client:  eval "$(mooring cloud env --data-dir {shlex.quote(str(root))})"')


def _row(instance: dict[str, str]) -> list[str]:
    return [instance[name] for name in ("instance_id", "instance_type", "zone", "metadata_endpoint")]


def parsed(given: Sequence[str]) -> dict[str, Any]:
    """`NAME=VALUE` as settings. The value is JSON, or plain words or numbers with commas between them; one
    number is a delay of exactly that. A usage error for anything else."""
    from mooring.cloud.settings import Settings, from_json, to_json

    defaults, found = to_json(Settings()), dict[str, Any]()
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or name not in defaults:
            raise click.UsageError(f"--set {text!r}: NAME=VALUE, where NAME is one of {', '.join(defaults)}")
        found[name] = _value(value, defaults[name])
    try:
        from_json(found)
    except ValueError as error:
        raise click.UsageError(f"--set: {error}") from None
    return found


def _value(text: str, default: Any) -> Any:
    if isinstance(default, str):
        return text
    value = _decoded(text)
    if isinstance(default, (list, tuple)) and not isinstance(value, list):
        return [value, value] if isinstance(value, int | float) else [value]
    return cast(Any, value)


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return [_number_or_text(part) for part in filter(None, text.split(","))]


def _number_or_text(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


# --- what one asks a cloud that runs


@cloud.command()
@DATA_DIR
@click.argument("instance", required=False)
@click.pass_context
def env(context: click.Context, data_dir: Path | None, instance: str | None) -> None:
    """Prints what a client needs: `eval "$(mooring cloud env)"`; with INSTANCE (an id, or 1, 2, ...), on that
    one."""
    running = _Running.found(context, data_dir)
    variables = running.environment()
    if instance:
        found = running.instance(instance)
        variables |= {
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": found["metadata_endpoint"],
            "MOORING_CLOUD_INSTANCE": found["instance_id"],
            "MOORING_CLOUD_DEVICES": str(running.directory.root / "instances" / found["instance_id"] / "dev"),
        }
    for name, value in variables.items():
        click.echo(f"export {name}={shlex.quote(value)}")


@cloud.command()
@DATA_DIR
@JSON
@click.pass_context
def status(context: click.Context, data_dir: Path | None, output: str) -> None:
    """Shows instances and volumes."""
    shown = _Running.found(context, data_dir).ask("GET", "")
    if output == "json":
        click.echo(json.dumps(shown, indent=2))
        return
    print_table([["INSTANCE", "TYPE", "ZONE", "METADATA"], *map(_row, shown["instances"])])
    click.echo()
    names = ("volume_id", "size", "type", "zone", "state", "attached", "name")
    rows = [[str(each[name]) for name in names] for each in shown["volumes"]]
    print_table([["VOLUME", "GIB", "TYPE", "ZONE", "STATE", "ATTACHED", "NAME"], *rows])


@cloud.command()
@DATA_DIR
@SETTING
@click.pass_context
def settings(context: click.Context, data_dir: Path | None, settings: tuple[str, ...]) -> None:
    """Shows the settings of a cloud that runs, and with --set changes them."""
    running = _Running.found(context, data_dir)
    shown = (
        running.ask("PATCH", "/settings", parsed(settings)) if settings else running.ask("GET", "/settings")
    )
    click.echo(json.dumps(shown, indent=2))


@cloud.command()
@DATA_DIR
@JSON
@click.option("--reset", is_flag=True, help="Count from 0 again.")
@click.pass_context
def counters(context: click.Context, data_dir: Path | None, output: str, reset: bool) -> None:
    """Shows how often each action was called, failed and was throttled."""
    running = _Running.found(context, data_dir)
    shown: dict[str, dict[str, int]] = running.ask("GET", "/counters")
    if reset:
        running.ask("DELETE", "/counters")
    if output == "json":
        click.echo(json.dumps(shown, indent=2))
        return
    rows = [
        [action, *(str(counts[kind]) for kind in ("calls", "errors", "throttles"))]
        for action, counts in shown.items()
    ]
    print_table([["ACTION", "CALLS", "ERRORS", "THROTTLED"], *rows])


class _Running:
    """A cloud that runs, as its data directory shows it."""

    def __init__(self, directory: DataDirectory, port: int, region: str) -> None:
        self.directory = directory
        self._endpoint = f"http://127.0.0.1:{port}"
        self._region = region

    @classmethod
    def found(cls, context: click.Context, data_dir: Path | None) -> _Running:
        from mooring.cloud.data_directory import DataDirectory

        given: Path = data_dir or context.obj or default_directory()
        directory = DataDirectory(given.absolute())
        endpoint = directory.endpoint()
        if endpoint is None:
            fail(
                f"no cloud has run in {directory.root}: start one with `mooring cloud --data-dir {directory.root}`"
            )
        return cls(directory, endpoint.port, endpoint.region)

    def environment(self) -> dict[str, str]:
        """For any SDK, the AWS command line, and upstream's EBS driver (AWS_EC2_ENDPOINT)."""
        credentials = self.directory.credentials(Random())
        return {
            "AWS_ENDPOINT_URL_EC2": self._endpoint,
            "AWS_EC2_ENDPOINT": self._endpoint,
            "AWS_REGION": self._region,
            "AWS_DEFAULT_REGION": self._region,
            "AWS_ACCESS_KEY_ID": credentials.access_key,
            "AWS_SECRET_ACCESS_KEY": credentials.secret_key,
        }

    def instance(self, wanted: str) -> dict[str, str]:
        """By id, or by its place among all: 1, 2, ..."""
        instances = cast("list[dict[str, str]]", self.ask("GET", "")["instances"])
        by_name = {str(place): each for place, each in enumerate(instances, 1)} | {
            each["instance_id"]: each for each in instances
        }
        if wanted not in by_name:
            fail(f"there is no instance {wanted}: `mooring cloud status` lists them")
        return by_name[wanted]

    def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """One request to the control API. Ends the program if that fails."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._endpoint}/_cloud{path}", data=data, method=method)
        request.add_header("Content-Type", "application/json")
        try:
            with contextlib.closing(urllib.request.urlopen(request, timeout=30)) as reply:  # nosec B310 # http
                return json.load(reply)
        except urllib.error.HTTPError as error:
            fail(json.load(error).get("error", str(error)))
        except OSError as error:
            start = f"mooring cloud --data-dir {self.directory.root}"
            fail(f"nothing answers on {self._endpoint} ({error}): start `{start}`")


COMMANDS = (cloud,)
