"""Who may see the page: those who know its address with the token, in a browser that asks this host. Pure.

Guarantees: the token and the cookie are compared in constant time; the cookie is another secret than the
token; a request by another name than this host's is refused (a name of an attacker that leads to 127.0.0.1 is
no way in), and so is one that another site's page makes.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Cache-Control": "no-store",
}
"""With every answer. No script or style but this server's own files; no text ever becomes markup."""


class Admission:
    """The secrets of one server. `port` is known once it listens."""

    def __init__(self, token: str = "") -> None:  # nosec B107 # "" means: one that is drawn
        self.token = token or secrets.token_urlsafe(24)
        self.cookie = secrets.token_urlsafe(32)
        self.port = 0

    @property
    def cookie_name(self) -> str:
        """Of its port: a browser sends cookies to every port of a host."""
        return f"mooring-page-{self.port}"

    def knows_host(self, host: str) -> bool:
        """Whether a Host header names this server on this host."""
        return host in {f"{name}:{self.port}" for name in ("127.0.0.1", "localhost", "[::1]")}

    def takes_token(self, shown: str) -> bool:
        """Whether it is the token of the address."""
        return hmac.compare_digest(shown.encode(), self.token.encode())

    def takes_cookie(self, shown: str) -> bool:
        """Whether it is the cookie that was given for the token."""
        return hmac.compare_digest(shown.encode(), self.cookie.encode())

    def from_elsewhere(self, site: str, *, opening: bool) -> bool:
        """Whether another origin's page makes the request, as the browser says in Sec-Fetch-Site. A link may
        lead to the page itself (`opening`)."""
        return site not in ("", "same-origin", "none") and not opening
