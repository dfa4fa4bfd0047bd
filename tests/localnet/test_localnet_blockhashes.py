import hashlib

from solders.hash import Hash
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import (
    AdvanceNonceAccountParams,
    WithdrawNonceAccountParams,
    advance_nonce_account,
    create_nonce_account,
    withdraw_nonce_account,
)
from tests.support.localnet import FEE, PAYER_LAMPORTS, SLOT_MS, SOL, Chain, key, pay

from solward.solana.protocol import BLOCKHASH_BLOCKS
from solward_localnet.ledger import Chain as Slots
from solward_localnet.ledger import ChainState

NONCE_LAMPORTS = 2_000_000


async def test_slots_pass_by_the_clock(chain: Chain) -> None:
    slot = await chain.call("getSlot")
    assert await chain.call("getSlot") == slot
    chain.clock.now_ms += SLOT_MS - 1
    assert await chain.call("getSlot") == slot
    chain.clock.now_ms += 1
    assert await chain.call("getSlot") == slot + 1
    assert await chain.call("getBlockHeight") == slot + 1


async def test_a_clock_that_goes_back_takes_no_slot_back(chain: Chain) -> None:
    chain.clock.slots(10)
    slot = await chain.call("getSlot")
    chain.clock.slots(-1000)
    assert await chain.call("getSlot") == slot
    chain.clock.slots(1)
    assert await chain.call("getSlot") == slot + 1


async def test_each_slot_has_its_blockhash(chain: Chain) -> None:
    first = await chain.blockhash()
    assert await chain.blockhash() == first
    chain.clock.slots(1)
    assert await chain.blockhash() != first


async def test_a_blockhash_can_be_used_for_150_slots(chain: Chain) -> None:
    latest = await chain.value("getLatestBlockhash")
    blockhash = Hash.from_string(latest["blockhash"])
    slot = await chain.call("getSlot")
    assert latest["lastValidBlockHeight"] == slot + BLOCKHASH_BLOCKS
    chain.clock.slots(BLOCKHASH_BLOCKS)
    assert await chain.call("getBlockHeight") == latest["lastValidBlockHeight"]
    assert await chain.value("isBlockhashValid", str(blockhash)) is True
    await chain.post(await chain.transfer(key(), SOL, blockhash=blockhash))
    chain.clock.slots(1)
    assert await chain.value("isBlockhashValid", str(blockhash)) is False
    late = await chain.transfer(key(), SOL, blockhash=blockhash)
    assert (await chain.refused(late)).data["err"] == "BlockhashNotFound"


async def test_an_expired_duplicate_is_an_unknown_blockhash(chain: Chain) -> None:
    tx = await chain.transfer(key(), SOL)
    await chain.post(tx)
    chain.clock.slots(BLOCKHASH_BLOCKS + 1)
    assert (await chain.refused(tx)).data["err"] == "BlockhashNotFound"
    assert await chain.post(tx, skipPreflight=True) == str(tx.signatures[0])
    assert await chain.balance(chain.payer.pubkey()) == PAYER_LAMPORTS - SOL - FEE


async def test_what_is_no_blockhash_is_refused(chain: Chain) -> None:
    assert (await chain.error("isBlockhashValid", "abc")).message == "Invalid param: WrongSize"
    assert (await chain.error("isBlockhashValid", "0" * 44)).message == "Invalid param: Invalid"
    assert await chain.value("isBlockhashValid", str(Hash.new_unique())) is False


def slots(state: ChainState, now_ms: int) -> Slots:
    return Slots.resume(state, seed=b"seed", slots_per_epoch=32, slot_ms=400, now_ms=now_ms)


def test_time_passes_while_the_ledger_is_closed() -> None:
    resumed = slots(ChainState(slot=5, time_ms=10_000, skew_ms=0, ceiling=5), 10_000 + 400 * 7)
    assert (resumed.slot, resumed.time_ms) == (12, 12_800)


def test_a_slot_that_may_have_been_told_does_not_come_back() -> None:
    earlier = slots(ChainState(slot=5, time_ms=10_000, skew_ms=0, ceiling=13), 9_000)
    assert earlier.slot == 13
    assert not earlier.advance(9_399)
    assert earlier.advance(9_400)
    assert earlier.slot == 14
    assert earlier.unix_timestamp >= 13


def test_a_resumed_chain_knows_the_blockhashes_of_the_one_before() -> None:
    before = slots(ChainState(slot=1, time_ms=0, skew_ms=0, ceiling=1), 400 * 200)
    hashes = {slot: before.blockhash(slot) for slot in range(before.slot + 1)}
    after = slots(before.state(before.slot), 400 * 210)
    valid = {slot for slot, value in hashes.items() if after.blockhash_slot(value) is not None}
    assert valid == set(range(after.slot - BLOCKHASH_BLOCKS, before.slot + 1))


def test_a_long_sleep_leaves_the_newest_slot_hashes() -> None:
    chain = slots(ChainState(slot=1, time_ms=0, skew_ms=0, ceiling=1), 400 * 1_000_000)
    hashes = chain.slot_hashes()
    assert [slot for slot, _ in hashes] == list(range(chain.slot, chain.slot - 512, -1))


async def nonce_account(chain: Chain) -> Pubkey:
    nonce = Keypair()
    payer = chain.payer.pubkey()
    create = create_nonce_account(payer, nonce.pubkey(), payer, NONCE_LAMPORTS)
    await chain.do(*create, signers=[nonce])
    return nonce.pubkey()


async def stored_nonce(chain: Chain, account: Pubkey) -> Hash:
    value = await chain.value("getAccountInfo", str(account), {"encoding": "jsonParsed"})
    return Hash.from_string(value["data"]["parsed"]["info"]["blockhash"])


def advance(chain: Chain, account: Pubkey) -> Instruction:
    return advance_nonce_account(
        AdvanceNonceAccountParams(nonce_pubkey=account, authorized_pubkey=chain.payer.pubkey())
    )


async def test_a_durable_nonce_outlives_blockhashes_and_is_used_once(chain: Chain) -> None:
    account = await nonce_account(chain)
    nonce = await stored_nonce(chain, account)
    to = key()
    instructions = [advance(chain, account), pay(chain.payer.pubkey(), to, SOL)]
    tx = await chain.signed(instructions, blockhash=nonce)
    chain.clock.slots(1_000)
    await chain.post(tx)
    assert await chain.balance(to) == SOL
    following = await stored_nonce(chain, account)
    assert following != nonce
    assert (await chain.refused(tx)).data["err"] == "BlockhashNotFound"
    again = await chain.signed(instructions, blockhash=following)
    await chain.post(again)
    assert await chain.balance(to) == 2 * SOL


async def test_a_nonce_advances_though_the_rest_of_its_transaction_fails(chain: Chain) -> None:
    account = await nonce_account(chain)
    nonce = await stored_nonce(chain, account)
    before = await chain.balance(chain.payer.pubkey())
    doomed = pay(chain.payer.pubkey(), key(), 2 * PAYER_LAMPORTS)
    tx = await chain.signed([advance(chain, account), doomed], blockhash=nonce)
    assert (await chain.refused(tx)).data["err"] == {"InstructionError": [1, {"Custom": 1}]}
    assert await stored_nonce(chain, account) == nonce
    signature = await chain.post(tx, skipPreflight=True)
    status = await chain.status(signature)
    assert status is not None
    assert status["err"] == {"InstructionError": [1, {"Custom": 1}]}
    expected = hashlib.sha256(b"DURABLE_NONCE" + bytes(nonce)).digest()
    assert bytes(await stored_nonce(chain, account)) == expected
    await chain.post(tx, skipPreflight=True)
    assert await chain.balance(chain.payer.pubkey()) == before - FEE


async def test_a_nonce_of_another_authority_is_no_nonce(chain: Chain) -> None:
    account = await nonce_account(chain)
    nonce = await stored_nonce(chain, account)
    stranger = Keypair()
    await chain.call("requestAirdrop", str(stranger.pubkey()), SOL)
    foreign = advance_nonce_account(
        AdvanceNonceAccountParams(nonce_pubkey=account, authorized_pubkey=stranger.pubkey())
    )
    tx = await chain.signed([foreign], payer=stranger, blockhash=nonce)
    assert (await chain.refused(tx)).data["err"] == "BlockhashNotFound"


async def test_a_nonce_account_can_be_emptied_again(chain: Chain) -> None:
    account = await nonce_account(chain)
    chain.clock.slots(1)
    payer = chain.payer.pubkey()
    await chain.do(
        withdraw_nonce_account(
            WithdrawNonceAccountParams(
                nonce_pubkey=account,
                authorized_pubkey=payer,
                to_pubkey=payer,
                lamports=NONCE_LAMPORTS,
            )
        )
    )
    assert await chain.value("getAccountInfo", str(account)) is None
