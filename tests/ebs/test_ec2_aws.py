"""EC2 by botocore: over a real wire, and with answers that a wire should not give."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from botocore import exceptions
from botocore.parsers import ResponseParserError
from cloud_server import CREDENTIALS, served

from mooring.ebs.ec2.aws import AwsApi, aws_api, ebs_error
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


async def test_credentials_that_come_later_are_found(plays, monkeypatch) -> None:
    """A role may be given to an instance that runs; and its metadata may be late after its boot."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    plays.append(Play(400, error_body("VolumeInUse", "EC2 was asked")))
    api = aws_api("us-east-1", plays[0].endpoint)
    for _ in range(2):
        with pytest.raises(Ec2Error, match="no credentials"):
            await api.call("DescribeVolumes", {})
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", CREDENTIALS.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", CREDENTIALS.secret_key)
    with pytest.raises(Ec2Error, match="EC2 was asked"):
        await api.call("DescribeVolumes", {})
    api.close()


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


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (exceptions.ClientError({"Error": {"Code": "VolumeInUse"}}, "x"), Ec2Error, "VolumeInUse"),
        (
            exceptions.ClientError({"Error": {"Code": "AccessDenied"}}, "AssumeRoleWithWebIdentity"),
            Ec2Error,
            "AuthFailure.*there are no credentials for EC2.*AccessDenied",
        ),
        (exceptions.NoCredentialsError(), Ec2Error, "AuthFailure.*there are no credentials for EC2"),
        (exceptions.PartialCredentialsError(provider="p", cred_var="v"), Ec2Error, "AuthFailure"),
        (exceptions.CredentialRetrievalError(provider="p", error_msg="e"), Ec2Error, "AuthFailure"),
        (
            exceptions.ParamValidationError(report="no id"),
            Ec2Error,
            "InvalidParameterValue: Parameter validation",
        ),
        (ResponseParserError("no xml"), MalformedAnswer, "the answer cannot be read: no xml"),
        (exceptions.HTTPClientError(error="cut"), Ec2Unreachable, "EC2 did not answer: .*cut"),
        (exceptions.ConnectionError(error="cut"), Ec2Unreachable, "EC2 did not answer: .*cut"),
        (OSError("cut"), Ec2Unreachable, "EC2 did not answer: cut"),
        (exceptions.DataNotFoundError(data_path="ec2"), Ec2Error, "ClientException"),
        (ValueError("odd"), Ec2Unreachable, "Attach: ValueError: odd"),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Exception) else "",
)
def test_each_error_of_botocores_is_one_of_ours(error: Exception, kind: type[EbsError], words: str) -> None:
    ours = ebs_error(error, "Attach")
    assert type(ours) is kind
    assert re.search(words, str(ours))


@pytest.mark.parametrize(
    ("response", "kind", "words"),
    [
        ({}, Ec2Unreachable, "HTTP None without an error code"),
        (
            {"Error": {"Code": "Unknown"}, "ResponseMetadata": {"HTTPStatusCode": 399}},
            Ec2Unreachable,
            "HTTP 399",
        ),
        ({"Error": {"Code": ""}, "ResponseMetadata": {"HTTPStatusCode": 400}}, MalformedAnswer, "HTTP 400"),
        ({"ResponseMetadata": {"HTTPStatusCode": 499}}, MalformedAnswer, "HTTP 499"),
        ({"Error": {"Code": "500"}, "ResponseMetadata": {"HTTPStatusCode": 500}}, Ec2Unreachable, "HTTP 500"),
    ],
)
def test_a_refusal_without_a_code_of_ec2s_is_known_by_its_status(
    response: Any, kind: type[EbsError], words: str
) -> None:
    ours = ebs_error(exceptions.ClientError(response, "x"), "Attach")
    assert type(ours) is kind
    assert words in str(ours)


@pytest.mark.parametrize("debug", [True, False])
async def test_botocore_tells_its_decisions_only_while_debugging(plays, debug: bool) -> None:
    plays.append(Play(200, b""))
    aws_api("us-east-1", plays[0].endpoint, debug=not debug).close()
    api = aws_api("us-east-1", plays[0].endpoint, **({"debug": True} if debug else {}))
    api.close()
    assert logging.getLogger("botocore.hooks").isEnabledFor(logging.DEBUG) is False
    assert logging.getLogger("botocore").isEnabledFor(logging.DEBUG) is debug


async def test_without_an_endpoint_botocores_own_rules_hold(plays, monkeypatch) -> None:
    plays.append(Play(400, error_body("VolumeInUse", "vol-1 is in use")))
    monkeypatch.setenv("AWS_ENDPOINT_URL_EC2", plays[0].endpoint)
    assert isinstance(await asked(""), Ec2Error)
    assert len(plays[0].requests) == 1


class Client:
    """Answers when it may."""

    def __init__(self, answer: object) -> None:
        self.answer = answer
        self.began, self.may_end, self.asked, self.closed = threading.Event(), threading.Event(), 0, False

    def describe_volumes(self) -> object:
        self.asked += 1
        self.began.set()
        assert self.may_end.wait(5), "it may not end"
        return self.answer

    def close(self) -> None:
        self.closed = True


async def test_an_answer_that_is_no_structure_or_an_action_that_botocore_lacks_is_told() -> None:
    client = Client(["a volume"])
    client.may_end.set()
    api = AwsApi(client)
    for action, words in (
        ("DescribeVolumes", "the answer is not a structure"),
        ("New", "install a later one"),
    ):
        with pytest.raises(MalformedAnswer, match=f"{action}: .*{words}"):
            await api.call(action, {})
    api.close()


async def test_when_it_is_closed_what_is_in_flight_goes_on_and_nothing_else() -> None:
    client = Client({})
    api = AwsApi(client, threads=1)
    first, second = (asyncio.ensure_future(api.call("DescribeVolumes", {})) for _ in range(2))
    assert await asyncio.to_thread(client.began.wait, 5)
    api.close()
    assert client.closed
    assert not client.may_end.is_set()
    assert not first.done()
    client.may_end.set()
    assert await first == {}
    await asyncio.wait([second])
    assert second.cancelled()
    assert client.asked == 1
    with pytest.raises(RuntimeError):
        await api.call("DescribeVolumes", {})


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
