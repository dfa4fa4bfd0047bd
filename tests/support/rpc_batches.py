"""A JSON-RPC batch as the calls it is made of, for nodes of tests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

One = Callable[[Any], Awaitable[web.StreamResponse]]


async def answer_each(body: bytes, one: One) -> web.StreamResponse:
    """What `one` answers to a request, or to each of a batch; where one of these is no JSON-RPC
    response, that is what the batch gets, as from a gateway."""
    request = json.loads(body)
    if not isinstance(request, list):
        return await one(request)
    answers = await asyncio.gather(*map(one, request))
    found = []
    for answer in answers:
        if not isinstance(answer, web.Response) or answer.status != 200 or not answer.text:
            return answer
        try:
            found.append(json.loads(answer.text))
        except (ValueError, RecursionError):
            return answer
    headers = {"Retry-After": after} if (after := _after(answers)) else None
    return web.json_response(found, headers=headers)


def _after(answers: list[web.StreamResponse]) -> str | None:
    return next((a.headers["Retry-After"] for a in answers if "Retry-After" in a.headers), None)
