"""What a record says first, and where its links lead, without a browser."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from solward.client import AuditEntry, Judged
from solward.solana.token_list import token_list
from solward_dashboard.links import address_of, list_address
from solward_dashboard.pages.audit import things_of
from solward_dashboard.pages.transaction import TransactionView, _outcome_text, _request_text
from solward_dashboard.wording import People

TO = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"
PEOPLE = People({"wallet:w1": "till", "agent:a1": "scout"}, deleted={"key:k1": "<b>ci</b>"})


def view(status: str, who: str = "agent:a1", hold: str = "", **more: Any) -> TransactionView:
    raw: dict[str, Any] = {
        "id": "r1",
        "walletId": "w1",
        "principal": who,
        "type": "transfer",
        "status": status,
        "details": {"to": TO, "amount": 3},
        "guardrailsApplied": ["max_per_tx"],
        "timestamp": "2026-11-21T10:00:00.000Z",
    }
    entries = [entry(f"hold:{hold}", {"id": "h1", "transactionId": "r1"})] if hold else []
    return TransactionView(Judged.of(raw | more), PEOPLE, "localnet", entries)


def entry(kind: str, data: Any) -> AuditEntry:
    now = datetime.now(UTC)
    return AuditEntry(
        seq=1, kind=kind, data=data, timestamp=now, chain="", number=1, hash="0" * 64, raw={}
    )


REFUSED = {"refusal": {"rule": "max_per_tx", "reason": "too much", "numbers": {}}}


@pytest.mark.parametrize(
    ("one", "says"),
    [
        (view("pending"), "The ledger has not decided yet"),
        (view("confirmed"), "It is carried out"),
        (view("confirmed", hold="executed"), "It is carried out"),
        (view("failed"), "It failed"),
        (view("blocked", **REFUSED), "Refused by max_per_tx: the maximum in one transaction."),
        (view("blocked", hold="refused", **REFUSED), "Refused by max_per_tx"),
        (view("blocked", hold="denied", **REFUSED), "A person denied it; nothing was sent."),
        (view("blocked", hold="expired", **REFUSED), "Nobody approved it in time; nothing was"),
    ],
)
def test_a_record_says_first_who_asked_for_what_and_what_came_of_it(
    one: TransactionView, says: str
) -> None:
    asked = "Agent scout asked for a transfer of 3 SOL to 9B5X…Ns6g, from wallet till."
    assert _request_text(one, token_list("localnet")) == asked
    assert _outcome_text(one).startswith(says)


def test_who_was_deleted_keeps_the_name() -> None:
    said = _request_text(view("confirmed", "key:k1"), token_list("localnet"))
    assert said.startswith("Key <b>ci</b> (deleted) asked for a transfer")


def test_an_id_that_others_wrote_stays_within_its_address() -> None:
    assert address_of("wallet:../x?y#z") == "/wallets/..%2Fx%3Fy%23z"
    assert address_of("key:k1", "limits") == "/api-keys#key:k1"
    assert address_of("agent:a1", "limits") == "/agents/a1#limits"
    assert address_of("grants:agent:a1") == "/policy#agent:a1"
    assert list_address("/audit", about="a&b=c") == "/audit?about=a%26b%3Dc"


@pytest.mark.parametrize(
    ("kind", "data", "things"),
    [
        ("transaction:blocked", {"id": "r1", "walletId": "w1", "principal": "agent:a1"},
         ["transaction:r1", "wallet:w1", "agent:a1"]),
        ("hold:denied", {"id": "h1", "transactionId": "r1", "asked": "key:k1",
                         "principal": "admin"}, ["hold:h1", "transaction:r1", "key:k1"]),
        ("key:revoked", {"keyId": "k1", "principal": "admin"}, ["key:k1"]),
        ("agent:decision", None, []),
    ],
)  # fmt: skip
def test_an_entry_names_what_it_is_about(kind: str, data: Any, things: list[str]) -> None:
    assert list(things_of(entry(kind, data))) == things
