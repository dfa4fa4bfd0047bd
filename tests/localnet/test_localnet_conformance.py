import json
from typing import Any

from solders.rpc import responses
from tests.support.localnet import SOL, Chain, key, pay

SYSTEM = "11111111111111111111111111111111"
TOKEN = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"
NATIVE_MINT = "So11111111111111111111111111111111111111112"
BASE64 = {"encoding": "base64"}

# solders parses strictly, as the Rust client does: what it reads, clients read.
ANSWERS: list[tuple[str, list[Any], Any]] = [
    ("getAccountInfo", [NATIVE_MINT, BASE64], responses.GetAccountInfoResp),
    ("getBalance", [SYSTEM], responses.GetBalanceResp),
    ("getBlockHeight", [], responses.GetBlockHeightResp),
    ("getBlockTime", [1], responses.GetBlockTimeResp),
    ("getBlock", [1, {"maxSupportedTransactionVersion": 0}], responses.GetBlockResp),
    ("getBlocks", [0, 1], responses.GetBlocksResp),
    ("getClusterNodes", [], responses.GetClusterNodesResp),
    ("getEpochInfo", [], responses.GetEpochInfoResp),
    ("getEpochSchedule", [], responses.GetEpochScheduleResp),
    ("getFirstAvailableBlock", [], responses.GetFirstAvailableBlockResp),
    ("getGenesisHash", [], responses.GetGenesisHashResp),
    ("getHealth", [], responses.GetHealthResp),
    ("getIdentity", [], responses.GetIdentityResp),
    ("getLargestAccounts", [], responses.GetLargestAccountsResp),
    ("getLatestBlockhash", [], responses.GetLatestBlockhashResp),
    (
        "getMinimumBalanceForRentExemption",
        [0],
        responses.GetMinimumBalanceForRentExemptionResp,
    ),
    ("getMultipleAccounts", [[SYSTEM, NATIVE_MINT]], responses.GetMultipleAccountsResp),
    ("getProgramAccounts", [TOKEN, BASE64], responses.GetProgramAccountsResp),
    ("getRecentPerformanceSamples", [], responses.GetRecentPerformanceSamplesResp),
    ("getSlot", [], responses.GetSlotResp),
    ("getSlotLeader", [], responses.GetSlotLeaderResp),
    ("getSlotLeaders", [0, 2], responses.GetSlotLeadersResp),
    ("getStakeMinimumDelegation", [], responses.GetStakeMinimumDelegationResp),
    ("getSupply", [], responses.GetSupplyResp),
    ("getTokenLargestAccounts", [NATIVE_MINT], responses.GetTokenLargestAccountsResp),
    ("getTokenSupply", [NATIVE_MINT], responses.GetTokenSupplyResp),
    ("getTransactionCount", [], responses.GetTransactionCountResp),
    ("getVersion", [], responses.GetVersionResp),
    ("getVoteAccounts", [], responses.GetVoteAccountsResp),
    ("minimumLedgerSlot", [], responses.MinimumLedgerSlotResp),
]


def read(response: Any, result: Any) -> Any:
    answer = response.from_json(json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}))
    assert type(answer) is response
    return answer.value


async def test_the_answers_are_such_as_clients_read(chain: Chain) -> None:
    for method, params, response in ANSWERS:
        read(response, await chain.call(method, *params))


async def test_the_history_is_one_that_clients_read(chain: Chain) -> None:
    payer = chain.payer.pubkey()
    signature = await chain.do(pay(payer, key(), SOL))
    statuses = await chain.call("getSignatureStatuses", [signature, signature])
    assert read(responses.GetSignatureStatusesResp, statuses)[0].err is None
    history = await chain.call("getSignaturesForAddress", str(payer))
    assert str(read(responses.GetSignaturesForAddressResp, history)[0].signature) == signature
    found = await chain.transaction(signature)
    assert read(responses.GetTransactionResp, found).transaction.meta.fee == 5_000
    fees = await chain.call("getRecentPrioritizationFees")
    assert all(set(fee) == {"prioritizationFee", "slot"} for fee in fees)
