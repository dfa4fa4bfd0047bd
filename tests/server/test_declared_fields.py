"""Each field of a declared request is on every surface, or says why not."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import click
import pytest
from nicegui import Client
from nicegui.page import page
from tests.operations.generate import CALLS
from tests.promises import promise
from tests.support.services import serving_api

from solward.client.client import Agents, PluginState, Policies
from solward.client.requests import (
    Admins,
    Contacts,
    Holds,
    Keys,
    Schedules,
    ServiceRequests,
    WalletRequests,
)
from solward.client.wallets import Wallets
from solward.resources.agents import Agent, AgentChange, Guardrails, NewAgent, Said
from solward.resources.credentials import NewAdmin, NewKey, NewSecret
from solward.resources.declare import Part, Request, answer_example, fields_of, request_example
from solward.resources.fields import Field, GrantList, Json, Loaded, Setting, Shape
from solward.resources.holds import HoldNote, SignedHoldDecision
from solward.resources.payments import PaidRequest
from solward.resources.plugins import NewSetting
from solward.resources.policy import (
    NewContact,
    NewGrants,
    NewPolicy,
    Policy,
    PolicyDraft,
    ReplayRequest,
    WrittenGrant,
)
from solward.resources.schedules import ChangedSchedule, NewSchedule
from solward.resources.service import Freeze, Unfreeze
from solward.resources.wallets import Ceilings, ChangedWallet, NewWallet, Sweep
from solward.support import jsontext
from solward.types.errors import InvalidRequest
from solward_cli.agent import agent
from solward_cli.credentials import admin, key
from solward_cli.hold import hold
from solward_cli.pay import pay
from solward_cli.policy import contacts, freeze, policy, unfreeze
from solward_cli.schedule import schedule
from solward_cli.skills import settings
from solward_cli.wallet import wallet
from solward_dashboard.forms import form_schema
from solward_dashboard.pages import transactions
from solward_dashboard.pages.agent_form import AgentForms
from solward_dashboard.pages.credentials import ADMINS, KEYS
from solward_dashboard.pages.grant_form import with_grant
from solward_dashboard.pages.holds import NOTE
from solward_dashboard.pages.wallet_actions import Schedules as SchedulesCard

SCHEDULES = "/wallets/{walletId}/schedules"


def form_of(kind: type[Request]) -> set[str]:
    """The fields of a form of a request."""
    shown = form_schema(fields_of(kind))["properties"]
    return {each.name for each in fields_of(kind) if each.json in shown}


def form_on(kind: Any) -> set[str]:
    """The fields of a page of credentials."""
    return form_of(kind.request)


def of_agents() -> set[str]:
    """The fields that the dialog of an agent sends where all are filled in."""
    agent = Agent.of(answer_example(Agent))
    limits = {each.json: 1 for each in fields_of(Guardrails)}
    with Client(page("/agents")):
        sent = AgentForms({}, agent, limits).read()
    assert sent is not None
    return set(sent)


def of_policy() -> set[str]:
    """The fields that the page of the policy sends."""
    sent = with_grant(Policy.of(answer_example(Policy)).document, {"who": "agent:ada"})
    return {each.name for each in fields_of(NewPolicy) if each.json in sent}


add = policy.commands["grant"].commands["add"]
# Request -> its route, the client's method, the command, and the fields of the page's form.
SURFACES: dict[type[Request], tuple[str, Callable[..., Any], click.Command, set[str]]] = {
    NewKey: ("POST /keys", Keys.create, key.commands["create"], form_on(KEYS)),
    NewSecret: ("POST /keys/{keyId}/rotate", Keys.rotate, key.commands["rotate"], set()),
    NewAdmin: ("POST /admins", Admins.create, admin.commands["add"], form_on(ADMINS)),
    NewContact: ("POST /contacts", Contacts.put, contacts.commands["add"], form_on(transactions)),
    HoldNote: (
        "POST /holds/{holdId}/approve",
        Holds.approve,
        hold.commands["approve"],
        {NOTE.name},
    ),
    NewSetting: (
        "PUT /plugins/skills/{skill}/settings/{name}",
        PluginState.set,
        settings.commands["set"],
        set(),
    ),
    PaidRequest: ("POST /wallets/{walletId}/pay", Wallets.pay, pay.commands["curl"], set()),
    NewPolicy: ("PUT /policy", Policies.replace, add, of_policy()),
    PolicyDraft: ("POST /policy/check", Policies.check, add, of_policy()),
    NewGrants: ("PUT /policy/{principal}", Policies.put, add, set()),
    WrittenGrant: ("POST /policy/read", Policies.read, add, {"sentence"}),
    ReplayRequest: (
        "POST /policy/replay",
        Policies.replay,
        policy.commands["replay"],
        {"days", "draft", "newest"},
    ),
    NewAgent: (
        "POST /agents",
        Agents.create,
        agent.commands["create"],
        {*of_agents(), "wallet_id", "template", "grants"},
    ),
    AgentChange: (
        "PATCH /agents/{agentId}",
        Agents.change,
        agent.commands["change"],
        of_agents(),
    ),
    NewWallet: (
        "POST /wallets",
        WalletRequests.create,
        wallet.commands["create"],
        form_of(NewWallet),
    ),
    ChangedWallet: (
        "PATCH /wallets/{walletId}",
        WalletRequests.tag,
        wallet.commands["tag"],
        form_of(ChangedWallet),
    ),
    Ceilings: (
        "PATCH /wallets/{walletId}/limits",
        WalletRequests.set_ceilings,
        wallet.commands["ceilings"],
        form_of(Ceilings),
    ),
    Sweep: (
        "POST /wallets/{walletId}/pockets/{pocketId}/sweep",
        WalletRequests.sweep_pocket,
        wallet.commands["sweep"],
        set(),
    ),
    Said: ("POST /agents/{agentId}/chat", Agents.chat, agent.commands["chat"], {"message"}),
    Freeze: ("POST /freeze", ServiceRequests.freeze, freeze, {"wallet_id", "reason"}),
    Unfreeze: ("POST /unfreeze", ServiceRequests.unfreeze, unfreeze, {"wallet_id"}),
    NewSchedule: (
        f"POST {SCHEDULES}",
        Schedules.create,
        schedule.commands["create"],
        form_of(SchedulesCard.new),
    ),
    ChangedSchedule: (
        f"PATCH {SCHEDULES}/{{scheduleId}}",
        Schedules.change,
        schedule.commands["change"],
        form_of(SchedulesCard.change),
    ),
}
FIELDS = [
    pytest.param(kind, field, id=f"{kind.__name__}.{field.json}")
    for kind in SURFACES
    for field in fields_of(kind)
]


def test_every_request_is_looked_at() -> None:
    bodies = {each.body for calls in CALLS.values() for each in calls}
    # By a signature the receiver of a webhook decides alone.
    assert SURFACES.keys() == bodies - {None, SignedHoldDecision}


@promise("fields-on-every-surface")
@pytest.mark.parametrize(("kind", "field"), FIELDS)
def test_a_field_is_on_every_surface_or_says_why_not(kind: type[Request], field: Field) -> None:
    _, call, command, shown = SURFACES[kind]
    parts = {each.name for each in fields_of(field.kind)} if isinstance(field, Part) else set()
    options = {each.name for each in command.params}
    found = {
        # A change of a schedule names its fields as JSON does, where null is not absent.
        "client": bool({field.name, "fields"} & inspect.signature(call).parameters.keys()),
        "cli": bool({field.name, field.cli.lower()} & options)
        or (parts and parts <= options and not field.left_out),
        "dashboard": field.name in shown,
    }
    assert {name for name, has in found.items() if not has} == field.left_out.keys()
    assert all(field.left_out.values())


@promise("fields-on-every-surface")
async def test_rest_describes_and_takes_what_is_declared(tmp_path: Path) -> None:
    async with serving_api(tmp_path, max_costs_sol_per_day=Decimal("0.01")) as api:
        paths = (await api.get("/openapi.json")).json["paths"]
        for kind, (route, *_) in SURFACES.items():
            method, path = route.split()
            described = paths[f"/api/v1{path}"][method.lower()]["requestBody"]["content"]
            body = described["application/json"]
            declared = {each.json for each in fields_of(kind)}
            assert body["schema"]["properties"].keys() - {"walletId"} == declared - {"walletId"}
            assert kind.of(body["example"], api.service.settings)


@promise("fields-on-every-surface")
async def test_a_default_that_is_a_setting_is_the_settings_everywhere(tmp_path: Path) -> None:
    """0.05 stood in the description, in the command's help and in the dashboard's form, so that a
    key made there might cost five times the setting."""
    async with serving_api(tmp_path, max_costs_sol_per_day=Decimal("0.01")) as api:
        document = (await api.get("/openapi.json")).json
        body = document["paths"]["/api/v1/keys"]["post"]["requestBody"]["content"]
        described = body["application/json"]["schema"]["properties"]["maxCostsSolPerDay"]
        assert described["default"] == Decimal("0.01")
        await api.post("/keys", {"name": "ci"})
        (made,) = (await api.get("/keys?details=true")).json["keys"]
        assert made["maxCostsSolPerDay"]["limit"] == Decimal("0.01")
    (field,) = (each for each in fields_of(NewKey) if each.default is Setting.MAX_COSTS_SOL_PER_DAY)
    (option,) = (each for each in key.commands["create"].params if each.name == field.name)
    assert isinstance(option, click.Option)
    assert option.help is not None
    assert option.help.endswith("[default: MAX_COSTS_SOL_PER_DAY]")
    assert "default" not in form_schema(fields_of(NewKey))["properties"][field.json]


@promise("fields-on-every-surface")
async def test_a_key_is_made_with_its_grants_in_one_request(tmp_path: Path) -> None:
    """Its name may be another key's, too: a sentence without its subject is the new key's."""
    async with serving_api(tmp_path) as api:
        for _ in range(2):
            said = ["may transfer up to 0.1 SOL a day, to anybody"]
            made = await api.post("/keys", {"name": "ci", "grants": said})
            assert made.status == 200, made.text
        for each in (await api.get("/keys?details=true")).json["keys"]:
            (sentence,) = each["sentences"]
            assert sentence.endswith("may transfer up to 0.1 SOL a day, to anybody.")
        wrong = await api.post("/keys", {"name": "ci", "grants": ["may do as it likes"]})
        assert (wrong.status, wrong.error.partition(":")[0]) == (400, "grants[0]")
        assert len((await api.get("/keys")).json["keys"]) == 2


# What is wrong with a shape, its reader says.
@pytest.mark.parametrize(
    ("kind", "field"), [each for each in FIELDS if not isinstance(each.values[1], Shape)]
)
def test_a_field_refuses_what_it_does_not_take(kind: type[Request], field: Field) -> None:
    """Null counts as absent; what is no value of the field is refused by its name."""
    body = jsontext.loads(jsontext.dumps(request_example(kind)))
    if field.is_required or field.name in kind.never_null:
        with pytest.raises(InvalidRequest, match=f"^{field.json} is required"):
            kind.of(body | {field.json: None}, DEFAULTS)
    else:
        of_null = getattr(kind.of(body | {field.json: None}, DEFAULTS), field.name)
        absent = {name: value for name, value in body.items() if name != field.json}
        assert of_null == getattr(kind.of(absent, DEFAULTS), field.name)
    if not isinstance(field, GrantList | Loaded | Part | Shape):
        wrong: Any = [] if isinstance(field, Json) else {}
        with pytest.raises(InvalidRequest, match=f"^{field.json}(:| must be| is required)"):
            kind.of(body | {field.json: wrong}, DEFAULTS)


class DEFAULTS:
    """The settings that are defaults of fields."""

    max_costs_sol_per_day = Decimal("0.05")
