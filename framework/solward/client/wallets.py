"""`client.wallets` and `client.transactions`."""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, Protocol, TypeVar

from solward.client.arguments import request_fields, segment
from solward.client.errors import AmbiguousName, NotFoundError
from solward.client.http import Http
from solward.client.operations import Operations
from solward.client.requests import TransactionRequests, WalletRequests
from solward.resources.payments import PaidAnswer, PaidRequest, PaymentQuote
from solward.resources.transactions import (
    LIST_TRANSACTIONS,
    LIST_WALLET_TRANSACTIONS,
    Transaction,
    TransactionFilter,
    TransactionPage,
    Trial,
)
from solward.resources.wallets import LIST_WALLETS, Wallet
from solward.types.roles import is_key


class _NamedItem(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=_NamedItem)

SKILL_ROUTES = {
    "airdrop": "airdrop",
    "burn_tokens": "burn",
    "close_token_account": "close-account",
    "launch_token": "launch-token",
    "mint_supply": "mint-supply",
    "revoke_mint_authority": "revoke-authority",
    "stake_sol": "stake",
    "swap": "swap",
    "transfer": "transfer",
    "transfer_token": "token-transfer",
    "unstake_sol": "unstake",
    "unwrap_sol": "unwrap-sol",
    "withdraw_stake": "withdraw-stake",
    "wrap_sol": "wrap-sol",
}
"""Built-in skill -> the money route whose dry run checks the same operation."""


async def until_done(
    call: Callable[..., Awaitable[Transaction]],
    wallet_id: str,
    *,
    idempotency_key: str | None = None,
    **fields: Any,
) -> list[Transaction]:
    """Repeat an operation that works in parts, such as `reclaim_rent`, until nothing is left to do.

    It also ends if a record is not confirmed or `left` does not decrease. Only the first call has
    the key, so that a repeated first call takes nothing twice."""
    made = [await call(wallet_id, idempotency_key=idempotency_key, **fields)]
    before = None
    while made[-1].status == "confirmed" and (left := made[-1].details.get("left")):
        if before is not None and left >= before:
            break
        before = left
        made.append(await call(wallet_id, **fields))
    return made


# A shorter text is likely to be a typo, not the beginning of an id.
MIN_ID_PREFIX = 4
# A text in the form of an address is never looked up as a name.
ADDRESS = re.compile(r"[1-9A-HJ-NP-Za-km-z]{32,44}")


class Wallets(WalletRequests, Operations[Transaction]):
    """Wallets, and the transactions they make.

    Attributes:
        dry_run: the same money calls, checked and simulated only; each returns a `Trial`.
    """

    def __init__(self, http: Http) -> None:
        super().__init__(http)
        Operations.__init__(self, self._make_transaction)
        self.dry_run: Operations[Trial] = Operations(self._make_trial)

    async def list(self, limit: int | None = None, before: str | None = None) -> tuple[Wallet, ...]:
        """Return every wallet that this token may see, oldest first.

        With `limit` or `before`, return a page of wallets, newest first. `before` is a wallet's id;
        only older wallets are returned.
        """
        asked = self._ask(LIST_WALLETS, limit=limit, before=before, created_by=True)
        found: tuple[Wallet, ...] = await asked
        return found

    async def find(self, name_or_id: str) -> Wallet:
        """Return the wallet with this id or address, or the only one with this name or beginning of
        its id; of several, the only one that no API key made.

        Raises:
            NotFoundError: there is no such wallet.
            AmbiguousName: several wallets match.
        """
        return find_one(
            "wallet",
            name_or_id,
            await self.list(),
            lambda each: each.address,
            lambda each: each.created_by,
        )

    async def transactions(
        self,
        wallet_id: str,
        limit: int = 50,
        before: str | None = None,
        only: TransactionFilter | None = None,
    ) -> tuple[Transaction, ...]:
        """Return a wallet's records, newest first; see `Transactions.list`."""
        asked = partial(self._ask, LIST_WALLET_TRANSACTIONS, wallet_id)
        return await _list_records(asked, limit, before, only)

    async def run_skill(
        self,
        wallet_id: str,
        name: str,
        params: Mapping[str, Any] | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> str:
        """Run a skill on the wallet and return its text; retries never pay twice.

        Raises:
            BadRequest: the parameters are invalid, or the skill refused.
            Refused: a guardrail blocked the skill's transaction, or the transaction failed.
        """
        path = f"{_path_of(wallet_id, 'skills')}/{segment(name, 'name')}"
        return await self._http.pay(_result_text, path, params or {}, idempotency_key)

    async def pay(
        self,
        wallet_id: str,
        *,
        url: str,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: str | None = None,
        max: str | None = None,  # noqa: A002 - the field's own name
        protocol: str | None = None,
        idempotency_key: str | None = None,
    ) -> PaidAnswer:
        """Make an HTTP request, and pay at most `max` (`0.05 USDC`) if its site asks for it, by
        `protocol` if given. Retries never pay twice.

        Raises:
            BadRequest: a field is wrong, or none of the site's offers may be paid.
            Refused: a guardrail blocked the payment, or the payment failed.
            Held: a person must approve it; after that, the same call with the error's
                `idempotency_key` returns the result.
            Unreachable: the payment's result is not known; the error has the key.
        """
        asked = {"url": url, "method": method, "headers": headers, "body": body, "max": max}
        # The query, not the body, asks for a dry run.
        fields = request_fields(PaidRequest, **asked, protocol=protocol, dry_run=None)
        path = _path_of(wallet_id, "pay")
        return await self._http.pay(PaidAnswer.of, path, fields, idempotency_key)

    async def quote_payment(
        self,
        wallet_id: str,
        *,
        url: str,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: str | None = None,
        max: str | None = None,  # noqa: A002 - the field's own name
        protocol: str | None = None,
    ) -> PaymentQuote:
        """Return what `pay` would pay now; the service sends the request without a payment."""
        asked = {"url": url, "method": method, "headers": headers, "body": body, "max": max}
        fields = request_fields(PaidRequest, **asked, protocol=protocol, dry_run=None)
        path = _path_of(wallet_id, "pay")
        return await self._http.pay(PaymentQuote.of, path, fields, None, dry_run=True)

    async def try_route(self, wallet_id: str, route: str, body: Mapping[str, Any]) -> Trial:
        """Make a dry run of the money route with this name, such as `launch-token`."""
        return await self._make_trial(wallet_id, segment(route, "route"), body, None)

    async def _make_transaction(
        self, wallet_id: str, route: str, body: Mapping[str, Any], key: str | None
    ) -> Transaction:
        return await self._http.pay(Transaction.of, _path_of(wallet_id, route), body, key)

    async def _make_trial(
        self, wallet_id: str, route: str, body: Mapping[str, Any], key: str | None
    ) -> Trial:
        return await self._http.pay(Trial.of, _path_of(wallet_id, route), body, key, dry_run=True)


def _result_text(raw: Any) -> str:
    if not isinstance(raw["result"], str):
        raise TypeError("result must be text")
    return raw["result"]


class Transactions(TransactionRequests):
    """The records of all wallets."""

    async def list(
        self,
        limit: int = 50,
        before: str | None = None,
        only: TransactionFilter | None = None,
    ) -> tuple[Transaction, ...]:
        """List records, newest first; with `before`, the id of a record, only older ones.

        Args:
            only: the filter. The service searches a bounded number of records for each page, so
                this requests pages until it has `limit` records.
        """
        return await _list_records(partial(self._ask, LIST_TRANSACTIONS), limit, before, only)

    async def page(
        self, only: TransactionFilter, limit: int = 50, before: str | None = None
    ) -> TransactionPage:
        """Return a page of the records that match, and the id at which the next page begins."""
        return await _get_page(partial(self._ask, LIST_TRANSACTIONS), limit, before, only)

    async def export(self, only: TransactionFilter | None = None) -> AsyncGenerator[bytes, None]:
        """Yield all records that match as pieces of CSV (docs/reference/rest.md), newest first."""
        query = request_fields(TransactionFilter, **asdict(only or TransactionFilter()))
        async with contextlib.aclosing(self._http.download("/transactions.csv", query)) as pieces:
            async for piece in pieces:
                yield piece


async def _list_records(
    asked: Callable[..., Awaitable[TransactionPage]],
    limit: int,
    before: str | None,
    only: TransactionFilter | None,
) -> tuple[Transaction, ...]:
    found: tuple[Transaction, ...] = ()
    while True:
        page = await _get_page(asked, limit - len(found), before, only)
        found += page.transactions
        if page.next is None or len(found) >= limit:
            return found
        before = page.next


async def _get_page(
    asked: Callable[..., Awaitable[TransactionPage]],
    limit: int,
    before: str | None,
    only: TransactionFilter | None,
) -> TransactionPage:
    fields = asdict(only or TransactionFilter())
    return await asked(limit=limit, before=before, fees=True, **fields)


def find_one(
    kind: str,
    name_or_id: str,
    items: Sequence[N],
    also: Callable[[N], str] | None = None,
    maker: Callable[[N], str | None] = lambda _: None,
) -> N:
    """Return the item with this id or unique text (`also`), or the only item with this name.

    The maker of an item chooses its name, so the id, address or id's beginning of another item goes
    before a name. If several items match, those that API keys made (`maker`) are ignored, so that
    no key can block the operator by choosing a name.

    Raises:
        NotFoundError, AmbiguousName.
    """
    for each in items:
        if each.id == name_or_id or (also is not None and also(each) == name_or_id):
            return each
    if also is not None and ADDRESS.fullmatch(name_or_id):
        raise NotFoundError(404, f"No {kind} has the address {name_or_id!r}")
    begins = len(name_or_id) >= MIN_ID_PREFIX
    matches = [
        each
        for each in items
        if each.name == name_or_id or (begins and each.id.startswith(name_or_id))
    ]
    if len(matches) > 1:
        matches = [each for each in matches if not is_key(maker(each))] or matches
    if not matches:
        names = {each.name.casefold(): each.name for each in items}
        near = difflib.get_close_matches(name_or_id.casefold(), sorted(names), 1)
        meant = f"; did you mean {names[near[0]]!r}?" if near else ""
        if not near and any(name_or_id and each.id.startswith(name_or_id) for each in items):
            meant = f"; an id may be shortened to {MIN_ID_PREFIX} characters"
        raise NotFoundError(404, f"No {kind} is named {name_or_id!r}, and none has this id{meant}")
    if len(matches) > 1:
        ids = ", ".join(f"{each.id} ({each.name!r})" for each in matches)
        raise AmbiguousName(f"{len(matches)} {kind}s match {name_or_id!r}; use an id: {ids}")
    return matches[0]


def _path_of(wallet_id: str, *rest: str) -> str:
    return "/".join(("/wallets", segment(wallet_id, "wallet_id"), *rest))
