"""The signatures of the approvals' webhook, as the service and its receivers make and check them.

Both sides know one secret. A *delivery* goes from the service to the receiver, a *decision* back.
The signed text contains the direction, so that neither can pass for the other. A decision's text
also contains the id of its hold, so that it cannot decide another hold.
"""

from __future__ import annotations

import hashlib
import hmac
import re

TIMESTAMP = "Solward-Timestamp"
"""Header with the time of signing, in whole seconds since the Unix epoch."""
SIGNATURE = "Solward-Signature"
"""Header with the signature: `v1=` and the HMAC-SHA-256 in hexadecimal."""
DELIVERY = "Solward-Delivery"
"""Header of a delivery: its id, the same in every try."""
NONCE = "Solward-Nonce"
"""Header of a decision: a text that is unique to the decision."""

WINDOW_S = 300
"""Maximum difference between a signature's timestamp and the clock of its verifier."""
MIN_SECRET_BYTES = 32

# Digits of ASCII alone, without sign, leading zeros or spaces: one timestamp has one text.
_TIMESTAMP = re.compile(r"[1-9][0-9]{0,11}")
# A colon separates the parts of the signed text, so no part has one: there is only one reading.
_NONCE = re.compile(r"[A-Za-z0-9_-]{16,128}")
_HOLD = re.compile(r"[A-Za-z0-9_-]{1,128}")


def delivery_signature(secret: str, timestamp: str, delivery_id: str, body: bytes) -> str:
    """Return the value of `Solward-Signature` of a delivery."""
    return _signature(secret, f"v1:{timestamp}:{delivery_id}:".encode() + body)


def decision_signature(secret: str, hold_id: str, timestamp: str, nonce: str, body: bytes) -> str:
    """Return the value of `Solward-Signature` of a decision.

    A delivery has digits where this has `decision`.
    """
    return _signature(secret, f"v1:decision:{hold_id}:{timestamp}:{nonce}:".encode() + body)


def is_signature(given: str, expected: str) -> bool:
    """Return whether a header has the expected signature; the comparison takes constant time."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


def seconds_of(timestamp: str) -> int | None:
    """Return the seconds in a `Solward-Timestamp` header; None if the text is not valid."""
    return int(timestamp) if _TIMESTAMP.fullmatch(timestamp) else None


def is_nonce(text: str) -> bool:
    """Return whether a text may be a nonce or a delivery's id: 16 to 128 of `A-Z a-z 0-9 _ -`."""
    return _NONCE.fullmatch(text) is not None


def is_hold_id(text: str) -> bool:
    """Return whether a text may be the id of a hold."""
    return _HOLD.fullmatch(text) is not None


def _signature(secret: str, signed: bytes) -> str:
    return "v1=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
