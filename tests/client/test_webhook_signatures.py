"""What a receiver of the approvals' webhook believes, and what it can say."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any, Literal

import pytest
from tests.promises import promise

from solward.client import BadSignature, Delivery, sign_decision, verify_delivery
from solward.support import jsontext
from solward.support.webhook_signature import WINDOW_S, decision_signature, delivery_signature
from solward.types.errors import InvalidRequest

SECRET = "a-secret-of-the-webhook-of-32-bytes!"
OTHER = "another-secret-of-the-webhook-32-byt"
ID = "0b7e2e8e-6f0c-4f0e-9a55-0d7a3f8e2c11"
NOW = 1_790_000_000
BODY = jsontext.dumps(
    {
        "event": "hold:created",
        "by": "agent:scout",
        "hold": {"id": "h-1"},
        "dashboardUrl": "http://127.0.0.1:3000/holds/h-1",
        "decisionUrl": "http://127.0.0.1:3001/api/v1/holds/h-1/webhook",
    }
).encode()


def headers(body: bytes = BODY, *, timestamp: str = str(NOW), id_: str = ID) -> dict[str, str]:
    return {
        "solward-timestamp": timestamp,
        "SOLWARD-DELIVERY": id_,
        "Solward-Signature": delivery_signature(SECRET, timestamp, id_, body),
    }


def verify(sent: dict[str, str], body: bytes = BODY, **given: Any) -> Delivery:
    return verify_delivery(given.pop("secret", SECRET), sent, body, clock=lambda: NOW, **given)


def test_the_signature_is_the_one_that_is_documented() -> None:
    signed = f"v1:{NOW}:{ID}:".encode() + BODY
    expected = hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()
    assert headers()["Solward-Signature"] == f"v1={expected}"


def test_a_signed_delivery_is_read_whatever_the_case_of_its_headers() -> None:
    delivery = verify(headers())
    assert (delivery.id, delivery.event, delivery.hold) == (ID, "hold:created", {"id": "h-1"})
    assert delivery.sent_at.timestamp() == NOW
    assert delivery.decision_url.endswith("/holds/h-1/webhook")


@promise("receiver-believes-signed-only")
@pytest.mark.parametrize(
    "change",
    [
        {"Solward-Signature": ""},
        {"Solward-Signature": "v1="},
        {"Solward-Signature": "v1=é"},
        {"solward-timestamp": str(NOW + 1)},
        {"solward-timestamp": f"0{NOW}"},
        {"solward-timestamp": "١٧٩٠٠٠٠٠٠٠"},
        {"SOLWARD-DELIVERY": ID.replace("0", "1")},
    ],
)
def test_what_another_signed_or_changed_is_not_believed(change: dict[str, str]) -> None:
    with pytest.raises(BadSignature, match="not signed with this secret"):
        verify(headers() | change)


def test_another_body_and_another_secret_are_not_believed() -> None:
    with pytest.raises(BadSignature):
        verify(headers(), BODY.replace(b"h-1", b"h-2"))
    with pytest.raises(BadSignature):
        verify(headers(), secret=OTHER)


def test_a_part_of_the_body_is_no_part_of_the_id() -> None:
    cut = BODY.index(b":")
    moved = f"{ID}:{BODY[:cut].decode()}"
    sent = headers() | {"SOLWARD-DELIVERY": moved}
    expected = delivery_signature(SECRET, str(NOW), moved, BODY[cut + 1 :])
    assert sent["Solward-Signature"] == expected  # the HMAC alone does not tell
    with pytest.raises(BadSignature):
        verify(sent, BODY[cut + 1 :])


@promise("receiver-believes-signed-only")
@pytest.mark.parametrize(("seconds", "fits"), [(WINDOW_S, True), (WINDOW_S + 1, False)])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_delivery_counts_for_five_minutes_both_ways(seconds: int, fits: bool, sign: int) -> None:
    sent = headers(timestamp=str(NOW + sign * seconds))
    if fits:
        verify(sent)
    else:
        with pytest.raises(BadSignature, match="more than 300 s from now"):
            verify(sent)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"\xff", b'{"event": 1}'])
def test_a_signed_body_of_another_version_is_said_to_be_one(body: bytes) -> None:
    with pytest.raises(InvalidRequest, match="no delivery of this version"):
        verify(headers(body), body)


def decide(
    decision: Literal["approve", "deny"] = "deny", hold_id: str = "h-1", note: str | None = None
) -> tuple[dict[str, str], bytes]:
    signed = sign_decision(SECRET, hold_id, decision, note, clock=lambda: NOW + 0.9)
    return dict(signed.headers), signed.body


def test_a_decision_says_only_what_was_decided_and_is_signed_for_one_hold() -> None:
    sent, body = decide(note="not known")
    assert jsontext.loads(body) == {"decision": "deny", "note": "not known"}
    assert sent["Solward-Timestamp"] == str(NOW)
    nonce = sent["Solward-Nonce"]
    signed = f"v1:decision:h-1:{NOW}:{nonce}:".encode() + body
    expected = hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()
    assert sent["Solward-Signature"] == f"v1={expected}"
    assert sent["Solward-Signature"] != decision_signature(SECRET, "h-2", str(NOW), nonce, body)
    assert jsontext.loads(decide()[1]) == {"decision": "deny"}


def test_no_two_decisions_share_a_nonce() -> None:
    assert len({decide()[0]["Solward-Nonce"] for _ in range(100)}) == 100


def test_a_decision_is_no_delivery() -> None:
    sent, body = decide()
    with pytest.raises(BadSignature):
        verify(sent | {"Solward-Delivery": sent["Solward-Nonce"]}, body)


def test_wrong_arguments_are_named_and_the_secret_is_in_no_error() -> None:
    with pytest.raises(InvalidRequest, match="decision must be approve or deny"):
        sign_decision(SECRET, "h-1", "maybe")  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="hold_id must be"):
        sign_decision(SECRET, "h:1", "deny")
    for call in (lambda: verify(headers(), secret="short-secret"),
                 lambda: sign_decision("short-secret", "h-1", "deny")):  # fmt: skip
        with pytest.raises(InvalidRequest, match="secret must have at least 32 bytes") as caught:
            call()
        assert "short-secret" not in str(caught.value)
    assert SECRET not in repr(sign_decision(SECRET, "h-1", "deny"))
