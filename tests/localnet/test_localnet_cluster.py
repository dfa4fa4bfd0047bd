import base64

import pytest
from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.hash import Hash
from solders.message import Message, MessageV1, TransactionConfig, to_bytes_versioned
from solders.pubkey import Pubkey
from tests.support.localnet import FEE, SLOT_MS, SOL, Chain, StillClock, key, pay, rent

from solward_localnet.node import Localnet
from solward_localnet.options import LocalnetOptions

VERSION = "3.1.0"


async def test_the_node_says_what_it_is(chain: Chain) -> None:
    assert await chain.call("getHealth") == "ok"
    assert await chain.call("getVersion") == {"feature-set": 0, "solana-core": VERSION}
    identity = (await chain.call("getIdentity"))["identity"]
    assert await chain.call("getSlotLeader") == identity
    assert await chain.call("getSlotLeaders", 0, 3) == [identity] * 3
    (node,) = await chain.call("getClusterNodes")
    assert (node["pubkey"], node["version"]) == (identity, VERSION)
    assert await chain.call("getFirstAvailableBlock") == 0
    assert await chain.call("minimumLedgerSlot") == 0
    assert len(bytes(Hash.from_string(await chain.call("getGenesisHash")))) == 32


async def test_the_epoch_follows_the_slot(chain: Chain) -> None:
    await chain.node.advance_slots(32 * 3 + 4)
    slot = await chain.call("getSlot")
    assert await chain.call("getEpochInfo") == {
        "absoluteSlot": slot,
        "blockHeight": slot,
        "epoch": 3,
        "slotIndex": slot % 32,
        "slotsInEpoch": 32,
        "transactionCount": 1,
    }
    assert await chain.call("getEpochSchedule") == {
        "firstNormalEpoch": 0,
        "firstNormalSlot": 0,
        "leaderScheduleSlotOffset": 32,
        "slotsPerEpoch": 32,
        "warmup": False,
    }


async def test_block_times_are_the_clocks(chain: Chain) -> None:
    chain.clock.slots(100)
    slot = await chain.call("getSlot")
    now = chain.clock() // 1000
    assert await chain.call("getBlockTime", slot) == now
    assert await chain.call("getBlockTime", slot - 50) == now - 50 * SLOT_MS // 1000
    error = await chain.error("getBlockTime", slot + 1)
    assert (error.code, error.message) == (-32004, f"Block not available for slot {slot + 1}")


async def test_programs_see_the_clock(chain: Chain) -> None:
    chain.clock.slots(100)
    sysvar = "SysvarC1ock11111111111111111111111111111111"
    value = await chain.value("getAccountInfo", sysvar, {"encoding": "jsonParsed"})
    info = value["data"]["parsed"]["info"]
    slot = await chain.call("getSlot")
    assert (info["slot"], info["epoch"]) == (slot, slot // 32)
    assert info["unixTimestamp"] == chain.clock() // 1000
    assert info["epochStartTimestamp"] == await chain.call("getBlockTime", slot // 32 * 32)


async def test_blocks_are_every_slot_of_a_range(chain: Chain) -> None:
    chain.clock.slots(5)
    slot = await chain.call("getSlot")
    assert await chain.call("getBlocks", slot - 2) == [slot - 2, slot - 1, slot]
    assert await chain.call("getBlocks", 1, 2) == [1, 2]
    assert await chain.call("getBlocks", slot + 1, slot + 2) == []
    chain.clock.slots(600_000)
    assert (await chain.error("getBlocks", 0)).code == -32602


async def test_a_block_holds_what_landed_in_its_slot(chain: Chain) -> None:
    chain.clock.slots(1)
    previous = await chain.blockhash()
    chain.clock.slots(1)
    slot, blockhash = await chain.call("getSlot"), await chain.blockhash()
    sent = [await chain.do(pay(chain.payer.pubkey(), key(), SOL)) for _ in range(2)]
    chain.clock.slots(1)
    block = await chain.call("getBlock", slot, {"maxSupportedTransactionVersion": 0})
    found = [each["transaction"]["signatures"][0] for each in block.pop("transactions")]
    assert found == sent
    assert block == {
        "blockHeight": slot,
        "blockTime": await chain.call("getBlockTime", slot),
        "blockhash": str(blockhash),
        "parentSlot": slot - 1,
        "previousBlockhash": str(previous),
        "rewards": [],
    }
    only = {"transactionDetails": "signatures", "rewards": False}
    listed = await chain.call("getBlock", slot, only)
    assert (listed["signatures"], "rewards" in listed) == (sent, False)
    assert "transactions" not in await chain.call("getBlock", slot, {"transactionDetails": "none"})


async def test_a_block_that_cannot_be_told_is_refused(chain: Chain) -> None:
    slot = await chain.call("getSlot")
    assert (await chain.error("getBlock", slot + 1)).code == -32004
    assert (await chain.error("getBlock", slot)).code == -32015
    for config in (
        {"transactionDetails": "all"},
        {"maxSupportedTransactionVersion": 256},
        {"commitment": "processed"},
    ):
        assert (await chain.error("getBlock", slot, config)).code == -32602


def encoded(message: Message | MessageV1) -> str:
    return base64.b64encode(to_bytes_versioned(message)).decode("ascii")


async def test_the_fee_of_a_message_is_told_before_it_is_paid(chain: Chain) -> None:
    payer = chain.payer.pubkey()
    blockhash = await chain.blockhash()
    transfer = pay(payer, key(), SOL)
    plain = Message.new_with_blockhash([transfer], payer, blockhash)
    assert await chain.value("getFeeForMessage", encoded(plain)) == FEE
    two_signers = Message.new_with_blockhash([pay(key(), payer, SOL)], payer, blockhash)
    assert await chain.value("getFeeForMessage", encoded(two_signers)) == 2 * FEE
    budget = [set_compute_unit_limit(10_000), set_compute_unit_price(3_000_000)]
    priority = Message.new_with_blockhash([*budget, transfer], payer, blockhash)
    assert await chain.value("getFeeForMessage", encoded(priority)) == FEE + 30_000
    config = TransactionConfig(priority_fee=777)
    v1 = MessageV1.try_compile(payer, [transfer], blockhash, config)
    assert await chain.value("getFeeForMessage", encoded(v1)) == FEE + 777
    nobody = key()
    unfunded = Message.new_with_blockhash([pay(nobody, payer, SOL)], nobody, blockhash)
    assert await chain.value("getFeeForMessage", encoded(unfunded)) == FEE


async def test_a_message_without_a_valid_blockhash_has_no_fee(chain: Chain) -> None:
    payer = chain.payer.pubkey()
    message = Message.new_with_blockhash([pay(payer, key(), SOL)], payer, Hash.new_unique())
    assert await chain.value("getFeeForMessage", encoded(message)) is None


@pytest.mark.parametrize("text", ["", "!", "AAAA", base64.b64encode(bytes(4)).decode()])
async def test_what_is_no_message_is_refused(chain: Chain, text: str) -> None:
    assert (await chain.error("getFeeForMessage", text)).code == -32602


async def test_rent_is_that_of_the_network(chain: Chain) -> None:
    assert await chain.call("getMinimumBalanceForRentExemption", 0) == rent(0)
    assert await chain.call("getMinimumBalanceForRentExemption", 165) == rent(165)
    for size in (-1, 2**64, "165", True, 11 * 1024 * 1024):
        assert (await chain.error("getMinimumBalanceForRentExemption", size)).code == -32602


@pytest.mark.parametrize("slot_ms", [150, 200, 400])
async def test_its_samples_say_how_long_its_slots_take(slot_ms: int, clock: StillClock) -> None:
    options = LocalnetOptions(slot_ms=slot_ms, clock=clock, ticker=False)
    node = await Localnet.open(None, options)
    chain = await Chain.with_payer(node, clock)
    try:
        assert await chain.call("getRecentPerformanceSamples") == []
        clock.now_ms += 6_000
        [young] = await chain.call("getRecentPerformanceSamples")
        assert (young["samplePeriodSecs"], young["numSlots"]) == (6, 6_000 // slot_ms)
        assert young["numTransactions"] == 0
        clock.now_ms += 600_000
        await chain.do(pay(chain.payer.pubkey(), key(), SOL))
        samples = await chain.call("getRecentPerformanceSamples", 4)
        assert [each["numSlots"] for each in samples] == [60_000 // slot_ms] * 4
        assert [each["numTransactions"] for each in samples] == [1, 0, 0, 0]
        newest = await chain.call("getSlot")
        assert [each["slot"] for each in samples] == [
            newest - place * (60_000 // slot_ms) for place in range(4)
        ]
        assert len(await chain.call("getRecentPerformanceSamples")) == 10
        assert (await chain.error("getRecentPerformanceSamples", 721)).code == -32602
    finally:
        await node.close()


async def test_the_minimum_delegation_is_the_stake_programs(chain: Chain) -> None:
    assert await chain.value("getStakeMinimumDelegation") == SOL


async def test_recent_prices_are_the_least_that_landed_for_the_accounts_written(
    chain: Chain,
) -> None:
    chain.clock.slots(200)
    payer, target, other = chain.payer.pubkey(), key(), key()
    started = await chain.call("getSlot")
    for place, price in ((target, 500), (target, 300), (other, 100)):
        priced = [set_compute_unit_limit(1_000), set_compute_unit_price(price)]
        await chain.do(*priced, pay(payer, place, SOL))

    async def price(*addresses: Pubkey) -> int:
        fees = await chain.call("getRecentPrioritizationFees", [str(each) for each in addresses])
        assert len(fees) == 150
        assert fees[-1]["slot"] == await chain.call("getSlot")
        assert {fee["prioritizationFee"] for fee in fees if fee["slot"] < started} <= {0}
        return int(max(fee["prioritizationFee"] for fee in fees))

    assert await price() == await price(payer) == await price(other) == await price(key()) == 100
    assert await price(other, target) == 300
    chain.clock.slots(151)
    assert await price(target) == 0
    for wrong in (["abc"], [str(key())] * 129):
        assert (await chain.error("getRecentPrioritizationFees", wrong)).code == -32602


async def test_the_supply_is_all_lamports(chain: Chain) -> None:
    supply = await chain.value("getSupply")
    assert supply["total"] == supply["circulating"] > 500_000_000 * SOL
    assert supply["nonCirculatingAccounts"] == []
    largest = await chain.value("getLargestAccounts")
    assert sum(entry["lamports"] for entry in largest) == supply["total"]
    assert largest[0]["lamports"] < 500_000_000 * SOL


async def test_the_validator_votes(chain: Chain) -> None:
    chain.clock.slots(10)
    votes = await chain.call("getVoteAccounts")
    (current,) = votes["current"]
    slot = await chain.call("getSlot")
    assert (current["lastVote"], current["rootSlot"]) == (slot, slot - 1)
    assert current["nodePubkey"] == (await chain.call("getIdentity"))["identity"]
    account = await chain.value("getAccountInfo", current["votePubkey"], {"encoding": "jsonParsed"})
    info = account["data"]["parsed"]["info"]
    assert (info["nodePubkey"], info["commission"]) == (
        current["nodePubkey"],
        current["commission"],
    )
    only = await chain.call("getVoteAccounts", {"votePubkey": current["votePubkey"]})
    assert only == votes
    assert (await chain.call("getVoteAccounts", {"votePubkey": str(key())}))["current"] == []


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("getSlot", [{"minContextSlot": 10**6}]),
        ("getEpochInfo", [{"minContextSlot": 10**6}]),
        ("getLatestBlockhash", [{"minContextSlot": 10**6}]),
        ("getTransactionCount", [{"minContextSlot": 10**6}]),
        ("getBalance", ["11111111111111111111111111111111", {"minContextSlot": 10**6}]),
    ],
)
async def test_a_slot_to_come_is_not_answered_for(
    chain: Chain, method: str, params: list[object]
) -> None:
    error = await chain.error(method, *params)
    assert (error.code, error.message) == (-32016, "Minimum context slot has not been reached")


async def test_the_one_validator_leads_and_makes_every_block(chain: Chain) -> None:
    await chain.node.advance_slots(32 * 2)
    identity = (await chain.call("getIdentity"))["identity"]
    slot = await chain.call("getSlot")
    assert await chain.call("getLeaderSchedule") == {identity: list(range(32))}
    assert await chain.call("getLeaderSchedule", None, {"identity": str(key())}) == {}
    assert await chain.call("getLeaderSchedule", slot + 32 * 2) is None
    produced = (await chain.call("getBlockProduction"))["value"]
    first = slot // 32 * 32
    assert produced["range"] == {"firstSlot": first, "lastSlot": slot}
    assert produced["byIdentity"] == {identity: [slot - first + 1] * 2}
    given = {"range": {"firstSlot": 3, "lastSlot": 4}, "identity": str(key())}
    assert (await chain.call("getBlockProduction", given))["value"]["byIdentity"] == {}
    ahead = {"range": {"firstSlot": slot, "lastSlot": slot + 9}}
    assert (await chain.error("getBlockProduction", ahead)).code == -32602
    assert await chain.call("getBlocksWithLimit", 5, 3) == [5, 6, 7]
    assert await chain.call("getBlocksWithLimit", slot, 3) == [slot]
    commitment = await chain.call("getBlockCommitment", 1)
    votes = (await chain.call("getVoteAccounts"))["current"]
    assert commitment == {"commitment": None, "totalStake": votes[0]["activatedStake"]}


async def test_without_rewards_there_is_no_inflation(chain: Chain) -> None:
    await chain.node.advance_slots(32 * 2)
    rate = await chain.call("getInflationRate")
    assert (rate.pop("epoch"), set(rate.values())) == (2, {0})
    assert set((await chain.call("getInflationGovernor")).values()) == {0}
    assert await chain.call("getInflationReward", [str(key()), str(key())]) == [None, None]
    assert (await chain.error("getInflationReward", [str(key())], {"epoch": 2})).code == -32004
