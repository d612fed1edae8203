"""Who may talk to the server: the right host, the right origin, a token where one is asked for, and no huge bodies.

A page of another origin that the same browser shows must not be able to use a local server (DNS rebinding, forged
requests), so that Host and Origin are looked at even without a token.
"""

import contextlib
import hmac
import ipaddress
import json
import urllib.parse
from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LONGEST_BODY = 262_144  # bytes
_COOKIE = "azjax_token"
_LOCAL = ("localhost", "127.0.0.1", "[::1]")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]


class Guard:
    """The outermost layer of the application; everything that is not HTTP or not allowed ends here."""

    def __init__(self, app: ASGIApp, *, hosts: Iterable[str] = (), token: str | None = None):
        """Guards an application.

        Args:
          app: what is guarded.
          hosts: names under which it may be asked for, beside those of this machine itself.
          token: what every request must bring, in the address once (`?token=`, then a cookie), or as
            `Authorization: Bearer`; None asks for none.
        """
        self._app = app
        self._hosts = {host.lower() for host in (*_LOCAL, *hosts)}
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers or refuses one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        if (refusal := self._refusal(scope, headers)) is not None:
            await _refuse(send, *refusal)
            return
        cookie = self._cookie(scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", []), *_HEADERS, *cookie]}
            await send(message)

        await self._app(scope, _Bounded(receive), send_with_headers)

    def _refusal(self, scope: Scope, headers: Headers) -> tuple[int, str] | None:
        """Why a request is refused, if it is."""
        host = headers.get("host", "")
        if not self._is_own(host) and not self._is_own(host.rpartition(":")[0]):
            return 421, "this server is asked for under a name that is not its own"
        origin = headers.get("origin")
        if origin is not None and not _is_from(origin, host):
            return 403, "requests of pages from elsewhere are refused"
        if self._token is not None and not self._has_token(scope, headers):
            return 401, "a token is needed: open the address that `azjax serve` has printed"
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdecimal():
            return 400, "content-length is no number"
        if len(length) > 12 or int(length) > LONGEST_BODY:
            return 413, f"a request may have {LONGEST_BODY:,} bytes"
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return 405, "only GET and POST are understood"
        # A form of another page cannot send this type without being asked for permission first.
        if (
            scope["method"] == "POST"
            and headers.get("content-type", "").partition(";")[0] != "application/json"
        ):
            return 415, "send application/json"
        return None

    def _is_own(self, host: str) -> bool:
        if host.lower() in self._hosts:
            return True
        if self._token is None:
            return False
        # No foreign name can lead to an address written in numbers, and what listens for others has many of them.
        with contextlib.suppress(ValueError):
            return bool(ipaddress.ip_address(host.removeprefix("[").removesuffix("]")))
        return False

    def _has_token(self, scope: Scope, headers: Headers) -> bool:
        offers = [headers.get("authorization", "").removeprefix("Bearer "), _token_in(scope)]
        for part in headers.get("cookie", "").split(";"):
            name, _, value = part.strip().partition("=")
            if name == _COOKIE:
                offers.append(value)
        wanted = (self._token or "").encode()
        return any(hmac.compare_digest(offer.encode("utf-8", "replace"), wanted) for offer in offers)

    def _cookie(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        if self._token is None or not _token_in(scope):
            return []
        return [(b"set-cookie", f"{_COOKIE}={self._token}; HttpOnly; SameSite=Strict; Path=/".encode())]


class _Bounded:
    """Receives a body in parts, of which it takes no more than is allowed."""

    def __init__(self, receive: Receive):
        self._receive, self._left = receive, LONGEST_BODY

    async def __call__(self) -> Message:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            return {"type": "http.disconnect"}
        return message


def _is_from(origin: str, host: str) -> bool:
    try:
        return urllib.parse.urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:  # such as an address in brackets that is none
        return False


def _token_in(scope: Scope) -> str:
    query = urllib.parse.parse_qs(scope.get("query_string", b"").decode("latin-1"))
    return query.get("token", [""])[0]


async def _refuse(send: Send, status: int, why: str) -> None:
    body = json.dumps({"error": why}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *_HEADERS,
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
