"""Amazon's EC2, by botocore in threads of its own. The one module that knows botocore, which it loads on
first use.

Guarantees: one call is one request (botocore's own retries are off; `paced` retries within EC2's quotas); a
cancelled call has ended before the cancellation goes on; every exception of botocore becomes an EbsError.
botocore finds the credentials (environment, files, web identity, instance metadata), with the next call where
there are none yet, and renews those that expire. They never reach the log: botocore's messages appear from
the chosen level on, and its loggers that print requests and signatures never below WARNING.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from mooring.ebs.ec2.api import Ec2Api
from mooring.ebs.errors import EbsError, Ec2Error, Ec2Unreachable, MalformedAnswer
from mooring.mounts.blocking import finish

THREADS = 16
CONNECT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 30.0

_SHOWS_SECRETS = (
    "botocore.auth",
    "botocore.credentials",
    "botocore.endpoint",
    "botocore.hooks",
    "botocore.parsers",
)
_FOR_CREDENTIALS = frozenset(
    {"AssumeRole", "AssumeRoleWithSAML", "AssumeRoleWithWebIdentity", "GetRoleCredentials", "CreateToken"}
)
"""What botocore asks of other services (STS, SSO) before it asks EC2."""
_NO_CODE = frozenset({"", "Unknown", "500", "502", "503", "504"})


class AwsApi(Ec2Api):
    """EC2 in one region. To be closed with `close`."""

    def __init__(self, client: Any, threads: int = THREADS, make: Callable[[], Any] | None = None) -> None:
        """`client` is botocore's; at most `threads` requests are in flight, others wait. `make` gives another
        one for a client that has found no credentials: it does not look for them again."""
        self._client = client
        self._make = make
        self._without: Any = None
        """The client that has found none."""
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="mooring-ec2")

    async def call(self, action: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        work = asyncio.get_running_loop().run_in_executor(self._pool, self._request, action, dict(request))
        try:
            answer = await finish(work)
        except EbsError:
            raise
        except Exception as error:
            raise ebs_error(error, action) from error
        if not isinstance(answer, Mapping):
            raise MalformedAnswer(f"{action}: the answer is not a structure")
        return answer  # pyright: ignore[reportUnknownVariableType]

    def _request(self, action: str, request: Mapping[str, Any]) -> Any:
        from botocore import xform_name
        from botocore.exceptions import NoCredentialsError

        client = self._able()
        method = getattr(client, xform_name(action), None)
        if method is None:
            raise MalformedAnswer(f"{action}: this botocore does not know it; install a later one")
        try:
            return method(**request)
        except NoCredentialsError:
            self._without = client
            raise

    def _able(self) -> Any:
        """The client, or another one if it has found no credentials."""
        with self._lock:
            if self._make is not None and self._client is self._without:
                self._client.close()
                self._client = self._make()
            return self._client

    def close(self) -> None:
        """Accepts no more requests; those in flight go on to their end."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._client.close()


def aws_api(
    region: str,
    endpoint: str = "",
    user_agent_extra: str = "",
    debug: bool = False,
    threads: int = THREADS,
) -> AwsApi:
    """EC2 of the region, or the one at `endpoint` (a URL; empty: botocore's own rules, AWS_ENDPOINT_URL_EC2
    included).

    `user_agent_extra` is added to the User-Agent header. `debug` makes botocore log its decisions. Raises
    EbsError if botocore cannot make a client.
    """
    import botocore.config
    import botocore.exceptions
    import botocore.session

    _set_logs(debug)
    config = botocore.config.Config(
        region_name=region,
        user_agent_extra=user_agent_extra,
        max_pool_connections=threads,
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=READ_TIMEOUT_S,
        retries={"total_max_attempts": 1, "mode": "standard"},
    )
    session = botocore.session.get_session()

    def make() -> Any:
        return session.create_client("ec2", region_name=region, endpoint_url=endpoint or None, config=config)

    try:
        return AwsApi(make(), threads, make)
    except (botocore.exceptions.BotoCoreError, ValueError) as error:
        raise EbsError(
            f"no client for EC2 in region {region!r}, endpoint {endpoint or 'by default'}: {error}"
        ) from error


def ebs_error(error: Exception, action: str) -> EbsError:
    """The EbsError for an exception of botocore's."""
    from botocore import exceptions as botocore

    if isinstance(error, botocore.ClientError):
        if error.operation_name in _FOR_CREDENTIALS:  # another service's word: EC2 was not asked
            return Ec2Error("AuthFailure", f"there are no credentials for EC2: {error}", action)
        return _refusal(error.response, action)
    if isinstance(
        error,
        (botocore.NoCredentialsError, botocore.PartialCredentialsError, botocore.CredentialRetrievalError),
    ):
        return Ec2Error("AuthFailure", f"there are no credentials for EC2: {error}", action)
    if isinstance(error, botocore.ParamValidationError):
        return Ec2Error("InvalidParameterValue", str(error), action)
    if "Parser" in type(error).__name__:  # botocore.parsers has its error outside the hierarchy
        return MalformedAnswer(f"{action}: the answer cannot be read: {error}")
    if isinstance(error, (botocore.HTTPClientError, botocore.ConnectionError, OSError)):
        return Ec2Unreachable(f"{action}: EC2 did not answer: {error}")
    if isinstance(error, botocore.BotoCoreError):
        return Ec2Error("ClientException", str(error), action)
    return Ec2Unreachable(f"{action}: {type(error).__name__}: {error}")


def _refusal(response: Mapping[str, Any], action: str) -> EbsError:
    """The EbsError for EC2's error response. After a server error without a code of EC2's, the request may
    have been carried out."""
    error: Mapping[str, Any] = response.get("Error") or {}
    meta: Mapping[str, Any] = response.get("ResponseMetadata") or {}
    code, message, status = (
        str(error.get("Code") or ""),
        str(error.get("Message") or ""),
        meta.get("HTTPStatusCode"),
    )
    if code in _NO_CODE:
        if isinstance(status, int) and 400 <= status < 500:
            return MalformedAnswer(f"{action}: EC2 answered HTTP {status} without an error code: {message}")
        return Ec2Unreachable(f"{action}: EC2 answered HTTP {status} without an error code: {message}")
    return Ec2Error(code, message, action)


def _set_logs(debug: bool) -> None:
    logging.getLogger("botocore").setLevel(logging.DEBUG if debug else logging.WARNING)
    for name in _SHOWS_SECRETS:
        logging.getLogger(name).setLevel(logging.WARNING)
