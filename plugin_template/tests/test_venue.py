from __future__ import annotations

from typing import Any, cast

import httpx
import pytest
from solward import (
    WRAPPED_SOL_MINT,
    Account,
    InvalidRequest,
    LedgerUnavailable,
    QuoteRequest,
    VenueContext,
)
from solward.testing import conformance

from solward_plugin_template import venue

# Of the market that every local ledger has: pool and mint.
POOL = "5ENU9cDzkxzATkbvqYTjsBwW6viCqFezokUjmaSGVEQJ"
USDC = "7ijRzGx7S7c7RY9DM65CjqwtrmCJyKi6V5dFwFMbeciZ"
BONK_POOL = "AHW6xFcVMCixywPZvHWgaATfQ9W5za8AKYurgQZhsyS5"
REQUESTS = [
    QuoteRequest(WRAPPED_SOL_MINT, USDC, 1_000_000_000, 50),
    QuoteRequest(USDC, WRAPPED_SOL_MINT, 50_000_000, 100),
]

# Sold on a real ledger, by a wallet under the real guardrails.
test_it_conforms = conformance.venue_test(venue, requests=REQUESTS, pools=[POOL, BONK_POOL])


class Ledger:
    """A ledger with given accounts, as a node would report them."""

    def __init__(self, **accounts: Account) -> None:
        self.states = accounts

    async def accounts(self, addresses: list[str]) -> dict[str, Account | None]:
        return {address: self.states.get(address) for address in addresses}


def context(ledger: Ledger, *pools: str) -> VenueContext:
    return VenueContext(httpx.AsyncClient(), ledger=cast(Any, ledger), pools=pools)


async def test_an_account_of_another_program_is_no_pool() -> None:
    foreign = Account(1, "11111111111111111111111111111111", bytes(64))
    with pytest.raises(LedgerUnavailable, match="is no pool of this program"):
        await venue.venue_quote(REQUESTS[0], context(Ledger(**{POOL: foreign}), POOL))


async def test_a_pool_whose_vault_is_somebody_elses_is_refused() -> None:
    pool = Account(1, venue.PROGRAM, bytes(64))
    with pytest.raises(LedgerUnavailable, match="no vault of its own"):
        await venue.venue_quote(REQUESTS[0], context(Ledger(**{POOL: pool}), POOL))


async def test_a_pair_without_a_pool_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="no configured pool"):
        await venue.venue_quote(REQUESTS[0], context(Ledger()))
