"""Tokens of service accounts: JSON Web Tokens of upstream's form, signed with a key of this server.

What a token says counts only while what it names is there: `identities` looks that up. It must not know of
the store, of requests or of rights. Imported with the first token: what it needs is large.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, cast

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm

from mooring.apiserver.access.account_claims import ALGORITHM, ISSUER, Claims, Subject
from mooring.apiserver.errors import Unauthorized

LONGEST_TOKEN = 16 * 1024
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Of the curve P-256."""
_LEEWAY = timedelta(seconds=10)


class AccountTokens:
    """Signs tokens and reads them. The key is derived from the secret that all tokens are made from, so a
    restored data directory has it, and another secret makes all tokens void."""

    def __init__(self, seed: bytes) -> None:
        """`seed` has 32 bytes."""
        number = int.from_bytes(seed) % (_ORDER - 1) + 1
        self._key = ec.derive_private_key(number, ec.SECP256R1())
        public = self._key.public_key()
        written = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        self._id = base64.urlsafe_b64encode(sha256(written).digest()).rstrip(b"=").decode()

    def sign(
        self, subject: Subject, audiences: Sequence[str], now: datetime, expires: datetime, identity: str
    ) -> str:
        """A token for these audiences, with `identity` as its ID."""
        begins = int(now.timestamp())
        claims = {
            "aud": [*audiences],
            "exp": int(expires.timestamp()),
            "iat": begins,
            "iss": ISSUER,
            "jti": identity,
            "kubernetes.io": msgspec.to_builtins(subject),
            "nbf": begins,
            "sub": f"system:serviceaccount:{subject.namespace}:{subject.serviceaccount.name}",
        }
        return jwt.encode(claims, self._key, ALGORITHM, headers={"kid": self._id})

    def read(self, token: str, audiences: Sequence[str], now: datetime) -> Claims:
        """What a token says that is for at least one of these audiences. Raises Unauthorized."""
        if len(token) > LONGEST_TOKEN:
            raise Unauthorized
        options: Any = {"require": ["exp", "nbf", "iss", "aud", "jti"], **_JUDGED_HERE}
        try:
            said = jwt.decode(
                token, self._key.public_key(), [ALGORITHM], options, audience=[*audiences], issuer=ISSUER
            )
            begins, expires = float(said["nbf"]), float(said["exp"])
            subject = msgspec.convert(said["kubernetes.io"], Subject)
        except (jwt.PyJWTError, msgspec.ValidationError, KeyError, TypeError, ValueError, RecursionError):
            raise Unauthorized from None
        if not begins - _LEEWAY.total_seconds() <= now.timestamp() < expires:
            raise Unauthorized
        named = cast(list[str], said["aud"] if isinstance(said["aud"], list) else [said["aud"]])
        return Claims(subject, named, str(said["jti"]))

    def keys(self) -> Mapping[str, Any]:
        """The public key as a JSON Web Key Set, by which others check tokens."""
        key = ECAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        return {"keys": [{"use": "sig", "kid": self._id, "alg": ALGORITHM, **key}]}


_JUDGED_HERE: Mapping[str, bool] = {"verify_exp": False, "verify_nbf": False, "verify_iat": False}
"""By the server's clock, which tests and simulations set."""
