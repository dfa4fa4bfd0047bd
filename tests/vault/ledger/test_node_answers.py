"""How far a node is and how far back it goes: an answer that cannot be is none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from solders.pubkey import Pubkey

from solward.types.errors import LedgerUnavailable
from solward.vault.ledger.client import Ledger
from solward.vault.ledger.protocol import SignatureStatus, Tip


class Canned:
    """A transport that answers everything alike."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[str] = []

    async def call(self, method: str, _params: Sequence[Any]) -> Any:
        self.asked.append(method)
        return self.answer

    async def close(self) -> None:
        return None


@pytest.mark.parametrize("answer", [None, [], {}, {"absoluteSlot": 1}, {"absoluteSlot": "1"}])
async def test_a_tip_of_another_shape_is_no_answer(answer: Any) -> None:
    with pytest.raises(LedgerUnavailable, match="unexpected shape"):
        await Ledger(Canned(answer)).tip()


async def test_a_tip_is_the_slot_and_the_height_of_one_block() -> None:
    transport = Canned({"absoluteSlot": 9, "blockHeight": 7, "epoch": 0})
    assert await Ledger(transport).tip() == Tip(slot=9, block_height=7)
    assert transport.asked == ["getEpochInfo"]


@pytest.mark.parametrize("answer", [None, "0", 1.5, True])
async def test_a_first_slot_that_is_no_number_is_no_answer(answer: Any) -> None:
    with pytest.raises(LedgerUnavailable, match="unexpected shape"):
        await Ledger(Canned(answer)).first_slot()


@pytest.mark.parametrize("context", [None, {}, {"slot": None}, {"slot": 4}])
async def test_statuses_from_before_a_slot_are_no_answer(context: Any) -> None:
    ledger = Ledger(Canned({"context": context, "value": [None]}))
    with pytest.raises(LedgerUnavailable):
        await ledger.statuses(["a"], min_slot=5)
    assert await ledger.statuses(["a"]) == [None]


@pytest.mark.parametrize("answer", [None, "", "\x00\x1b[31m", "a" * 88, 7, {}, "1" * 63])
async def test_a_faucets_answer_that_is_no_signature_is_none(answer: Any) -> None:
    with pytest.raises(LedgerUnavailable, match="unexpected shape"):
        await Ledger(Canned(answer)).request_airdrop("a", 1)


async def test_statuses_at_the_slot_count() -> None:
    ledger = Ledger(Canned({"context": {"slot": 5}, "value": [None]}))
    assert await ledger.statuses(["a"], min_slot=5) == [None]


def test_a_transport_of_one_node_is_that_node() -> None:
    ledger = Ledger(Canned(None))
    assert ledger.nodes() == (ledger,)


def account(data: Any, lamports: Any = 1) -> dict[str, Any]:
    return {"lamports": lamports, "owner": str(Pubkey.default()), "data": data}


def token(units: str, **changed: Any) -> dict[str, Any]:
    info = {"mint": KEY, "tokenAmount": {"amount": units, "decimals": 6} | changed}
    return {"pubkey": KEY, "account": account({"parsed": {"info": info}})}


KEY = str(Pubkey.from_bytes(bytes([7] * 32)))
VOTE = {"votePubkey": KEY, "activatedStake": 5, "commission": 1, "epochCredits": [[1, 2, 1]]}
ROW = {"pubkey": KEY, "account": account(["", "base64"])}
FEE = {"slot": 3, "prioritizationFee": 4}


def in_value(rows: list[Any]) -> Any:
    return {"context": {"slot": 1}, "value": rows}


async def listed_stakes(ledger: Ledger) -> Any:
    return await ledger.program_accounts(KEY, size=1, offset=0, key=KEY)


@pytest.mark.parametrize(
    ("read", "wrapped", "good", "odd"),
    [
        (lambda ledger: ledger.holdings(KEY), in_value, token("5"), token("five")),
        (lambda ledger: ledger.holdings(KEY), in_value, token("5"), token("5", decimals=256)),
        (listed_stakes, list, ROW, {"pubkey": KEY, "account": account(["!", "base64"])}),
        (listed_stakes, list, ROW, {"pubkey": KEY, "account": account(["", "base58"])}),
        (listed_stakes, list, ROW, {"pubkey": KEY, "account": account(["", "base64"], 2**64)}),
        (listed_stakes, list, ROW, ROW | {"pubkey": "nobody"}),
        (listed_stakes, list, ROW, None),
        (lambda ledger: ledger.vote_accounts(), lambda rows: {"current": rows}, VOTE, {}),
        (
            lambda ledger: ledger.vote_accounts(),
            lambda rows: {"current": rows},
            VOTE,
            VOTE | {"epochCredits": [[1]]},
        ),
        (lambda ledger: ledger.prioritization_fees([]), list, FEE, FEE | {"slot": None}),
        (lambda ledger: ledger.prioritization_fees([]), list, FEE, FEE | {"prioritizationFee": -1}),
    ],
)
async def test_a_row_that_cannot_be_read_hides_no_other(
    read: Any, wrapped: Any, good: Any, odd: Any
) -> None:
    expected = await read(Ledger(Canned(wrapped([good]))))
    assert expected
    for rows in ([odd, good], [good, odd]):
        assert await read(Ledger(Canned(wrapped(rows)))) == expected
    # Of nothing but such rows, the method's shape is another one.
    for none in (wrapped([odd, odd]), wrapped("rows"), None, {}):
        with pytest.raises(LedgerUnavailable, match="unexpected shape"):
            await read(Ledger(Canned(none)))


ODD = {"slot": "soon", "err": None, "confirmationStatus": "confirmed"}


@pytest.mark.parametrize(
    "odd", [ODD, {}, "landed", 1, ODD | {"slot": 2**64}, ODD | {"slot": 7, "confirmationStatus": 5}]
)
async def test_a_status_that_cannot_be_read_is_no_proof_and_hides_no_other(odd: Any) -> None:
    landed = {"slot": 7, "err": None, "confirmationStatus": "confirmed"}
    for beside, expected in ((landed, SignatureStatus(7, None, "confirmed")), (None, None)):
        ledger = Ledger(Canned({"context": {"slot": 9}, "value": [odd, beside]}))
        unread, other = await ledger.statuses(["a", "b"])
        assert other == expected
        # Not None, which would say that the node has none of it.
        assert unread is not None
        assert unread.confirmation is None
    with pytest.raises(LedgerUnavailable, match="unexpected shape"):
        await Ledger(Canned({"context": {"slot": 9}, "value": [odd, odd]})).statuses(["a", "b"])
