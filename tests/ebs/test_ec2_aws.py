"""EC2 by botocore: over a real wire, and with answers that a wire should not give."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from cloud_server import CREDENTIALS, served

from mooring.ebs.ec2.aws import AwsApi, aws_api
from mooring.ebs.ec2.describe import Describe
from mooring.ebs.errors import EbsError, Ec2Error, Ec2Unreachable, MalformedAnswer


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", CREDENTIALS.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", CREDENTIALS.secret_key)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


class Play:
    """An endpoint that answers every request with one status and body."""

    def __init__(self, status: int, body: bytes) -> None:
        self.requests: list[str] = []
        play = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                play.requests.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                return

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def plays() -> Iterator[list[Play]]:
    made: list[Play] = []
    yield made
    for play in made:
        play.close()


async def asked(endpoint: str, action: str = "DescribeVolumes") -> EbsError:
    api = aws_api("us-east-1", endpoint)
    try:
        with pytest.raises(EbsError) as caught:
            await api.call(action, {})
        return caught.value
    finally:
        api.close()


def error_body(code: str, message: str) -> bytes:
    return (
        f"<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors>"
        "<RequestID>1</RequestID></Response>"
    ).encode()


async def test_volumes_come_and_go_over_the_wire() -> None:
    with served() as cloud:
        api = aws_api("us-east-1", cloud.server.endpoint, user_agent_extra="tests")
        made = await api.call(
            "CreateVolume", {"Size": 1, "VolumeType": "gp3", "AvailabilityZone": "us-east-1a"}
        )
        describe = Describe(api)
        found = await describe.volume(made["VolumeId"])
        assert found is not None
        assert (found.size, found.attachments) == (1, ())
        assert await describe.volume("vol-0123456789abcdef0") is None
        assert await describe.modification(found.id) is None
        assert len(await describe.zones()) == 3
        assert await describe.initialized(found.id)
        await api.call("DeleteVolume", {"VolumeId": found.id})
        api.close()


async def test_a_refusal_has_ec2s_code_and_words(plays) -> None:
    plays.append(Play(400, error_body("VolumeInUse", "vol-1 is in use")))
    error = await asked(plays[0].endpoint)
    assert isinstance(error, Ec2Error)
    assert (error.code, error.message, error.action) == ("VolumeInUse", "vol-1 is in use", "DescribeVolumes")


async def test_one_call_is_one_request_also_when_it_is_throttled(plays) -> None:
    plays.append(Play(503, error_body("RequestLimitExceeded", "Request limit exceeded.")))
    error = await asked(plays[0].endpoint)
    assert isinstance(error, Ec2Error)
    assert error.code == "RequestLimitExceeded"
    assert len(plays[0].requests) == 1


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (500, b"<html>oops</html>", (Ec2Unreachable, MalformedAnswer)),
        (502, b"", Ec2Unreachable),
        (200, b"<DescribeVolumesResponse><volumeSet><item>", MalformedAnswer),
        (200, b"not xml", MalformedAnswer),
    ],
)
async def test_what_is_no_answer_of_ec2s_is_an_error_of_ours(plays, status, body, kind) -> None:
    plays.append(Play(status, body))
    assert isinstance(await asked(plays[0].endpoint), kind)


async def test_nobody_there_is_unreachable() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        assert isinstance(await asked(f"http://127.0.0.1:{free.getsockname()[1]}"), Ec2Unreachable)


async def test_no_credentials_are_a_refusal_in_words(plays, monkeypatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    plays.append(Play(200, b""))
    error = await asked(plays[0].endpoint)
    assert isinstance(error, Ec2Error)
    assert (error.code, plays[0].requests) == ("AuthFailure", [])


async def test_a_request_that_cannot_be_is_not_sent(plays) -> None:
    plays.append(Play(200, b""))
    api = aws_api("us-east-1", plays[0].endpoint)
    for action, request in (("AttachVolume", {}), ("NoSuchAction", {}), ("DeleteVolume", {"VolumeId": 1})):
        with pytest.raises(EbsError):
            await api.call(action, request)
    api.close()
    assert plays[0].requests == []


async def test_an_endpoint_that_is_none_is_said_at_the_start() -> None:
    with pytest.raises(EbsError, match="no client for EC2"):
        aws_api("us-east-1", "not a url")


async def test_nothing_secret_is_logged_even_while_debugging(plays, caplog) -> None:
    plays.append(Play(400, error_body("VolumeInUse", "in use")))
    api = aws_api("us-east-1", plays[0].endpoint, debug=True)
    with caplog.at_level(logging.DEBUG), pytest.raises(Ec2Error):
        await api.call("DescribeVolumes", {})
    api.close()
    aws_api("us-east-1", plays[0].endpoint).close()
    for secret in (CREDENTIALS.access_key, CREDENTIALS.secret_key, "Signature"):
        assert secret not in caplog.text


async def test_a_cancelled_call_has_ended_before_the_cancellation_goes_on() -> None:
    class Slow:
        def __init__(self) -> None:
            self.may_end, self.ended = threading.Event(), False

        def describe_volumes(self) -> dict[str, object]:
            self.may_end.wait(10)
            self.ended = True
            return {}

        def close(self) -> None:
            return

    client = Slow()
    api = AwsApi(client)
    task = asyncio.ensure_future(api.call("DescribeVolumes", {}))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    client.may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert client.ended
    api.close()
