"""A published list of tokens, which is checked before its symbols are used.

Formats: an array of objects with `id`, `symbol`, `decimals`, `tokenProgram` and `isVerified`, as
Jupiter's token API answers (dev.jup.ag/docs/tokens, version 2), or an object whose `tokens` have
`address`, `symbol`, `decimals`, `chainId` and `tags`, as Solana token lists have. Only tokens that
are marked as verified count; nothing else of them is believed that the chain can say itself.

The operator's list of tokens by symbol, one a network, as stored.

Whoever could change which mint a symbol names would choose what is bought and sent. So the list
carries an HMAC-SHA-256 under a key that is made from the keystore's audit key, which the database
holds sealed only: writing the database is not enough.
"""

from __future__ import annotations

import asyncio
import hmac
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from solders.pubkey import Pubkey
from sqlalchemy import delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.audit.acts import record_act
from solward.database.database import Database
from solward.database.tables import token_lists
from solward.solana.token_list import (
    KnownToken,
    TokenList,
    know_decimals,
    token_list,
)
from solward.solana.tokens import NON_TRANSFERABLE, Mint, mint_account
from solward.support import jsontext
from solward.support.skeletons import skeleton
from solward.types.errors import InvalidRequest, StoreError
from solward.types.events import EventKind
from solward.types.ledger import ReadLedger

# The list is bounded because every request to a plugin host carries it.
MOST_TOKENS: Final = 500
# People do not write longer symbols.
_SYMBOL = re.compile(r"[A-Za-z0-9]{1,16}")
# Networks by the `chainId` of token lists.
_CHAINS: Final = {"mainnet-beta": 101, "testnet": 102, "devnet": 103}
# The tags of verified tokens, in the API's answer and in token lists.
_API_VERIFIED: Final = frozenset({"verified"})
_VERIFIED: Final = frozenset({"verified", "strict"})
_MOST_DECIMALS: Final = 255

_DOMAIN = "solward-token-list/1"


@dataclass(frozen=True, slots=True)
class OfferedToken:
    """A token in a published list.

    Attributes:
        program: the token program that owns the mint; None if the list does not say.
    """

    symbol: str
    mint: str
    decimals: int
    program: str | None
    is_verified: bool


@dataclass(frozen=True, slots=True)
class RefusedToken:
    """A verified token that was not accepted, and the reason in words."""

    symbol: str
    mint: str
    reason: str


@dataclass(frozen=True, slots=True)
class CheckedList:
    """A published list after its check against the chain.

    Attributes:
        tokens: the accepted tokens, in the list's order.
        mints: their mints as the chain has them, in the same order.
        refused: the verified tokens that were refused.
        unverified: the number of tokens that were not checked.
        built_in: the number of tokens that the built-in list has already.
    """

    tokens: tuple[KnownToken, ...]
    mints: tuple[Mint, ...]
    refused: tuple[RefusedToken, ...]
    unverified: int
    built_in: int


def parse_published(data: bytes, network: str) -> tuple[list[OfferedToken], list[str]]:
    """Return the tokens of a published list, and an error text for each unreadable entry.

    Third parties wrote the list, so one bad entry does not invalidate the others.

    Raises:
        InvalidRequest: it is in neither format, or no entry can be read; names the first.
    """
    try:
        found = jsontext.read(data)
    except ValueError as error:
        raise InvalidRequest(f"The token list is not JSON: {error}") from None
    tokens = found.get("tokens") if isinstance(found, dict) else found
    if not isinstance(tokens, list):
        raise InvalidRequest(
            "The token list must be an array of tokens (Jupiter's token API) or an object with"
            " `tokens` (a Solana token list)"
        )
    of_api = found is tokens
    chain = None if of_api else _CHAINS.get(network)
    offered: list[OfferedToken] = []
    unread: list[str] = []
    for number, each in enumerate(tokens):
        if chain is None or not isinstance(each, dict) or each.get("chainId") == chain:
            try:
                offered.append(_parse_token(each, number, of_api=of_api))
            except InvalidRequest as error:
                unread.append(str(error))
    if unread and not offered:
        raise InvalidRequest(unread[0])
    return offered, unread


async def check_published(
    offered: Sequence[OfferedToken],
    network: str,
    stored: Collection[KnownToken],
    nodes: Sequence[ReadLedger],
    only: Collection[str] = (),
) -> CheckedList:
    """Check a published list against the chain.

    Args:
        stored: the operator's current list, whose symbols keep their mints.
        nodes: the nodes, each of which must return every mint.
        only: the symbols to accept; empty for all.

    Raises:
        InvalidRequest: no verified token has a symbol of `only`; too many are left.
        LedgerError: a node did not answer.
    """
    verified = [each for each in offered if each.is_verified]
    unverified = len(offered) - len(verified)
    wanted = {each.upper() for each in only}
    if wanted:
        verified = [each for each in verified if each.symbol.upper() in wanted]
        missing = wanted - {each.symbol.upper() for each in verified}
        if missing:
            raise InvalidRequest(f"The list has no verified token {', '.join(sorted(missing))}")
    known = token_list(network)
    mine = [each for each in verified if known.symbol_of(each.mint) is not None]
    others = list({each.mint: each for each in verified if each not in mine}.values())
    refused = list(_refused_symbols(others, known, stored))
    gone = {each.mint for each in refused}
    others = [each for each in others if each.mint not in gone]
    if len(others) > MOST_TOKENS:
        raise InvalidRequest(
            f"The list has {len(others)} verified tokens, but at most {MOST_TOKENS} can be stored;"
            " select symbols with --only"
        )
    addresses = [each.mint for each in others]
    states = await asyncio.gather(*(node.accounts(addresses) for node in nodes))
    kept: list[tuple[KnownToken, Mint]] = []
    for each in others:
        mints = [mint_account(each.mint, found[each.mint], strict=True) for found in states]
        mint = mints[0] if mints else None
        reason = _mint_difference(each, mints)
        if reason is not None or mint is None:
            refused.append(RefusedToken(each.symbol, each.mint, reason or "no node was asked"))
        else:
            kept.append((KnownToken(each.symbol, each.mint, each.decimals), mint))
    return CheckedList(
        tuple(token for token, _ in kept),
        tuple(mint for _, mint in kept),
        tuple(refused),
        unverified,
        len(mine),
    )


def _refused_symbols(
    offered: Sequence[OfferedToken], known: TokenList, stored: Collection[KnownToken]
) -> Iterator[RefusedToken]:
    """Yield the tokens whose symbol is invalid or looks like another mint's symbol."""
    before = TokenList(stored)
    looks = Counter(skeleton(each.symbol) for each in offered)
    for each in offered:
        reason = None
        built_in, earlier = known.alike(each.symbol), before.alike(each.symbol)
        if built_in is not None:
            reason = f"its symbol looks like {built_in.symbol} of the mint {built_in.mint}"
        elif not _SYMBOL.fullmatch(each.symbol):
            reason = "its symbol is not 1 to 16 ASCII letters and digits"
        elif earlier is not None and earlier.mint != each.mint:
            reason = (
                f"its symbol looks like {earlier.symbol} of the mint {earlier.mint} in the stored"
                " list; `solward tokens clear` deletes that list"
            )
        elif looks[skeleton(each.symbol)] > 1:
            reason = "another verified token of the list has a symbol that looks the same"
        if reason is not None:
            yield RefusedToken(each.symbol, each.mint, reason)


def _mint_difference(offered: OfferedToken, mints: Sequence[Mint | None]) -> str | None:
    """Return how a listed token differs from its mint on the chain; None if it does not."""
    mint = mints[0] if mints else None
    if mint is None or None in mints:
        return "its address is not a mint on this network"
    facts = {(each.decimals, each.program, each.extensions) for each in mints if each is not None}
    if len(facts) > 1:
        return "the nodes do not agree on its mint"
    if mint.decimals != offered.decimals:
        return f"it has {offered.decimals} decimals in the list, but {mint.decimals} on the chain"
    if offered.program is not None and offered.program != mint.program:
        return f"its program is {offered.program} in the list, but {mint.program} on the chain"
    if NON_TRANSFERABLE in mint.extensions:
        return "its tokens cannot be transferred"
    if mint.runs_hook:
        return "its transfers call a program (a transfer hook), so it cannot be sent"
    return None


def _parse_token(found: Any, number: int, *, of_api: bool) -> OfferedToken:
    tags = _read_field(found, "tags", number, list, optional=True) or []
    program = verified = None
    if of_api:
        program = _read_field(found, "tokenProgram", number, str, optional=True)
        verified = _read_field(found, "isVerified", number, bool, optional=True)
    if verified is None:
        marks = _API_VERIFIED if of_api else _VERIFIED
        verified = any(isinstance(tag, str) and tag in marks for tag in tags)
    return OfferedToken(
        _read_field(found, "symbol", number, str),
        _parse_mint(_read_field(found, "id" if of_api else "address", number, str), number),
        _read_decimals(found, number),
        program,
        verified,
    )


def _read_field(found: Any, name: str, number: int, kind: type, *, optional: bool = False) -> Any:
    value = found.get(name) if isinstance(found, dict) else None
    if value is None and optional and isinstance(found, dict):
        return None
    if type(value) is not kind:
        raise InvalidRequest(f"Entry {number} of the token list: {name} must be a {kind.__name__}")
    return value


def _read_decimals(found: Any, number: int) -> int:
    decimals = _read_field(found, "decimals", number, int)
    if not 0 <= decimals <= _MOST_DECIMALS:
        raise InvalidRequest(f"Entry {number} of the token list: decimals must be 0 to 255")
    return int(decimals)


def _parse_mint(text: str, number: int) -> str:
    try:
        return str(Pubkey.from_string(text))
    except ValueError:
        raise InvalidRequest(
            f"Entry {number} of the token list: its mint must be a base58 address"
        ) from None


@dataclass(frozen=True, slots=True)
class StoredList:
    """The token list that `solward tokens refresh` stored for a network.

    Attributes:
        stored_ms: the time of storing, in Unix milliseconds.
    """

    tokens: tuple[KnownToken, ...]
    stored_ms: int


async def read_list(
    connection: AsyncConnection, network: str, audit_key: bytes | None
) -> StoredList | None:
    """Return the list of a network; None if none is stored.

    Raises:
        StoreError: the list was changed after it was stored.
    """
    statement = select(token_lists).where(token_lists.c.network == network)
    row = (await connection.execute(statement)).mappings().first()
    if row is None:
        return None
    expected = _list_mac(audit_key, network, row["tokens"], row["stored_ms"])
    if not hmac.compare_digest(str(row["mac"]), expected):
        raise StoreError(
            f"The token list of {network} was changed after `solward tokens refresh` stored it, so"
            " its symbols are not used. Find out who can write the database, then run `solward"
            " tokens clear` and refresh the list"
        )
    tokens = tuple(KnownToken(*fields) for fields in row["tokens"])
    return StoredList(tokens, int(row["stored_ms"]))


async def write_list(
    connection: AsyncConnection,
    network: str,
    tokens: Iterable[KnownToken],
    audit_key: bytes | None,
    now_ms: int,
) -> None:
    """Replace the list of a network, or delete it if `tokens` is empty."""
    statement = select(token_lists.c.tokens).where(token_lists.c.network == network)
    before = (await connection.execute(statement)).scalar()
    await connection.execute(delete(token_lists).where(token_lists.c.network == network))
    fields = [[each.symbol, each.mint, each.decimals] for each in tokens]
    if fields:
        mac = _list_mac(audit_key, network, fields, now_ms)
        await connection.execute(
            insert(token_lists).values(network=network, tokens=fields, stored_ms=now_ms, mac=mac)
        )
    after = _symbol_map(fields)
    record_act(
        connection, EventKind.TOKENS_CHANGED, {"network": network}, _symbol_map(before or []), after
    )


def _symbol_map(stored: Any) -> Mapping[str, Any]:
    """Return the tokens by symbol, so that the audit log shows only those that changed."""
    try:
        return {str(symbol): mint for symbol, mint, _ in stored}
    except (TypeError, ValueError):
        # Whoever changed the row may have written anything.
        return {}


def _list_mac(audit_key: bytes | None, network: str, tokens: Any, stored_ms: int) -> str:
    if audit_key is None:
        raise StoreError("The keystore is not open, so the token list cannot be authenticated")
    fields = jsontext.dumps([_DOMAIN, network, tokens, stored_ms], canonical=True)
    return hmac.digest(audit_key, fields.encode(), "sha256").hex()


async def listed_tokens(database: Database, network: str) -> TokenList:
    """Return a network's built-in and operator's tokens, and register the latter's decimals. The
    keystore must be open.

    Raises:
        StoreError: somebody changed the operator's list.
    """
    async with database.read() as connection:
        stored = await read_list(connection, network, database.audit_key)
    if stored is None:
        return token_list(network)
    know_decimals(stored.tokens)
    return token_list(network, stored.tokens)
