"""The database refuses that a record changes after its end, which pages of records rely on."""

from __future__ import annotations

from sqlalchemy import text

from solward.database.database import Database

_REFUSAL = "an ended record was changed"
_ON_SQLITE = f"""
    CREATE TRIGGER ended_records_stay BEFORE UPDATE ON transactions
    WHEN old.status <> 'pending' BEGIN SELECT raise(ABORT, '{_REFUSAL}'); END
"""
_ON_POSTGRES = (
    f"""
    CREATE FUNCTION ended_records_stay() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION '{_REFUSAL}'; END $$
    """,
    """
    CREATE TRIGGER ended_records_stay BEFORE UPDATE ON transactions FOR EACH ROW
    WHEN (old.status <> 'pending') EXECUTE FUNCTION ended_records_stay()
    """,
)


async def refuse_changes_of_ended_records(database: Database) -> None:
    """Whatever changes one fails from now on, in any process."""
    async with database.write() as connection:
        for statement in _ON_POSTGRES if database.shared else (_ON_SQLITE,):
            await connection.execute(text(statement))


async def permit_changes_of_ended_records(database: Database) -> None:
    """For a test that puts records into another time or state itself."""
    place = " ON transactions" if database.shared else ""
    async with database.write() as connection:
        await connection.execute(text(f"DROP TRIGGER ended_records_stay{place}"))
