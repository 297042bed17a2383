"""What is true after a restart: one SQLite database, its tables, and the functions that read and write them.

Functions take an open session; transactions begin and end in `replies`, `accounts` and `web` through
`engine.Database.read()` and `.write(fn)`. No network call is ever awaited inside one.
"""
