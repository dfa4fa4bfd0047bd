from __future__ import annotations

import pytest
from solward import Hold, Intent, Outflow, TransactionEffects
from solward.testing import conformance

from solward_plugin_template import guardrail

test_it_conforms = conformance.guardrail_test(guardrail)

WALLET = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"


def judged(type: str, declared: int, possible: int) -> str | Hold | None:
    intent = Intent(type, WALLET, lamports_out=declared)
    # Nothing leaves in the simulation, and `possible` could when it lands.
    outflow = Outflow(possible, fee_lamports=5_000, rent_lamports=0)
    effects = TransactionEffects(lamports_out=0, fee_lamports=5_000, outflow=outflow)
    return guardrail.guardrail_check(intent, effects)


@pytest.mark.parametrize(("declared", "possible"), [(600_000_000, 0), (0, 600_000_000)])
def test_a_large_transfer_is_refused_as_declared_and_as_possible(
    declared: int, possible: int
) -> None:
    refusal = judged("transfer", declared, possible)
    assert refusal == "a transfer may be at most 0.5 SOL, and this is 0.6 SOL"


def test_of_a_large_one_a_person_is_asked() -> None:
    assert judged("transfer", 500_000_000, 0) == Hold("0.5 SOL is more than 0.1 SOL")


def test_what_is_within_the_limit_or_no_transfer_is_left_to_the_other_rules() -> None:
    assert judged("transfer", 100_000_000, 100_000_000) is None
    assert judged("stake", 600_000_000, 600_000_000) is None
