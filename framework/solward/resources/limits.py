"""What is used of a limit, as answers show it."""

from __future__ import annotations

from solward.resources.fields import Schema, nullable
from solward.resources.schema import response_object, sol, whole

RATE = response_object(
    {
        "limit": whole("Transaction-producing requests in any 60 seconds.", 1),
        "used": whole("Of the last 60 seconds.", 0),
        "left": whole("How many more are possible now.", 0),
    }
)


def day(limit: str) -> Schema:
    """Of a limit of SOL in 24 hours, which `limit` describes."""
    return response_object(
        {
            "limit": nullable(sol(limit)),
            "spent": sol("What ended in the last 24 hours."),
            "reserved": sol("What unfinished transactions hold."),
            "left": nullable(sol("What may still be spent.")),
        }
    )
