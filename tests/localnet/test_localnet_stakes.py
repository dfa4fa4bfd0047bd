import struct

from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import CreateAccountParams, create_account
from tests.support.localnet import SOL, Chain, key

from solward.solana import programs
from solward.solana import stakes as stake
from solward.solana.stakes import NEVER, Delegation
from solward.types.ledger import Account

STAKE_PROGRAM = Pubkey.from_string(programs.STAKE_PROGRAM)

CLOCK = Pubkey.from_string("SysvarC1ock11111111111111111111111111111111")
HISTORY = Pubkey.from_string("SysvarStakeHistory1111111111111111111111111")
RENT = Pubkey.from_string("SysvarRent111111111111111111111111111111111")
CONFIG = Pubkey.from_string("StakeConfig11111111111111111111111111111111")
VALIDATOR_STAKE = 1_000_000 * SOL


def metas(*accounts: tuple[Pubkey, str]) -> list[AccountMeta]:
    return [AccountMeta(key, "s" in flags, "w" in flags) for key, flags in accounts]


def initialize(account: Pubkey, authority: Pubkey) -> Instruction:
    data = struct.pack("<I", 0) + bytes(authority) * 2 + bytes(48)
    return Instruction(STAKE_PROGRAM, data, metas((account, "w"), (RENT, "")))


def delegate(account: Pubkey, vote: Pubkey, authority: Pubkey) -> Instruction:
    accounts = [(account, "w"), (vote, ""), (CLOCK, ""), (HISTORY, ""), (CONFIG, "")]
    return Instruction(STAKE_PROGRAM, struct.pack("<I", 2), metas(*accounts, (authority, "s")))


def deactivate(account: Pubkey, authority: Pubkey) -> Instruction:
    accounts = metas((account, "w"), (CLOCK, ""), (authority, "s"))
    return Instruction(STAKE_PROGRAM, struct.pack("<I", 5), accounts)


def withdraw(account: Pubkey, to: Pubkey, lamports: int) -> Instruction:
    accounts = [(account, "w"), (to, "w"), (CLOCK, ""), (HISTORY, ""), (to, "s")]
    return Instruction(STAKE_PROGRAM, struct.pack("<IQ", 4, lamports), metas(*accounts))


async def validator(chain: Chain) -> tuple[Pubkey, int]:
    (account,) = (await chain.call("getVoteAccounts"))["current"]
    return Pubkey.from_string(account["votePubkey"]), account["activatedStake"]


async def staked(chain: Chain, lamports: int) -> tuple[Pubkey, int]:
    """A stake account delegated to the validator, and all its lamports."""
    account, payer = Keypair(), chain.payer.pubkey()
    total = lamports + await chain.call("getMinimumBalanceForRentExemption", 200)
    create = create_account(
        CreateAccountParams(
            from_pubkey=payer,
            to_pubkey=account.pubkey(),
            lamports=total,
            space=200,
            owner=STAKE_PROGRAM,
        )
    )
    vote, _ = await validator(chain)
    await chain.do(
        create,
        initialize(account.pubkey(), payer),
        delegate(account.pubkey(), vote, payer),
        signers=[account],
    )
    return account.pubkey(), total


async def withdrawal_error(chain: Chain, account: Pubkey, lamports: int) -> object:
    tx = await chain.signed([withdraw(account, chain.payer.pubkey(), lamports)])
    error = await chain.refused(tx)
    assert error.data is not None
    return error.data["err"]


async def test_a_stake_lives_from_delegation_to_withdrawal(chain: Chain) -> None:
    payer = chain.payer.pubkey()
    account, total = await staked(chain, 10 * SOL)
    assert (await validator(chain))[1] == VALIDATOR_STAKE
    await chain.node.advance_epochs(1)
    assert (await validator(chain))[1] == VALIDATOR_STAKE + 10 * SOL
    assert await withdrawal_error(chain, account, total) == {
        "InstructionError": [0, "InsufficientFunds"]
    }
    await chain.do(deactivate(account, payer))
    assert (await validator(chain))[1] == VALIDATOR_STAKE + 10 * SOL
    assert await withdrawal_error(chain, account, total) == {
        "InstructionError": [0, "InsufficientFunds"]
    }
    await chain.node.advance_epochs(1)
    assert (await validator(chain))[1] == VALIDATOR_STAKE
    before = await chain.balance(payer)
    await chain.do(withdraw(account, payer, total))
    assert await chain.balance(payer) == before + total - 5_000
    assert await chain.value("getAccountInfo", str(account)) is None


async def test_epochs_that_passed_unseen_are_caught_up(chain: Chain) -> None:
    await staked(chain, 10 * SOL)
    chain.clock.slots(32 * 5_000)
    assert (await chain.call("getEpochInfo"))["epoch"] == 5_000
    assert (await validator(chain))[1] == VALIDATOR_STAKE + 10 * SOL
    history = await chain.value("getAccountInfo", str(HISTORY), {"encoding": "jsonParsed"})
    entries = history["data"]["parsed"]["info"]
    assert len(entries) == 512
    assert entries[0] == {
        "epoch": 4_999,
        "stakeHistory": {
            "activating": 0,
            "deactivating": 0,
            "effective": VALIDATOR_STAKE + 10 * SOL,
        },
    }


def test_a_stake_deactivated_in_the_epoch_it_was_delegated_never_counts() -> None:
    delegation = Delegation(key(), 5 * SOL, activation_epoch=3, deactivation_epoch=3)
    history = dict.fromkeys(range(10), (100 * SOL, 0, 0))
    assert stake.status(delegation, 3, history) == (0, 0, 0)
    assert stake.status(delegation, 4, history) == (0, 0, 0)


def test_the_states_of_a_delegation_follow_its_epochs() -> None:
    delegation = Delegation(key(), SOL, activation_epoch=3, deactivation_epoch=6)
    steady = Delegation(key(), 1_000 * SOL, NEVER, NEVER)
    history = stake.pass_epochs([steady, delegation], 0, 10, {})
    seen = {epoch: stake.status(delegation, epoch, history) for epoch in range(2, 8)}
    assert seen == {
        2: (0, 0, 0),
        3: (0, SOL, 0),
        4: (SOL, 0, 0),
        5: (SOL, 0, 0),
        6: (SOL, 0, SOL),
        7: (0, 0, 0),
    }


def test_what_is_not_delegated_has_no_delegation() -> None:
    for data in (b"", bytes(200)):
        assert stake.stake_account(Account(0, programs.STAKE_PROGRAM, data)) is None
