"""The first schema: people, endpoints, chats, replies, the ledger, and search over them."""

import re
from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None

OLDEST_PROGRAM = "0.1.0"


def upgrade() -> None:
    connection = op.get_bind()
    script = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
    # Statements are parted by empty lines; within a trigger there is none.
    for statement in re.split(r";\n(?:\n|$)", script):
        if statement.strip():
            connection.exec_driver_sql(statement)
