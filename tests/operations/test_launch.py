from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey
from tests.promises import promise
from tests.support.tokens import TokenBench

from solward.operations.declared import LAUNCH_TOKEN
from solward.operations.tokens import plan_launch_token
from solward.resources.fields import camel
from solward.types.errors import GuardrailBlocked
from solward.types.record import TransactionRecord
from solward.vault.money.request import ADMIN, Draft


async def launch(tokens: TokenBench, **asked: Any) -> TransactionRecord:
    asked = {"name": "Demo Coin", "symbol": "DEMO"} | asked
    return await tokens.operations.perform(
        "launch_token", tokens.wallet, ADMIN, {camel(name): value for name, value in asked.items()}
    )


async def test_only_the_wallet_may_change_the_metadata_and_where_it_is(tokens: TokenBench) -> None:
    address = (await launch(tokens)).details["mint"]
    answer = await tokens.bench.wire.direct("getAccountInfo", [address, {"encoding": "jsonParsed"}])
    found = answer["value"]["data"]["parsed"]["info"]["extensions"]
    pointer, metadata = (each["state"] for each in found)
    assert pointer == {"authority": tokens.address, "metadataAddress": address}
    assert (metadata["updateAuthority"], metadata["mint"]) == (tokens.address, address)
    assert (metadata["uri"], metadata["additionalMetadata"]) == ("", [])


@promise("skill-defaults-as-routes")
async def test_the_defaults_are_nine_decimals_and_a_million(tokens: TokenBench) -> None:
    record = await launch(tokens)
    mint = await tokens.read(record.details["mint"])
    assert (mint.decimals, mint.supply) == (9, 10**15)


@pytest.mark.parametrize(
    ("asked", "units"),
    [
        ({"name": "é" * 16, "symbol": "é" * 5, "decimals": 0, "initial_supply": 2**64 - 1},
         2**64 - 1),
        ({"name": "n", "symbol": "s", "decimals": Decimal("9.0"),
          "initial_supply": Decimal("0.000000001")}, 1),
    ],
)  # fmt: skip
async def test_the_largest_and_the_smallest_token_fit_a_transaction(
    tokens: TokenBench, asked: dict[str, Any], units: int
) -> None:
    record = await launch(tokens, **asked)
    mint = await tokens.read(record.details["mint"])
    assert (mint.name, mint.symbol, mint.supply) == (asked["name"], asked["symbol"], units)


async def test_what_is_launched_must_arrive(tokens: TokenBench) -> None:
    values = LAUNCH_TOKEN.read({"name": "Demo", "symbol": "DEMO"})
    draft = await plan_launch_token(tokens.address, ledger=tokens.bench.ledger, **values)
    assert draft.intent.tokens_in == {draft.intent.details["mint"]: 10**15}


async def test_equal_launches_at_once_make_two_tokens(tokens: TokenBench) -> None:
    records = await asyncio.gather(launch(tokens), launch(tokens))
    mints = {record.details["mint"] for record in records}
    assert len(mints) == 2
    assert [await tokens.units(mint) for mint in mints] == [10**15, 10**15]


BAD_FIELDS: dict[str, tuple[Any, ...]] = {
    "name": ("", "  ", "n" * 33, "é" * 17, "a\nb", "\ud800", None, 5, True),
    "symbol": ("", "S" * 11, "ééééé!", "A\x00", None, 5),
    "decimals": (-1, 10, Decimal("1.5"), True, "9", Decimal("NaN"), Decimal("1e999999999")),
    "initialSupply": (
        0, -1, True, "5", Decimal("NaN"), Decimal("Infinity"), Decimal("1e999999999"),
        Decimal("0.0000000001"), 2**64,
    ),
}  # fmt: skip


@pytest.mark.parametrize("field", BAD_FIELDS)
async def test_what_cannot_be_launched_is_refused_by_its_field_and_not_stored(
    tokens: TokenBench, field: str
) -> None:
    for value in BAD_FIELDS[field]:
        await tokens.refuses(launch(tokens, **{field: value}), f"^{field} ")


def by_update_authority(draft: Draft, stranger: Pubkey) -> Draft:
    """Its metadata is a stranger's to change."""
    before, metadata, after = draft.instructions[:3], draft.instructions[3], draft.instructions[4:]
    accounts = list(metadata.accounts)
    accounts[1] = AccountMeta(stranger, False, False)
    changed = Instruction(metadata.program_id, bytes(metadata.data), accounts)
    return replace(draft, instructions=(*before, changed, *after))


def by_pointer(draft: Draft, stranger: Pubkey) -> Draft:
    """A stranger may point to other metadata."""
    create, pointer, *after = draft.instructions
    data = bytes(pointer.data)[:2] + bytes(stranger) + bytes(pointer.data)[34:]
    changed = Instruction(pointer.program_id, data, list(pointer.accounts))
    return replace(draft, instructions=(create, changed, *after))


@pytest.mark.parametrize(
    ("give", "what"),
    [(by_update_authority, "update_authority"), (by_pointer, "metadata_pointer_authority")],
)
async def test_a_launch_whose_metadata_a_stranger_could_change_is_blocked(
    tokens: TokenBench, give: Callable[[Draft, Pubkey], Draft], what: str
) -> None:
    values = LAUNCH_TOKEN.read({"name": "Demo", "symbol": "DEMO"})
    draft = await plan_launch_token(tokens.address, ledger=tokens.bench.ledger, **values)
    stranger = Pubkey.new_unique()
    text = f"authority_change: {what} of {draft.intent.details['mint']} would pass to {stranger}"
    with pytest.raises(GuardrailBlocked, match=text):
        await tokens.bench.engine.execute(tokens.wallet, ADMIN, give(draft, stranger))
