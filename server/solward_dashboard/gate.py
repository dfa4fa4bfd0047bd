"""Who may see a page: requests of this machine's own pages, or of who knows the password."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from solward_dashboard.login import PATH, Login
from solward_dashboard.options import Options

_LOGOUT = "/logout"
# NiceGUI's own files are the same for everybody and have their version in their path.
_PUBLIC = "/_nicegui/"
_HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    # Everything a page loads is served from here and everything it sends goes here. NiceGUI's
    # page needs inline scripts, and Vue compiles its templates in the browser.
    b"content-security-policy": (
        b"default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval';"
        b" style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:;"
        b" connect-src 'self'; object-src 'none'; frame-ancestors 'none'; base-uri 'self';"
        b" form-action 'self'"
    ),
}


class Gate:
    """ASGI middleware: a Host of its own, a login where there is a password, strict headers.

    Without the check of Host, a page of another site could have its name point at 127.0.0.1 and
    read this one (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, options: Options) -> None:
        self._app = app
        self._hosts = options.hosts
        self._login = None if options.password is None else Login(options.password)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        send = _protected(scope, send)
        receive, gone = _noticing(receive)
        try:
            await self._pass(scope, receive, send)
        except RuntimeError:
            # Starlette's middlewares take an asker who has gone for an answer that is missing.
            if not gone():
                raise

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = HTTPConnection(scope)
        host = connection.headers.get("host", "").lower()
        if self._hosts is not None and host not in self._hosts:
            await _refuse(scope, receive, send, "Open the dashboard by its own address.")
        elif self._login is None:
            await self._app(scope, receive, send)
        elif self._login.knows(connection):
            if scope["path"] == _LOGOUT and scope["type"] == "http":
                await self._login.forget(connection)(scope, receive, send)
            else:
                await self._app(scope, receive, send)
        elif scope["path"] == PATH and scope["type"] == "http":
            await self._login(scope, receive, send)
        elif scope["type"] == "http" and scope["method"] == "GET":
            await RedirectResponse(PATH, 303)(scope, receive, send)
        else:
            await _refuse(scope, receive, send, "Log in first.")


def _noticing(receive: Receive) -> tuple[Receive, Callable[[], bool]]:
    left: list[bool] = []

    async def noticed() -> Message:
        message = await receive()
        if message["type"] == "http.disconnect":
            left.append(True)
        return message

    return noticed, lambda: bool(left)


def _protected(scope: Scope, send: Send) -> Send:
    ours = dict(_HEADERS)
    if not scope["path"].startswith(_PUBLIC):
        ours[b"cache-control"] = b"no-store"

    async def protect(message: Message) -> None:
        if message["type"] == "http.response.start":
            theirs = [pair for pair in message.get("headers", ()) if pair[0].lower() not in ours]
            message = {**message, "headers": [*theirs, *ours.items()]}
        await send(message)

    return protect


async def _refuse(scope: Scope, receive: Receive, send: Send, text: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    await PlainTextResponse(text, 403)(scope, receive, send)
