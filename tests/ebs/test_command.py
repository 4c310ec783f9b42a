"""`mooring ebs-driver` and `aws-ebs-csi-driver`: upstream's command line, and what is said when it cannot
be."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import structlog
from click.testing import CliRunner

from mooring.cli import ebs_driver as command
from mooring.cli import ebs_serving
from mooring.cli.main import cli
from mooring.csi.client import Client
from mooring.csi.proto import csi_pb2 as csi
from mooring.ebs.errors import MetadataError
from mooring.ebs.options import Mode, Options
from mooring.kube import metrics


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Generator[list[Options]]:
    """With what options the driver is started; it is not."""
    found: list[Options] = []
    monkeypatch.setattr(command, "_run", found.append)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    for name in (
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
        "AWS_EC2_ENDPOINT",
        "AWS_ENDPOINT_URL",
        "AWS_ENDPOINT_URL_EC2",
    ):
        monkeypatch.delenv(name, raising=False)
    yield found
    structlog.reset_defaults()  # the log went into a file that is closed now


def start(*arguments: str) -> tuple[int, str]:
    ended = CliRunner().invoke(cli, ["ebs-driver", *arguments])
    assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.exception
    return ended.exit_code, ended.output


def test_without_a_word_it_is_everything(started: list[Options]):
    assert start() == (0, "")
    assert started == [Options()]


@pytest.mark.parametrize("word", ["all", "controller", "node"])
def test_the_first_word_is_the_mode(started: list[Options], word: str):
    assert start(word)[0] == 0
    assert started[0].mode is Mode(word)


def test_the_flags_of_upstreams_controller_manifest(started: list[Options]):
    status, output = start(
        "controller", "--endpoint=unix:/csi/csi.sock", "--batching=true", "--k8s-tag-cluster-id=c1",
        "--extra-tags=a=1,b=2", "--extra-volume-tags=c=3", "--http-endpoint=0.0.0.0:3301", "--warn-on-invalid-tag",
        "--modify-volume-request-handler-timeout=1m30s", "--user-agent-extra=helm", "--aws-sdk-debug-log=true",
        "--logging-format=text", "--v=2", "--settle-time=750ms",
    )  # fmt: skip
    assert (status, output) == (0, "")
    [options] = started
    assert options.endpoint == ("unix:/csi/csi.sock",)
    assert options.volume_tags == {"a": "1", "b": "2", "c": "3"}
    assert options.warn_on_invalid_tag
    assert options.aws_sdk_debug_log
    assert options.modify_volume_request_handler_timeout == 90
    assert options.settle_time == 0.75


def test_the_flags_of_upstreams_node_manifest(started: list[Options]):
    status, output = start(
        "node", "--endpoint=unix:/csi/csi.sock", "--reserved-volume-attachments=2", "--legacy-xfs=true",
        "--metadata-sources=imds,kubernetes", "--logging-format=json", "-v=7",
        "--csi-mount-point-prefix=/var/lib/kubelet/plugins/kubernetes.io/csi/ebs.csi.aws.com/",
    )  # fmt: skip
    assert status == 0, output
    [options] = started
    assert options.reserved_volume_attachments == 2
    assert options.legacy_xfs
    assert options.metadata_endpoint == "http://169.254.169.254"


@pytest.mark.parametrize("text", ["0", "0s"])
def test_nothing_needs_to_settle_at_an_endpoint_that_always_shows_what_is(started: list[Options], text: str):
    assert start("controller", f"--settle-time={text}")[0] == 0
    assert started[0].settle_time == 0


def test_what_has_no_use_is_said(started: list[Options]):
    status, output = start(
        "--logtostderr", "--kubeconfig=/x", "--deprecated-metrics", "--logging-format=json"
    )
    assert status == 0
    lines = [json.loads(line) for line in output.splitlines()]
    assert {line["flag"] for line in lines} == {"--logtostderr", "--kubeconfig", "--deprecated-metrics"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nodes"], "choose one of all, controller, node"),
        (["metadataLabeler"], "not a mode of this driver"),
        (["pre-stop-hook"], "drain the node"),
        (["--no-such-flag"], "No such option"),
        (["node", "--batching=false"], "--batching has no meaning in mode node"),
        (["node", "--settle-time=1s"], "--settle-time has no meaning in mode node"),
        (["--settle-time=-1s"], "no duration"),
        (["controller", "--legacy-xfs"], "--legacy-xfs has no meaning in mode controller"),
        (["--volume-attach-limit=3", "--reserved-volume-attachments=1"], "exclude each other"),
        (["--modify-volume-request-handler-timeout=0"], "longer than 0"),
        (["--modify-volume-request-handler-timeout=soon"], "no duration"),
        (["--extra-tags=a"], "no tag"),
        (["--http-endpoint=3301"], "HOST:PORT"),
        (["--metrics-cert-file=/x", "--http-endpoint=:0"], "need each other"),
        (["--metadata-sources=ec2"], "unknown source"),
        (["--enable-otel-tracing"], "traces are not sent"),
        (["--enable-otel-tracing=true"], "traces are not sent"),
        (["--windows-host-process=true"], "Linux"),
        (["--enable-node-local-volumes"], "local-ebs"),
        (["--v=much"], "invalid"),
        (["--device-dir=dev"], "must be absolute"),
    ],
)
def test_what_cannot_be_ends_with_status_2_and_its_reason(
    started: list[Options], arguments: list[str], words: str
):
    status, output = start(*arguments)
    assert status == 2
    assert words in output
    assert started == []


def test_what_is_refused_may_be_switched_off(started: list[Options]):
    assert start("--enable-otel-tracing=false", "--windows-host-process=false") == (0, "")


def test_the_environment_says_where_the_cloud_is(started: list[Options], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    monkeypatch.setenv("AWS_EC2_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("EBS_INSTANCE_ID", "i-7")
    assert start()[0] == 0
    [options] = started
    assert (options.region, options.ec2_endpoint, options.metadata_endpoint, options.instance_id) == (
        "eu-north-1",
        "http://127.0.0.1:1",
        "",
        "i-7",
    )
    assert start("--region=us-west-2")[0] == 0
    assert started[1].region == "us-west-2"


def test_a_node_service_needs_root(started: list[Options], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    status, output = start("node")
    assert status == 1
    assert "needs root" in output
    assert start("controller")[0] == 0


async def test_a_controller_that_nobody_tells_a_region_says_so():
    with pytest.raises(MetadataError, match="AWS_REGION"):
        async with contextlib.AsyncExitStack() as stack:
            await ebs_serving.assemble(Options(mode=Mode.CONTROLLER, metadata_endpoint=""), stack)


def make_certificate(key: Path, certificate: Path) -> None:
    request = ["-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "2"]
    command = ["openssl", "req", "-x509", *request, "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)


async def test_metrics_are_served_with_a_certificate(tmp_path: Path):
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    make_certificate(key, certificate)
    context = ebs_serving.tls_of(Options(metrics_cert_file=str(certificate), metrics_key_file=str(key)))
    async with metrics.serving("127.0.0.1", 0, context) as port, aiohttp.ClientSession() as session:
        trusted = ssl.create_default_context(cafile=str(certificate))
        trusted.check_hostname = False
        async with session.get(f"https://127.0.0.1:{port}/healthz", ssl=trusted) as reply:
            assert await reply.text() == "ok"


def test_a_certificate_that_is_not_there_ends_it_with_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit):
        ebs_serving.tls_of(
            Options(metrics_cert_file=str(tmp_path / "no"), metrics_key_file=str(tmp_path / "no"))
        )
    assert "--metrics-cert-file" in capsys.readouterr().err


@contextlib.contextmanager
def process(*arguments: str) -> Generator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", "from mooring.cli.ebs_driver import main; main()", *arguments]
    environment = {**os.environ, "AWS_EC2_METADATA_DISABLED": "true"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as running:
        yield running
        running.kill()


@pytest.mark.root
async def test_a_node_is_served_without_credentials_and_ends_when_it_is_told(tmp_path: Path):
    socket = f"unix://{tmp_path}/csi.sock"
    flags = [
        "--instance-id=i-1",
        "--instance-type=m7i.large",
        "--zone=us-east-1a",
        "--http-endpoint=127.0.0.1:0",
    ]
    with process("node", f"--endpoint={socket}", *flags) as running:
        assert running.stdout is not None
        line: str = await asyncio.to_thread(running.stdout.readline)
        assert line == f"ebs.csi.aws.com (node) listens at {socket}\n"
        async with Client(socket) as client:
            info = await client.node.node_get_info(csi.NodeGetInfoRequest(), timeout_s=10)
            probe = await client.identity.probe(csi.ProbeRequest(), timeout_s=10)
            plugin: Any = await client.identity.get_plugin_capabilities(
                csi.GetPluginCapabilitiesRequest(), timeout_s=10
            )
        assert (info.node_id, info.max_volumes_per_node) == ("i-1", 31)
        assert probe.ready.value
        services = {each.service.type for each in plugin.capabilities if each.HasField("service")}
        assert csi.PluginCapability.Service.Type.CONTROLLER_SERVICE in services
        running.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(running.wait) == 0
    assert not (tmp_path / "csi.sock").exists()


def test_the_program_of_its_own_ends_with_status_2_too():
    with process("nodes") as running:
        _, errors = running.communicate()
    assert running.returncode == 2
    assert "aws-ebs-csi-driver" in errors
