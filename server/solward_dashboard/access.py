"""Access to the pages: the Host check, the login, and headers of every response."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

from nicegui import Client
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from solward_dashboard.options import Options

_LOGIN = "/login"
_COOKIE = "solward_dashboard"
_MAX_FORM = 4096
# Wrong passwords are checked one after another, so at most two a second.
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
<p role="alert">{error}</p><button>Log in</button></form></body></html>"""
_LOGOUT = "/logout"
# NiceGUI's files are the same for everybody, and their path has the version: caches may keep them.
_PUBLIC = "/_nicegui/"
_HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    # Pages load from here and send to here only. NiceGUI needs inline scripts, and Vue compiles
    # its templates in the browser.
    b"content-security-policy": (
        b"default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval';"
        b" style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:;"
        b" connect-src 'self'; object-src 'none'; frame-ancestors 'none'; base-uri 'self';"
        b" form-action 'self'"
    ),
}


class Login:
    """The login page, and the sessions of this process."""

    def __init__(self, password: str) -> None:
        self._password = password.encode()
        self._sessions: dict[str, float] = {}
        self._one_at_a_time = asyncio.Lock()

    def is_logged_in(self, connection: HTTPConnection) -> bool:
        """Whether this browser logged in to this process within the last 12 hours."""
        until = self._sessions.get(connection.cookies.get(_COOKIE, ""), 0.0)
        return time.monotonic() < until

    def log_out(self, connection: HTTPConnection) -> Response:
        """End the session; its cookie is not valid any more."""
        self._sessions.pop(connection.cookies.get(_COOKIE, ""), None)
        response = RedirectResponse(_LOGIN, 303)
        response.delete_cookie(_COOKIE)
        return response

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        response = await self._log_in(request) if request.method == "POST" else _page("")
        await response(scope, receive, send)

    async def _log_in(self, request: Request) -> Response:
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > _MAX_FORM:
                return _page("This is no password.", 413)
        password = parse_qs(body.decode("utf-8", "replace")).get("password", [""])[0]
        async with self._one_at_a_time:
            if not hmac.compare_digest(password.encode(), self._password):
                await asyncio.sleep(_WRONG_WAIT_S)
                return _page("That is not the password.", 403)
        now = time.monotonic()
        # Ended sessions are dropped, so that only those of the last 12 hours are kept.
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


class AccessGate:
    """ASGI middleware: the Host check, a login where there is a password, strict headers.

    The Host check is against DNS rebinding: a page of another site could otherwise point its name
    at 127.0.0.1 and read this dashboard.
    """

    def __init__(self, app: ASGIApp, options: Options) -> None:
        self._app = app
        self._hosts = options.hosts
        self._login = None if options.password is None else Login(options.password)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        send = _with_headers(scope, send)
        receive, disconnected = _watch_disconnect(receive)
        try:
            await self._pass(scope, receive, send)
        except RuntimeError:
            # Starlette's middlewares raise this when the client has disconnected.
            if not disconnected():
                raise

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = HTTPConnection(scope)
        host = connection.headers.get("host", "").lower()
        if self._hosts is not None and host not in self._hosts:
            await _refuse(scope, receive, send, "Open the dashboard by its own address.")
        elif self._login is None:
            await self._app(scope, receive, send)
        elif self._login.is_logged_in(connection):
            if scope["path"] == _LOGOUT and scope["type"] == "http":
                await self._login.log_out(connection)(scope, receive, send)
            else:
                receive = _until_logged_out(receive, connection, self._login)
                await self._app(scope, receive, send)
        elif scope["path"] == _LOGIN and scope["type"] == "http":
            await self._login(scope, receive, send)
        elif scope["type"] == "http" and scope["method"] == "GET":
            await RedirectResponse(_LOGIN, 303)(scope, receive, send)
        else:
            await _refuse(scope, receive, send, "Log in first.")


def bind_sockets(server: Any) -> None:
    """Let a socket act for its own page only, and take up a page only with the page's login.

    NiceGUI looks at the page's id in an event and at nothing else: who learned the id of a page
    could press its buttons from a socket of his own.
    """
    handlers = server.handlers["/"]
    connect, handshake = handlers["connect"], handlers["handshake"]

    def is_of_login(environ: dict[str, Any], page_id: object) -> bool:
        page = Client.instances.get(str(page_id))
        request = None if page is None else page.request
        if request is None:
            return False
        socket = HTTPConnection(environ["asgi.scope"])
        return request.cookies.get(_COOKIE) == socket.cookies.get(_COOKIE)

    async def connected(sid: str, environ: dict[str, Any], *more: Any) -> Any:
        query = parse_qs(environ.get("QUERY_STRING", ""))
        page_id = query.get("client_id", [None])[0]
        # A page that is gone is told to load anew by NiceGUI.
        if page_id in Client.instances and not is_of_login(environ, page_id):
            return False
        return await connect(sid, environ, *more)

    async def shaken(sid: str, data: dict[str, Any]) -> Any:
        is_own = is_of_login(server.get_environ(sid), data.get("client_id"))
        return await handshake(sid, data) if is_own else False

    def of_own_page(handler: Callable[[str, dict[str, Any]], None]) -> Callable[..., None]:
        def checked(sid: str, message: dict[str, Any]) -> None:
            if message.get("client_id") in server.rooms(sid):
                handler(sid, message)

        return checked

    server.on("connect", connected)
    server.on("handshake", shaken)
    for name in ("event", "javascript_response", "ack", "log"):
        server.on(name, of_own_page(handlers[name]))


def _until_logged_out(receive: Receive, connection: HTTPConnection, login: Login) -> Receive:
    """A socket ends with the login that it was opened by."""

    async def checked() -> Message:
        message = await receive()
        if message["type"] == "websocket.receive" and not login.is_logged_in(connection):
            return {"type": "websocket.disconnect", "code": 1008}
        return message

    return checked


def _watch_disconnect(receive: Receive) -> tuple[Receive, Callable[[], bool]]:
    events: list[bool] = []

    async def watched() -> Message:
        message = await receive()
        if message["type"] == "http.disconnect":
            events.append(True)
        return message

    return watched, lambda: bool(events)


def _with_headers(scope: Scope, send: Send) -> Send:
    headers = dict(_HEADERS)
    if not scope["path"].startswith(_PUBLIC):
        headers[b"cache-control"] = b"no-store"

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            others = [pair for pair in message.get("headers", ()) if pair[0].lower() not in headers]
            message = {**message, "headers": [*others, *headers.items()]}
        await send(message)

    return send_with_headers


def _page(error: str, status: int = 200) -> Response:
    return HTMLResponse(_PAGE.format(error=error), status)


async def _refuse(scope: Scope, receive: Receive, send: Send, text: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    await PlainTextResponse(text, 403)(scope, receive, send)
