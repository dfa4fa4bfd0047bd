"""`client.policy` and `client.holds`, and what they answer, typed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from solward.client.arguments import json_fields, segment
from solward.client.http import Http
from solward.resources.answers import Answer, Raw, named, sol

Grants = Sequence[Mapping[str, Any] | str]
"""Grants as JSON, or the sentences that say them."""


class Policies:
    """The policy: who may do what; needs the admin secret."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def get(self) -> Policy:
        """The policy in force."""
        return self._http.read(Policy.of, await self._http.get("/policy"))

    async def check(self, document: Mapping[str, Any]) -> Policy:
        """What a policy would say; nothing changes.

        Raises:
            BadRequest: naming the path of what is wrong.
        """
        answer = await self._http.send("POST", "/policy/check", document)
        return self._http.read(Policy.of, answer)

    async def replace(self, document: Mapping[str, Any]) -> Policy:
        """Put every principal under exactly the grants of a document, which must have `grants`.

        Raises:
            BadRequest: naming the path of what is missing or wrong.
            Conflict: its `version` is not the one in force.
        """
        return self._http.read(Policy.of, await self._http.send("PUT", "/policy", document))

    async def of(self, principal: str) -> PrincipalGrants:
        """One principal, such as `agent:scout`; raises `NotFoundError`."""
        return self._http.read(PrincipalGrants.of, await self._http.get(_path_of(principal)))

    async def put(
        self, principal: str, grants: Grants | None, *, version: int | None = None
    ) -> PrincipalGrants:
        """Put one principal, such as `agent:scout`, under exactly these grants.

        Args:
            grants: none of them: it only reads; None takes it out of grants.
            version: of the policy that the change was written for; None for any.

        Raises:
            NotFoundError: nobody has this id or name.
            BadRequest, Conflict: as `replace`.
        """
        body: dict[str, Any] = {"grants": None if grants is None else [*grants]}
        body |= json_fields(version=version)
        answer = await self._http.send("PUT", _path_of(principal), body)
        return self._http.read(PrincipalGrants.of, answer)

    async def replay(
        self, days: int | None = None, draft: Mapping[str, Any] | None = None
    ) -> Mapping[str, Any]:
        """What a draft would have changed in the last days, 30 where it is None (docs/rest.md)."""
        body = json_fields(days=days, draft=draft)
        return self._http.read(dict, await self._http.send("POST", "/policy/replay", body))


class Holds:
    """What waits for a person."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def list(
        self,
        *,
        wallet_id: str | None = None,
        is_open: bool | None = None,
        limit: int = 50,
        before: str | None = None,
    ) -> tuple[Hold, ...]:
        """Those that this token may see, newest first.

        Args:
            is_open: only those that may still move money, or only the others.
            before: a hold's id: only older ones.
        """
        only = None if is_open is None else str(is_open).lower()
        query = json_fields(wallet_id=wallet_id, open=only, limit=limit, before=before)
        return self._http.read_list(Hold.of, await self._http.get("/holds", query), "holds")

    async def get(self, hold_id: str) -> Hold:
        """One hold by its id; raises `NotFoundError`."""
        return self._http.read(Hold.of, await self._http.get(_path(hold_id)))

    async def approve(self, hold_id: str, note: str | None = None) -> Hold:
        """Let it be made, once, and return how it stands then; again it changes nothing.

        Raises:
            Forbidden: this token may not decide it.
            Conflict: it has ended.
        """
        return await self._decide(hold_id, "approve", note)

    async def deny(self, hold_id: str, note: str | None = None) -> Hold:
        """Refuse it for good; raises as `approve`."""
        return await self._decide(hold_id, "deny", note)

    async def _decide(self, hold_id: str, way: str, note: str | None) -> Hold:
        answer = await self._http.send("POST", f"{_path(hold_id)}/{way}", json_fields(note=note))
        return self._http.read(Hold.of, answer)


def _path_of(principal: str) -> str:
    return f"/policy/{segment(principal, 'principal')}"


def _path(hold_id: str) -> str:
    return f"/holds/{segment(hold_id, 'hold_id')}"


@dataclass(frozen=True, slots=True)
class Policy(Answer):
    """Who may do what.

    Attributes:
        version: None in the answer to a check of a document that says none.
        book: name of a group -> its addresses.
        grants: as JSON (docs/grants.md).
        read_only: principals that are under grants and have none.
        sentences: what it says, one for each grant and then one for each of `read_only`.
    """

    version: int | None = field(metadata=named("policy.version"))
    book: Mapping[str, Any] = field(metadata=named("policy.book"))
    grants: tuple[Mapping[str, Any], ...] = field(metadata=named("policy.grants"))
    read_only: tuple[str, ...] = field(metadata=named("policy.readOnly"))
    sentences: tuple[str, ...]

    @property
    def document(self) -> Raw:
        """What `replace` takes."""
        found: Raw = self.raw["policy"]
        return found


@dataclass(frozen=True, slots=True)
class PrincipalGrants(Answer):
    """What one principal may do.

    Attributes:
        principal: its kind and id, such as `agent:<id>`.
        version: of the policy.
        grants: as JSON (docs/grants.md); None where it is not under grants.
        sentences: what they say, one for each; what it may only read where there are none.
    """

    principal: str
    version: int
    grants: tuple[Mapping[str, Any], ...] | None
    sentences: tuple[str, ...]


def _units(raw: Mapping[str, str]) -> dict[str, int]:
    return {mint: int(units) for mint, units in raw.items()}


@dataclass(frozen=True, slots=True)
class Hold(Answer):
    """A transaction that waits for a person, or waited.

    Attributes:
        principal: who asks: `key:<id>` or `agent:<id>`.
        state: held, approved, executed, refused, denied or expired.
        sentence: what is asked, and why a person is; `reasons` is the latter alone.
        lines: what leaves, in smallest units, with the whole address that gets it.
        costs_sol: network fee and rent, at most.
        arrives: mint -> the least smallest units that must arrive.
        repeats: its caller has to ask again once it is approved.
        decided_by: `admin`, `webhook` or `key:<id>`.
        transaction_id: of the record that it ended in.
    """

    id: str
    wallet_id: str
    agent_id: str | None
    principal: str
    chain: tuple[str, ...]
    type: str
    state: str
    sentence: str
    reasons: tuple[str, ...]
    lines: tuple[Mapping[str, Any], ...]
    costs_sol: Decimal = field(metadata=named("costsLamports", sol))
    arrives: Mapping[str, int] = field(metadata=named("arrives", _units))
    details: Mapping[str, Any]
    repeats: bool
    created_at: datetime
    expires_at: datetime
    decided_by: str | None
    decided_at: datetime | None
    note: str | None
    transaction_id: str | None
