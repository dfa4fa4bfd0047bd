"""A network fee as `solward tx show` prints it."""

from __future__ import annotations

import pytest

from solward.client import NetworkFee
from solward_cli.tx import network_fee_text


@pytest.mark.parametrize(
    ("fee", "text"),
    [
        (
            NetworkFee(
                lamports=8_900,
                compute_units=450,
                compute_unit_limit=1_300,
                priority_fee_micro_lamports=3_000_000,
                raw={},
            ),
            "0.0000089 SOL, 450 of 1,300 compute units, 3,000,000 micro-lamports a unit",
        ),
        (
            NetworkFee(
                lamports=5_000,
                compute_units=150,
                compute_unit_limit=None,
                priority_fee_micro_lamports=0,
                raw={},
            ),
            "0.000005 SOL, 150 compute units",
        ),
        (
            NetworkFee(
                lamports=0,
                compute_units=None,
                compute_unit_limit=None,
                priority_fee_micro_lamports=None,
                raw={},
            ),
            "0 SOL",
        ),
    ],
)
def test_a_fee_says_its_lamports_units_and_price(fee: NetworkFee, text: str) -> None:
    assert network_fee_text(fee) == text
