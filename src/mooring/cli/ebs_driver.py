"""`mooring ebs-driver`, also installed as `aws-ebs-csi-driver`: `ebs.csi.aws.com`, with upstream's flags.

What cannot work ends it with status 2 and a message. (Upstream ends with 0 there, as if it had done its
work.)
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import structlog

from mooring import __version__
from mooring.cli.attaching import switch
from mooring.cli.ebs_serving import serve
from mooring.cli.output import fail, log_lines
from mooring.cli.parts import run_until_signalled
from mooring.cli.tasks import answer_signal
from mooring.ebs import options as ebs_options
from mooring.ebs.options import Mode, Options, flag

V = TypeVar("V")

log = structlog.get_logger(component="ebs")

DEBUG_VERBOSITY = 4
"""From this `--v` on the log has also what is asked all the time."""

WITHOUT_USE = {
    "kubeconfig": "this driver makes no call to Kubernetes",
    "deprecated_metrics": "there are no metrics under deprecated names",
    "csi_mount_point_prefix": "it is for the metrics of NVMe devices, which are not served",
    "logtostderr": "the log is on standard error always",
    "feature_gates": "there are none",
}
REFUSED = {
    "enable_otel_tracing": "traces are not sent anywhere; /metrics and the log have each call",
    "windows_host_process": "this driver serves Linux nodes",
    "enable_node_local_volumes": "volumes of the kind local-ebs:// are not served",
}


def parsed(read: Callable[[Any], V]) -> Callable[[click.Context, click.Parameter, Any], V]:
    """A callback that reads a value; ValueError becomes a usage error."""

    def callback(context: click.Context, parameter: click.Parameter, given: Any) -> V:
        try:
            return read(given)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return callback


def _verbosity(text: str) -> int:
    """`-v=2`, as Go's programs have it, comes as "=2"."""
    return int(text.removeprefix("="))


def _tags(texts: tuple[str, ...]) -> dict[str, str]:
    return ebs_options.parse_tags(",".join(texts))


def _host_port(text: str) -> str:
    if text:
        ebs_options.parse_host_port(text)
    return text


def _mode(text: str) -> Mode:
    if reason := ebs_options.OTHER_MODES.get(text):
        raise ValueError(f"{text} is not a mode of this driver: {reason}")
    if text not in list(Mode):
        raise ValueError(f"{text!r} is not a mode: choose one of {', '.join(Mode)}")
    return Mode(text)


def option(name: str, help: str, **more: Any) -> Callable[[Any], Any]:
    """An option whose default is that of `Options`."""
    default = getattr(Options(), name.removeprefix("--").replace("-", "_"))
    return click.option(name, help=help, default=default, show_default=default not in ("", -1, None), **more)


def unused(name: str) -> Callable[[Any], Any]:
    """An option that is accepted, in Go's form for a switch or with a value."""
    return click.option(name, default=None, is_flag=False, flag_value="true", hidden=True)


@click.command("ebs-driver", context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="aws-ebs-csi-driver")
@click.argument("mode", default="all", callback=parsed(_mode), metavar="[all|controller|node]")
@click.option(
    "--endpoint",
    multiple=True,
    default=Options().endpoint,
    show_default=True,
    help="unix:///PATH or tcp://HOST:PORT; several.",
)
@option(
    "--http-endpoint",
    "HOST:PORT for /metrics and /healthz. Default: not served.",
    callback=parsed(_host_port),
)
@option("--metrics-cert-file", "TLS certificate for --http-endpoint.")
@option("--metrics-key-file", "Its key.")
@click.option(
    "-v",
    "--v",
    "verbosity",
    default="2",
    show_default=True,
    callback=parsed(_verbosity),
    help=f"Verbosity of the log; {DEBUG_VERBOSITY} and more: everything.",
)
@click.option("--logging-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--region", default="", help="AWS region. Default: AWS_REGION, then the instance's own.")
@click.option(
    "--metadata-sources",
    default="imds",
    callback=parsed(ebs_options.parse_sources),
    help="imds, or anything without it: the metadata service is not used, see --instance-id.",
)
@option("--user-agent-extra", "Added to the user agent of calls to AWS.")
@switch("--aws-sdk-debug-log", "Log what botocore decides.")
@click.option(
    "--extra-tags",
    multiple=True,
    callback=parsed(_tags),
    metavar="K=V,K=V",
    help="On new volumes and snapshots.",
)
@click.option(
    "--extra-volume-tags", multiple=True, callback=parsed(_tags), metavar="K=V,K=V", help="On new volumes."
)
@option("--k8s-tag-cluster-id", "The cluster's id, for tags of volumes and snapshots.")
@switch("--warn-on-invalid-tag", "Leave out tags that EC2 would refuse, instead of failing.")
@switch("--batching", "Ask EC2 many questions in one call.", default=True)
@switch("--pacing", "Call EC2 no faster than its quotas allow.", default=True)
@click.option(
    "--modify-volume-request-handler-timeout",
    default="2s",
    show_default=True,
    callback=parsed(ebs_options.parse_duration),
    help="How long changes to one volume are gathered.",
)
@click.option(
    "--settle-time",
    default="5s",
    show_default=True,
    callback=parsed(ebs_options.parse_duration),
    help="By how much EC2's descriptions may be behind. 0 is for an endpoint that always shows what is.",
)
@option(
    "--volume-attach-limit", "Volumes that this node may have. Default: from the instance's type.", type=int
)
@option(
    "--reserved-volume-attachments",
    "Attachments that are not this driver's, the root's included. Default: counted.",
    type=int,
)
@switch("--legacy-xfs", "Make xfs file systems that older kernels can mount, too.")
@option("--csi-mount-point-prefix", "Accepted; without effect.", hidden=True)
@click.option(
    "--allow-path",
    multiple=True,
    type=click.Path(path_type=Path),
    default=Options().allow_path,
    show_default=True,
    help="A directory below which volumes may be mounted; several.",
)
@option("--device-dir", "Where the instance's devices are.", type=click.Path(path_type=Path))
@option("--instance-id", "Instead of the metadata service's answer.", envvar="EBS_INSTANCE_ID")
@option("--instance-type", "Instead of the metadata service's answer.", envvar="EBS_INSTANCE_TYPE")
@option("--zone", "Instead of the metadata service's answer.", envvar="EBS_ZONE")
@unused("--kubeconfig")
@unused("--logtostderr")
@unused("--deprecated-metrics")
@unused("--feature-gates")
@unused("--enable-otel-tracing")
@unused("--windows-host-process")
@unused("--enable-node-local-volumes")
@click.pass_context
def ebs_driver(context: click.Context, /, **given: Any) -> None:
    """ebs.csi.aws.com: Amazon EBS volumes, as a CSI driver.

    One process is the controller, the node service (which needs root, and no credentials), or both.
    """
    on_command_line = {name for name in given if _was_given(context, name)}
    verbosity, as_json = given.pop("verbosity"), given.pop("logging_format") == "json"
    _log_as_asked("debug" if verbosity >= DEBUG_VERBOSITY else "info", as_json)
    options = options_of(given, on_command_line, dict(os.environ))
    if options.has_node and os.geteuid() != 0:
        fail(
            "the node service needs root: it mounts file systems. As a controller only: aws-ebs-csi-driver controller"
        )
    answer_signal()
    _run(options)


def _was_given(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def _log_as_asked(level: str, as_json: bool) -> None:
    log_lines(level)
    if as_json:
        *others, _ = structlog.get_config()["processors"]
        structlog.configure(processors=[*others, structlog.processors.JSONRenderer()])


def options_of(given: dict[str, Any], on_command_line: set[str], environment: dict[str, str]) -> Options:
    """The options for what was given. Says in the log what has no use. Raises click.UsageError."""
    asks_metadata, other_sources = given.pop("metadata_sources")
    for source in other_sources:
        log.warning(
            "this source of metadata has no use here", source=source, reason=WITHOUT_USE["kubeconfig"]
        )
    for name, reason in WITHOUT_USE.items():
        if name in on_command_line:
            log.warning("this flag has no use here", flag=flag(name), reason=reason)
    for name, reason in REFUSED.items():
        if given.pop(name) not in (None, "false"):
            raise click.UsageError(f"{flag(name)}: {reason}")
    known: dict[str, Any] = {
        name: value for name, value in given.items() if name in Options.__dataclass_fields__
    }
    known["region"] = known["region"] or ebs_options.region(environment)
    known["ec2_endpoint"] = ebs_options.ec2_endpoint(environment)
    known["metadata_endpoint"] = ebs_options.metadata_endpoint(environment) if asks_metadata else ""
    options = Options(**known)
    if problems := ebs_options.refusals(options, on_command_line):
        raise click.UsageError("; ".join(problems))
    return options


def _run(options: Options) -> None:
    """Serves until a signal."""
    from mooring.csi.errors import EndpointError
    from mooring.ebs.errors import EbsError
    from mooring.kube.errors import ConfigError

    try:
        run_until_signalled(serve(options))
    except EndpointError as error:
        fail(error.message)
    except (EbsError, ConfigError) as error:
        fail(str(error))


COMMANDS = (ebs_driver,)


def main() -> None:
    """The program `aws-ebs-csi-driver`."""
    ebs_driver.main(prog_name="aws-ebs-csi-driver")
