"""What both protocols need: a price, and a memory of what was served."""

from __future__ import annotations

import base64
import binascii
import json
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TOKEN_PROGRAM = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"

# A header that is longer is not read.
MOST_CHARACTERS = 16_384


class NotPaid(Exception):
    """Why a request is not paid for, in words for its sender."""


class CannotTell(Exception):
    """Who would know whether it is paid for could not be asked."""


@dataclass(frozen=True, slots=True)
class Price:
    """What a request costs.

    Attributes:
        units: of the mint's smallest unit.
        mint: of the token that is taken.
        decimals: of the mint.
        token_program: that the mint is of.
    """

    units: int
    mint: str
    decimals: int
    token_program: str = TOKEN_PROGRAM


class Served:
    """The signatures that were served, each once; in a file, they are known after a restart."""

    def __init__(self, path: Path | str = ":memory:") -> None:
        # Each statement is a transaction of its own.
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS served (signature TEXT PRIMARY KEY) WITHOUT ROWID"
        )

    def has(self, signature: str) -> bool:
        """Whether it was served."""
        query = "SELECT 1 FROM served WHERE signature = ?"
        return self._database.execute(query, [signature]).fetchone() is not None

    def take(self, signature: str) -> bool:
        """Note it as served; False where it was already, by whichever of two requests at once."""
        statement = "INSERT OR IGNORE INTO served (signature) VALUES (?)"
        return self._database.execute(statement, [signature]).rowcount == 1

    def give_back(self, signature: str) -> None:
        """It was not served after all, and may be shown again."""
        self._database.execute("DELETE FROM served WHERE signature = ?", [signature])

    def close(self) -> None:
        """Close the file."""
        self._database.close()


def decoded(text: str, what: str) -> dict[str, Any]:
    """A JSON object in base64 of either alphabet, padded or not.

    Raises:
        NotPaid: it is none; `what` names it.
    """
    if len(text) > MOST_CHARACTERS:
        raise NotPaid(f"{what} is longer than {MOST_CHARACTERS} characters")
    padded = text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4)
    try:
        found = json.loads(base64.b64decode(padded, altchars=_alphabet(text), validate=True))
    except (binascii.Error, ValueError, RecursionError):
        raise NotPaid(f"{what} is not JSON in base64") from None
    if not isinstance(found, dict):
        raise NotPaid(f"{what} is not a JSON object")
    return found


def _alphabet(text: str) -> bytes:
    return b"-_" if "-" in text or "_" in text else b"+/"
