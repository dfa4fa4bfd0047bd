"""Who may see a page: requests of this machine's own pages, or of who knows the password."""

from __future__ import annotations

from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from solward_dashboard.login import PATH, Login
from solward_dashboard.options import Options

_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    # Everything a page loads is served from here; NiceGUI's templates need inline scripts.
    (
        b"content-security-policy",
        b"default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval';"
        b" style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:;"
        b" connect-src 'self' ws: wss:; frame-ancestors 'none'; base-uri 'self';"
        b" form-action 'self'",
    ),
)


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
        connection = HTTPConnection(scope)
        if self._hosts is not None and connection.headers.get("host", "") not in self._hosts:
            await _refuse(scope, receive, send, "Open the dashboard by its own address.")
        elif self._login is None or self._login.knows(connection):
            await self._app(scope, receive, send)
        elif scope["path"] == PATH and scope["type"] == "http":
            await self._login(scope, receive, send)
        elif scope["type"] == "http" and scope["method"] == "GET":
            await RedirectResponse(PATH, 303)(scope, receive, send)
        else:
            await _refuse(scope, receive, send, "Log in first.")


def _protected(scope: Scope, send: Send) -> Send:
    async def protect(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [*message.get("headers", ()), *_HEADERS]
            # Only what NiceGUI itself ships is the same for everybody.
            if not scope["path"].startswith("/_nicegui/"):
                headers.append((b"cache-control", b"no-store"))
            message = {**message, "headers": headers}
        await send(message)

    return protect


async def _refuse(scope: Scope, receive: Receive, send: Send, text: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    await PlainTextResponse(text, 403)(scope, receive, send)
