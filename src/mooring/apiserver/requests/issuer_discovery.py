"""What others need to check a service account's token themselves: OpenID Connect's discovery document and the
public keys, as upstream serves them to every authenticated user."""

from __future__ import annotations

from mooring.apiserver.access.account_claims import ALGORITHM, ISSUER
from mooring.apiserver.access.tokens import Tokens
from mooring.apiserver.message import Request, Response
from mooring.apiserver.store.object_store import encode

CONFIGURATION, KEYS = "/.well-known/openid-configuration", "/openid/v1/jwks"


def answer(request: Request, tokens: Tokens) -> Response | None:
    """The document that a path names, or None."""
    if request.method != "GET" or request.path not in (CONFIGURATION, KEYS):
        return None
    if request.path == KEYS:
        return Response(200, {"content-type": "application/jwk-set+json"}, encode(tokens.of_accounts.keys()))
    document = {
        "issuer": ISSUER,
        "jwks_uri": f"{ISSUER}{KEYS}",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": [ALGORITHM],
    }
    return Response(200, {"content-type": "application/json"}, encode(document))
