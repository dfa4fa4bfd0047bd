"""Transactions as rows of a table; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from solward.client import NetworkFee, Transaction
from solward.money import format_sol
from solward.solana.token_list import TokenList
from solward_dashboard.wording import short, value_text

_EXPLORER = "https://explorer.solana.com/tx/"
# Public networks; None is the explorer's default.
_CLUSTERS: Mapping[str, str | None] = {
    "mainnet-beta": None,
    "devnet": "devnet",
    "testnet": "testnet",
}
# The first of these in a record's details is its amount.
_AMOUNTS = ("amount", "inputAmount", "supply", "reclaimed")
_TOKENS = ("symbol", "mint", "inputToken")
_SOL_TYPES = frozenset(
    {"transfer", "airdrop", "stake", "unstake", "withdraw_stake", "wrap_sol", "unwrap_sol"}
)


@dataclass(frozen=True, slots=True)
class Filter:
    """Criteria of the records shown; empty ones match everything."""

    wallet_id: str = ""
    type: str = ""
    status: str = ""
    text: str = ""

    def matches(self, record: Transaction, wallet: str) -> bool:
        """Whether a record, of the wallet of this name, matches."""
        if self.wallet_id not in ("", record.wallet_id):
            return False
        if self.type not in ("", record.type) or self.status not in ("", record.status):
            return False
        search = self.text.strip().casefold()
        return not search or search in _searched(record, wallet).casefold()


def row(record: Transaction, wallet: str, tokens: TokenList) -> dict[str, str]:
    """One row of plain text: nothing from a ledger or a model is rendered as markup."""
    return {
        "id": record.id,
        "at": record.timestamp.isoformat(),
        "time": record.timestamp.astimezone().strftime("%b %d %H:%M:%S"),
        "wallet": wallet,
        "type": record.type.replace("_", " "),
        "amount": amount(record, tokens),
        "status": record.status,
        "fee": "" if record.fee is None else f"{format_sol(record.fee.lamports)} SOL",
        "why": record.error or "",
        "signature": short(record.signature or "", 6),
    }


def amount(record: Transaction, tokens: TokenList) -> str:
    """A record's amount, with its unit where the record has one."""
    value = next((record.details[name] for name in _AMOUNTS if name in record.details), None)
    if value is None:
        return ""
    if record.type in _SOL_TYPES:
        return f"{value_text(value)} SOL"
    token = str(next((record.details[name] for name in _TOKENS if name in record.details), ""))
    return f"{value_text(value)} {tokens.symbol_of(token) or short(token)}".strip()


def details(record: Transaction) -> list[tuple[str, str]]:
    """Every detail as (name, text), in the record's order."""
    return [(name, value_text(value)) for name, value in record.details.items()]


def fee_facts(fee: NetworkFee) -> list[tuple[str, str]]:
    """The network's fee and compute units as (name, text)."""
    found = [("Network fee", f"{format_sol(fee.lamports)} SOL")]
    if fee.compute_units is not None:
        limit = "" if fee.compute_unit_limit is None else f" of {fee.compute_unit_limit:,}"
        found.append(("Compute units", f"{fee.compute_units:,}{limit}"))
    if fee.priority_fee_micro_lamports:
        price = f"{fee.priority_fee_micro_lamports:,} micro-lamports a compute unit"
        found.append(("Priority fee", price))
    return found


def explorer(record: Transaction, network: str) -> str | None:
    """The record's address in the public explorer; None on a local network."""
    if record.signature is None or network not in _CLUSTERS:
        return None
    cluster = _CLUSTERS[network]
    return f"{_EXPLORER}{record.signature}" + (f"?cluster={cluster}" if cluster else "")


def changed(
    known: Mapping[str, Transaction], records: Iterable[Transaction]
) -> tuple[list[Transaction], list[Transaction]]:
    """New records, and known ones that have changed."""
    records = list(records)
    new = [each for each in records if each.id not in known]
    updated = [each for each in records if each.id in known and known[each.id].raw != each.raw]
    return new, updated


def _searched(record: Transaction, wallet: str) -> str:
    parts: list[Any] = [record.id, wallet, record.type, record.signature, record.error]
    return " ".join(str(each) for each in [*parts, *record.details.values()] if each is not None)
