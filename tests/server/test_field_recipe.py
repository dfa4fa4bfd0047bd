"""The exercise of *Adding a field* in CONTRIBUTING, carried out on a copy of the source."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

import pytest
from tests.support.repository import Copy, recipe

RECIPE = recipe("Adding a field")
FRAMEWORK, SERVER = "framework/solward", "server/solward_server"
# File -> what is put behind what.
CHANGES = {
    f"{FRAMEWORK}/resources/credentials.py": {
        "    expires_at: str | None = declared(_ENDS, default=None)\n"
        "\n\n@resource\nclass NewSecret": (
            "    max_wallets: int = declared(\n"
            '        Whole("The most wallets it makes.", least=0, most=1_000), default=1_000\n'
            "    )\n"
        )
    },
    f"{FRAMEWORK}/database/tables.py": {
        '    Column("read_only", Boolean, nullable=False, default=False),\n': (
            '    Column("max_wallets", Integer, nullable=False, default=1_000),\n'
        )
    },
    f"{FRAMEWORK}/credentials/credentials.py": {
        "    read_only: bool = False\n": "    max_wallets: int = 1_000\n"
    },
    f"{SERVER}/resources/credentials.py": {
        "        read_only=new.read_only,\n": "        max_wallets=new.max_wallets,\n"
    },
    f"{FRAMEWORK}/vault/custody/service.py": {
        "        made = await store.made_by(connection, maker)\n": (
            "        asked = select(credentials.c.id, credentials.c.max_wallets)\n"
            "        rows = await connection.execute(asked)\n"
            "        most = {key_principal(row.id): row.max_wallets for row in rows}\n"
        ),
        "from sqlalchemy.ext.asyncio import AsyncConnection\n": "from sqlalchemy import select\n",
        "from solward.types.roles import is_key\n": (
            "from solward.types.roles import key_principal\n"
            "from solward.database.tables import credentials\n"
        ),
    },
}
REPLACED = {
    f"{FRAMEWORK}/vault/custody/service.py": (
        ("made >= MOST_OF_A_KEY", "made >= min(MOST_OF_A_KEY, most[maker])"),
    )
}
# What then has it, run in a process of the copy.
FOUND = """
import asyncio, inspect, sys
from pathlib import Path

from tests.support.services import serving_api

from solward.client.requests import Keys
from solward.resources.credentials import NewKey
from solward.resources.declare import fields_of
from solward_cli.credentials import key
from solward_dashboard.forms import form_schema

assert "max_wallets" in inspect.signature(Keys.create).parameters
(option,) = (each for each in key.commands["create"].params if each.name == "max_wallets")
assert (option.opts, option.type.max) == (["--max-wallets"], 1_000)
assert form_schema(fields_of(NewKey))["properties"]["maxWallets"]["maximum"] == 1_000
row = "| `maxWallets` | a whole number from 0 to 1,000 | `1000` |"
assert row in Path("docs/reference/rest.md").read_text()


async def serve(home: Path) -> None:
    async with serving_api(home) as api:
        paths = (await api.get("/openapi.json")).json["paths"]
        body = paths["/api/v1/keys"]["post"]["requestBody"]["content"]["application/json"]
        assert body["schema"]["properties"]["maxWallets"]["default"] == 1_000
        wrong = await api.post("/keys", {"name": "ci", "maxWallets": 1_001})
        assert wrong.error == "maxWallets must be a whole number from 0 to 1000"
        made = (await api.post("/keys", {"name": "ci", "maxWallets": 1})).json
        first = await api.post("/wallets", {}, token=made["apiKey"])
        second = await api.post("/wallets", {}, token=made["apiKey"])
        assert (first.status, second.status) == (200, 500), second.text


asyncio.run(serve(Path(sys.argv[1])))
print("found everywhere")
"""


def test_the_recipe_is_short() -> None:
    assert len(RECIPE.strip().splitlines()) <= 30
    assert re.findall(r"^(\d)\. ", RECIPE, re.MULTILINE) == list("1234")


@pytest.mark.more
def test_a_field_made_by_the_recipe_is_on_every_surface(tmp_path: Path) -> None:
    copy = Copy.made(tmp_path / "tree")
    changed = 0
    for path, put in CHANGES.items():
        # The recipe names the files by where they stand below these two.
        assert f"`{path.removeprefix(f'{FRAMEWORK}/')}`" in RECIPE or f"`{path}`" in RECIPE, path
        before = (copy.tree / path).read_text()
        for at, more in put.items():
            copy.put(path, at, more)
        for old, new in REPLACED.get(path, ()):
            copy.replace(path, old, new)
        lines = difflib.ndiff(before.splitlines(), (copy.tree / path).read_text().splitlines())
        changed += sum(each.startswith("+ ") for each in lines)
    assert changed <= 15
    copy.run("-m", "tests.operations.generate")
    assert copy.run("-c", FOUND, str(tmp_path / "home")).endswith("found everywhere\n")
