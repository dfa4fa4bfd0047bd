"""What a node's answer over HTTP means: the result of a JSON-RPC call, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from solward.telemetry.scrub import scrub_text
from solward.types.errors import LedgerRejected, LedgerUnavailable
from solward.vault.ledger.patience import NodeDenies
from solward.vault.ledger.rate_limits import busy, json_error

# Methods that providers leave out of a plan, or altogether; a refusal says nothing of the node.
OPTIONAL: Final = frozenset({"getProgramAccounts"})
# Of the refusals (4xx): those of the moment, and those of the caller, whatever the call.
_LATER = frozenset({408, 425, 429})
_DENIED = frozenset({401, 402, 403})
# Of the body of an answer: an account of Solana's largest size, 10 MiB, takes 14 in base64.
MOST_ANSWER_BYTES: Final = 32 * 1024 * 1024


class NoAnswer(Exception):
    """Why a node did not answer, without its address."""


class Malformed(LedgerUnavailable):
    """A node's result that is not what its method gives."""


class TooLong(NoAnswer):
    """An answer with a longer body than is read."""

    def __init__(self, most: int) -> None:
        super().__init__(f"its answer is longer than {most >> 20} MiB")


def request(number: int, method: str, params: bytes) -> bytes:
    """The JSON-RPC request with this id; `params` are JSON."""
    return b'{"jsonrpc":"2.0","id":%d,"method":"%s","params":%s}' % (
        number,
        method.encode("ascii"),
        params,
    )


def parsed(body: bytes) -> Any:
    """The JSON of a body, None where it is none."""
    try:
        return msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return None


def unanswered(method: str, error: NoAnswer) -> LedgerUnavailable:
    """What to raise for a call that no answer came to."""
    return LedgerUnavailable(f"The ledger did not answer {method} ({error})")


def result(method: str, status: int, headers: Mapping[str, str], answer: Any) -> Any:
    """The `result` of a call, whose response object, or what came in its place, is `answer`.

    Args:
        status: of HTTP.

    Raises:
        NodeBusy: the node says that it answers later.
        LedgerRejected, LedgerUnavailable: see `Transport.call`.
    """
    if (
        status == 200
        and isinstance(answer, dict)
        and not answer.get("error")
        and "result" in answer
    ):
        return answer["result"]
    code, message, data = json_error(answer) or (None, "", None)
    # A provider may quote its address, and the key in it.
    message = scrub_text(message)
    limited = busy(method, status, code, message, headers)
    if limited is not None:
        raise limited
    if status // 100 != 2:
        refused = is_refusal(status)
        if refused and (method in OPTIONAL or (code and status not in _DENIED)):
            raise LedgerRejected(code or status, message or f"HTTP {status}", data)
        says = f": {message}" if message else ""
        raise (NodeDenies if refused else LedgerUnavailable)(
            f"The ledger did not answer {method} (HTTP {status}{says})"
        )
    if answer is None:
        raise LedgerUnavailable(f"The ledger's answer to {method} is no JSON")
    if code is not None:
        raise LedgerRejected(code, message, data)
    raise LedgerUnavailable(f"The ledger's answer to {method} is no JSON-RPC response")


def is_refusal(status: int) -> bool:
    """Whether an HTTP status refuses the request whenever it comes."""
    return status // 100 == 4 and status not in _LATER
