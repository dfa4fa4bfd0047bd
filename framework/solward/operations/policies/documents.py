"""The policy as people write it, in documents and sentences with this service's names.

A policy says what each principal may do. The vault stores and enforces it
(`operations.policies.changes`). A grant's sentence is accepted everywhere in place of its document.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.database import Database
from solward.database.names import address_book_rows, names_of_kind, own_wallets
from solward.operations.policies import changes as store
from solward.operations.policies.grant_documents import (
    GrantPolicy,
    grant_json,
    grant_sentence,
    named_mints,
    policy_json,
    read_grants,
    read_policy,
    read_principal,
)
from solward.operations.policies.grant_sentences import read_only_sentence, read_sentence
from solward.plugins import Registry
from solward.plugins.folders.layout import canonical
from solward.solana.token_list import TokenList, known_decimals
from solward.solana.tokens import read_mint
from solward.types.address_book import AddressBook
from solward.types.errors import InvalidRequest, NotFound
from solward.types.ledger import ReadLedger
from solward.vault.grants.model import Grant
from solward.vault.grants.spelling import Names

KeyNames = Callable[[], Awaitable[Mapping[str, str]]]
"""Returns id -> name of all API keys, including those that are not in the database."""


class ServiceNames(Names):
    """All names of the service; a plugin's distribution is found under any spelling."""

    __slots__ = ()

    def ids(self, kind: str, text: str) -> Sequence[str]:
        """See `Names.ids`."""
        return Names.ids(self, kind, canonical(text) if kind == "plugin" else text)


@dataclass(frozen=True, slots=True)
class DraftedGrants:
    """A principal's grants that are not stored yet.

    Attributes:
        sentences: one sentence for each grant, or one that says that the principal may only read.
        names: the names that were used to read the grants.
    """

    grants: tuple[Grant, ...]
    sentences: list[str]
    names: ServiceNames


class Policies:
    """Reads, checks and replaces the policy, as JSON documents with sentences."""

    def __init__(
        self,
        database: Database,
        tokens: TokenList,
        ledger: ReadLedger,
        registry: Callable[[], Registry],
        key_names: KeyNames,
    ) -> None:
        # `registry` returns the plugins that are loaded now.
        self._database = database
        self._tokens = tokens
        self._ledger = ledger
        self._registry = registry
        self._key_names = key_names

    async def show(self) -> dict[str, Any]:
        """Return the policy in force: its document as `policy`, and `sentences`, one for each grant
        and then one for each principal that may only read, in the document's order."""
        stored, names = await self._read_stored()
        return _policy_answer(stored, names)

    async def read(self, document: object) -> GrantPolicy:
        """Return a policy from its document.

        Raises:
            InvalidRequest: a value is wrong; names its path and what is expected there.
            LedgerError: the decimals of a mint could not be read from the ledger.
        """
        policy, _names = await self._read_policy(document)
        return policy

    async def check(self, document: object) -> dict[str, Any]:
        """Return a document's policy as `show` does, changing nothing. Errors: see `read`."""
        return _policy_answer(*await self._read_policy(document))

    async def understand(self, text: str) -> dict[str, Any]:
        """Return all meanings of a grant as a person wrote it; nothing changes.

        Returns:
            `readings`, each with the `grants` and their `sentences`; and `recipients`, the names of
            the addresses in them.

        Raises:
            InvalidRequest: the text has no meaning, or too many; or see `read`.
            LedgerError: see `read`.
        """
        # Imported here, because compiling its patterns takes 45 ms, which no start should wait for.
        from solward.operations.policies.grant_phrases import Vocabulary, readings

        async with self._database.read() as connection:
            own = await own_wallets(connection)
            book = AddressBook.from_lists(own, await address_book_rows(connection))
        _, names = await self._read_stored()
        meanings: list[dict[str, Any]] = []
        wrong: list[InvalidRequest] = []
        for documents in readings(text, Vocabulary(names, book)):
            spelled, known = await self._read_documents(documents)
            try:
                grants = read_grants(spelled, "grants", known)
            except InvalidRequest as error:
                wrong.append(error)
                continue
            said = [grant_sentence(each, known) for each in grants]
            meanings.append(
                {"grants": [grant_json(each, known) for each in grants], "sentences": said}
            )
        if not meanings:
            raise wrong[0]
        found = {to for each in meanings for grant in each["grants"] for to in grant.get("to", ())}
        called = {to: book.called[to] for to in sorted(found) if to in book.called}
        return {"readings": meanings, "recipients": called}

    async def replace(self, document: object) -> dict[str, Any]:
        """Replace all grants with those of a document; return the policy as `show` does.

        Raises:
            PolicyChanged: the document has another version than the policy in force.
            InvalidRequest: it lacks `grants`, or it lacks `readOnly` and a principal that may only
                read would then be free of grants; or see `read`.
            LedgerError: see `read`.
        """
        policy = await self.read(document)
        if isinstance(document, dict) and document.get("grants") is None:
            # An empty body, or a body with only the book, would otherwise remove every grant.
            raise InvalidRequest(
                "grants is required and must be an array; [] puts nobody under grants"
            )
        if isinstance(document, dict) and document.get("readOnly") is None:
            stored, _names = await self._read_stored()
            freed = sorted(who for who, grants in stored.sets.items() if not grants)
            freed = [who for who in freed if who not in policy.sets]
            if freed:
                # Without this check, a principal that may only read could then pay.
                raise InvalidRequest(
                    "readOnly is required and must be an array: the policy in force has"
                    f" {', '.join(freed[:3])} in it"
                )
        await store.replace_policy(
            self._database, policy.sets, policy.book, if_version=policy.version
        )
        return await self.show()

    async def show_one(self, principal: str) -> dict[str, Any]:
        """Return one principal: its kind and id as `principal`, `grants` (None if it is not under
        grants), `sentences`, and the `version` of the policy.

        Args:
            principal: in any form of a grant's `who`.

        Raises:
            NotFound: no such principal.
        """
        # A deleted principal is known only by its grants.
        stored, names = await self._read_stored((principal,))
        who = _read_principal(principal, names)
        if who != principal:
            stored, names = await self._read_stored((who,))
        return _principal_json(who, stored.version, stored.sets.get(who), names)

    async def put(
        self, principal: str, value: object, *, version: int | None = None
    ) -> dict[str, Any]:
        """Replace one principal's grants with a JSON array; None removes it from grants.

        Args:
            version: the version that the policy must have; None for any.

        Returns:
            The principal, as `show_one` does.

        Raises:
            NotFound: no such principal.
            InvalidRequest, LedgerError, PolicyChanged: see `replace`; nothing changed.
        """
        _, names = await self._read_stored((principal,))
        who = _read_principal(principal, names)
        value, names = await self._read_documents(value, (who,), who)
        grants = None if value is None else read_grants(value, "grants", names, who)
        now = await store.replace_set(self._database, who, grants, if_version=version)
        return _principal_json(who, now, grants, names)

    async def grants_of(self, who: str, name: str, value: object) -> tuple[Grant, ...]:
        """Read a JSON array of grants of one principal, which need not exist yet.

        Args:
            who: the principal's kind and id.
            name: the principal's name, for people.

        Raises:
            InvalidRequest, LedgerError: see `read`.
        """
        return (await self.draft(who, name, value)).grants

    async def draft(self, who: str, name: str, value: object) -> DraftedGrants:
        """Return the same as `grants_of`, with the grants' sentences and names."""
        value, names = await self._read_documents(value, (), who, name)
        grants = read_grants(value, "grants", names, who)
        return DraftedGrants(grants, _grant_sentences(who, grants, names), names)

    async def store_first_grants(self, who: str, name: str, value: object) -> None:
        """Store a key's first grants before the key itself, so that the key never exists without
        them. Arguments and errors are those of `grants_of`."""
        await store.replace_set(self._database, who, await self.grants_of(who, name, value))

    async def forget(self, who: str) -> None:
        """Drop the grants of a deleted principal."""
        async with self._database.write() as connection:
            await store.lock_policy(connection)
            await store.drop_set(self._database, connection, who)

    async def grants_by_principal(self, who: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return principal -> its `grants` and their `sentences`, for principals under grants."""
        stored, names = await self._read_stored(who)
        return {
            each: {
                "grants": [grant_json(grant, names) for grant in stored.sets[each]],
                "sentences": _grant_sentences(each, stored.sets[each], names),
            }
            for each in who
            if each in stored.sets
        }

    async def _read_policy(self, document: object) -> tuple[GrantPolicy, ServiceNames]:
        grants: object = None
        if isinstance(document, dict):
            grants = document.get("grants", [])
        grants, names = await self._read_documents(grants)
        if isinstance(document, dict):
            document = {**document, "grants": grants}
        return read_policy(document, names), names

    async def _read_stored(
        self, principals: Collection[str] | None = None
    ) -> tuple[GrantPolicy, ServiceNames]:
        """Return the policy for these principals, or for all, with all names of the service."""
        async with self._database.read() as connection:
            stored = await store.read_policy(connection, principals)
            rows = await self._names_by_kind(connection, stored)
        return stored, ServiceNames(self._tokens, rows, {}, frozenset(stored.book))

    async def _read_documents(
        self,
        grants: object,
        principals: Collection[str] | None = None,
        who: str = "",
        name: str = "",
    ) -> tuple[object, ServiceNames]:
        """Return grants as documents, converted from sentences if needed, and the service's names
        with the decimals of all mints that the grants name.

        Args:
            principals: principals whose stored grants already have decimals; None for all.
            who: the grants' principal, which a sentence may then omit; empty if each names it.
            name: the name of `who`, if it is not stored yet.

        Raises:
            InvalidRequest: a sentence is not understood.
            LedgerError: the ledger did not answer.
        """
        stored, names = await self._read_stored(principals)
        mints = {
            limit.asset: limit.decimals
            for each in stored.sets.values()
            for grant in each
            for limit in grant.assets.values()
        }
        kind, _, own_id = who.partition(":")
        rows = {**names.rows, kind: {**names.rows[kind], own_id: name}} if name else names.rows
        names = replace(names, mints=mints, rows=rows)
        if isinstance(grants, list):
            grants = [
                _grant_document(each, f"grants[{at}]", names, f"{kind.capitalize()} {own_id}")
                for at, each in enumerate(grants)
            ]
        for mint in named_mints([] if grants is None else grants):
            if known_decimals(mint) is None and mint not in mints:
                # An address that is no mint is refused when the document is read.
                with contextlib.suppress(InvalidRequest):
                    mints[mint] = (await read_mint(self._ledger, mint)).decimals
        return grants, names

    async def _names_by_kind(
        self, connection: AsyncConnection, stored: GrantPolicy
    ) -> dict[str, dict[str, str]]:
        """Return kind -> id -> name for everything that a grant can name."""
        registry = self._registry()
        plugins = {canonical(each.distribution) for each in registry.skills.values()}
        rows = {
            "wallet": await names_of_kind(connection, "wallet"),
            "agent": await names_of_kind(connection, "agent"),
            "schedule": await names_of_kind(connection, "schedule"),
            "key": dict(await self._key_names()) | await names_of_kind(connection, "key"),
            "skill": {name: name for name in registry.skills},
            "plugin": {name: name for name in plugins},
        }
        for who in stored.sets:
            # A deleted principal keeps its grants, so that the policy shown can be put again.
            kind, _, own_id = who.partition(":")
            rows.setdefault(kind, {}).setdefault(own_id, own_id)
        return rows


def _read_principal(text: str, names: ServiceNames) -> str:
    try:
        return read_principal(text, "principal", names)
    except InvalidRequest as unknown:
        raise NotFound(str(unknown)) from None


def _grant_document(grant: object, path: str, names: ServiceNames, subject: str) -> object:
    if not isinstance(grant, str):
        return grant
    text = f"{subject} {grant.rstrip('. ')}." if grant.startswith("may ") else grant
    try:
        return read_sentence(text)
    except InvalidRequest as unclear:
        raise InvalidRequest(f"{path}: {unclear}") from None


def _grant_sentences(who: str, grants: Sequence[Grant], names: ServiceNames) -> list[str]:
    if not grants:
        return [read_only_sentence(who, names)]
    return [grant_sentence(grant, names) for grant in grants]


def _principal_json(
    who: str, version: int | None, grants: Sequence[Grant] | None, names: ServiceNames
) -> dict[str, Any]:
    return {
        "principal": who,
        "version": version,
        "grants": None if grants is None else [grant_json(each, names) for each in grants],
        "sentences": [] if grants is None else _grant_sentences(who, grants, names),
    }


def _policy_answer(policy: GrantPolicy, names: ServiceNames) -> dict[str, Any]:
    # Principals that may only read are last, as in the document.
    sets = sorted(policy.sets.items(), key=lambda each: not each[1])
    sentences = [said for who, grants in sets for said in _grant_sentences(who, grants, names)]
    return {"policy": policy_json(policy, names), "sentences": sentences}
