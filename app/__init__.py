"""Nightdesk, a self-hosted chat in which a reply belongs to the server and not to the page.

The packages, from the inside out: `core` holds the words of the domain, `store` what is true after a restart,
`accounts` who may touch what, `providers` the models, `replies` the life of one reply, `web` its pages and
its JSON. `main` builds the whole; who may import whom is in pyproject.toml, under import-linter.
"""

import sys

# SQLite 3.7.0 to 3.51.2 can corrupt a WAL database when two connections write or checkpoint at the same
# moment, and a distribution's Python is often linked to one of those. The pysqlite3 wheel carries a current
# SQLite. Where it is installed it stands in for the standard module, for every library: nothing of `app` is
# imported earlier than this.
try:
    import pysqlite3
    import pysqlite3.dbapi2
except ImportError:
    pass  # no wheel for this platform: the store looks at the version and takes care
else:
    sys.modules["sqlite3"] = pysqlite3
    sys.modules["sqlite3.dbapi2"] = pysqlite3.dbapi2

__version__ = "0.1.0"
