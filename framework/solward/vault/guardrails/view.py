"""One transaction as its decoders see it: who owns what, and what was found so far."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from solward.guardrail import AuthorityChange
from solward.solana.accounts import Account, nonce_authority
from solward.solana.stakes import stake_account
from solward.solana.tokens import mint_account, token_account
from solward.vault.guardrails.model import Simulation


@dataclass(slots=True)
class View:
    """The simulation around one wallet, and the growing list of findings.

    Attributes:
        initialised: token accounts initialised by the transaction -> (mint, owner).
        paid: receiver -> lamports the wallet pays it, gross.
        lamports_out: lamports leaving other accounts the wallet controls.
        tokens_out: mint -> units leaving by instruction, gross.
        moved: mints transferred from or to the wallet.
    """

    wallet: str
    simulation: Simulation
    initialised: dict[str, tuple[str, str]] = field(default_factory=dict)
    paid: Counter[str] = field(default_factory=Counter)
    lamports_out: int = 0
    tokens_out: Counter[str] = field(default_factory=Counter)
    moved: set[str] = field(default_factory=set)
    closed: dict[str, str] = field(default_factory=dict)
    changes: dict[AuthorityChange, None] = field(default_factory=dict)
    violations: list[tuple[str, str]] = field(default_factory=list)

    def pre(self, address: str) -> Account | None:
        """The account before; None when it did not exist (0 lamports is nothing)."""
        return _live(self.simulation.pre.get(address))

    def post(self, address: str) -> Account | None:
        """The account after; None when it does not exist any more."""
        return _live(self.simulation.post.get(address))

    def violate(self, rule: str, reason: str) -> None:
        """File something that no declaration can allow."""
        self.violations.append((rule, reason))

    def change(self, kind: str, account: str, to: str | None) -> None:
        """File control passing to `to`, unless that is the wallet itself."""
        if to != self.wallet:
            self.changes[AuthorityChange(kind, account, to)] = None

    def pay(self, receiver: str, lamports: int) -> None:
        """File lamports moving from the wallet; to itself nothing moves."""
        if receiver != self.wallet:
            self.paid[receiver] += lamports

    def close(self, account: str, receiver: str) -> None:
        """File one of the wallet's accounts closing; a stranger as receiver outweighs any other."""
        if self.closed.get(account, self.wallet) == self.wallet:
            self.closed[account] = receiver

    def token(self, address: str) -> tuple[str, str] | None:
        """(mint, owner) of a token account, the wallet's claim first where it changes hands."""
        known = [self.initialised.get(address)]
        for state in (self.pre(address), self.post(address)):
            account = token_account(state)
            known.append((account.mint, account.owner) if account else None)
        found = [entry for entry in known if entry is not None]
        return next((entry for entry in found if entry[1] == self.wallet), next(iter(found), None))

    def owns_token(self, address: str) -> bool:
        """Whether `address` is, was or becomes a token account of the wallet."""
        entry = self.token(address)
        return entry is not None and entry[1] == self.wallet

    def keeps_token(self, address: str) -> bool:
        """Whether what arrives in the token account `address` stays the wallet's."""
        after = token_account(self.post(address))
        return after.owner == self.wallet if after else self.owns_token(address)

    def controls(self, state: Account | None, address: str) -> bool:
        """Whether `state` of `address` is the wallet's: its key, tokens, stake or nonce."""
        if state is None:
            return False
        token = token_account(state)
        stake = stake_account(state)
        return (
            address == self.wallet
            or (token is not None and token.owner == self.wallet)
            or (stake is not None and self.wallet in (stake.staker, stake.withdrawer))
            or nonce_authority(state) == self.wallet
        )

    def controls_mint(self, address: str) -> bool:
        """Whether the wallet may mint or freeze `address`, before or after."""
        for state in (self.pre(address), self.post(address)):
            mint = mint_account(address, state)
            if mint and self.wallet in (mint.mint_authority, mint.freeze_authority):
                return True
        return False


def _live(state: Account | None) -> Account | None:
    return state if state is not None and state.lamports > 0 else None
