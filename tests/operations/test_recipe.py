"""CONTRIBUTING.md's recipe "Adding an operation", followed step by step in a copy of the tree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.support.repository import ROOT, Copy, recipe

RECIPE = recipe("Adding an operation")

# Step 1, above the table of all.
DECLARATION = """

TIP = Operation(
    name="tip_jar",
    type=TransactionType.OTHER,
    tag="money",
    title="Send a few lamports",
    does="Tip the address `to` with `lamports`.",
    fields=(
        Recipient("Who is tipped.", name="to"),
        Whole(
            "How much, in lamports.", name="lamports", least=1, most=2_000_000, default=1_000_000
        ),
    ),
    details=(Address("Who was tipped.", name="to"), Amount("SOL.", name="amount")),
    example={"to": Example.STRANGER},
    answer={"to": Example.STRANGER, "amount": 0.001},
    refusals=("lamports must be a whole number from 1 to 2000000",),
    verb="Tip",
    progress="Tipping",
    flag="tipped",
)
"""
# Step 2, in the module of a plan.
PLAN = '''

@plans(TIP)
def plan_tip_jar(wallet: str, *, to: str, lamports: int) -> Draft:
    """A transfer of lamports."""
    draft = plan_transfer(wallet, to=to, amount=lamports_to_sol(lamports))
    details = {"to": to, "amount": lamports_to_sol(lamports)}
    return replace(draft, intent=replace(draft.intent, type=TIP.type, details=details))
'''
# Step 4.
SKILL = """
from solward import Effects, SkillContext, SkillSpec, hookimpl, operation_parameters


@hookimpl
def skill_spec() -> SkillSpec:
    return SkillSpec("tip_jar", "Tip.", operation_parameters("tip_jar"), Effects.SPEND)


@hookimpl
async def skill_execute(params: dict[str, object], context: SkillContext) -> str:
    return str((await context.tip_jar(**params)).status)
"""
# What then has it, run in a process of the copy.
FOUND = """
import asyncio, inspect, sys
from pathlib import Path

import click
from tests.support.services import STRANGER, serving_api

from solward import SkillContext, operation_parameters
from solward.client import Operations
from solward_cli.wallet import wallet as commands
from solward_dashboard.pages.wallet_actions import operation_action
from solward.operations.declared import OPERATIONS
from solward_plugins.skills import tip_jar

for method in (SkillContext.tip_jar, Operations.tip_jar):
    assert {"to", "lamports"} <= inspect.signature(method).parameters.keys()
    assert inspect.getdoc(method).startswith("Tip the address `to` with `lamports`.")
assert inspect.signature(SkillContext.tip_jar).parameters["lamports"].default == 1_000_000

command = commands.commands["tip-jar"]
option = next(each for each in command.params if each.name == "lamports")
assert (option.opts, option.type.max) == (["--lamports"], 2_000_000)
assert command.help.startswith("Tip the address TO")

schema = operation_parameters("tip_jar")
assert tip_jar.skill_spec().parameters == schema
assert schema["required"] == ["to"]
assert schema["properties"]["lamports"]["default"] == 1_000_000
form = operation_action(OPERATIONS["tip_jar"])
assert (form.name, form.verb, form.schema) == ("Tip jar", "Tip", schema)


async def serve(home: Path) -> None:
    async with serving_api(home) as api:
        wallet = await api.wallet(1)
        made = await api.post(f"/wallets/{wallet}/tip-jar", {"to": STRANGER})
        assert (made.status, made.json["tipped"]) == (200, True), made.text
        assert (made.json["type"], str(made.json["details"]["amount"])) == ("other", "0.001")
        refused = await api.post(f"/wallets/{wallet}/tip-jar", {"to": STRANGER, "lamports": 0})
        assert refused.error == "lamports must be a whole number from 1 to 2000000"
        paths = (await api.get("/openapi.json")).json["paths"]
        described = paths["/api/v1/wallets/{walletId}/tip-jar"]["post"]
        assert described["operationId"] == "tipJar"


asyncio.run(serve(Path(sys.argv[1])))
print("found everywhere")
"""


def test_the_recipe_is_short() -> None:
    assert len(RECIPE.strip().splitlines()) <= 20
    assert re.findall(r"^(\d)\. ", RECIPE, re.MULTILINE) == list("12345")


@pytest.mark.more
def test_an_operation_made_by_the_recipe_is_found_everywhere(tmp_path: Path) -> None:
    copy = Copy.made(tmp_path / "tree")
    tree = copy.tree
    name = "framework/solward/operations/declared.py"
    assert f"`{name}`" in RECIPE
    declared = tree / name
    text = declared.read_text()
    above = text.rindex("\n\n", 0, text.index("\nOPERATIONS"))
    declared.write_text(text[:above] + DECLARATION + text[above:])
    plan = _named("sol.py", "framework/solward/operations/")
    _append(tree / plan, "    RECLAIM_RENT,\n", "    TIP,\n", PLAN)
    (tree / plan).write_text(
        (tree / plan)
        .read_text()
        .replace("from decimal", "from dataclasses import replace\nfrom decimal")
    )
    makefile = (ROOT / "Makefile").read_text()
    assert "make operations" in RECIPE
    (module,) = re.findall(r"^operations: .*\n\t\$\(BIN\)/python -m (\S+)$", makefile, re.MULTILINE)
    copy.run("-m", module)
    skill = tree / _named("tip_jar.py", "plugins/solward_plugins/skills/", is_new=True)
    skill.write_text(SKILL)
    assert copy.run("-c", FOUND, str(tmp_path / "home")).endswith("found everywhere\n")


def _named(name: str, folder: str, *, is_new: bool = False) -> str:
    """A file that the recipe names."""
    assert f"`{folder}`" in RECIPE
    assert is_new or f"`{name}`" in RECIPE
    return folder + name


def _append(path: Path, imported: str, more: str, text: str) -> None:
    before = path.read_text()
    assert imported in before
    path.write_text(before.replace(imported, imported + more) + text)
