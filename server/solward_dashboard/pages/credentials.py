"""The pages of API keys and of admin credentials: create, list, rotate, revoke."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

from nicegui import ui

from solward.client import AdminCredential, ApiKey, KeyDetails
from solward.resources.credentials import NewAdmin, NewKey
from solward.resources.declare import Request, fields_of
from solward.resources.shared import DayUse
from solward.types.roles import Role, permissions_warning
from solward_dashboard import parts as sw
from solward_dashboard.api import api
from solward_dashboard.dialogs import ask_form, confirmed, show_secret
from solward_dashboard.forms import RequestForm
from solward_dashboard.frame import Poll, frame
from solward_dashboard.links import address_of, list_address
from solward_dashboard.wording import ago, day, plain

EVERY_S = 10.0
_EVERY_WALLET = {"": "every wallet"}
_ROLES = {
    "read": "read: sees everything but secrets",
    "operate": "operate: also freezes, stops and restarts agents, revokes keys, denies holds",
    "policy": "policy: may do everything that the admin secret may",
}
Credential: TypeAlias = ApiKey | AdminCredential
_Texts: TypeAlias = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CredentialKind:
    """A kind of credential, with all differences between its page and the other's.

    Attributes:
        choice: the field with choices, and its first value.
        fetch: returns the credentials, oldest first, and the choices for another.
        lines: returns the lines about one; takes the names of all and the choices.
    """

    path: str
    noun: str
    about: str
    empty: str
    request: type[Request]
    choice: tuple[str, str]
    fetch: Callable[[], Awaitable[tuple[Sequence[Any], _Texts]]]
    lines: Callable[[Any, _Texts, _Texts], Sequence[str]]
    revoked: str
    revokes: str

    @property
    def calls(self) -> Any:
        """The calls of the client for this kind of credential."""
        return api().keys if self is KEYS else api().admins


async def _fetch_keys() -> tuple[Sequence[ApiKey], _Texts]:
    keys, wallets = await asyncio.gather(api().keys.list(details=True), api().wallets.list())
    return keys, _EVERY_WALLET | {each.id: each.name for each in wallets}


def _key_lines(key: ApiKey, _names: _Texts, choices: _Texts) -> Sequence[str]:
    details = key.details
    is_read_only = details is not None and details.read_only
    uses = f"{'read only, ' if is_read_only else ''}{choices.get(key.wallet_id or '', '?')}"
    limits = "" if details is None else limits_text(details)
    note = permissions_warning(key.permissions, read_only=is_read_only)
    return f"{uses}, made {ago(key.created_at)}", limits if note is None else f"{limits}; {note}"


async def _fetch_admins() -> tuple[Sequence[AdminCredential], _Texts]:
    return await api().admins.list(), _ROLES


def _admin_lines(one: AdminCredential, names: _Texts, choices: _Texts) -> Sequence[str]:
    maker = names.get(one.created_by)
    by = f"by {maker}" if maker else "by a revoked credential"
    if one.created_by == "admin":
        by = "with the admin secret"
    made = [f"made {ago(one.created_at)} {by}", *_expiry_text(one.expires_at, datetime.now(UTC))]
    return choices[one.role], "; ".join(made)


KEYS = CredentialKind(
    "/api-keys",
    "key",
    "A key lets a program use wallets over REST and MCP, within the key's daily limit.",
    "No key yet. Create one for each program that uses wallets.",
    NewKey,
    ("wallet_id", ""),
    _fetch_keys,
    _key_lines,
    "Programs that use the key are refused from now on.",
    sw.OPERATE,
)
ADMINS = CredentialKind(
    "/admins",
    "admin credential",
    "An admin credential lets a person or a program do what its role allows.",
    "No admin credential yet: only the admin secret can administer.",
    NewAdmin,
    ("role", Role.READ.value),
    _fetch_admins,
    _admin_lines,
    "Requests with the credential are refused from now on; its streams and logins end.",
    sw.POLICY,
)


def api_keys() -> None:
    """Build the page of API keys, once for a visitor."""
    _CredentialsPage(KEYS)


def admins() -> None:
    """Build the page of admin credentials, once for a visitor."""
    _CredentialsPage(ADMINS)


class _CredentialsPage:
    """The list of one kind, and the dialog that creates a credential."""

    def __init__(self, kind: CredentialKind) -> None:
        self._kind = kind
        self._choices: _Texts = {}
        self._used: dict[str, ui.label] = {}
        self._lines: dict[str, ui.label] = {}
        with frame(kind.path) as freshness:
            with sw.row():
                sw.dim(kind.about)
                ui.space()
                new = f"New {kind.noun}"
                sw.button(new, self._create, icon="add", look=sw.PRIMARY, needs=sw.POLICY)
            with sw.card():
                # A change of what is used updates only the texts.
                self._rows = sw.LiveContent(self._build, of=lambda keys: [each.id for each in keys])
            sw.marked(self._rows.element, "credentials")
            Poll(freshness, EVERY_S, kind.fetch, self._show)

    def _show(self, answer: tuple[Sequence[Credential], _Texts]) -> None:
        found, self._choices = answer
        self._rows.show(found)
        names = {f"admin:{each.id}": each.name for each in found}
        for each in found:
            used = each.last_used_at
            self._used[each.id].set_text("never used" if used is None else f"used {ago(used)}")
            self._lines[each.id].set_text("\n".join(self._kind.lines(each, names, self._choices)))

    def _build(self, found: Sequence[Credential]) -> None:
        if not found:
            ui.label(self._kind.empty).classes("sw-empty")
        for each in found:
            self._add_row(each)

    def _add_row(self, one: Credential) -> None:
        kind = "key" if self._kind is KEYS else "admin"
        with sw.at_place(sw.row(), f"{kind}:{one.id}"):
            with ui.element("div"):
                sw.text(one.name, "sw-strong sw-text")
                self._lines[one.id] = sw.dim()
                with sw.row():
                    for words, address in _links_of(f"{kind}:{one.id}"):
                        ui.link(words, address).props["aria-label"] = f"{words} of {one.name}"
            ui.space()
            # One row of their own keeps them together on a phone.
            with sw.row("sw-nowrap"):
                self._used[one.id] = sw.dim()
                look = {"look": sw.SMALL, "of": one.name}
                if self._kind is KEYS:
                    sw.button("Rotate", lambda: self._rotate(one), needs=sw.POLICY, **look)
                details = [self._kind.revoked, one.id]
                sw.action(
                    "Revoke",
                    lambda: self._kind.calls.revoke(one.id),
                    ask=lambda: confirmed(f"Revoke {one.name}?", details, "Revoke"),
                    said=lambda answer: _revoked_text(one, answer),
                    needs=self._kind.revokes,
                    **look,
                )

    async def _rotate(self, key: Credential) -> None:
        details = ["The limits stay. The present secret works for one more hour.", key.id]
        if await confirmed(f"Give {key.name} a new secret?", details, "Rotate"):
            await _show_secret(await api().keys.rotate(key.id))

    async def _create(self) -> None:
        kind, (chosen, first) = self._kind, self._kind.choice
        fields = fields_of(kind.request)
        known = {each.json: first for each in fields if each.name == chosen}
        created = await ask_form(
            f"New {kind.noun}",
            lambda: RequestForm(fields, known, {chosen: self._choices}),
            "Create",
            lambda values: kind.calls.create(**values),
            testid="create",
        )
        if created is not None:
            await _show_secret(created)


def _links_of(principal: str) -> Iterator[tuple[str, str]]:
    kind, _, own_id = principal.partition(":")
    if kind == "key":
        yield "Transactions", list_address("/transactions", key=own_id)
        yield "Grants", address_of(f"grants:{principal}")
    yield "Audit log", list_address("/audit", who=principal)


def _revoked_text(one: Credential, answer: Any) -> str:
    made = getattr(answer, "made", ())
    if made:
        names = ", ".join(each.name for each in made)
        ui.notify(f"{one.name} created others, which stay: {names}", type="warning", timeout=0)
    return f"{one.name} is revoked"


async def _show_secret(created: Any) -> None:
    if hasattr(created, "api_key"):
        await show_secret(f"The key of {created.name}", created.api_key, "Key")
    else:
        await show_secret(f"The secret of {created.credential.name}", created.secret, "Secret")


def limits_text(details: KeyDetails, now: datetime | None = None) -> str:
    """Return a key's limits with their use, and when the key and its former secret expire."""
    now = now or datetime.now(UTC)
    rate, until = details.rate_limit, details.previous_secret_until
    texts = [
        f"{_use_text(details.spending_limit_sol)} SOL in 24 hours",
        f"{_use_text(details.max_costs_sol_per_day)} SOL of fees and rent",
        f"{rate.used} of {rate.limit} requests in a minute",
        *_expiry_text(details.expires_at, now),
    ]
    if until is not None and until > now:
        texts.append(f"the former secret works until {day(until)}")
    return "; ".join(texts)


def _use_text(limit: DayUse) -> str:
    return f"{plain(limit.spent + limit.reserved)} of {plain(limit.limit or 0)}"


def _expiry_text(at: datetime | None, now: datetime) -> list[str]:
    return [] if at is None else [f"{'expired' if at <= now else 'expires'} {day(at)}"]
