import json

from solders.hash import Hash
from solders.keypair import Keypair
from solders.rpc.responses import SimulateTransactionResp
from solders.transaction import VersionedTransaction
from spl.token.instructions import get_associated_token_address
from tests.localnet.test_localnet_accounts import give, new_mint
from tests.support.localnet import FEE, PAYER_LAMPORTS, SOL, Chain, key, wire


async def simulated(chain: Chain, tx: VersionedTransaction, **config: object) -> dict:
    value: dict = await chain.value(
        "simulateTransaction", wire(tx), {"encoding": "base64", **config}
    )
    return value


async def test_a_simulation_shows_the_outcome_and_does_nothing(chain: Chain) -> None:
    to, payer = key(), str(chain.payer.pubkey())
    tx = await chain.transfer(to, SOL)
    accounts = {"addresses": [str(to), payer], "encoding": "base64"}
    value = await simulated(chain, tx, accounts=accounts)
    assert value["err"] is None
    assert (value["fee"], value["unitsConsumed"]) == (FEE, 150)
    assert [account["lamports"] for account in value["accounts"]] == [
        SOL,
        PAYER_LAMPORTS - SOL - FEE,
    ]
    assert value["preBalances"] == [PAYER_LAMPORTS, 0, 1]
    assert value["postBalances"] == [PAYER_LAMPORTS - SOL - FEE, SOL, 1]
    assert value["replacementBlockhash"] is None
    assert await chain.balance(to) == 0
    assert await chain.balance(chain.payer.pubkey()) == PAYER_LAMPORTS
    await chain.post(tx)


async def test_a_failing_simulation_has_its_error_and_no_accounts(chain: Chain) -> None:
    tx = await chain.transfer(key(), 2 * PAYER_LAMPORTS)
    accounts = {"addresses": [str(chain.payer.pubkey())]}
    value = await simulated(chain, tx, accounts=accounts)
    assert value["err"] == {"InstructionError": [0, {"Custom": 1}]}
    assert value["accounts"] == [None]
    assert "failed: custom program error: 0x1" in value["logs"][-1]


async def test_signatures_are_checked_only_where_asked(chain: Chain) -> None:
    good = await chain.transfer(key(), SOL)
    forged = VersionedTransaction.populate(good.message, [Keypair().sign_message(b"forged")])
    assert (await simulated(chain, forged))["err"] is None
    config = {"encoding": "base64", "sigVerify": True}
    error = await chain.error("simulateTransaction", wire(forged), config)
    assert error.code == -32003
    assert (await simulated(chain, good, sigVerify=True))["err"] is None
    both = {**config, "replaceRecentBlockhash": True}
    error = await chain.error("simulateTransaction", wire(good), both)
    assert error.message == "sigVerify may not be used with replaceRecentBlockhash"


async def test_a_blockhash_is_replaced_where_asked(chain: Chain) -> None:
    tx = await chain.transfer(key(), SOL, blockhash=Hash.new_unique())
    refused = await simulated(chain, tx, accounts={"addresses": [str(key())]})
    assert (refused["err"], refused["logs"]) == ("BlockhashNotFound", [])
    assert refused["accounts"] == [None]
    value = await simulated(chain, tx, replaceRecentBlockhash=True)
    assert value["err"] is None
    assert value["replacementBlockhash"] == await chain.value("getLatestBlockhash")


async def test_what_has_landed_is_not_simulated_again(chain: Chain) -> None:
    tx = await chain.transfer(key(), SOL)
    await chain.post(tx)
    assert (await simulated(chain, tx))["err"] == "AlreadyProcessed"
    assert (await simulated(chain, tx, replaceRecentBlockhash=True))["err"] is None


async def test_inner_instructions_and_tokens_are_shown(chain: Chain) -> None:
    mint, owner = await new_mint(chain), key()
    account, instructions = give(chain, owner, mint, 2_500_000)
    accounts = {"addresses": [str(account)], "encoding": "jsonParsed"}
    tx = await chain.signed(instructions)
    value = await simulated(chain, tx, accounts=accounts, innerInstructions=True)
    info = value["accounts"][0]["data"]["parsed"]["info"]
    assert (info["owner"], info["tokenAmount"]["uiAmountString"]) == (str(owner), "2.5")
    assert value["preTokenBalances"] == []
    assert value["postTokenBalances"][0]["uiTokenAmount"]["amount"] == "2500000"
    (group,) = value["innerInstructions"]
    kinds = [inner["parsed"]["type"] for inner in group["instructions"]]
    assert kinds == [
        "getAccountDataSize",
        "createAccount",
        "initializeImmutableOwner",
        "initializeAccount3",
    ]
    assert await chain.value("getAccountInfo", str(account)) is None
    assert (await simulated(chain, tx))["innerInstructions"] is None
    assert get_associated_token_address(owner, mint) == account


async def test_accounts_must_fit_the_transaction(chain: Chain) -> None:
    tx = wire(await chain.transfer(key(), SOL))
    addresses = [str(key()) for _ in range(4)]
    cases = [
        ({"addresses": addresses}, "Too many accounts provided; max 3"),
        ({"addresses": [], "encoding": "base58"}, "base58 encoding not supported"),
        ({"addresses": ["abc"]}, "Invalid param: WrongSize"),
        ({}, "Invalid params: invalid type: null, expected a sequence."),
    ]
    for accounts, message in cases:
        config = {"encoding": "base64", "accounts": accounts}
        error = await chain.error("simulateTransaction", tx, config)
        assert (error.code, error.message) == (-32602, message)


async def test_the_answer_is_one_that_solders_reads(chain: Chain) -> None:
    payer = str(chain.payer.pubkey())
    for lamports in (SOL, 2 * PAYER_LAMPORTS):
        tx = await chain.transfer(key(), lamports)
        accounts = {"addresses": [payer], "encoding": "base64"}
        config = {"encoding": "base64", "accounts": accounts, "innerInstructions": True}
        answer = await chain.call("simulateTransaction", wire(tx), config)
        text = json.dumps({"jsonrpc": "2.0", "id": 0, "result": answer})
        response = SimulateTransactionResp.from_json(text)
        assert response.value.units_consumed == 150
        assert (response.value.err is None) == (lamports == SOL)
