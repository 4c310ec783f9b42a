"""What is refused is noted for audits, without what a request had in it."""

from __future__ import annotations

import json
from collections.abc import Generator

import pytest
from structlog.testing import capture_logs
from tests.fuzz.served import Served, served

SECRETS = "/api/v1/namespaces/default/secrets"
HIDDEN = "hidden in a request"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served]:
    with served(tmp_path_factory.mktemp("audit")) as one:
        yield one


def refused(server: Served, method: str, path: str, body: object = None) -> list[dict[str, object]]:
    data = b"" if body is None else json.dumps(body).encode()
    with capture_logs() as logs:
        assert server.send(method, path, data).status >= 400
    return [dict(each) for each in logs if each["event"] == "refused"]


def test_a_refusal_is_noted_with_its_user_its_request_and_its_reason(server: Served):
    (noted,) = refused(server, "GET", f"{SECRETS}/nothing")
    assert (noted["code"], noted["user"], noted["method"]) == (404, "admin", "GET")
    assert noted["path"] == f"{SECRETS}/nothing"
    assert "not found" in str(noted["why"])


@pytest.mark.parametrize(
    "body",
    [
        {"metadata": {"name": "UPPER"}, "type": HIDDEN, "data": {"key": HIDDEN}},
        {"metadata": {"name": "s"}, "data": HIDDEN},
        {"metadata": {"name": "s"}, "stringData": {HIDDEN: HIDDEN}},
    ],
)
def test_what_was_sent_is_not_in_it(server: Served, body: object):
    (noted,) = refused(server, "POST", SECRETS, body)
    assert HIDDEN not in str(noted)


def test_what_is_granted_is_not_noted(server: Served):
    with capture_logs() as logs:
        assert server.send("GET", SECRETS).status == 200
    assert [each for each in logs if each["event"] == "refused"] == []
