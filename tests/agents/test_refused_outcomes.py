"""What a resumed cycle tells of a transaction that was refused."""

from __future__ import annotations

import pytest

from solward.agents.act import resumed_action
from solward.types.record import TransactionRecord, TransactionStatus


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (TransactionStatus.BLOCKED, "Transaction blocked by guardrail rate_limit: why"),
        (TransactionStatus.FAILED, "why"),
    ],
)
def test_a_cycle_resumed_after_a_crash_says_it_in_the_same_words(
    status: TransactionStatus, text: str
) -> None:
    record = TransactionRecord(
        "t",
        "w",
        "transfer",
        status,
        {"amount": 1},
        ("max_per_tx", "rate_limit"),
        0,
        error="why",
        principal="agent:a",
    )
    assert resumed_action("transfer", record).outcome == text
