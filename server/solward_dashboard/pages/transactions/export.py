"""The history as a file: what the service exports, passed on in pieces."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator

from fastapi import Request, Response
from fastapi.responses import PlainTextResponse, StreamingResponse

from solward.client import ClientError, TransactionFilter
from solward.support.clock import iso, now_ms
from solward.types.errors import InvalidRequest
from solward_dashboard.api import api
from solward_dashboard.pages.transactions.rows import moment

EXPORT = "/transactions.csv"


async def export(request: Request) -> Response:
    """The records that the query's filter lets through, as the service writes them."""
    given = dict(request.query_params)
    try:
        wanted = TransactionFilter(
            wallet_id=given.get("walletId"),
            agent_id=given.get("agentId"),
            recipient=given.get("recipient"),
            type=given.get("type"),
            status=given.get("status"),
            since=moment(given.get("since")),
            until=moment(given.get("until")),
        )
        pieces = api().transactions.export(wanted)
        # Before the status is sent, so that an error is not a file.
        first = await anext(pieces)
    except (InvalidRequest, ValueError) as error:
        return PlainTextResponse(str(error), 400)
    except ClientError as error:
        return PlainTextResponse(str(error), 502)
    name = f"solward-transactions-{iso(now_ms())[:10]}.csv"
    return StreamingResponse(
        _passed_on(first, pieces),
        media_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


async def _passed_on(
    first: bytes, pieces: AsyncGenerator[bytes, None]
) -> AsyncGenerator[bytes, None]:
    async with contextlib.aclosing(pieces):
        yield first
        async for piece in pieces:
            yield piece
