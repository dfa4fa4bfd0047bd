"""`client.policy`, and what it answers, typed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from solward.client.arguments import json_fields, segment
from solward.client.http import Http
from solward.resources.answers import Answer, Raw, named

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


def _path_of(principal: str) -> str:
    return f"/policy/{segment(principal, 'principal')}"


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
