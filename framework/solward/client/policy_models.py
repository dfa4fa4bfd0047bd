"""The policy and holds as the service answers them, typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from solward.client.models import Raw, moment


@dataclass(frozen=True, slots=True)
class Policy:
    """Who may do what.

    Attributes:
        version: None in the answer to a check of a document that says none.
        book: name -> addresses, each a text or `{"address": ..., "note": ...}`.
        grants: as JSON (docs/grants.md).
        read_only: principals that are under grants and have none.
        sentences: what it says, one for each grant and then one for each of `read_only`.
    """

    version: int | None
    book: Mapping[str, Any]
    grants: tuple[Mapping[str, Any], ...]
    read_only: tuple[str, ...]
    sentences: tuple[str, ...]
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> Policy:
        """From the answer of `/policy`."""
        policy = raw["policy"]
        return cls(
            version=policy.get("version"),
            book=policy["book"],
            grants=tuple(policy["grants"]),
            read_only=tuple(policy["readOnly"]),
            sentences=tuple(raw["sentences"]),
            raw=raw,
        )

    @property
    def document(self) -> Raw:
        """What `replace` takes."""
        found: Raw = self.raw["policy"]
        return found


@dataclass(frozen=True, slots=True)
class PrincipalGrants:
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
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> PrincipalGrants:
        """From the answer of `/policy/:principal`."""
        grants = raw["grants"]
        return cls(
            principal=raw["principal"],
            version=raw["version"],
            grants=None if grants is None else tuple(grants),
            sentences=tuple(raw["sentences"]),
            raw=raw,
        )


@dataclass(frozen=True, slots=True)
class Hold:
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
    costs_sol: Decimal
    arrives: Mapping[str, int]
    details: Mapping[str, Any]
    repeats: bool
    created_at: datetime
    expires_at: datetime
    decided_by: str | None
    decided_at: datetime | None
    note: str | None
    transaction_id: str | None
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> Hold:
        """From one hold."""
        decided = raw.get("decidedAt")
        return cls(
            id=raw["id"],
            wallet_id=raw["walletId"],
            agent_id=raw.get("agentId"),
            principal=raw["principal"],
            chain=tuple(raw["chain"]),
            type=raw["type"],
            state=raw["state"],
            sentence=raw["sentence"],
            reasons=tuple(raw["reasons"]),
            lines=tuple(raw["lines"]),
            costs_sol=Decimal(int(raw["costsLamports"])).scaleb(-9),
            arrives={mint: int(units) for mint, units in raw["arrives"].items()},
            details=raw["details"],
            repeats=raw["repeats"],
            created_at=moment(raw["createdAt"]),
            expires_at=moment(raw["expiresAt"]),
            decided_by=raw.get("decidedBy"),
            decided_at=None if decided is None else moment(decided),
            note=raw.get("note"),
            transaction_id=raw.get("transactionId"),
            raw=raw,
        )
