"""A real SVM with one wallet, and the judge fed with what the SVM shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from solders.account import Account
from solders.address_lookup_table_account import AddressLookupTableAccount
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.litesvm import LiteSVM
from solders.message import Message, MessageV0, MessageV1, TransactionConfig
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction
from solders.transaction_metadata import SimulatedTransactionInfo
from spl.token.instructions import get_associated_token_address

from solward.solana.message import decode_transaction, lookup_tables, resolve
from solward.solana.programs import LOOKUP_TABLE_PROGRAM, TOKEN_PROGRAM, WRAPPED_SOL_MINT
from solward.support.base58 import b58encode
from solward.types.guardrail import Intent, TransactionEffects
from solward.types.ledger import Account as AccountState
from solward.vault.guardrails.effects import analyse, simulated_effects
from solward.vault.guardrails.rules import Policy, ScopeLimits, ScopeUsage, Verdict, judge
from solward.vault.guardrails.simulation import Invocation, Simulation, inner_from_json

SOL = 1_000_000_000
RENT_TOKEN = 2_039_280
ROUTER = "Router1111111111111111111111111111111111111"
WALLET_LIMITS = ScopeLimits(2 * SOL, 5, 10 * SOL)
POLICY = Policy()


def key(address: str) -> Pubkey:
    return Pubkey.from_string(address)


def mint_data(authority: Pubkey | None, supply: int = 10**12, extensions: bytes = b"") -> bytes:
    option = b"\x01\0\0\0" + bytes(authority) if authority else bytes(36)
    base = option + supply.to_bytes(8, "little") + bytes([6, 1]) + bytes(36)
    return base + bytes(83) + b"\x01" + extensions if extensions else base


def token_data(mint: Pubkey, owner: Pubkey, amount: int, native: int | None = None) -> bytes:
    is_native = b"\x01\0\0\0" + native.to_bytes(8, "little") if native is not None else bytes(12)
    return (
        bytes(mint) + bytes(owner) + amount.to_bytes(8, "little") + bytes(36) + b"\x01"
        + is_native + bytes(8) + bytes(36)
    )  # fmt: skip


def stake_data(authority: Pubkey) -> bytes:
    meta = (2_282_880).to_bytes(8, "little") + bytes(authority) * 2 + bytes(48)
    return (1).to_bytes(4, "little") + meta + bytes(76)


def nonce_data(authority: Pubkey) -> bytes:
    head = (1).to_bytes(4, "little") * 2
    return head + bytes(authority) + bytes(32) + (5000).to_bytes(8, "little")


@dataclass
class Bank:
    """LiteSVM with a wallet (100 SOL, 1,000,000 units of `mint`), a friend and a stranger."""

    svm: LiteSVM = field(default_factory=LiteSVM)
    wallet: Keypair = field(default_factory=Keypair)
    friend: Keypair = field(default_factory=Keypair)
    stranger: Keypair = field(default_factory=Keypair)

    def __post_init__(self) -> None:
        self.svm.warp_to_slot(1_000)
        for holder in (self.wallet, self.friend, self.stranger):
            self.svm.airdrop(holder.pubkey(), 100 * SOL)
        self.own = self.wallet.pubkey()
        self.mint = self.put(TOKEN_PROGRAM, mint_data(self.own))
        self.wsol = key(WRAPPED_SOL_MINT)
        self.put(TOKEN_PROGRAM, mint_data(None, 0), at=self.wsol)
        self.tokens = self.put_tokens(self.mint, self.own, 1_000_000)
        self.their_tokens = self.put_tokens(self.mint, self.stranger.pubkey(), 1_000_000)

    @property
    def address(self) -> str:
        return str(self.own)

    def put(self, owner: str, data: bytes, lamports: int = 0, at: Pubkey | None = None) -> Pubkey:
        at = at or Keypair().pubkey()
        lamports = lamports or (len(data) + 128) * 6960
        self.svm.set_account(at, Account(lamports, data, key(owner)))
        return at

    def put_tokens(
        self, mint: Pubkey, owner: Pubkey, amount: int, program: str = TOKEN_PROGRAM
    ) -> Pubkey:
        at = get_associated_token_address(owner, mint, key(program))
        native = RENT_TOKEN if mint == key(WRAPPED_SOL_MINT) else None
        data = token_data(mint, owner, amount, native)
        return self.put(program, data, RENT_TOKEN + (amount if native else 0), at)

    def put_table(self, addresses: Sequence[Pubkey]) -> Pubkey:
        header = (1).to_bytes(4, "little") + b"\xff" * 8 + bytes(9) + bytes(35)
        return self.put(
            LOOKUP_TABLE_PROGRAM, header + b"".join(bytes(entry) for entry in addresses)
        )

    def build(
        self,
        instructions: Sequence[Instruction],
        signers: Sequence[Keypair] = (),
        *,
        version: str = "legacy",
        tables: Sequence[Pubkey] = (),
        priority_fee: int | None = None,
    ) -> bytes:
        blockhash = self.svm.latest_blockhash()
        message: Message | MessageV0 | MessageV1
        if version == "1":
            config = TransactionConfig(priority_fee=priority_fee)
            message = MessageV1.try_compile(self.own, instructions, blockhash, config)
        elif version == "0":
            loaded = [
                AddressLookupTableAccount(table, _entries(self._data(str(table))))
                for table in tables
            ]
            message = MessageV0.try_compile(self.own, instructions, loaded, blockhash)
        else:
            message = Message.new_with_blockhash(instructions, self.own, blockhash)
        return bytes(VersionedTransaction(message, [self.wallet, *signers]))

    def simulate(
        self, wire: bytes, *, must_run: bool = True
    ) -> tuple[VersionedTransaction, tuple[object, ...], Simulation]:
        transaction = decode_transaction(wire)
        message = transaction.message
        tables = {table: self._data(table) for table in lookup_tables(message)}
        keys = resolve(message, tables)
        pre = {entry.address: self.state(entry.address) for entry in keys}
        result = self.svm.simulate_transaction(transaction)
        if not isinstance(result, SimulatedTransactionInfo):
            assert not must_run, f"{result.err()} {result.meta().logs()}"
            return transaction, keys, Simulation(pre, pre, ())
        post = dict(pre)
        for address, account in result.post_accounts():
            if str(address) in post:
                post[str(address)] = _state(account)
        inner = [
            {
                "index": index,
                "instructions": [
                    {
                        "programIdIndex": item.instruction().program_id_index,
                        "accounts": list(item.instruction().accounts),
                        "data": b58encode(bytes(item.instruction().data)),
                        "stackHeight": item.stack_height(),
                    }
                    for item in group
                ],
            }
            for index, group in enumerate(result.meta().inner_instructions())
        ]
        return transaction, keys, Simulation(pre, post, inner_from_json(inner, keys))

    def state(self, address: str) -> AccountState | None:
        account = self.svm.get_account(key(address))
        return _state(account) if account else None

    def effects(
        self, wire: bytes, *, must_run: bool = True, managed: Sequence[str] = ()
    ) -> TransactionEffects:
        """What the simulation shows: the early refusal, without the bound."""
        transaction, keys, simulation = self.simulate(wire, must_run=must_run)
        return simulated_effects(transaction.message, keys, simulation, self.address, managed)

    def bounded(
        self, wire: bytes, *, must_run: bool = True, managed: Sequence[str] = ()
    ) -> TransactionEffects:
        """As the engine judges it: the bound of the bytes, and what the simulation shows."""
        transaction, keys, simulation = self.simulate(wire, must_run=must_run)
        return analyse(transaction.message, keys, simulation, self.address, managed)

    def inner_effects(self, instructions: Sequence[Instruction], wire: bytes) -> TransactionEffects:
        """The same effects, caused by a router that calls `instructions` inside."""
        _, _, simulation = self.simulate(wire, must_run=False)
        metas: dict[Pubkey, AccountMeta] = {}
        for instruction in instructions:
            called = AccountMeta(instruction.program_id, False, False)
            for meta in (*instruction.accounts, called):
                known = metas.get(meta.pubkey, meta)
                metas[meta.pubkey] = AccountMeta(
                    meta.pubkey,
                    known.is_signer or meta.is_signer,
                    known.is_writable or meta.is_writable,
                )
        outer = Instruction(key(ROUTER), b"\x01", list(metas.values()))
        message = Message.new_with_blockhash([outer], self.own, self.svm.latest_blockhash())
        inner = [
            Invocation(
                str(item.program_id),
                tuple(str(meta.pubkey) for meta in item.accounts),
                bytes(item.data),
                0,
            )
            for item in instructions
        ]
        transaction = decode_transaction(wire)
        tops = transaction.message.instructions
        below = [Invocation(c.program, c.accounts, c.data, 0) for c in simulation.inner]
        assert len(tops) == len(instructions)
        full = Simulation(simulation.pre, simulation.post, (*inner, *below))
        keys = resolve(message)
        extra = {entry.address for entry in keys} - full.pre.keys()
        padded: Mapping[str, None] = dict.fromkeys(extra)
        full = Simulation({**full.pre, **padded}, {**full.post, **padded}, full.inner)
        return simulated_effects(message, keys, full, self.address)

    def _data(self, address: str) -> bytes:
        state = self.state(address)
        assert state is not None
        return state.data


def verdict(
    intent: Intent,
    effects: TransactionEffects | None,
    policy: Policy = POLICY,
    usage: ScopeUsage | None = None,
) -> Verdict:
    return judge(intent, effects, [("wallet:w", WALLET_LIMITS, usage or ScopeUsage())], policy)


def _entries(data: bytes) -> list[Pubkey]:
    return [Pubkey.from_bytes(data[at : at + 32]) for at in range(56, len(data), 32)]


def _state(account: Account) -> AccountState | None:
    if account.lamports == 0:
        return None
    return AccountState(account.lamports, str(account.owner), bytes(account.data))


__all__ = ["Bank", "verdict"]
