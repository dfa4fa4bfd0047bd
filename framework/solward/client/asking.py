"""Asks for declared calls, and reads their answers."""

from __future__ import annotations

from typing import Any, TypeVar

from solward.client.arguments import requested, segment
from solward.client.http import Http
from solward.resources.answers import Answer, Raw
from solward.resources.declare import Call

A = TypeVar("A", bound=Answer)


class Asking:
    """The base of the client's parts, whose methods are declared calls."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def _asked(self, call: Call[A], *parts: str, **given: Any) -> A:
        """The answer of a call.

        Args:
            parts: of its path, in their order.
            given: the fields of its request.
        """
        if call.takes_key:
            return await self._once(call, parts, **given)
        answer = await self._answer(call, parts, given)
        if call.short is not None:
            made = self._http.read(lambda raw: str(raw["id"]), answer)
            answer = await self._http.get(f"{_path(call, parts)}/{made}")
        assert call.answer is not None
        return self._http.read(call.answer.of, answer)

    async def _once(
        self, call: Call[A], parts: tuple[str, ...], *, idempotency_key: str | None, **given: Any
    ) -> A:
        assert call.answer is not None
        fields = {} if call.request is None else requested(call.request, **given)
        return await self._http.pay(call.answer.of, _path(call, parts), fields, idempotency_key)

    async def _raw(self, call: Call[Any], *parts: str, **given: Any) -> Raw:
        """The JSON that a call answers; see `_asked`."""
        return self._http.read(dict, await self._answer(call, parts, given))

    async def _listed(self, call: Call[A], *parts: str, **given: Any) -> tuple[A, ...]:
        """The list that a call answers; see `_asked`."""
        answer = await self._answer(call, parts, given)
        kind: Any = dict if call.answer is None else call.answer.of
        return self._http.read_list(kind, answer, call.listed)

    async def _answer(self, call: Call[A], parts: tuple[str, ...], given: dict[str, Any]) -> Any:
        path, fields = _path(call, parts), None
        if call.takes_json:
            fields = dict(given["fields"])
        elif call.request is not None:
            fields = requested(call.request, **given)
        if call.method == "GET":
            return await self._http.get(path, fields)
        if call.body is not None:
            return await self._http.send(call.method, path, fields)
        return await self._http.send(call.method, path, query=fields)


def _path(call: Call[A], parts: tuple[str, ...]) -> str:
    named = dict(zip(call.parts, parts, strict=True))
    return call.path.format(**{name: segment(part, name) for name, part in named.items()})
