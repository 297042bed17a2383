"""Run by Alembic: the steps, each in one transaction, on the connection that `schema.py` hands over."""

from typing import Any

from alembic import context
from sqlalchemy import text


def note_oldest_program(ctx: Any, step: Any, heads: Any, run_args: Any) -> None:
    """Part of the step's transaction: which Nightdesk may open the database from now on."""
    statement = text("UPDATE compatibility SET oldest_program = :version")
    ctx.connection.execute(statement, {"version": step.up_revision.module.OLDEST_PROGRAM})


context.configure(
    connection=context.config.attributes["connection"],
    transactional_ddl=True,
    transaction_per_migration=True,
    on_version_apply=note_oldest_program,
)
context.run_migrations()
