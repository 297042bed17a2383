"""What every test gets: the SQLite that the application brings, and no deadlines for hypothesis."""

from hypothesis import settings

import app

assert app.__version__  # imported for its effect: app/__init__.py says which

# A deadline per example measures how busy the machine is.
settings.register_profile("nightdesk", deadline=None, print_blob=True)
settings.load_profile("nightdesk")
