import base64
from typing import Any

import pytest
from solders.address_lookup_table_account import AddressLookupTableAccount
from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import Message, MessageV0, MessageV1, TransactionConfig
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction
from tests.support.localnet import FEE, PAYER_LAMPORTS, SOL, Chain, StillClock, key, pay, wire

from solward.support.base58 import b58encode
from solward_localnet.node import Localnet
from solward_localnet.options import LocalnetOptions

MEMO = Pubkey.from_string("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr")
BASE64 = {"encoding": "base64"}
LOOKUP = Pubkey.from_string("AddressLookupTab1e1111111111111111111111111")
SYSTEM = Pubkey.default()


async def test_a_transaction_is_final_at_once(chain: Chain) -> None:
    signature = await chain.do(pay(chain.payer.pubkey(), key(), SOL))
    found = await chain.status(signature)
    assert found is not None
    assert (found["confirmationStatus"], found["confirmations"]) == ("finalized", None)
    certificate = await chain.call("getAgGenesisCert")
    assert len(certificate["block"]["blockId"]) == 32
    assert len(certificate["signature"]["signature"]) == 192


async def test_where_confirmed_is_no_word_it_is_refused() -> None:
    clock = StillClock()
    options = LocalnetOptions(clock=clock, ticker=False, finality="finalized")
    node = await Localnet.open(None, options)
    chain = await Chain.with_payer(node, clock)
    try:
        error = await chain.error("getSlot", {"commitment": "confirmed"})
        assert error.code == -32602
        assert "unknown variant `confirmed`" in error.message
        assert await chain.call("getSlot", {"commitment": "finalized"}) == 1
        transfer = await chain.transfer(key(), SOL)
        assert (await chain.refused(transfer, preflightCommitment="confirmed")).code == -32602
    finally:
        await node.close()


async def test_by_the_older_rule_it_is_confirmed_at_once_and_final_a_slot_later() -> None:
    clock = StillClock()
    options = LocalnetOptions(clock=clock, ticker=False, finality="tower")
    node = await Localnet.open(None, options)
    try:
        await _confirmed_then_final(await Chain.with_payer(node, clock))
    finally:
        await node.close()


async def _confirmed_then_final(chain: Chain) -> None:
    assert await chain.call("getAgGenesisCert") is None
    signature = await chain.do(pay(chain.payer.pubkey(), key(), SOL))
    slot = await chain.call("getSlot")
    expected = {
        "confirmationStatus": "confirmed",
        "confirmations": 0,
        "err": None,
        "slot": slot,
        "status": {"Ok": None},
    }
    assert await chain.status(signature) == expected
    chain.clock.slots(1)
    final = {**expected, "confirmationStatus": "finalized", "confirmations": None}
    assert await chain.status(signature) == final


async def test_statuses_older_than_the_recent_slots_need_the_history(chain: Chain) -> None:
    signature = await chain.do(pay(chain.payer.pubkey(), key(), SOL))
    chain.clock.slots(301)
    assert await chain.status(signature) is None
    found = await chain.value(
        "getSignatureStatuses", [signature], {"searchTransactionHistory": True}
    )
    assert found[0]["confirmationStatus"] == "finalized"


async def test_statuses_are_asked_for_256_at_most(chain: Chain) -> None:
    signature = await chain.do(pay(chain.payer.pubkey(), key(), SOL))
    assert len(await chain.value("getSignatureStatuses", [signature] * 256)) == 256
    error = await chain.error("getSignatureStatuses", [signature] * 257)
    assert (error.code, error.message) == (-32602, "Too many inputs provided; max 256")
    error = await chain.error("getSignatureStatuses", ["abc"])
    assert (error.code, error.message) == (-32602, "Invalid param: WrongSize")


async def test_a_stored_transaction_has_its_meta(chain: Chain) -> None:
    to = key()
    signature = await chain.do(pay(chain.payer.pubkey(), to, SOL))
    found = await chain.transaction(signature)
    meta = found["meta"]
    assert found["slot"] == await chain.call("getSlot")
    assert found["blockTime"] == chain.clock() // 1000
    assert meta["preBalances"] == [PAYER_LAMPORTS, 0, 1]
    assert meta["postBalances"] == [PAYER_LAMPORTS - SOL - FEE, SOL, 1]
    assert (meta["fee"], meta["err"], meta["computeUnitsConsumed"]) == (FEE, None, 150)
    assert meta["logMessages"] == [
        f"Program {SYSTEM} invoke [1]",
        f"Program {SYSTEM} success",
    ]


async def test_an_unknown_transaction_is_null(chain: Chain) -> None:
    signature = str(chain.payer.sign_message(b"nothing"))
    assert await chain.transaction(signature) is None
    assert await chain.status(signature) is None


async def test_the_history_is_not_read_below_confirmed(chain: Chain) -> None:
    signature = await chain.do(pay(chain.payer.pubkey(), key(), SOL))
    error = await chain.error("getTransaction", signature, {"commitment": "processed"})
    assert error.message == "Method does not support commitment below `confirmed`"
    error = await chain.error("getTransaction", signature, {"commitment": "max"})
    assert error.code == -32602
    assert error.message.startswith("Invalid params: unknown variant `max`, expected one of")


async def test_a_version_the_client_cannot_read_is_refused(chain: Chain) -> None:
    signature = await chain.do(pay(chain.payer.pubkey(), key(), SOL))
    error = await chain.error("getTransaction", signature)
    assert error.code == -32015


async def test_base58_is_the_default_encoding_of_what_is_sent(chain: Chain) -> None:
    tx = await chain.transfer(key(), SOL)
    signature = await chain.call("sendTransaction", b58encode(bytes(tx)))
    assert signature == str(tx.signatures[0])
    assert await chain.status(signature) is not None


async def test_a_legacy_transaction_lands(chain: Chain) -> None:
    to = key()
    message = Message.new_with_blockhash(
        [pay(chain.payer.pubkey(), to, SOL)], chain.payer.pubkey(), await chain.blockhash()
    )
    await chain.post(VersionedTransaction(message, [chain.payer]))
    assert await chain.balance(to) == SOL


async def test_a_failed_preflight_answers_with_its_simulation_and_leaves_nothing(
    chain: Chain,
) -> None:
    tx = await chain.transfer(key(), 2 * PAYER_LAMPORTS)
    error = await chain.refused(tx)
    assert error.code == -32002
    assert error.message == (
        "Transaction simulation failed: Error processing Instruction 0: custom program error: 0x1"
    )
    assert error.data is not None
    assert error.data["err"] == {"InstructionError": [0, {"Custom": 1}]}
    assert error.data["logs"][-1] == f"Program {SYSTEM} failed: custom program error: 0x1"
    assert error.data["unitsConsumed"] == 150
    assert await chain.balance(chain.payer.pubkey()) == PAYER_LAMPORTS
    assert await chain.status(str(tx.signatures[0])) is None


async def test_a_failure_sent_without_preflight_lands_and_pays_its_fee(chain: Chain) -> None:
    tx = await chain.transfer(key(), 2 * PAYER_LAMPORTS)
    signature = await chain.post(tx, skipPreflight=True)
    err = {"InstructionError": [0, {"Custom": 1}]}
    status = await chain.status(signature)
    assert status is not None
    assert (status["err"], status["status"]) == (err, {"Err": err})
    assert await chain.balance(chain.payer.pubkey()) == PAYER_LAMPORTS - FEE
    assert (await chain.transaction(signature))["meta"]["err"] == err


@pytest.mark.parametrize("skip", [True, False])
async def test_what_succeeded_before_a_failure_is_undone(chain: Chain, skip: bool) -> None:
    payer, to = chain.payer.pubkey(), key()
    tx = await chain.signed([pay(payer, to, SOL), pay(payer, to, 2 * PAYER_LAMPORTS)])
    if skip:
        await chain.post(tx, skipPreflight=True)
    else:
        assert (await chain.refused(tx)).data["err"] == {"InstructionError": [1, {"Custom": 1}]}
    assert await chain.balance(to) == 0
    assert await chain.balance(payer) == PAYER_LAMPORTS - (FEE if skip else 0)


async def test_a_transaction_lands_once(chain: Chain) -> None:
    to = key()
    tx = await chain.transfer(to, SOL)
    await chain.post(tx)
    error = await chain.refused(tx)
    assert error.code == -32002
    assert error.message == (
        "Transaction simulation failed: This transaction has already been processed"
    )
    assert error.data is not None
    assert error.data["err"] == "AlreadyProcessed"
    assert await chain.post(tx, skipPreflight=True) == str(tx.signatures[0])
    assert await chain.balance(to) == SOL


async def test_a_failed_transaction_landed_too_and_does_not_pay_twice(chain: Chain) -> None:
    tx = await chain.transfer(key(), 2 * PAYER_LAMPORTS)
    await chain.post(tx, skipPreflight=True)
    await chain.post(tx, skipPreflight=True)
    assert await chain.balance(chain.payer.pubkey()) == PAYER_LAMPORTS - FEE
    assert (await chain.refused(tx)).data["err"] == "AlreadyProcessed"


async def test_an_unknown_blockhash_is_refused_and_dropped_without_preflight(chain: Chain) -> None:
    to = key()
    tx = await chain.transfer(to, SOL, blockhash=Hash.new_unique())
    error = await chain.refused(tx)
    assert error.message == "Transaction simulation failed: Blockhash not found"
    assert error.data is not None
    assert error.data["err"] == "BlockhashNotFound"
    assert await chain.post(tx, skipPreflight=True) == str(tx.signatures[0])
    assert await chain.status(str(tx.signatures[0])) is None
    assert await chain.balance(to) == 0


async def test_a_bad_signature_is_refused_and_dropped_without_preflight(chain: Chain) -> None:
    good = await chain.transfer(key(), SOL)
    forged = VersionedTransaction.populate(good.message, [Keypair().sign_message(b"forged")])
    error = await chain.refused(forged)
    assert (error.code, error.message) == (-32003, "Transaction signature verification failure")
    await chain.post(forged, skipPreflight=True)
    assert await chain.status(str(forged.signatures[0])) is None
    assert await chain.balance(chain.payer.pubkey()) == PAYER_LAMPORTS


async def test_a_payer_without_money_is_refused(chain: Chain) -> None:
    poor = Keypair()
    tx = await chain.signed([pay(poor.pubkey(), key(), SOL)], payer=poor)
    error = await chain.refused(tx)
    assert error.data is not None
    assert error.data["err"] == "AccountNotFound"
    assert "no record of a prior credit" in error.message
    await chain.post(tx, skipPreflight=True)
    assert await chain.status(str(tx.signatures[0])) is None


async def test_what_is_no_transaction_or_more_is_refused(chain: Chain) -> None:
    whole = bytes(await chain.transfer(key(), SOL))
    for data in (whole[:-1], whole + b"\0"):
        text = base64.b64encode(data).decode()
        error = await chain.error("sendTransaction", text, {"encoding": "base64"})
        assert error.code == -32602
        assert "failed to deserialize" in error.message


async def test_parameters_of_the_wrong_type_are_named(chain: Chain) -> None:
    error = await chain.error("sendTransaction", "1", {"skipPreflight": "yes"})
    assert error.message == 'Invalid params: invalid type: string "yes", expected a boolean.'


async def test_a_context_slot_to_come_is_refused(chain: Chain) -> None:
    slot = await chain.call("getSlot")
    error = await chain.refused(await chain.transfer(key(), SOL), minContextSlot=slot + 1)
    assert (error.code, error.data) == (-32016, {"contextSlot": slot})


async def test_the_priority_fee_of_the_compute_budget_is_charged(chain: Chain) -> None:
    await chain.do(
        set_compute_unit_limit(10_000),
        set_compute_unit_price(2_000_000),
        pay(chain.payer.pubkey(), key(), SOL),
    )
    assert await chain.balance(chain.payer.pubkey()) == PAYER_LAMPORTS - SOL - FEE - 20_000


LIMITS = {"compute_unit_limit": 10_000, "loaded_accounts_data_size_limit": 1 << 20}


async def v1(
    chain: Chain, lamports: int, priority_fee: int, *more: Instruction, **limits: int
) -> VersionedTransaction:
    message = MessageV1.try_compile(
        chain.payer.pubkey(),
        [pay(chain.payer.pubkey(), key(), lamports), *more],
        await chain.blockhash(),
        TransactionConfig(priority_fee=priority_fee, **(LIMITS | limits)),
    )
    return VersionedTransaction(message, [chain.payer])


async def test_the_priority_fee_in_a_v1_message_is_charged(chain: Chain) -> None:
    signature = await chain.post(await v1(chain, SOL, 7_000))
    found = await chain.transaction(signature)
    assert (found["version"], found["meta"]["fee"]) == (1, FEE + 7_000)
    left = PAYER_LAMPORTS - SOL - FEE - 7_000
    assert await chain.balance(chain.payer.pubkey()) == left
    await chain.post(await v1(chain, PAYER_LAMPORTS, 7_000), skipPreflight=True)
    assert await chain.balance(chain.payer.pubkey()) == left - FEE - 7_000


async def test_a_v1_priority_fee_nobody_can_pay_is_refused(chain: Chain) -> None:
    tx = await v1(chain, SOL, 10**18)
    error = await chain.refused(tx)
    assert error.data is not None
    assert error.data["err"] == "InsufficientFundsForFee"
    await chain.post(tx, skipPreflight=True)
    tx = await v1(chain, PAYER_LAMPORTS, 7_000)
    assert (await chain.refused(tx)).data["err"] == {"InstructionError": [0, {"Custom": 1}]}
    value = await chain.value("simulateTransaction", wire(tx), {"encoding": "base64"})
    assert value["fee"] == FEE + 7_000
    assert await chain.balance(chain.payer.pubkey()) == PAYER_LAMPORTS


@pytest.mark.parametrize(
    ("limit", "error"),
    [
        ("compute_unit_limit", {"InstructionError": [0, "ComputationalBudgetExceeded"]}),
        ("loaded_accounts_data_size_limit", "MaxLoadedAccountsDataSizeExceeded"),
    ],
)
async def test_a_limit_that_a_v1_message_does_not_set_is_none(
    chain: Chain, limit: str, error: Any
) -> None:
    tx = await v1(chain, SOL, 7_000, **{limit: 0})
    assert (await chain.refused(tx)).data["err"] == error
    signature = await chain.post(tx, skipPreflight=True)
    meta = (await chain.transaction(signature))["meta"]
    assert (meta["err"], meta["fee"]) == (error, FEE + 7_000)
    assert await chain.balance(chain.payer.pubkey()) == PAYER_LAMPORTS - FEE - 7_000


async def test_a_v1_message_loads_no_more_bytes_of_accounts_than_it_says(chain: Chain) -> None:
    tx = await v1(chain, SOL, 0)
    value = await chain.value("simulateTransaction", wire(tx), {"encoding": "base64"})
    # SIMD-0186: 64 bytes beside the data of payer and program. The receiver is not there.
    loaded = value["loadedAccountsDataSize"]
    assert loaded == 64 + 64 + len("system_program")
    less = await v1(chain, SOL, 0, loaded_accounts_data_size_limit=loaded - 1)
    assert (await chain.refused(less)).data["err"] == "MaxLoadedAccountsDataSizeExceeded"
    await chain.post(await v1(chain, SOL, 0, loaded_accounts_data_size_limit=loaded))


@pytest.mark.parametrize("limit", [1_400_001, 2**32 - 1])
async def test_a_simulation_of_a_v1_message_takes_nothing(chain: Chain, limit: int) -> None:
    tx = await v1(chain, SOL, PAYER_LAMPORTS // 2, compute_unit_limit=limit)
    value = await chain.value("simulateTransaction", wire(tx), {"encoding": "base64"})
    assert value["err"] is None
    assert await chain.balance(chain.payer.pubkey()) == PAYER_LAMPORTS
    await chain.post(tx)


async def test_nobody_pays_the_fee_of_a_v1_message_but_who_can(chain: Chain) -> None:
    poor, payer = Keypair(), chain.payer
    for config in (LIMITS, {"compute_unit_limit": 10_000}):
        message = MessageV1.try_compile(
            poor.pubkey(),
            [pay(payer.pubkey(), key(), SOL)],
            await chain.blockhash(),
            TransactionConfig(priority_fee=777, **config),
        )
        tx = VersionedTransaction(message, [poor, payer])
        assert (await chain.refused(tx)).data["err"] == "AccountNotFound"
        await chain.post(tx, skipPreflight=True)
        assert await chain.balance(poor.pubkey()) == 0
    left = 100
    tx = await v1(chain, SOL, PAYER_LAMPORTS - FEE - left)
    error = {"InsufficientFundsForRent": {"account_index": 0}}
    assert (await chain.refused(tx)).data["err"] == error
    assert await chain.balance(payer.pubkey()) == PAYER_LAMPORTS


@pytest.mark.parametrize("count", [61, 62, 63, 64])
async def test_a_v1_message_has_up_to_64_instructions(chain: Chain, count: int) -> None:
    more = [pay(chain.payer.pubkey(), chain.payer.pubkey(), 1)] * (count - 1)
    signature = await chain.post(await v1(chain, SOL, 0, *more))
    assert (await chain.transaction(signature))["meta"]["err"] is None


async def test_compute_budget_instructions_count_to_the_limit_of_a_v1_message(
    chain: Chain,
) -> None:
    budget = [set_compute_unit_limit(1), set_compute_unit_price(10**9)]
    for limit, error in (
        (450, None),
        (449, {"InstructionError": [2, "ComputationalBudgetExceeded"]}),
    ):
        tx = await v1(chain, SOL, 0, *budget, compute_unit_limit=limit)
        value = await chain.value("simulateTransaction", wire(tx), {"encoding": "base64"})
        assert value["err"] == error


async def test_a_transaction_of_version_0_has_one_packet(chain: Chain) -> None:
    memo = Instruction(MEMO, b"x" * 1_100, [])
    error = await chain.error("sendTransaction", wire(await chain.signed([memo])), BASE64)
    assert "not of version 1" in error.message


async def test_compute_budget_instructions_of_a_v1_message_set_nothing(chain: Chain) -> None:
    budget = (
        set_compute_unit_limit(1),
        set_compute_unit_price(10**9),
        set_compute_unit_price(10**9),
        Instruction(set_compute_unit_limit(1).program_id, b"", []),
    )
    signature = await chain.post(await v1(chain, SOL, 7_000, *budget))
    meta = (await chain.transaction(signature))["meta"]
    assert (meta["err"], meta["fee"]) == (None, FEE + 7_000)
    assert await chain.balance(chain.payer.pubkey()) == PAYER_LAMPORTS - SOL - FEE - 7_000


async def test_a_v1_transfer_uses_and_logs_what_one_of_version_0_does(chain: Chain) -> None:
    found = []
    for tx in (
        await v1(chain, SOL, 0),
        await chain.signed([pay(chain.payer.pubkey(), key(), SOL)]),
    ):
        value = await chain.value("simulateTransaction", wire(tx), {"encoding": "base64"})
        found.append((value["unitsConsumed"], value["logs"]))
    assert found[0] == found[1]


async def test_signatures_of_an_address_come_newest_first_in_pages(chain: Chain) -> None:
    to = key()
    sent = [await chain.do(pay(chain.payer.pubkey(), to, SOL + i)) for i in range(5)]
    newest = sent[::-1]

    async def signatures(**config: object) -> list[str]:
        found = await chain.call("getSignaturesForAddress", str(to), config)
        return [entry["signature"] for entry in found]

    assert await signatures() == newest
    assert await signatures(limit=2) == newest[:2]
    assert await signatures(before=newest[1]) == newest[2:]
    assert await signatures(before=newest[0], until=newest[3]) == newest[1:3]
    unknown = str(chain.payer.sign_message(b"nothing"))
    assert await signatures(before=unknown) == []
    assert (await chain.error("getSignaturesForAddress", str(to), {"limit": 1001})).code == -32602


async def test_a_memo_is_listed_with_the_signature(chain: Chain) -> None:
    memo = Instruction(MEMO, b"thanks", [])
    await chain.do(memo, pay(chain.payer.pubkey(), key(), SOL))
    found = await chain.call("getSignaturesForAddress", str(chain.payer.pubkey()), {"limit": 1})
    assert found[0]["memo"] == "[6] thanks"
    assert found[0]["err"] is None
    assert found[0]["blockTime"] == chain.clock() // 1000


async def test_an_airdrop_is_a_transaction_of_the_faucet(chain: Chain) -> None:
    to = key()
    first = await chain.call("requestAirdrop", str(to), SOL)
    second = await chain.call("requestAirdrop", str(to), SOL)
    assert first != second
    assert await chain.balance(to) == 2 * SOL
    found = await chain.transaction(first, encoding="jsonParsed")
    parsed = found["transaction"]["message"]["instructions"][0]["parsed"]
    assert (parsed["info"]["destination"], parsed["info"]["lamports"]) == (str(to), SOL)


async def test_an_airdrop_keeps_to_its_bounds(chain: Chain) -> None:
    to = str(key())
    for lamports in (0, 10**18):
        assert (await chain.error("requestAirdrop", to, lamports)).code == -32602
    assert (await chain.error("requestAirdrop", to, "1")).code == -32602
    below_rent = await chain.error("requestAirdrop", to, 1)
    assert below_rent.code == -32002
    assert "insufficient funds for rent" in below_rent.message


async def test_accounts_of_a_lookup_table_are_loaded(chain: Chain) -> None:
    payer = chain.payer.pubkey()
    slot = await chain.call("getSlot")
    table, bump = Pubkey.find_program_address([bytes(payer), slot.to_bytes(8, "little")], LOOKUP)
    to = key()
    metas = [
        AccountMeta(table, is_signer=False, is_writable=True),
        AccountMeta(payer, is_signer=True, is_writable=True),
        AccountMeta(payer, is_signer=True, is_writable=True),
        AccountMeta(SYSTEM, is_signer=False, is_writable=False),
    ]
    create = (0).to_bytes(4, "little") + slot.to_bytes(8, "little") + bytes([bump])
    extend = (2).to_bytes(4, "little") + (1).to_bytes(8, "little") + bytes(to)
    await chain.do(Instruction(LOOKUP, create, metas), Instruction(LOOKUP, extend, metas))
    chain.clock.slots(1)
    message = MessageV0.try_compile(
        payer,
        [pay(payer, to, SOL)],
        [AddressLookupTableAccount(table, [to])],
        await chain.blockhash(),
    )
    assert to not in message.account_keys
    signature = await chain.post(VersionedTransaction(message, [chain.payer]))
    assert await chain.balance(to) == SOL
    meta = (await chain.transaction(signature))["meta"]
    assert meta["loadedAddresses"] == {"readonly": [], "writable": [str(to)]}
    assert meta["postBalances"][-1] == SOL
    assert len(await chain.call("getSignaturesForAddress", str(to))) == 1


async def test_a_lookup_table_that_is_not_there_is_refused(chain: Chain) -> None:
    to = key()
    message = MessageV0.try_compile(
        chain.payer.pubkey(),
        [pay(chain.payer.pubkey(), to, SOL)],
        [AddressLookupTableAccount(key(), [to])],
        await chain.blockhash(),
    )
    error = await chain.refused(VersionedTransaction(message, [chain.payer]))
    assert error.code == -32602
    assert "address table account that doesn't exist" in error.message


async def test_no_lamports_are_made_or_lost_but_the_fees(chain: Chain) -> None:
    before = (await chain.value("getSupply"))["total"]
    await chain.do(pay(chain.payer.pubkey(), key(), SOL))
    await chain.post(await chain.transfer(key(), 2 * PAYER_LAMPORTS), skipPreflight=True)
    await chain.call("requestAirdrop", str(key()), SOL)
    assert (await chain.value("getSupply"))["total"] == before - 3 * FEE
    assert await chain.call("getTransactionCount") == 4
