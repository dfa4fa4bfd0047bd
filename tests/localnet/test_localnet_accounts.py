import base64

import pytest
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import CreateAccountParams, create_account
from spl.token.instructions import (
    approve,
    close_account,
    create_associated_token_account,
    get_associated_token_address,
    initialize_mint2,
    mint_to,
    set_authority,
    transfer_checked,
)
from spl.token.models import (
    ApproveParams,
    AuthorityType,
    CloseAccountParams,
    InitializeMint2Params,
    MintToParams,
    SetAuthorityParams,
    TransferCheckedParams,
)
from tests.support.localnet import PAYER_LAMPORTS, SOL, Chain, key, pay
from tests.support.tokens import TOKEN as TOKEN_PROGRAM
from tests.support.tokens import TOKEN_2022 as TOKEN_2022_PROGRAM

from solward.support.base58 import b58encode

SYSTEM = str(Pubkey.default())
NATIVE_MINT = "So11111111111111111111111111111111111111112"


async def new_mint(chain: Chain, *, program: Pubkey = TOKEN_PROGRAM, decimals: int = 6) -> Pubkey:
    mint, payer = Keypair(), chain.payer.pubkey()
    create = create_account(
        CreateAccountParams(
            from_pubkey=payer,
            to_pubkey=mint.pubkey(),
            lamports=await chain.call("getMinimumBalanceForRentExemption", 82),
            space=82,
            owner=program,
        )
    )
    initialize = initialize_mint2(
        InitializeMint2Params(
            program_id=program, mint=mint.pubkey(), decimals=decimals, mint_authority=payer
        )
    )
    await chain.do(create, initialize, signers=[mint])
    return mint.pubkey()


def give(
    chain: Chain, owner: Pubkey, mint: Pubkey, amount: int, program: Pubkey = TOKEN_PROGRAM
) -> tuple[Pubkey, list[Instruction]]:
    account = get_associated_token_address(owner, mint, program)
    payer = chain.payer.pubkey()
    parameters = MintToParams(
        program_id=program, mint=mint, dest=account, mint_authority=payer, amount=amount
    )
    create = create_associated_token_account(payer, owner, mint, program)
    return account, [create, mint_to(parameters)]


async def holding(
    chain: Chain, owner: Pubkey, mint: Pubkey, amount: int, program: Pubkey = TOKEN_PROGRAM
) -> Pubkey:
    account, instructions = give(chain, owner, mint, amount, program)
    await chain.do(*instructions)
    return account


async def test_an_account_is_told_as_it_is(chain: Chain) -> None:
    value = await chain.value("getAccountInfo", str(chain.payer.pubkey()))
    assert value == {
        "lamports": PAYER_LAMPORTS,
        "data": "",
        "owner": SYSTEM,
        "executable": False,
        "rentEpoch": value["rentEpoch"],
        "space": 0,
    }
    assert await chain.value("getAccountInfo", str(key())) is None
    assert await chain.balance(key()) == 0


async def test_a_slice_of_an_account_can_be_had(chain: Chain) -> None:
    config = {"encoding": "base64", "dataSlice": {"offset": 44, "length": 2}}
    value = await chain.value("getAccountInfo", NATIVE_MINT, config)
    assert value["data"] == [base64.b64encode(b"\x09\x01").decode(), "base64"]
    assert value["space"] == 82


BAD_PARAMETERS: list[tuple[list[object], str | None]] = [
    ([], "`params` should have at least 1 argument(s)"),
    ([5], "Invalid params: invalid type: integer `5`, expected a string."),
    ([None], "Invalid params: invalid type: null, expected a string."),
    (["abc"], "Invalid param: WrongSize"),
    (["0" * 44], "Invalid param: Invalid"),
    ([SYSTEM, "base64"], 'Invalid params: invalid type: string "base64", expected a map.'),
    ([SYSTEM, {"encoding": 1}], None),
    ([SYSTEM, {"encoding": "morse"}], None),
    ([SYSTEM, {"commitment": "recent"}], None),
    ([SYSTEM, {"commitment": 1.5}], None),
]


async def test_bad_parameters_are_named(chain: Chain) -> None:
    for params, message in BAD_PARAMETERS:
        error = await chain.error("getAccountInfo", *params)
        assert error.code == -32602, params
        assert message is None or error.message == message


async def test_many_accounts_come_in_the_order_asked(chain: Chain) -> None:
    addresses = [str(key()), NATIVE_MINT, str(chain.payer.pubkey())]
    first, mint, payer = await chain.value("getMultipleAccounts", addresses)
    assert first is None
    assert mint["data"][1] == "base64"
    assert payer["lamports"] == PAYER_LAMPORTS
    error = await chain.error("getMultipleAccounts", [NATIVE_MINT] * 101)
    assert error.message == "Too many inputs provided; max 100"
    assert (await chain.error("getMultipleAccounts", NATIVE_MINT)).code == -32602


async def test_accounts_of_a_program_are_filtered(chain: Chain) -> None:
    mint, owner = await new_mint(chain), key()
    account = await holding(chain, owner, mint, 5)
    token = str(TOKEN_PROGRAM)

    async def found(*filters: object) -> set[str]:
        config = {"encoding": "base64", "filters": list(filters)}
        answer = await chain.call("getProgramAccounts", token, config)
        assert all(entry["account"]["owner"] == token for entry in answer)
        return {entry["pubkey"] for entry in answer}

    assert await found() == {NATIVE_MINT, str(mint), str(account)}
    assert await found({"dataSize": 82}) == {NATIVE_MINT, str(mint)}
    assert await found("tokenAccountState") == {str(account)}
    by_owner = {"memcmp": {"offset": 32, "bytes": str(owner)}}
    assert await found({"dataSize": 165}, by_owner) == {str(account)}
    in_base64 = {"offset": 32, "bytes": base64.b64encode(bytes(owner)).decode()}
    assert await found({"memcmp": {**in_base64, "encoding": "base64"}}) == {str(account)}
    assert await found({"memcmp": {"offset": 32, "bytes": list(bytes(owner))}}) == {str(account)}
    assert await found({"memcmp": {"offset": 32, "bytes": str(key())}}) == set()
    assert await found({"memcmp": {"offset": 10_000, "bytes": str(owner)}}) == set()
    with_context = {"encoding": "base64", "withContext": True}
    context = await chain.value("getProgramAccounts", token, with_context)
    assert len(context) == 3


BAD_FILTERS: list[object] = [
    "x",
    [{"dataSize": -1}],
    [{"dataSize": "1"}],
    [{"memcmp": 1}],
    [{"memcmp": {"offset": 0, "bytes": "0"}}],
    [{"memcmp": {"offset": 0, "bytes": 5}}],
    [{"memcmp": {"offset": 0, "bytes": [300]}}],
    [{"memcmp": {"offset": 0, "bytes": "1", "encoding": "hex"}}],
    [{"memcmp": {"offset": 0, "bytes": b58encode(b"\xff" * 129)}}],
    [{"memcmp": {"bytes": "1"}}],
    [{"unknown": 1}],
    [{"dataSize": 1}] * 5,
]


async def test_bad_filters_are_refused(chain: Chain) -> None:
    for filters in BAD_FILTERS:
        error = await chain.error("getProgramAccounts", str(TOKEN_PROGRAM), {"filters": filters})
        assert error.code == -32602, filters


@pytest.mark.parametrize("program", [TOKEN_PROGRAM, TOKEN_2022_PROGRAM])
async def test_token_accounts_are_found_by_owner(chain: Chain, program: Pubkey) -> None:
    owner = key()
    mint, other = [await new_mint(chain, program=program) for _ in range(2)]
    account = await holding(chain, owner, mint, 1_500_000, program)
    second = await holding(chain, owner, other, 1, program)

    async def found(wanted: dict[str, str], **config: object) -> list[dict[str, object]]:
        value = await chain.value("getTokenAccountsByOwner", str(owner), wanted, config)
        assert isinstance(value, list)
        return value

    (entry,) = await found({"mint": str(mint)}, encoding="jsonParsed")
    assert entry["pubkey"] == str(account)
    info = entry["account"]["data"]["parsed"]["info"]
    assert (info["mint"], info["owner"]) == (str(mint), str(owner))
    assert info["tokenAmount"] == {
        "amount": "1500000",
        "decimals": 6,
        "uiAmount": 1.5,
        "uiAmountString": "1.5",
    }
    both = await found({"programId": str(program)}, encoding="base64")
    assert {each["pubkey"] for each in both} == {str(account), str(second)}
    (elsewhere,) = {TOKEN_PROGRAM, TOKEN_2022_PROGRAM} - {program}
    assert await found({"programId": str(elsewhere)}) == []


@pytest.mark.parametrize("program", [TOKEN_PROGRAM, TOKEN_2022_PROGRAM])
async def test_token_accounts_are_found_by_delegate(chain: Chain, program: Pubkey) -> None:
    payer, delegate = chain.payer.pubkey(), str(key())
    mint, other = [await new_mint(chain, program=program) for _ in range(2)]
    account = await holding(chain, payer, mint, 1_000, program)
    await holding(chain, payer, other, 1_000, program)

    async def found(wanted: Pubkey | None = None, in_program: Pubkey = program) -> list[str]:
        where = {"programId": str(in_program)} if wanted is None else {"mint": str(wanted)}
        question = ["getTokenAccountsByDelegate", delegate, where, {"encoding": "jsonParsed"}]
        return [each["pubkey"] for each in await chain.value(*question)]

    assert await found() == []
    await chain.do(
        approve(
            ApproveParams(
                program_id=program,
                source=account,
                delegate=Pubkey.from_string(delegate),
                owner=payer,
                amount=400,
            )
        )
    )
    assert await found() == await found(mint) == [str(account)]
    assert await found(other) == []
    (elsewhere,) = {TOKEN_PROGRAM, TOKEN_2022_PROGRAM} - {program}
    assert await found(in_program=elsewhere) == []


async def test_bad_questions_about_owners_are_refused(chain: Chain) -> None:
    owner, method = str(key()), "getTokenAccountsByOwner"
    missing = await chain.error(method, owner)
    assert missing.message == "`params` should have at least 2 argument(s)"
    not_a_mint = await chain.error(method, owner, {"mint": str(key())})
    assert not_a_mint.message == "Invalid param: could not find mint"
    program = await chain.error(method, owner, {"programId": SYSTEM})
    assert program.message == "Invalid param: unrecognized Token program id"
    for wanted in ({}, "mint", {"mint": 5}):
        assert (await chain.error(method, owner, wanted)).code == -32602


async def test_balances_supply_and_holders_of_a_mint(chain: Chain) -> None:
    mint = await new_mint(chain, decimals=2)
    holders = {str(await holding(chain, key(), mint, amount)): amount for amount in (300, 100, 250)}
    supply = {"amount": "650", "decimals": 2, "uiAmount": 6.5, "uiAmountString": "6.5"}
    assert await chain.value("getTokenSupply", str(mint)) == supply
    largest = await chain.value("getTokenLargestAccounts", str(mint))
    assert [(entry["address"], int(entry["amount"])) for entry in largest] == sorted(
        holders.items(), key=lambda holder: -holder[1]
    )
    for address, amount in holders.items():
        balance = await chain.value("getTokenAccountBalance", address)
        assert (balance["amount"], balance["decimals"]) == (str(amount), 2)


async def test_what_is_no_token_account_or_mint_is_refused(chain: Chain) -> None:
    payer = str(chain.payer.pubkey())
    texts = [
        ("getTokenAccountBalance", payer, "Invalid param: not a Token account"),
        ("getTokenAccountBalance", NATIVE_MINT, "Invalid param: not a Token account"),
        ("getTokenAccountBalance", str(key()), "Invalid param: could not find account"),
        ("getTokenSupply", payer, "Invalid param: not a Token mint"),
        ("getTokenSupply", str(key()), "Invalid param: could not find mint"),
        ("getTokenLargestAccounts", payer, "Invalid param: not a Token mint"),
    ]
    for method, address, text in texts:
        error = await chain.error(method, address)
        assert (error.code, error.message) == (-32602, text)


async def test_a_token_transfer_records_token_balances(chain: Chain) -> None:
    mint, to, payer = await new_mint(chain), key(), chain.payer.pubkey()
    source = await holding(chain, payer, mint, 1_000_000)
    target = get_associated_token_address(to, mint)
    move = transfer_checked(
        TransferCheckedParams(
            program_id=TOKEN_PROGRAM,
            source=source,
            mint=mint,
            dest=target,
            owner=payer,
            amount=400_000,
            decimals=6,
        )
    )
    signature = await chain.do(create_associated_token_account(payer, to, mint), move)
    meta = (await chain.transaction(signature))["meta"]
    before = [(b["owner"], b["uiTokenAmount"]["amount"]) for b in meta["preTokenBalances"]]
    after = {b["owner"]: b["uiTokenAmount"]["amount"] for b in meta["postTokenBalances"]}
    assert before == [(str(payer), "1000000")]
    assert after == {str(payer): "600000", str(to): "400000"}
    assert all(b["mint"] == str(mint) for b in meta["postTokenBalances"])
    assert all(b["programId"] == str(TOKEN_PROGRAM) for b in meta["postTokenBalances"])
    assert meta["innerInstructions"][0]["index"] == 0
    assert len(meta["innerInstructions"][0]["instructions"]) >= 3


async def test_a_closed_token_account_is_no_longer_listed(chain: Chain) -> None:
    mint, payer = await new_mint(chain), chain.payer.pubkey()
    account = await holding(chain, payer, mint, 0)
    question = ["getTokenAccountsByOwner", str(payer), {"mint": str(mint)}, {"encoding": "base64"}]
    assert len(await chain.value(*question)) == 1
    close = CloseAccountParams(program_id=TOKEN_PROGRAM, account=account, dest=payer, owner=payer)
    await chain.do(close_account(close))
    assert await chain.value(*question) == []
    assert await chain.value("getAccountInfo", str(account)) is None


async def test_a_token_account_given_away_is_listed_under_its_new_owner(chain: Chain) -> None:
    mint, payer, heir = await new_mint(chain), chain.payer.pubkey(), key()
    account = await holding(chain, payer, mint, 1)
    parameters = SetAuthorityParams(
        program_id=TOKEN_PROGRAM,
        account=account,
        authority=AuthorityType.ACCOUNT_OWNER,
        current_authority=payer,
        new_authority=heir,
    )
    await chain.do(set_authority(parameters))
    for owner, listed in ((payer, []), (heir, [str(account)])):
        wanted = [str(owner), {"mint": str(mint)}, {"encoding": "base64"}]
        found = await chain.value("getTokenAccountsByOwner", *wanted)
        assert [entry["pubkey"] for entry in found] == listed


async def test_an_emptied_account_is_gone(chain: Chain) -> None:
    other = Keypair()
    await chain.do(pay(chain.payer.pubkey(), other.pubkey(), SOL))
    await chain.do(pay(other.pubkey(), chain.payer.pubkey(), SOL), signers=[other])
    assert await chain.value("getAccountInfo", str(other.pubkey())) is None
    assert await chain.balance(other.pubkey()) == 0
