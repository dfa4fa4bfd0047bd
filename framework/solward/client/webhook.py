"""Functions for receivers of webhooks: check a delivery, sign a decision.

They need no connection and no token, only the service's `APPROVAL_WEBHOOK_SECRET` or
`ALERT_WEBHOOK_SECRET`.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from solward.client.errors import BadSignature
from solward.resources.declare import A, Answer, answer_of, named_metadata
from solward.support import jsontext
from solward.support.webhook_signature import (
    DELIVERY,
    MIN_SECRET_BYTES,
    NONCE,
    SIGNATURE,
    TIMESTAMP,
    WINDOW_S,
    decision_signature,
    delivery_signature,
    is_hold_id,
    is_nonce,
    is_signature,
    seconds_of,
)
from solward.types.errors import InvalidRequest

_NONCE_BYTES = 24


@dataclass(frozen=True, slots=True)
class Delivery(Answer):
    """A delivery to the approvals' webhook, with a checked signature.

    Attributes:
        id: the same in every try of one delivery; a receiver that has seen it ignores it.
        event: `hold:created`, or a later event of the hold, such as `hold:denied`.
        by: who caused the event: `admin`, `key:<id>`, `webhook`, or `service`.
        hold: the hold as `GET /api/v1/holds` returns it. Its texts may quote third parties: display
            them as plain text, never as markup.
        dashboard_url: the dashboard's page on which a person decides.
        decision_url: the URL that accepts a signed decision.
        sent_at: when this try was signed.
        raw: the whole body.
    """

    id: str
    event: str
    by: str
    hold: Mapping[str, Any]
    dashboard_url: str
    decision_url: str
    sent_at: datetime


@dataclass(frozen=True, slots=True)
class AlertDelivery(Answer):
    """A delivery to the alerts' webhook, with a checked signature.

    Attributes:
        id: the same in every try of one delivery; a receiver that has seen it ignores it.
        alerts: each has `{name, count, firstAt, lastAt}` and its subject, such as `walletId`,
            `rule` or `principal`. `detail`, the latest text, may quote third parties: display it as
            plain text, never as markup.
        left_out: the number of further alerts, for which `alerts` has no room.
        dashboard_url: the dashboard's page for these alerts.
        sent_at: when this try was signed.
        raw: the whole body.
    """

    id: str
    alerts: tuple[Mapping[str, Any], ...]
    left_out: int = field(metadata=named_metadata("leftOut.count"))
    dashboard_url: str
    sent_at: datetime


@dataclass(frozen=True, slots=True)
class SignedDecision:
    """A signed decision, to be sent once. To send the decision again, sign it again."""

    headers: Mapping[str, str] = field(repr=False)
    body: bytes


def verify_delivery(
    secret: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    clock: Callable[[], float] = time.time,
) -> Delivery:
    """Return the delivery in a request if the service signed it just now.

    Args:
        secret: the webhook's.
        headers: the request's headers, their names in any case.
        body: the request's body, unchanged.
        clock: the time of the receiver in Unix seconds.

    Raises:
        BadSignature: the secret did not sign this, or more than 300 s from now.
        InvalidRequest: the secret is too short, or the signed body is of another version.
    """
    return _read_delivery(Delivery, secret, headers, body, clock)


def verify_alerts(
    secret: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    clock: Callable[[], float] = time.time,
) -> AlertDelivery:
    """Return the alerts in a request; the arguments are those of `verify_delivery`.

    Raises:
        BadSignature: the secret did not sign this, or more than 300 s from now.
        InvalidRequest: the secret is too short, or the signed body is of another version or of
            `ALERT_WEBHOOK_FORMAT=slack`.
    """
    return _read_delivery(AlertDelivery, secret, headers, body, clock)


def sign_decision(
    secret: str,
    hold_id: str,
    decision: Literal["approve", "deny"],
    note: str | None = None,
    *,
    clock: Callable[[], float] = time.time,
) -> SignedDecision:
    """Return the headers and the body of a request to `decision_url` that decides a hold.

    It is valid once, for 300 s. If no answer came, sign again: a hold is decided at most once.

    Args:
        secret: the webhook's.
        hold_id: the hold's id; the signature is valid for this hold only.
        note: the reason, for the audit log.
        clock: the time of the receiver in Unix seconds.

    Raises:
        InvalidRequest: an argument is wrong; the message names it.
    """
    _check_secret(secret)
    if decision not in ("approve", "deny"):
        raise InvalidRequest("decision must be approve or deny")
    if not is_hold_id(hold_id):
        raise InvalidRequest("hold_id must be the id of a hold")
    fields = {"decision": decision} if note is None else {"decision": decision, "note": note}
    body = jsontext.dumps(fields).encode()
    timestamp, nonce = str(int(clock())), secrets.token_urlsafe(_NONCE_BYTES)
    headers = {
        "Content-Type": "application/json",
        TIMESTAMP: timestamp,
        NONCE: nonce,
        SIGNATURE: decision_signature(secret, hold_id, timestamp, nonce, body),
    }
    return SignedDecision(headers, body)


def _read_delivery(
    kind: type[A],
    secret: str,
    headers: Mapping[str, str],
    body: bytes,
    clock: Callable[[], float],
) -> A:
    _check_secret(secret)
    found = {name.lower(): value for name, value in headers.items()}
    timestamp, delivery_id, given = (
        found.get(name.lower(), "") for name in (TIMESTAMP, DELIVERY, SIGNATURE)
    )
    seconds = seconds_of(timestamp)
    expected = delivery_signature(secret, timestamp, delivery_id, body)
    # A colon in the id would shift where the body begins in the signed text.
    if seconds is None or not is_nonce(delivery_id) or not is_signature(given, expected):
        raise BadSignature("The delivery is not signed with this secret")
    if abs(clock() - seconds) > WINDOW_S:
        raise BadSignature(f"The delivery was signed more than {WINDOW_S} s from now")
    sent_at = datetime.fromtimestamp(seconds, UTC)
    try:
        return answer_of(kind, jsontext.read(body), id=delivery_id, sent_at=sent_at)
    except (ValueError, KeyError, TypeError):
        raise InvalidRequest("body is signed, but it is no delivery of this version") from None


def _check_secret(secret: str) -> None:
    if len(secret.encode()) < MIN_SECRET_BYTES:
        raise InvalidRequest(f"secret must have at least {MIN_SECRET_BYTES} bytes")
