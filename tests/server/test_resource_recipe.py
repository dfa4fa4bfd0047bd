"""The exercise of *Adding a resource* in CONTRIBUTING, carried out on a copy of the source."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.support.repository import WRITER, Copy, recipe

RECIPE = recipe("Adding a resource")
FRAMEWORK, SERVER = "framework/solward", "server/solward_server"
DECLARED = '''"""Notes: what operators write down."""

from __future__ import annotations

from datetime import datetime

from solward.resources.declare import Answer, Call, Request, declared, resource
from solward.resources.fields import Id, Text, Time


@resource
class NewNote(Request):
    """A note that is to be kept."""

    text: str = declared(Text("What is noted.", most=500))


@resource
class Note(Answer):
    """What was noted."""

    id: str = declared(Id("The note."))
    text: str = declared(Text("As given."))
    created_at: datetime = declared(Time("When it was noted."))


ADD_NOTE = Call("addNote", "POST /notes", "Keep a note.", Note, body=NewNote)
GET_NOTE = Call("getNote", "GET /notes/{note_id}", "A note.", Note)
LIST_NOTES = Call("listNotes", "GET /notes", "The notes, oldest first.", Note, listed="notes")
'''
TABLE = """
notes = Table(
    "notes",
    metadata,
    Column("id", Text, primary_key=True),
    Column("text", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
)
"""
ROUTES = '''"""Notes."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from sqlalchemy import insert, select

from solward.database.tables import notes
from solward.resources import notes as calls
from solward.support.clock import iso, now_ms
from solward.types.errors import NotFound
from solward.types.roles import Role
from solward_server.http.auth import admin
from solward_server.http.body import read_body
from solward_server.http.route_context import RouteContext
from solward_server.openapi.route import Routes

routes = Routes("notes", "What operators write down.")


@routes.serve(calls.ADD_NOTE, admin(Role.OPERATE))
async def add(context: RouteContext) -> dict[str, Any]:
    new = calls.NewNote.of(await read_body())
    made = {"id": str(uuid.uuid4()), "text": new.text, "created_ms": now_ms()}
    async with context.service.database.write() as connection:
        await connection.execute(insert(notes).values(**made))
    return _json(made)


@routes.serve(calls.GET_NOTE, admin(Role.READ))
async def one(context: RouteContext, note_id: str) -> dict[str, Any]:
    async with context.service.database.read() as connection:
        found = await connection.execute(select(notes).where(notes.c.id == note_id))
    row = found.first()
    if row is None:
        raise NotFound("Note not found")
    return _json(row._asdict())


@routes.serve(calls.LIST_NOTES, admin(Role.READ))
async def listing(context: RouteContext) -> dict[str, Any]:
    async with context.service.database.read() as connection:
        rows = await connection.execute(select(notes).order_by(notes.c.created_ms))
    return {"notes": [_json(row._asdict()) for row in rows]}


def _json(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": row["id"], "text": row["text"], "createdAt": iso(row["created_ms"])}
'''
COMMANDS = '''"""`solward notes add|list`."""

from __future__ import annotations

from typing import Any

import click

from solward.resources import notes as declared
from solward_cli.declared import request_options, call_args
from solward_cli.render import answer_table, Output
from solward_cli.service_call import ServiceCall, service_call


@click.group()
def notes() -> None:
    """What operators write down."""


@notes.command()
@request_options(declared.NewNote)
@service_call
async def add(call: ServiceCall, **values: Any) -> Output:
    """Keep TEXT."""
    made = await call.client.notes.add(**call_args(declared.NewNote, values))
    return answer_table([made], "id", "text", empty="")


@notes.command("list")
@service_call
async def listing(call: ServiceCall) -> Output:
    """List the notes."""
    found = await call.client.notes.list()
    return answer_table(found, "id", "text", "created_at", empty="There are no notes.")
'''
NEW = {
    f"{FRAMEWORK}/resources/notes.py": DECLARED,
    f"{SERVER}/resources/notes.py": ROUTES,
    "server/solward_cli/notes.py": COMMANDS,
}
# File -> what is put behind what.
CHANGES = {
    f"{FRAMEWORK}/database/tables.py": {"# API keys and admin credentials.\n": TABLE},
    f"{SERVER}/resources/__init__.py": {
        "    holds,\n": "    notes,\n",
        "    service.settings,\n": "    notes.routes,\n",
    },
    f"{SERVER}/openapi/components.py": {
        '    "payment_id": (Id("The payment."), _RECORD, "Payment not found"),\n': (
            '    "note_id": (Id("The note."), _RECORD, "Note not found"),\n'
        )
    },
    WRITER: {
        '    "Keys": _calls(credentials, "/keys"),\n': '    "Notes": _calls(notes),\n',
        "    holds,\n": "    notes,\n",
    },
    f"{FRAMEWORK}/client/client.py": {
        "        self.keys = Keys(self._http)\n": "        self.notes = Notes(self._http)\n",
        "from solward.client.requests import (\n": "    Notes,\n",
    },
    "server/solward_cli/__init__.py": {
        '    "contacts": "Name recipients.",\n': '    "notes": "Write notes and list them.",\n'
    },
}
# What then has it, run in a process of the copy.
FOUND = """
import asyncio, sys
from pathlib import Path

from tests.support.services import serving_api

from solward.client.requests import Notes
from solward.resources.declare import fields_of
from solward.resources import notes as declared
from solward_cli import notes as commands
from solward_dashboard.forms import form_schema

assert Notes.add.__doc__.startswith("Keep a note.")
argument = commands.notes.commands["add"].params[0]
assert (argument.name, argument.required) == ("text", True)
assert form_schema(fields_of(declared.NewNote))["properties"]["text"]["maxLength"] == 500


async def serve(home: Path) -> None:
    async with serving_api(home) as api:
        made = (await api.post("/notes", {"text": "ask ana"})).json
        assert (await api.get("/notes")).json == {"notes": [made]}
        assert (await api.get(f"/notes/{made['id']}")).json == made
        assert (await api.get("/notes/none")).status == 404
        long = await api.post("/notes", {"text": "a" * 501})
        assert long.error == "text must be a string of 1 to 500 characters"
        unknown = await api.post("/notes", {"text": "b", "note": "c"})
        assert (unknown.status, "note" in unknown.error) == (400, True)
        key, _ = await api.key()
        assert (await api.get("/notes", token=key)).status == 401
        document = (await api.get("/openapi.json")).json
        assert document["paths"]["/api/v1/notes"]["post"]["operationId"] == "addNote"
        assert {"name": "notes", "description": "What operators write down."} in document["tags"]


asyncio.run(serve(Path(sys.argv[1])))
print("found everywhere")
"""


def test_the_recipe_is_short() -> None:
    assert len(RECIPE.strip().splitlines()) <= 30
    assert re.findall(r"^(\d)\. ", RECIPE, re.MULTILINE) == list("123456")


@pytest.mark.more
def test_a_resource_made_by_the_recipe_is_on_every_surface(tmp_path: Path) -> None:
    copy = Copy.made(tmp_path / "tree")
    for path in NEW:
        folder, _, name = path.rpartition("/")
        assert f"module `{name.removesuffix('.py')}` in `{folder}/`" in RECIPE
    for path in CHANGES:
        # The recipe names the files by where they stand below these two.
        assert f"`{path.removeprefix(f'{FRAMEWORK}/')}`" in RECIPE or f"`{path}`" in RECIPE, path
    for path, text in NEW.items():
        (copy.tree / path).write_text(text)
    for path, put in CHANGES.items():
        for at, more in put.items():
            copy.put(path, at, more)
    assert "`make operations`" in RECIPE
    copy.run("-m", "tests.operations.generate")
    assert copy.run("-c", FOUND, str(tmp_path / "home")).endswith("found everywhere\n")
