"""What a wallet can be made to do: a form each, out of a JSON Schema, and what came of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from nicegui import ui

from solward.client import ClientError, Skill, Transaction, Wallet
from solward.errors import SolwardError
from solward.jsontext import dumps
from solward_dashboard.api import api
from solward_dashboard.dialogs import confirmed
from solward_dashboard.forms.form import FormError, schema_form
from solward_dashboard.wording import value_text

_WHICH = "Mint address, or a symbol known on this network such as SOL or USDC."


@dataclass(frozen=True, slots=True)
class Action:
    """Something to do with a wallet.

    Attributes:
        run: does it with the form's values under an idempotency key, and tells the outcome.
        asks: whether it is asked once more before it is done.
    """

    name: str
    verb: str
    about: str
    schema: Mapping[str, Any]
    run: Callable[[str, Mapping[str, Any], str], Awaitable[str]]
    asks: bool = False


def _schema(required: Sequence[str], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [*required],
        "additionalProperties": False,
    }


async def _airdrop(wallet_id: str, values: Mapping[str, Any], key: str) -> str:
    amount = values.get("amount")
    return _ended(await api().wallets.airdrop(wallet_id, amount=amount, idempotency_key=key))


async def _transfer(wallet_id: str, values: Mapping[str, Any], key: str) -> str:
    to, amount = values["to"].strip(), values["amount"]
    return _ended(
        await api().wallets.transfer(wallet_id, to=to, amount=amount, idempotency_key=key)
    )


async def _swap(wallet_id: str, values: Mapping[str, Any], key: str) -> str:
    made = await api().wallets.swap(
        wallet_id,
        input_token=values["inputToken"].strip(),
        output_token=values["outputToken"].strip(),
        amount=values["amount"],
        slippage_bps=values.get("slippageBps"),
        idempotency_key=key,
    )
    return _ended(made)


AIRDROP = Action(
    "Airdrop",
    "Ask the faucet",
    "Free test SOL of the network's faucet.",
    _schema(
        (),
        amount={
            "type": "number",
            "description": "SOL, at most 2.",
            "exclusiveMinimum": 0,
            "maximum": 2,
            "default": 1,
        },
    ),
    _airdrop,
)
TRANSFER = Action(
    "Transfer",
    "Send",
    "SOL to another address. It cannot be taken back.",
    _schema(
        ("to", "amount"),
        to={"type": "string", "description": "Recipient's address.", "minLength": 32},
        amount={"type": "number", "description": "SOL.", "exclusiveMinimum": 0},
    ),
    _transfer,
    asks=True,
)
SWAP = Action(
    "Swap",
    "Swap",
    "Sell one token for another at the market's price.",
    _schema(
        ("inputToken", "outputToken", "amount"),
        inputToken={"type": "string", "title": "Sell", "description": _WHICH, "default": "SOL"},
        outputToken={"type": "string", "title": "Buy", "description": _WHICH},
        amount={
            "type": "number",
            "description": "Whole tokens to sell.",
            "exclusiveMinimum": 0,
        },
        slippageBps={
            "type": "integer",
            "title": "Slippage",
            "description": "Most the price may move, in basis points; 50 is 0.5%.",
            "minimum": 0,
            "maximum": 10_000,
            "default": 50,
        },
    ),
    _swap,
)


def of_skill(skill: Skill) -> Action:
    """Running a skill, whoever wrote it."""

    async def run(wallet_id: str, values: Mapping[str, Any], key: str) -> str:
        return await api().wallets.run_skill(wallet_id, skill.name, values, idempotency_key=key)

    spends = skill.effects != "read"
    return Action(skill.name, "Run", skill.description, skill.parameters, run, asks=spends)


class ActionPanel:
    """The form of an action at this place of the page."""

    def __init__(
        self,
        action: Action,
        wallet: Callable[[], Wallet | None],
        done: Callable[[], Awaitable[None]],
    ) -> None:
        self._action = action
        self._wallet = wallet
        self._done = done
        # A payment whose fate is not known is asked for again under its own key.
        self._open: tuple[Mapping[str, Any], str] | None = None
        with ui.element("div").classes("sw-form"):
            ui.label(action.about).classes("sw-dim sw-text")
            self._form = schema_form(action.schema)
            with ui.element("div").classes("sw-row"):
                self._button = ui.button(action.verb, on_click=self._run)
                self._button.props("no-caps unelevated")
                self._button.props["data-testid"] = f"run-{action.name.lower()}"
            with ui.element("div").props("role=status"):
                self._outcome = ui.label().classes("sw-outcome sw-text")
                self._outcome.props["data-testid"] = f"outcome-{action.name.lower()}"
        self._outcome.set_visibility(False)

    async def _run(self) -> None:
        wallet = self._wallet()
        if wallet is None:
            return
        try:
            values = self._form.values()
        except FormError:
            return
        if self._action.asks and not await confirmed(
            f"{self._action.verb} {self._action.name} on {wallet.name}?"
            if self._action.verb == "Run"
            else f"{self._action.verb} from {wallet.name}?",
            [f"{name}: {_said(value)}" for name, value in values.items()],
            self._action.verb,
        ):
            return
        self._button.props("loading").disable()
        try:
            self._tell(await self._action.run(wallet.id, values, self._key(values)), good=True)
            self._open = None
        except SolwardError as error:
            self._failed(error, values)
        finally:
            self._button.props(remove="loading").enable()
        await self._done()

    def _key(self, values: Mapping[str, Any]) -> str:
        if self._open is not None and self._open[0] == values:
            return self._open[1]
        return str(uuid4())

    def _failed(self, error: SolwardError, values: Mapping[str, Any]) -> None:
        key = error.idempotency_key if isinstance(error, ClientError) else None
        self._open = None if key is None else (values, key)
        again = (
            ""
            if key is None
            else f" Whether it was paid is not known: {self._action.verb} again with the same"
            " values tells, and pays at most once."
        )
        ui.notify(str(error), type="negative", multi_line=True)
        self._tell(f"{error}{again}", good=False)

    def _tell(self, text: str, *, good: bool) -> None:
        self._outcome.set_text(text)
        self._outcome.classes(add="sw-outcome-good" if good else "sw-outcome-bad")
        self._outcome.classes(remove="sw-outcome-bad" if good else "sw-outcome-good")
        self._outcome.set_visibility(True)


class SkillChooser:
    """Any skill that is loaded, and its form."""

    def __init__(
        self, wallet: Callable[[], Wallet | None], done: Callable[[], Awaitable[None]]
    ) -> None:
        self._wallet = wallet
        self._done = done
        self._skills: dict[str, Skill] = {}
        self._select = ui.select([], label="Skill", with_input=True, on_change=self._chosen)
        self._select.props('outlined dense data-testid="skill"').classes("sw-field")
        self._place = ui.element("div")

    def offer(self, skills: Sequence[Skill]) -> None:
        """The skills there are; what is being filled in stays."""
        fresh = {each.name: each for each in skills}
        if fresh.keys() != self._skills.keys():
            self._select.set_options(
                {each.name: f"{each.name} ({each.distribution})" for each in skills},
                value=self._select.value if self._select.value in fresh else None,
            )
        self._skills = fresh

    def _chosen(self) -> None:
        self._place.clear()
        skill = self._skills.get(str(self._select.value))
        if skill is not None:
            with self._place:
                ActionPanel(of_skill(skill), self._wallet, self._done)


def _said(value: Any) -> str:
    return dumps(value) if isinstance(value, list | dict) else value_text(value)


def _ended(record: Transaction) -> str:
    what = record.type.replace("_", " ").capitalize()
    signature = "" if record.signature is None else f". Signature {record.signature}"
    arrived = record.details.get("outputAmount")
    got = "" if arrived is None else f", {value_text(arrived)} received"
    return f"{what} {record.status}{got}{signature}"
