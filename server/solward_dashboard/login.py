"""The login page, for a dashboard that others can reach."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from urllib.parse import parse_qs

from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

PATH = "/login"
_COOKIE = "solward_dashboard"
_MAX_FORM = 4096
# Guesses wait for one another, so nobody tries more than two a second.
_WRONG_WAIT_S = 0.5
_MAX_AGE_S = 12 * 3600
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Solward</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root {{ color-scheme: light dark }}
body {{ font: 16px system-ui, sans-serif; display: grid; place-content: center; min-height: 90vh }}
form {{ display: grid; gap: .75rem; width: min(20rem, 90vw) }}
input, button {{ font: inherit; padding: .6rem }}
p {{ color: #dc2626; margin: 0; min-height: 1.5em }}
</style></head><body><form method="post" action="/login"><h1>Solward</h1>
<label for="password">Password of this dashboard</label>
<input id="password" name="password" type="password" autocomplete="current-password" autofocus>
<p role="alert">{said}</p><button>Log in</button></form></body></html>"""


class Login:
    """Checks the password and remembers, in this process, who knew it."""

    def __init__(self, password: str) -> None:
        self._password = password.encode()
        self._sessions: dict[str, float] = {}
        self._turn = asyncio.Lock()

    def knows(self, connection: HTTPConnection) -> bool:
        """Whether this browser has logged in, to this process and within the last 12 hours."""
        until = self._sessions.get(connection.cookies.get(_COOKIE, ""), 0.0)
        return time.monotonic() < until

    def forget(self, connection: HTTPConnection) -> Response:
        """Log out: the cookie is worth nothing from now on."""
        self._sessions.pop(connection.cookies.get(_COOKIE, ""), None)
        response = RedirectResponse(PATH, 303)
        response.delete_cookie(_COOKIE)
        return response

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        response = await self._posted(request) if request.method == "POST" else _page("")
        await response(scope, receive, send)

    async def _posted(self, request: Request) -> Response:
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > _MAX_FORM:
                return _page("This is no password.", 413)
        given = parse_qs(body.decode("utf-8", "replace")).get("password", [""])[0]
        async with self._turn:
            if not hmac.compare_digest(given.encode(), self._password):
                await asyncio.sleep(_WRONG_WAIT_S)
                return _page("That is not the password.", 403)
        now = time.monotonic()
        # The ended ones go, so that their number is that of the day's logins.
        self._sessions = {key: end for key, end in self._sessions.items() if now < end}
        session = secrets.token_urlsafe(32)
        self._sessions[session] = now + _MAX_AGE_S
        response = RedirectResponse("/", 303)
        response.set_cookie(
            _COOKIE,
            session,
            max_age=_MAX_AGE_S,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return response


def _page(said: str, status: int = 200) -> Response:
    return HTMLResponse(_PAGE.format(said=said), status)
