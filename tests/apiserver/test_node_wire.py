"""A stolen node's token on the wire: request lines written by hand, as no client would. Nothing of others is
shown."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest
import rights_world as world
from rights_world import HIDDEN, MARK, OTHER, OWN
from tests.fuzz.served import Answer, Served, served

OTHERS = f"{OTHER}-secret"
SECRETS = world.COLLECTIONS["secrets"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served]:
    with served(tmp_path_factory.mktemp("wire")) as one:
        for path, body in (*world.objects(OWN), *world.objects(OTHER)):
            assert one.json("POST", path, body).status == 201, path
        yield one


def targets() -> Iterator[str]:
    """Ways to write the path of another's Secret, and of all Secrets."""
    yield f"{SECRETS}/{OTHERS}"
    yield f"{SECRETS}/{OWN}-secret/../{OTHERS}"
    yield f"{SECRETS}/{OWN}-secret/%2e%2e/{OTHERS}"
    yield f"{SECRETS}/{OWN}-secret%2f..%2f{OTHERS}"
    yield f"{SECRETS}/{OWN}-secret/..%2f{OTHERS}"
    yield f"{SECRETS}/.%2e/secrets/{OTHERS}"
    yield f"{SECRETS}/%252e%252e/secrets/{OTHERS}"
    yield f"{SECRETS}//{OTHERS}"
    yield f"/{SECRETS}/{OTHERS}"
    yield f"{SECRETS}/./{OTHERS}"
    yield f"{SECRETS};x=y/{OTHERS}"
    yield f"{SECRETS}/{OTHERS};x"
    yield f"{SECRETS}/%6e2-secret"
    yield f"/%61pi/v1/namespaces/default/%73ecrets/{OTHERS}"
    yield f"/api/v1/namespaces/default%2fsecrets/{OTHERS}"
    yield f"/api/v1/nodes/../namespaces/default/secrets/{OTHERS}"
    yield f"/api/v1/nodes/{OWN}/../../namespaces/default/secrets/{OTHERS}"
    yield f"/healthz/..{SECRETS}/{OTHERS}"
    yield f"/version/%2e%2e{SECRETS}"
    yield f"http://x{SECRETS}/{OTHERS}"
    yield f"https://kubernetes{SECRETS}"
    yield f"{SECRETS}?fieldselector=metadata.name={OWN}-secret"
    yield f"{SECRETS}?fieldSelector=metadata.name%3D{OWN}-secret%00"
    yield f"{SECRETS}?fieldSelector=metadata.name!%3Dx"
    yield f"{SECRETS}?FieldSelector=metadata.name={OWN}-secret"
    yield f"{SECRETS}#?fieldSelector=metadata.name={OWN}-secret"
    yield f"/api/v1/watch/namespaces/default/secrets?fieldSelector=metadata.name={OTHERS}"
    yield "/api/v1/secrets"
    yield f"/api/v1/nodes/{OTHER}/proxy/stats/summary"
    yield f"/api/v1/nodes/{OWN}/proxy/stats/summary"
    yield f"/api/v1/namespaces/default/pods/{OWN}-pod/log"
    yield f"/api/v1/namespaces/default/pods/{OWN}-pod/exec?command=sh"
    yield f"/api/v1/namespaces/default/pods/{OWN}-pod//exec?command=sh"


HEADERS = (
    (),
    ("X-HTTP-Method-Override: GET",),
    ("X-Original-URL: /api/v1/secrets", "X-Rewrite-URL: /api/v1/secrets"),
    ("Impersonate-User: admin", "Impersonate-Group: system:masters"),
    ("X-Remote-User: admin", "X-Remote-Group: system:masters"),
    ("Accept: application/json;as=Table;g=meta.k8s.io;v=v1",),
    ("Accept: application/vnd.kubernetes.protobuf",),
    ("Accept: application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",),
    ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Protocol: v5.channel.k8s.io"),
)


def ask(server: Served, target: str, headers: tuple[str, ...]) -> Answer:
    token = server.running.tokens.node(OWN)
    given = ("Host: x", f"Authorization: Bearer {token}", *headers)
    close = () if any(each.startswith("Connection") for each in headers) else ("Connection: close",)
    return server.raw("\r\n".join((f"GET {target} HTTP/1.1", *given, *close, "", "")).encode())


@pytest.mark.parametrize("target", sorted(targets()))
def test_no_request_line_shows_what_is_anothers(server: Served, target: str) -> None:
    plain = target in (f"{SECRETS}/{OTHERS}", "/api/v1/secrets")
    for headers in HEADERS if plain else HEADERS[:1]:
        answer = ask(server, target, headers)
        assert 400 <= answer.status < 500, answer
        assert not any(each.encode() in answer.body for each in (MARK, HIDDEN)), answer


def test_of_two_selectors_the_one_that_is_judged_is_the_one_that_selects(server: Served) -> None:
    own, others = (f"fieldSelector=metadata.name%3D{name}" for name in (f"{OWN}-secret", OTHERS))
    answer = ask(server, f"{SECRETS}?{own}&{others}", ())
    assert answer.status == 200
    assert not any(each.encode() in answer.body for each in (MARK, HIDDEN)), answer
    assert ask(server, f"{SECRETS}?{others}&{own}", ()).status == 403


def test_what_is_its_own_is_shown(server: Served) -> None:
    for name in (f"{OWN}-secret", "%6e1-secret"):
        assert ask(server, f"{SECRETS}/{name}", ()).status == 200, name
