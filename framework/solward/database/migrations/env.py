"""Alembic's entry: runs on the connection, and inside the transaction, it is handed."""

from alembic import context

from solward.database.tables import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
