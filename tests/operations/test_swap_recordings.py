"""The swap API's answers as it documents them for mainnet, through the product's own path.

Quoted, parsed, judged and compiled in full. Not executed: the programs that the routes name are on
no test ledger, so each swap is refused in the simulation, and what was funded comes home. Swaps
that land by the same calls are those of `test_swap_apis.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest
from solders.account import Account
from solders.pubkey import Pubkey
from solders.token import ID as TOKEN_PROGRAM
from solders.token.state import Mint
from tests.operations.test_swap import plan
from tests.operations.test_swap_in_steps import pockets_are_empty, steps_of
from tests.support.recordings import API, RECORDINGS, ReplayTransport, check_answer, check_request
from tests.support.swaps import RENT, SwapBench, market_and_makers, open_swaps

from solward.solana.message import lookup_tables
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.solana.tokens import TOKEN_ACCOUNT_RENT
from solward.support import jsontext
from solward.types.errors import InvalidRequest, LedgerUnavailable, TransactionFailed
from solward.types.venue import QuoteRequest
from solward.vault.guardrails.worst_case import worst_case
from solward.vault.money.judge.building import compile_instructions
from solward.vault.money.request import Draft, PocketDraft

USDC = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
USDT = "Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB"
SOLD, QUOTED = 250_000_000, 42_829_110
FILES = {"build": "jupiter-v2-build", "order": "jupiter-v2-order", "v1": "jupiter-v1"}
BLOCKHASH = str(Pubkey.default())


def exchanges(name: str) -> Any:
    return jsontext.loads((RECORDINGS / f"{name}.json").read_bytes())


TABLES: Mapping[str, list[str]] = exchanges("jupiter-v2-build")[0]["response"]["body"][
    "addressesByLookupTableAddress"
]


@pytest.mark.parametrize("name", [*FILES.values(), "jupiter-refusals"])
def test_a_recording_has_requests_and_answers_as_the_api_documents_them(name: str) -> None:
    for exchange in exchanges(name):
        request, response = exchange["request"], exchange["response"]
        url = urlsplit(request["url"])
        assert (request["method"], url.path) in API
        check_request(request["method"], url.path, dict(parse_qsl(url.query)), request["body"])
        if response["status"] == 200:
            # Decimals of the recording are numbers there.
            body = jsontext.loads(jsontext.dumps(response["body"]))
            check_answer(request["method"], url.path, _plain(body))


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def mainnet_accounts() -> Mapping[Pubkey, Account]:
    """The tokens of the recordings and the lookup tables of their routes, as a ledger has them."""
    accounts = dict(market_and_makers())
    for address in (USDC, USDT):
        mint = Mint(
            mint_authority=None,
            supply=10**15,
            decimals=6,
            is_initialized=True,
            freeze_authority=None,
        )
        accounts[Pubkey.from_string(address)] = Account(RENT, bytes(mint), TOKEN_PROGRAM)
    owner = Pubkey.from_string("AddressLookupTab1e1111111111111111111111111")
    for address, held in TABLES.items():
        state = ((1).to_bytes(4, "little") + b"\xff" * 8).ljust(56, b"\0")
        data = state + b"".join(bytes(Pubkey.from_string(each)) for each in held)
        accounts[Pubkey.from_string(address)] = Account(10**7, data, owner)
    return accounts


@asynccontextmanager
async def replayed(folder: Path, api: str, name: str, **options: Any) -> AsyncIterator[SwapBench]:
    async with open_swaps(folder, genesis=mainnet_accounts, **options) as bench:
        transport = ReplayTransport(RECORDINGS / f"{name}.json")
        async with httpx.AsyncClient(
            transport=transport, base_url="https://venue.example"
        ) as bench.http:
            bench.api = api
            yield bench


async def swap(bench: SwapBench) -> Any:
    return await bench.swap(WRAPPED_SOL_MINT, USDC, Decimal("0.25"))


@pytest.mark.parametrize(("api", "out"), [("build", QUOTED), ("order", 42_820_544), ("v1", QUOTED)])
async def test_a_documented_quote_is_the_products_offer(tmp_path: Path, api: str, out: int) -> None:
    async with replayed(tmp_path, api, FILES[api]) as bench:
        offer = await bench.operations().quote(
            {"inputToken": WRAPPED_SOL_MINT, "outputToken": USDC, "amount": Decimal("0.25"),
             "slippageBps": 50}
        )  # fmt: skip
    assert (offer.in_amount, offer.out_amount, offer.slippage_bps) == (SOLD, out, 50)
    # Version 1 rounds the minimum down, and the later one up.
    exact = Decimal(out) * 9_950 / 10_000
    assert offer.minimum_out == int(exact) + (0 if api == "v1" else 1)
    assert offer.price_impact == Decimal("0.0004")


@pytest.mark.parametrize("api", ["build", "v1"])
@pytest.mark.parametrize("version", [0, 1])
async def test_a_documented_instruction_fits_and_costs_the_wallet_what_is_sold(
    tmp_path: Path, api: str, version: Any
) -> None:
    async with replayed(tmp_path, api, FILES[api], transaction_version=version) as bench:
        asked = {"input_token": WRAPPED_SOL_MINT, "output_token": USDC, "amount": Decimal("0.25")}
        draft: Draft = await plan(bench, **asked)
        compiled = compile_instructions(draft, BLOCKHASH, None)
        message = compiled.message
        assert len(bytes(compiled)) <= (4_096 if version else 1_232)
        assert set(lookup_tables(message)) == (set() if version else set(TABLES))
        assert draft.pocket is not None
        # A token on the way gets an account of the pocket's, at the wallet's cost.
        assert set(draft.pocket.mints) == {WRAPPED_SOL_MINT, USDT}
        bound = worst_case(message, bench.address)
        assert (bound.lamports, dict(bound.tokens)) == (SOLD, {})
        assert bound.rent_lamports == 3 * TOKEN_ACCOUNT_RENT
        # No program of the route is there: nothing is signed, and nothing left.
        before = await bench.lamports()
        with pytest.raises(TransactionFailed):
            await swap(bench)
        assert await bench.lamports() == before
        assert await bench.bench.reserved_units() == 0


async def test_a_documented_order_is_funded_tried_and_comes_home(tmp_path: Path) -> None:
    async with replayed(tmp_path, "order", FILES["order"]) as bench:
        asked = {"input_token": WRAPPED_SOL_MINT, "output_token": USDC, "amount": Decimal("0.25")}
        assert isinstance(await plan(bench, **asked), PocketDraft)
        before = await bench.lamports()
        # Its blockhash is of another ledger, so it fails there; a signer too many would before.
        with pytest.raises(TransactionFailed, match="The call would fail: "):
            await swap(bench)
        (record,) = await bench.bench.history()
        assert await steps_of(bench, record.id) == ["fund", "sweep"]
        assert await bench.lamports() == before - 15_000
        await pockets_are_empty(bench)


@pytest.mark.parametrize(
    ("amount", "error", "text"),
    [
        (1, InvalidRequest, "no route between these tokens for this amount"),
        (2, LedgerUnavailable, "rate limit is reached; it takes requests again in"),
        (3, LedgerUnavailable, "does not accept the key in JUPITER_API_KEY"),
    ],
)
async def test_a_documented_refusal_is_told_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, amount: int, error: Any, text: str
) -> None:
    monkeypatch.setattr("solward_plugins.venues.jupiter.time.time", lambda: 1_794_999_000.0)
    async with replayed(tmp_path, "build", "jupiter-refusals") as bench:
        request = QuoteRequest(WRAPPED_SOL_MINT, USDC, amount, 50)
        with pytest.raises(error, match=text):
            await bench.plugin.quote(request, bench.venue.context)


async def test_a_documented_order_for_a_taker_without_funds_says_so(tmp_path: Path) -> None:
    async with replayed(tmp_path, "order", FILES["order"]) as bench:
        request = QuoteRequest(WRAPPED_SOL_MINT, USDC, SOLD, 50)
        quote = await bench.plugin.quote(request, bench.venue.context)
        transport = ReplayTransport(RECORDINGS / "jupiter-refusals.json")
        async with httpx.AsyncClient(
            transport=transport, base_url="https://venue.example"
        ) as bench.http:
            with pytest.raises(InvalidRequest, match="does not hold what it sells"):
                await bench.plugin.real.swap(quote, bench.address, bench.venue.context)
