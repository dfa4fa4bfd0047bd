"""The accounts a ledger begins with."""

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from solana.constants import LAMPORTS_PER_SOL, STAKE_PROGRAM_ID, VOTE_PROGRAM_ID
from solders.account import Account
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.system_program import CreateAccountParams, create_account
from solders.sysvar import CLOCK, RENT
from solders.transaction import VersionedTransaction
from spl.token.constants import TOKEN_2022_PROGRAM_ID, TOKEN_PROGRAM_ID, WRAPPED_SOL_MINT

from solward.solana.programs import TOKEN_2022_WRAPPED_SOL_MINT
from solward.solana.stakes import STAKE_ACCOUNT_BYTES, pack_genesis_stake
from solward_localnet.options import LocalnetOptions
from solward_localnet.vm import SYSTEM_PROGRAM, Vm

IDENTITY_LAMPORTS = 500 * LAMPORTS_PER_SOL
COMMISSION_PERCENT = 5

_VOTE_ACCOUNT_BYTES = 3762


@dataclass(frozen=True, slots=True, repr=False)
class Cast:
    """The keys every ledger has, derived from its seed: secrets of a play ledger, kept inside."""

    faucet: Keypair
    identity: Keypair
    vote: Keypair
    stake: Keypair

    @classmethod
    def of(cls, seed: bytes) -> "Cast":
        names = (b"faucet", b"identity", b"vote", b"stake")
        return cls(*(Keypair.from_seed(hashlib.sha256(seed + name).digest()) for name in names))


def genesis_accounts(vm: Vm, cast: Cast, options: LocalnetOptions) -> dict[Pubkey, Account]:
    """Put the genesis accounts into an empty `vm` and return them: faucet, validator, native mints.

    Raises:
        RuntimeError: LiteSVM's Vote program does not make the vote account.
    """
    accounts: dict[Pubkey, Account] = {
        cast.faucet.pubkey(): Account(options.faucet_lamports, b"", SYSTEM_PROGRAM),
        cast.identity.pubkey(): Account(IDENTITY_LAMPORTS, b"", SYSTEM_PROGRAM),
        WRAPPED_SOL_MINT: _native_mint(vm, TOKEN_PROGRAM_ID),
        Pubkey.from_string(TOKEN_2022_WRAPPED_SOL_MINT): _native_mint(vm, TOKEN_2022_PROGRAM_ID),
        cast.stake.pubkey(): _stake(vm, cast, options.validator_stake_lamports),
    }
    vm.put(accounts)
    _make_vote_account(vm, cast)
    seeded: Mapping[Pubkey, Account] = options.genesis() if options.genesis else {}
    clash = accounts.keys() & seeded.keys()
    if clash:
        raise ValueError(f"genesis may not replace {sorted(map(str, clash))}")
    vm.put(seeded)
    for key in (cast.identity.pubkey(), cast.vote.pubkey()):
        account = vm.account(key)
        if account is not None:
            accounts[key] = account
    return accounts | dict(seeded)


def _native_mint(vm: Vm, program: Pubkey) -> Account:
    # No authorities, no supply that is counted, 9 decimals.
    data = struct.pack("<I32xQBBI32x", 0, 0, 9, 1, 0)
    return Account(vm.rent(len(data)), data, program)


def _stake(vm: Vm, cast: Cast, lamports: int) -> Account:
    reserve = vm.rent(STAKE_ACCOUNT_BYTES)
    data = pack_genesis_stake(cast.identity.pubkey(), cast.vote.pubkey(), lamports, reserve)
    return Account(lamports + reserve, data, STAKE_PROGRAM_ID)


def _make_vote_account(vm: Vm, cast: Cast) -> None:
    # The Vote program itself writes the account, in whatever version of its state it has.
    identity, vote = cast.identity.pubkey(), cast.vote.pubkey()
    initialize = Instruction(
        VOTE_PROGRAM_ID,
        (0).to_bytes(4, "little") + bytes(identity) * 3 + bytes([COMMISSION_PERCENT]),
        [
            AccountMeta(vote, is_signer=False, is_writable=True),
            AccountMeta(RENT, is_signer=False, is_writable=False),
            AccountMeta(CLOCK, is_signer=False, is_writable=False),
            AccountMeta(identity, is_signer=True, is_writable=False),
        ],
    )
    create = create_account(
        CreateAccountParams(
            from_pubkey=identity,
            to_pubkey=vote,
            lamports=vm.rent(_VOTE_ACCOUNT_BYTES),
            space=_VOTE_ACCOUNT_BYTES,
            owner=VOTE_PROGRAM_ID,
        )
    )
    message = MessageV0.try_compile(identity, [create, initialize], [], Hash.default())
    outcome = vm.execute(VersionedTransaction(message, [cast.identity, cast.vote]))
    if outcome.err is not None:
        raise RuntimeError(f"no vote account at genesis: {outcome.err} {outcome.logs}")
