"""A plugin's own transaction: its record says what the bytes do; no value lies to a rule."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from solders.hash import Hash
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import TransactionConfig
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.system_program import TransferParams
from solders.system_program import transfer as system_transfer
from solders.token.associated import get_associated_token_address
from solders.transaction import VersionedTransaction
from spl.token.instructions import (
    burn_checked,
    create_idempotent_associated_token_account,
    mint_to_checked,
    transfer_checked,
)
from spl.token.models import BurnCheckedParams, MintToCheckedParams, TransferCheckedParams
from tests.promises import promise
from tests.support.programs import batch_of
from tests.support.swaps import whole_message

from solward import GuardrailBlocked, InvalidRequest
from solward.operations.plugin_draft import TYPES, plain, plugin_draft
from solward.solana.programs import MEMO_PROGRAMS, TOKEN_2022_PROGRAM, WRAPPED_SOL_MINT
from solward.solana.token_list import token_list
from solward.testing import TestWallet
from solward.types.guardrail import Intent
from solward.types.record import (
    AssetAmount,
    TransactionRecord,
    TransactionType,
    amount_of,
    recipient_of,
)
from solward_server.resources.transactions import RowNames, csv_header, csv_rows

SOL = 10**9
ME, HER, MINT = (Keypair.from_seed(bytes([n]) * 32).pubkey() for n in (1, 2, 3))
WALLET, STRANGER, TOKEN = str(ME), str(HER), str(MINT)
PROGRAM = Pubkey.from_string(TOKEN_2022_PROGRAM)
ELSE = Keypair.from_seed(bytes([5]) * 32).pubkey()
MINE, HERS = (get_associated_token_address(each, MINT, PROGRAM) for each in (ME, HER))
OTHER = str(Keypair.from_seed(bytes([4]) * 32).pubkey())
DECLARED = Intent("other", WALLET)
NAMING = RowNames(token_list("localnet"), {})


def pays(lamports: int = SOL, source: Pubkey = ME, to: Pubkey = HER) -> Instruction:
    return system_transfer(TransferParams(from_pubkey=source, to_pubkey=to, lamports=lamports))


def sends(
    units: int = 5, to: Pubkey = HERS, owner: Pubkey = ME, source: Pubkey = MINE
) -> Instruction:
    return transfer_checked(
        TransferCheckedParams(
            program_id=PROGRAM,
            source=source,
            mint=MINT,
            dest=to,
            owner=owner,
            amount=units,
            decimals=2,
        )
    )


def burns(units: int = 5, owner: Pubkey = ME, account: Pubkey = MINE) -> Instruction:
    return burn_checked(
        BurnCheckedParams(
            program_id=PROGRAM, mint=MINT, account=account, owner=owner, amount=units, decimals=2
        )
    )


def mints(units: int = 5, to: Pubkey = MINE) -> Instruction:
    return mint_to_checked(
        MintToCheckedParams(
            program_id=PROGRAM,
            mint=MINT,
            dest=to,
            mint_authority=ME,
            amount=units,
            decimals=2,
        )
    )


OPENS = create_idempotent_associated_token_account(ME, HER, MINT, PROGRAM)

TRUE: dict[str, tuple[Sequence[Instruction], dict[str, Any]]] = {
    "transfer": ([pays()], {"from": WALLET, "to": STRANGER, "amount": 1}),
    "token_transfer": (
        [OPENS, sends(2), sends(3)],
        {
            "from": WALLET,
            "to": str(HERS),
            "mint": TOKEN,
            "amount": Decimal("0.05"),
            "account": str(HERS),
        },
    ),
    "burn": ([burns()], {"mint": TOKEN, "amount": Decimal("0.05")}),
    "mint_supply": ([mints()], {"mint": TOKEN, "amount": Decimal("0.05"), "account": str(MINE)}),
}

LIES: list[tuple[str, Sequence[Instruction]]] = [
    ("airdrop", [pays()]),
    ("transfer", [sends()]),
    ("transfer", [pays(), pays(1)]),
    ("transfer", [pays(), sends()]),
    ("transfer", [pays(source=HER)]),
    ("transfer", []),
    ("token_transfer", [pays()]),
    ("token_transfer", [sends(1), pays()]),
    ("token_transfer", [sends(), sends(to=MINE)]),
    ("token_transfer", [sends(owner=HER)]),
    ("token_transfer", [burns()]),
    ("burn", [sends()]),
    ("burn", [burns(owner=HER)]),
    # To itself, and from accounts of which the wallet may only be the delegate.
    ("token_transfer", [sends(to=MINE)]),
    ("token_transfer", [sends(to=ELSE, source=HERS)]),
    ("burn", [burns(account=HERS)]),
    ("mint_supply", [mints(to=HERS)]),
    *((type_, [pays()]) for type_ in TransactionType if type_ not in TYPES),
]


@promise("types-of-records", "plugin-record-from-bytes", "details-from-bytes")
@pytest.mark.parametrize("type_", TRUE)
def test_what_a_type_states_is_read_from_the_bytes(type_: str) -> None:
    instructions, stated = TRUE[type_]
    draft = plugin_draft(WALLET, replace(DECLARED, type=type_), instructions)
    assert dict(draft.intent.details) == stated
    same = replace(DECLARED, type=type_, details={**stated, "note": "thanks"})
    words = {"pluginDetails": {"note": "thanks"}}
    assert plugin_draft(WALLET, same, instructions).intent.details == {**stated, **words}
    for name in stated:
        other = replace(DECLARED, type=type_, details={name: 7})
        with pytest.raises(InvalidRequest, match=rf"details\.{name} must be"):
            plugin_draft(WALLET, other, instructions)


@promise("types-of-records", "plugin-record-from-bytes", "plugin-types-by-bytes")
@pytest.mark.parametrize(("type_", "instructions"), LIES)
def test_a_type_that_the_bytes_are_not_is_refused(
    type_: str, instructions: Sequence[Instruction]
) -> None:
    with pytest.raises(InvalidRequest, match=r"^type must be"):
        plugin_draft(WALLET, replace(DECLARED, type=type_), instructions)


@promise("batch-is-its-instructions", "plugin-types-by-bytes")
def test_a_batch_is_the_type_that_its_instructions_are() -> None:
    stated = TRUE["token_transfer"][1]
    intent = replace(DECLARED, type="token_transfer")
    made = plugin_draft(WALLET, intent, [OPENS, batch_of(sends(2), sends(3))])
    assert dict(made.intent.details) == stated
    for other in (batch_of(sends(2), burns()), batch_of(sends(2), tail=b"\x00")):
        with pytest.raises(InvalidRequest, match=r"^type must be"):
            plugin_draft(WALLET, intent, [OPENS, other])


@pytest.mark.parametrize("config", [None, TransactionConfig()])
@pytest.mark.parametrize("type_", TRUE)
def test_whole_bytes_are_read_like_instructions(
    type_: str, config: TransactionConfig | None
) -> None:
    instructions, stated = TRUE[type_]
    message = whole_message(ME, instructions, Hash.default(), config)
    wire = bytes(VersionedTransaction.populate(message, [Signature.default()]))
    draft = plugin_draft(WALLET, replace(DECLARED, type=type_), [], wire)
    assert (draft.wire, dict(draft.intent.details)) == (wire, stated)
    wrong = "burn" if type_ != "burn" else "transfer"
    with pytest.raises(InvalidRequest, match=r"^type must be other"):
        plugin_draft(WALLET, replace(DECLARED, type=wrong), [], wire)


def test_a_token_transfer_may_name_the_owner_of_the_associated_account() -> None:
    def to(address: object) -> Intent:
        return replace(DECLARED, type="token_transfer", details={"to": address})

    draft = plugin_draft(WALLET, to(STRANGER), [sends()])
    assert draft.intent.details["to"] == STRANGER
    for lie in (WALLET, TOKEN, "nobody", 7):
        with pytest.raises(InvalidRequest, match=r"details\.to must be"):
            plugin_draft(WALLET, to(lie), [sends()])


@promise("plugin-types-by-bytes")
def test_a_swap_gives_one_asset_for_another() -> None:
    swap = replace(DECLARED, type="swap")
    good = replace(swap, lamports_out=SOL, tokens_in={TOKEN: 3})
    assert dict(plugin_draft(WALLET, good, [pays()]).intent.details) == {
        "inputToken": WRAPPED_SOL_MINT,
        "outputToken": TOKEN,
    }
    for wrong in (
        replace(swap, lamports_out=SOL),
        replace(swap, tokens_in={TOKEN: 3}),
        replace(good, tokens_in={TOKEN: 0}),
        replace(good, tokens_out={TOKEN: 1}),
        replace(swap, tokens_out={TOKEN: 1}, tokens_in={TOKEN: 3}),
    ):
        with pytest.raises(InvalidRequest, match=r"^type must be other: a swap"):
            plugin_draft(WALLET, wrong, [pays()])
    with pytest.raises(InvalidRequest, match=r"details\.outputAmount must be left out"):
        plugin_draft(WALLET, replace(good, details={"outputAmount": 1000}), [pays()])


class Small(int):
    """Any number, which says that it is below every limit."""

    def __gt__(self, other: object) -> bool:
        return False

    def __le__(self, other: object) -> bool:
        return True

    __lt__, __ge__ = __le__, __gt__


class Chameleon(str):
    """A text that is equal to everything."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


@promise("plugin-values-exact-types")
def test_every_value_is_taken_in_its_exact_type() -> None:
    lying: Any = {
        "lamports_out": Small(7),
        "tokens_out": {Chameleon(TOKEN): Small(8)},
        "tokens_in": {TOKEN: True + 1},
        "destinations": frozenset({Chameleon(STRANGER)}),
        "details": {Chameleon("note"): [Small(1), Decimal("0.5")]},
    }
    intent = plugin_draft(WALLET, replace(DECLARED, **lying), [pays()]).intent
    assert type(intent.lamports_out) is int
    [(mint, units)] = intent.tokens_out.items()
    assert (type(mint), type(units), mint, units) == (str, int, TOKEN, 8)
    assert {type(each) for each in intent.destinations} == {str}
    assert plain({"a": (Small(1), Chameleon("x"), True, None)}) == {"a": [1, "x", True, None]}
    for field, value in (
        ("lamports_out", -1),
        ("lamports_out", 1.5),
        ("rent_lamports", True),
        ("tokens_in", {TOKEN: 2**64}),
        ("tokens_out", {MINT: 1}),
        ("destinations", frozenset({HER})),
        ("details", {"to": HER}),
    ):
        changed: Any = {field: value}
        with pytest.raises(InvalidRequest, match=f"^{field} must be"):
            plugin_draft(WALLET, replace(DECLARED, **changed), [pays()])


@promise("plugin-values-exact-types")
async def test_a_number_that_lies_to_comparisons_passes_no_limit(wallet: TestWallet) -> None:
    context = wallet.context("transfer")
    me = Pubkey.from_string(wallet.address)
    with pytest.raises(GuardrailBlocked, match="max_per_tx: 3 SOL"):
        await context.transact(
            instructions=[pays(3 * SOL, me)], lamports_out=Small(0), destinations=[STRANGER]
        )
    with pytest.raises(GuardrailBlocked, match="max_per_tx: 3 SOL"):
        await context.transfer(to=STRANGER, amount=Small(3))


async def test_tokens_are_put_into_a_pocket_and_what_is_left_comes_home(
    wallet: TestWallet,
) -> None:
    context = wallet.context("transfer")
    launched = await context.launch_token(name="Paper", symbol="PAP", decimals=2, initial_supply=10)
    mint = Pubkey.from_string(launched.details["mint"])

    async def burns(pocket: str) -> list[Instruction]:
        owner = Pubkey.from_string(pocket)
        params = BurnCheckedParams(
            program_id=PROGRAM,
            mint=mint,
            account=get_associated_token_address(owner, mint, PROGRAM),
            owner=owner,
            amount=300,
            decimals=2,
        )
        return [burn_checked(params)]

    await context.pocket(burns, lamports=5_000_000, tokens={str(mint): 800})
    held = {each.mint: each.units for each in (await wallet.balances()).tokens}
    assert held == {str(mint): 700}


async def test_an_instruction_is_the_one_that_was_given(wallet: TestWallet) -> None:
    me = Pubkey.from_string(wallet.address)
    given = pays(1, me)
    draft = plugin_draft(wallet.address, DECLARED, [given])
    given.accounts = pays(1, me, to=MINT).accounts
    assert draft.instructions == (pays(1, me),)
    assert draft.intent.wallet == wallet.address


@promise("plugin-record-from-bytes")
async def test_a_payment_is_stored_as_what_it_is(wallet: TestWallet) -> None:
    context = wallet.context("transfer")
    payment: dict[str, Any] = {
        "instructions": [pays(SOL, Pubkey.from_string(wallet.address))],
        "lamports_out": SOL,
        "destinations": [STRANGER],
    }
    for claim in ({"type": "airdrop"}, {"type": "transfer", "details": {"amount": 0}}):
        with pytest.raises(InvalidRequest, match=r"type|details"):
            await context.transact(**payment, **claim)
    assert await wallet.records() == []
    await context.transact(**payment, type="transfer")
    [record] = await wallet.records()
    assert (record.type, record.details) == (
        "transfer",
        {"from": wallet.address, "to": STRANGER, "amount": 1},
    )


LIES_IN_DETAILS: dict[str, Any] = {
    "to": OTHER,
    "amount": Decimal("0.001"),
    "asset": "USDC",
    "mint": TOKEN,
    "signature": "3" * 88,
    "pocket": OTHER,
    "leaves": [{"operation": "transfer", "amount": 0, "asset": "SOL"}],
    "outputAmount": 9,
}


@promise("odd-details-refused")
@pytest.mark.parametrize(
    ("value", "said"),
    [
        (Decimal("1E+999999999"), "must be a number of at most 400 digits"),
        (Decimal("1E-999999999"), "must be a number of at most 400 digits"),
        (10**4_000, "must be a number of at most 400 digits"),
        (10**5_000, "must be JSON data"),
        (Decimal("NaN"), "must be JSON data"),
        ("a\ud800", "must not contain half of a surrogate pair"),
        ([{"\udfff": 1}], "must not contain half of a surrogate pair"),
    ],
    ids=["huge", "tiny", "long", "longer", "nan", "text", "key"],
)
async def test_no_detail_of_a_plugin_breaks_the_lists_of_all_records(
    wallet: TestWallet, value: Any, said: str
) -> None:
    with pytest.raises(InvalidRequest, match=said):
        await wallet.context("transfer").transact(
            instructions=[pays(1, Pubkey.from_string(wallet.address))],
            lamports_out=1,
            destinations=[STRANGER],
            details={"amount": value},
        )
    assert await wallet.records() == []


@promise("plugin-record-from-bytes", "details-from-bytes")
@pytest.mark.parametrize("type_", ["other", "transfer"])
async def test_what_a_plugin_says_is_never_shown_as_what_its_bytes_do(
    wallet: TestWallet, type_: str
) -> None:
    words = {
        name: value
        for name, value in LIES_IN_DETAILS.items()
        if type_ == "other" or name not in ("to", "amount")
    }
    record = await wallet.context("transfer").transact(
        instructions=[pays(SOL, Pubkey.from_string(wallet.address))],
        type=type_,
        lamports_out=SOL,
        destinations=[STRANGER],
        details=words,
    )
    stated = dict(record.details)
    assert stated.pop("pluginDetails") == words
    assert stated.keys() == ({"leaves"} if type_ == "other" else {"from", "to", "amount"})
    assert amount_of(type_, record.details) == AssetAmount(1, "SOL")
    assert recipient_of(type_, record.details) == STRANGER
    assert record.signature != words["signature"]
    [line] = csv.DictReader(io.StringIO((csv_header() + csv_rows([record], NAMING)).decode()))
    assert (line["amount"], line["unit"], line["counterpart"]) == ("1", "SOL", STRANGER)


@promise("plugin-record-from-bytes")
async def test_each_line_of_the_bytes_is_listed(wallet: TestWallet) -> None:
    context = wallet.context("transfer")
    launched = await context.launch_token(name="Paper", symbol="PAP", decimals=2, initial_supply=10)
    mint, me = Pubkey.from_string(launched.details["mint"]), Pubkey.from_string(wallet.address)
    burn = burn_checked(
        BurnCheckedParams(
            program_id=PROGRAM,
            mint=mint,
            account=get_associated_token_address(me, mint, PROGRAM),
            owner=me,
            amount=250,
            decimals=2,
        )
    )
    record = await context.transact(
        instructions=[pays(SOL, me), burn],
        lamports_out=SOL,
        tokens_out={str(mint): 250},
        destinations=[STRANGER],
    )
    assert record.details == {
        "leaves": [
            {"operation": "transfer", "amount": 1, "asset": "SOL", "to": STRANGER},
            {"operation": "burn", "amount": Decimal("2.5"), "asset": str(mint)},
        ]
    }
    # No single amount says it, so none is shown as the whole.
    assert amount_of("other", record.details) is None
    assert recipient_of("other", record.details) == STRANGER


async def test_a_plugins_words_are_no_longer_than_lists_of_records_bear(wallet: TestWallet) -> None:
    async def pays_with(words: str) -> TransactionRecord:
        instruction = pays(SOL, Pubkey.from_string(wallet.address))
        return await wallet.context("transfer").transact(
            instructions=[instruction],
            lamports_out=SOL,
            destinations=[STRANGER],
            details={"note": words},
        )

    with pytest.raises(InvalidRequest, match="details must be at most 16 KiB of JSON; nothing"):
        await pays_with("\u00e9" * 9_000)
    record = await pays_with("e" * 9_000)
    assert record.details["pluginDetails"] == {"note": "e" * 9_000}


@promise("plugin-record-from-bytes")
async def test_what_fills_a_pocket_is_listed_beside_the_plugins_words(wallet: TestWallet) -> None:
    async def rests(_pocket: str) -> list[Instruction]:
        return [Instruction(Pubkey.from_string(max(MEMO_PROGRAMS)), b"hello", [])]

    words = {"pocket": OTHER, "amount": 7}
    record = await wallet.context("transfer").pocket(rests, lamports=5_000_000, details=words)
    assert record.details["pluginDetails"] == words
    assert record.details["pocket"] != OTHER
    assert amount_of("other", record.details) == AssetAmount(Decimal("0.005"), "SOL")


@promise("plugin-record-from-bytes")
async def test_a_swap_is_shown_by_what_its_bytes_let_leave(wallet: TestWallet) -> None:
    """The wallet pays 1 SOL, and mints by itself what is said to be bought."""
    context = wallet.context("transfer")
    launched = await context.launch_token(name="Paper", symbol="PAP", decimals=2, initial_supply=10)
    mint, me = Pubkey.from_string(launched.details["mint"]), Pubkey.from_string(wallet.address)
    params = MintToCheckedParams(
        program_id=PROGRAM,
        mint=mint,
        dest=get_associated_token_address(me, mint, PROGRAM),
        mint_authority=me,
        amount=500,
        decimals=2,
    )
    record = await context.transact(
        instructions=[pays(SOL, me), mint_to_checked(params)],
        type="swap",
        lamports_out=SOL,
        tokens_in={str(mint): 500},
        destinations=[STRANGER],
    )
    assert record.details["inputAmount"] == 1
    assert record.details["leaves"] == [
        {"operation": "transfer", "amount": 1, "asset": "SOL", "to": STRANGER}
    ]


def test_amounts_of_different_acts_are_not_added_up() -> None:
    said = {"operation": "transfer", "amount": 1, "asset": "SOL", "to": STRANGER}
    for other in ({"operation": "wrap"}, {"to": OTHER}, {"asset": TOKEN}):
        assert amount_of("other", {"leaves": [said, {**said, **other}]}) is None
    assert amount_of("other", {"leaves": [said, said]}) == AssetAmount(2, "SOL")
