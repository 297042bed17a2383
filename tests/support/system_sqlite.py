"""A pytest plugin (`-p tests.support.system_sqlite`): run on the SQLite that this Python is linked to.

Platforms without a wheel of pysqlite3 have nothing else, so the tests of the store pass on both.
"""

import sys

assert "app" not in sys.modules, "the choice is made when `app` is imported"
sys.modules["pysqlite3"] = None  # type: ignore[assignment]  # how Python itself marks a module that cannot be imported
