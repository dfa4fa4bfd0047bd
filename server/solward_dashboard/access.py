"""Access to the pages: the Host check, the login, and headers of every response."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import html
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from nicegui import Client
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from solward.client import ClientError, Unauthorized
from solward.support.fair_turns import Crowded, FairTurns, source_of
from solward_dashboard.api import ANSWER_S, Visitor, ask_role, client_of, set_visitor
from solward_dashboard.options import Options
from solward_dashboard.parts import show_requests_of

_LOGIN = "/login"
_COOKIE = "solward_dashboard"
_MAX_FORM = 4096
# A wrong guess takes its turn for so long: a source makes two a second, all of them twenty.
_WRONG_WAIT_S = 0.5
_GUESSES_AT_ONCE = 10
_MOST_SESSIONS = 1_000
# Per credential, so that logging in often with one ends nobody else's session.
_MOST_OF_CREDENTIAL = 20
# Any other text is not a credential, and is not sent to the service.
_CREDENTIAL = re.compile(r"sa-[0-9a-f]{48}")
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
<label for="password">Password of this dashboard, or an admin credential</label>
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
    # Pages load from and send to this server only. NiceGUI needs inline scripts; Vue compiles
    # its templates in the browser.
    b"content-security-policy": (
        b"default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval';"
        b" style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:;"
        b" connect-src 'self'; object-src 'none'; frame-ancestors 'none'; base-uri 'self';"
        b" form-action 'self'"
    ),
}


@dataclass(frozen=True, slots=True)
class _Session:
    """A login, valid until the monotonic time `until`; without a visitor, the password was used."""

    until: float
    visitor: Visitor | None = None

    def is_valid(self, now: float) -> bool:
        """Return whether the session has not ended and its credential was not refused."""
        return now < self.until and not (self.visitor and self.visitor.refused)

    def belongs_to(self, name: str) -> bool:
        """Return whether the session belongs to the admin credential of this name."""
        return self.visitor is not None and self.visitor.name == name


class Login:
    """The login page, and the sessions of this process.

    Guesses take turns by source, so that a flood of guesses keeps nobody else from logging in.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._password = _digest(options.password or "")
        self._sessions: dict[str, _Session] = {}
        self._turns = FairTurns(_GUESSES_AT_ONCE, of_source=1)

    def is_logged_in(self, connection: HTTPConnection) -> bool:
        """Return whether this browser logged in within 12 hours and was not refused since."""
        return self._session(connection) is not None

    def visitor(self, connection: HTTPConnection) -> Visitor | None:
        """Return the visitor, if this browser logged in with an admin credential."""
        session = self._session(connection)
        return None if session is None else session.visitor

    async def confirm(self, connection: HTTPConnection) -> bool:
        """Ask the service about the login's credential, and return whether the login is valid.
        A credential that was revoked or has expired ends the session."""
        visitor = self.visitor(connection)
        if visitor is not None:
            try:
                async with asyncio.timeout(ANSWER_S):
                    await visitor.client.admins.own()
            except Unauthorized:
                await self._end_session(connection)
            except (ClientError, TimeoutError):
                # The service does not answer; the page says so itself.
                pass
        return self.is_logged_in(connection)

    async def log_out(self, connection: HTTPConnection) -> Response:
        """End the session, so that its cookie is no longer valid."""
        await self._end_session(connection)
        response = RedirectResponse(_LOGIN, 303)
        response.delete_cookie(_COOKIE)
        return response

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        response = await self._log_in(request) if request.method == "POST" else _login_page("")
        await response(scope, receive, send)

    def _session(self, connection: HTTPConnection) -> _Session | None:
        session = self._sessions.get(connection.cookies.get(_COOKIE, ""))
        return session if session is not None and session.is_valid(time.monotonic()) else None

    async def _end_session(self, connection: HTTPConnection) -> None:
        session = self._sessions.pop(connection.cookies.get(_COOKIE, ""), None)
        if session is not None and session.visitor is not None:
            await session.visitor.client.close()

    async def _log_in(self, request: Request) -> Response:
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > _MAX_FORM:
                return _login_page("This is too long for a password.", 413)
        given = parse_qs(body.decode("utf-8", "replace")).get("password", [""])[0]
        try:
            async with self._turns.turn(source_of(request.client.host if request.client else None)):
                known, visitor = await self._check_secret(given)
                if not known:
                    await _wait(_WRONG_WAIT_S)
        except Crowded:
            return _login_page("Too many logins from your network at once; try again.", 429)
        except ClientError as error:
            return _login_page(f"The service does not answer: {html.escape(str(error))}", 502)
        if not known:
            return _login_page("This is neither the password nor a valid admin credential.", 403)
        session = secrets.token_urlsafe(32)
        await self._store_session(session, visitor)
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

    async def _check_secret(self, given: str) -> tuple[bool, Visitor | None]:
        """Return whether a secret is accepted, and a credential's visitor; raises `ClientError`."""
        if hmac.compare_digest(_digest(given), self._password):
            return True, None
        if not _CREDENTIAL.fullmatch(given):
            return False, None
        client, refused = client_of(self._options, given)
        try:
            own = await client.admins.own()
            assert own.admin is not None, "the admin secret does not begin with sa-"
            return True, Visitor(client, own.admin.name, own.role, refused)
        except Unauthorized:
            await client.close()
            return False, None
        except BaseException:
            await client.close()
            raise

    async def _store_session(self, session: str, visitor: Visitor | None) -> None:
        """Store a session; drop ended sessions, and the oldest ones above the limits."""
        now = time.monotonic()
        over = [key for key, each in self._sessions.items() if not each.is_valid(now)]
        if visitor is not None:
            name = visitor.name
            own = [key for key, each in self._sessions.items() if each.belongs_to(name)]
            over += own[: max(0, len(own) + 1 - _MOST_OF_CREDENTIAL)]
        over += list(self._sessions)[: max(0, len(self._sessions) + 1 - _MOST_SESSIONS)]
        self._sessions[session] = _Session(now + _MAX_AGE_S, visitor)
        for key in over:
            ended = self._sessions.pop(key, None)
            if ended is not None and ended.visitor is not None:
                await ended.visitor.client.close()


class AccessGate:
    """ASGI middleware: checks the Host, asks for a login if there is a password, sets headers.

    The Host check is against DNS rebinding: a page of another site could otherwise point its name
    at 127.0.0.1 and read this dashboard.
    """

    def __init__(self, app: ASGIApp, options: Options) -> None:
        self._app = app
        self._hosts = options.hosts
        self._login = None if options.password is None else Login(options)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        send = _add_headers(scope, send)
        receive, disconnected = _watch_disconnect(receive)
        try:
            await self._answer_allowed(scope, receive, send)
        except RuntimeError:
            # Starlette's middlewares raise this when the client has disconnected.
            if not disconnected():
                raise

    async def _answer_allowed(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = HTTPConnection(scope)
        host = connection.headers.get("host", "").lower()
        if self._hosts is not None and host not in self._hosts:
            await _refuse(scope, receive, send, "Open the dashboard at its own address.")
        elif self._login is None:
            await _learn_role(scope)
            await self._app(scope, receive, send)
        elif await self._is_login_valid(connection):
            if scope["path"] == _LOGOUT and scope["type"] == "http":
                response = await self._login.log_out(connection)
                await response(scope, receive, send)
            else:
                await _learn_role(scope)
                set_visitor(self._login.visitor(connection))
                receive = _receive_until_logout(receive, connection, self._login)
                await self._app(scope, receive, send)
        elif scope["path"] == _LOGIN and scope["type"] == "http":
            await self._login(scope, receive, send)
        elif scope["type"] == "http" and scope["method"] == "GET":
            await RedirectResponse(_LOGIN, 303)(scope, receive, send)
        else:
            await _refuse(scope, receive, send, "Log in first.")

    async def _is_login_valid(self, connection: HTTPConnection) -> bool:
        """Return whether the login is valid; the service confirms it for pages and new sockets."""
        login = self._login
        assert login is not None
        if _is_file(connection.scope):
            return login.is_logged_in(connection)
        return await login.confirm(connection)


def bind_sockets(server: Any) -> None:
    """Bind each socket to one page, and to the login with which the page was opened.

    NiceGUI checks only the page's id in an event: anybody who learned the id of a page could press
    its buttons from another socket.
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

    async def connect_own_page(sid: str, environ: dict[str, Any], *more: Any) -> Any:
        query = parse_qs(environ.get("QUERY_STRING", ""))
        page_id = query.get("client_id", [None])[0]
        # NiceGUI tells a page that no longer exists to reload.
        if page_id in Client.instances and not is_of_login(environ, page_id):
            return False
        return await connect(sid, environ, *more)

    async def handshake_own_page(sid: str, data: dict[str, Any]) -> Any:
        is_own = is_of_login(server.get_environ(sid), data.get("client_id"))
        return await handshake(sid, data) if is_own else False

    def for_own_page(handler: Callable[[str, dict[str, Any]], None]) -> Callable[..., None]:
        def handle_own(sid: str, message: dict[str, Any]) -> None:
            if message.get("client_id") in server.rooms(sid):
                show_requests_of(message["client_id"])
                handler(sid, message)

        return handle_own

    server.on("connect", connect_own_page)
    server.on("handshake", handshake_own_page)
    for name in ("event", "javascript_response", "ack", "log"):
        server.on(name, for_own_page(handlers[name]))


def _is_file(scope: Scope) -> bool:
    return scope["type"] == "http" and str(scope["path"]).startswith(_PUBLIC)


async def _learn_role(scope: Scope) -> None:
    """Fetch the role before a page is built, because the page offers only what the role may do."""
    if scope["type"] == "http" and not _is_file(scope):
        await ask_role()


async def _wait(seconds: float) -> None:
    await asyncio.sleep(seconds)


def _digest(text: str) -> bytes:
    """Return a digest of fixed length, so that comparing it does not reveal the text's length."""
    return hashlib.sha256(text.encode()).digest()


def _receive_until_logout(receive: Receive, connection: HTTPConnection, login: Login) -> Receive:
    """Return a `receive` that ends the socket once its login has ended."""

    async def receive_checked() -> Message:
        message = await receive()
        if message["type"] == "websocket.receive" and not login.is_logged_in(connection):
            return {"type": "websocket.disconnect", "code": 1008}
        return message

    return receive_checked


def _watch_disconnect(receive: Receive) -> tuple[Receive, Callable[[], bool]]:
    events: list[bool] = []

    async def receive_watched() -> Message:
        message = await receive()
        if message["type"] == "http.disconnect":
            events.append(True)
        return message

    return receive_watched, lambda: bool(events)


def _add_headers(scope: Scope, send: Send) -> Send:
    headers = dict(_HEADERS)
    if not scope["path"].startswith(_PUBLIC):
        headers[b"cache-control"] = b"no-store"

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            others = [pair for pair in message.get("headers", ()) if pair[0].lower() not in headers]
            message = {**message, "headers": [*others, *headers.items()]}
        await send(message)

    return send_with_headers


def _login_page(error: str, status: int = 200) -> Response:
    return HTMLResponse(_PAGE.format(error=error), status)


async def _refuse(scope: Scope, receive: Receive, send: Send, text: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    await PlainTextResponse(text, 403)(scope, receive, send)
