"""Operations are declared once: what derives from a declaration or repeats it agrees with it."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from tests.support.repository import DOCS, ROOT

from solward.operations import perform
from solward.operations.declared import OPERATIONS, Operation
from solward.operations.plans import PLANS
from solward.resources.fields import REQUIRED, Amount, Field, Text, Whole
from solward.types.errors import InvalidRequest
from solward_cli.wallet import COMMANDS

REST, CLI = (DOCS / "reference/rest.md").read_text(), (DOCS / "reference/cli.md").read_text()
# The vendor's own API, as the embedded market and its adapter speak it; files that are written
# from the declarations; the declarations.
ELSEWHERE = re.compile(
    r"solward_localnet/|solward_plugins/venues/|(client|context)/operations\.py|operations/declared\.py"
)

operations = pytest.mark.parametrize("declared", OPERATIONS.values(), ids=OPERATIONS)


def test_every_operation_has_a_plan_and_every_plan_an_operation() -> None:
    assert perform.PLANS is PLANS
    assert PLANS.keys() == OPERATIONS.keys()


def test_the_declarations_of_a_light_install_bring_no_library() -> None:
    program = "import sys, solward.operations.declared; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "solward" in loaded
    assert not loaded & {"asyncio", "httpx", "pydantic", "solders", "sqlalchemy"}


def test_a_skills_context_is_imported_without_the_service() -> None:
    program = "import sys; from solward import SkillContext; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    loaded = set(done.stdout.split())
    assert "solward.context" in loaded
    assert not loaded & {"asyncio", "httpx", "solders", "sqlalchemy", "solward.vault"}


@operations
def test_its_examples_are_what_it_declares(declared: Operation) -> None:
    known = {each.json for each in declared.fields}
    assert declared.example.keys() <= known
    exact = {
        name: Decimal(str(value)) if isinstance(value, float) else value
        for name, value in declared.example.items()
    }
    values = declared.read(exact)
    assert values.keys() == {each.name for each in declared.fields}
    assert list(declared.answer) == [each.json for each in declared.details]
    assert declared.requested_details("wallet", values).keys() <= declared.answer.keys()
    assert set(declared.metadata) <= declared.answer.keys()
    # Texts name fields by their Python names, in backticks.
    assert set(re.findall(r"`(\w+)`", declared.does)) <= {each.name for each in declared.fields}


FIELDS = [
    pytest.param(declared, field, id=f"{declared.name}.{field.name}")
    for declared in OPERATIONS.values()
    for field in declared.fields
]


@pytest.mark.parametrize(("declared", "field"), FIELDS)
def test_a_field_refuses_what_its_schema_does_and_takes_its_default(
    declared: Operation, field: Field
) -> None:
    if field.default is REQUIRED:
        with pytest.raises(InvalidRequest, match=f"^{field.json} is required and must be a"):
            field.read(None)
    else:
        assert field.schema().get("default") == field.default
        if field.default is None:
            assert field.read(None) is None
        else:
            with pytest.raises(InvalidRequest, match=f"^{field.json} must be "):
                field.read(None)
        assert replace(declared, fields=(field,)).read({}) == {field.name: field.default}
    for wrong in ([], {}, 1.5, True, *([5] if isinstance(field, Text) else ["5"])):
        with pytest.raises(InvalidRequest, match=f"^{field.json} must be "):
            field.read(wrong)
    if isinstance(field, Whole):
        for wrong in (field.least - 1, field.most + 1, Decimal("0.5"), Decimal("1e999999999")):
            with pytest.raises(InvalidRequest, match=field.expected):
                field.read(wrong)
        assert field.read(Decimal(f"{field.most}.0")) == field.most


@pytest.mark.parametrize(("declared", "field"), FIELDS)
def test_its_default_and_bounds_are_those_of_the_rest_page(
    declared: Operation, field: Field
) -> None:
    row = rf"^\| `{declared.path}` \| `{field.json}` \| (.*) \| (.*) \| (.*) \|$"
    ((taken, default, text),) = re.findall(row, REST, re.MULTILINE)
    if field.default not in (REQUIRED, None):
        assert default.strip('`"') == f"{field.default}"
    if isinstance(field, Whole) and field.default is not None:
        assert f"{field.least:,} to {field.most:,}" in taken
    if isinstance(field, Amount) and field.maximum is not None:
        assert f"at most {field.maximum}" in text
    if isinstance(field, Text) and field.max_bytes is not None:
        assert f"at most {field.max_bytes} bytes" in text


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_the_command_page_says_what_a_command_does(command: Any) -> None:
    row = rf"^\| `solward wallet {command.name} [^`]*` \| (.+) \|$"
    assert re.findall(row, CLI, re.MULTILINE) == [command.help.rstrip(".")]


def test_defaults_and_bounds_stand_in_the_declarations_alone() -> None:
    stated = re.compile(
        r"slippage\w*\W.*\b(50|10_?000)\b|airdrop.*\b(most 2|2 \* |LAMPORTS = )"
        r"|supply\W.*1_?000_?000|AIRDROP\w* = \d",
        re.IGNORECASE,
    )
    found = [
        f"{path.relative_to(ROOT)}:{at}"
        for folder in ("framework", "plugins/solward_plugins", "server")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not ELSEWHERE.search(str(path))
        for at, line in enumerate(path.read_text().splitlines(), 1)
        if stated.search(line)
    ]
    assert found == []
