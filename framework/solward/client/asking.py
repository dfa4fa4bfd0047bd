"""Asks for declared calls, and reads their answers."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from solward.client.arguments import requested, segment
from solward.client.http import Http
from solward.resources.declare import Call

F = TypeVar("F", bound=Callable[..., Awaitable[Any]])


class Asking:
    """The base of the client's parts, whose methods are declared calls."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def _asked(self, call: Call[Any], *parts: str, **given: Any) -> Any:
        """The answer of a call: a tuple where it lists, and JSON where it has no class.

        Args:
            parts: of its path, in their order.
            given: the fields of its request.
        """
        kind: Any = dict if call.answer is None or call.is_raw else call.answer.of
        path, fields = _path(call, parts), None
        key = given.pop("idempotency_key") if call.takes_key else None
        if call.takes_json:
            fields = dict(given["fields"])
        elif call.request is not None:
            fields = requested(call.request, **given)
        if call.takes_key:
            return await self._http.pay(kind, path, fields or {}, key)
        if call.method == "GET":
            answer = await self._http.get(path, fields)
        elif call.body is not None:
            answer = await self._http.send(call.method, path, fields)
        else:
            answer = await self._http.send(call.method, path, query=fields)
        if call.listed:
            return self._http.read_list(kind, answer, call.listed)
        if call.short is not None:
            made = self._http.read(lambda raw: str(raw["id"]), answer)
            answer = await self._http.get(f"{path}/{made}")
        return self._http.read(kind, answer)


def asks(call: Call[Any]) -> Callable[[F], F]:
    """Makes the method of a declared call from a signature and a docstring.

    The signature names the parts of the call's path and the fields of its request. So
    `@asks(REVOKE_KEY)` over `async def revoke(self, key_id: str) -> Revoked` makes
    `return await self._asked(REVOKE_KEY, key_id)`.
    """

    def made(method: F) -> F:
        signature = inspect.signature(method)

        @functools.wraps(method)
        async def ask(*given: Any, **named: Any) -> Any:
            bound = signature.bind(*given, **named)
            bound.apply_defaults()
            (_, asking), *values = bound.arguments.items()
            parts = [value for name, value in values if name in call.parts]
            fields = {name: value for name, value in values if name not in call.parts}
            return await asking._asked(call, *parts, **fields)

        return ask  # type: ignore[return-value]

    return made


def _path(call: Call[Any], parts: tuple[str, ...]) -> str:
    named = dict(zip(call.parts, parts, strict=True))
    return call.path.format(**{name: segment(part, name) for name, part in named.items()})
