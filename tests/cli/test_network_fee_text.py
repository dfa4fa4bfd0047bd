"""A network fee as `solward tx show` prints it."""

from __future__ import annotations

import pytest

from solward.client import NetworkFee
from solward_cli.tx.render import network_fee_text


@pytest.mark.parametrize(
    ("fee", "text"),
    [
        (
            NetworkFee(8_900, 450, 1_300, 3_000_000, raw={}),
            "0.0000089 SOL, 450 of 1,300 compute units, 3,000,000 micro-lamports a unit",
        ),
        (NetworkFee(5_000, 150, None, 0, raw={}), "0.000005 SOL, 150 compute units"),
        (NetworkFee(0, None, None, None, raw={}), "0 SOL"),
    ],
)
def test_a_fee_says_its_lamports_units_and_price(fee: NetworkFee, text: str) -> None:
    assert network_fee_text(fee) == text
