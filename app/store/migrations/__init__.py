"""The way from each schema to the next: one file a step, forward only.

A step is frozen once released: it imports nothing of `app` and names in `OLDEST_PROGRAM` the first version of
Nightdesk that may open the database after it. `app/store/schema.py` runs the steps.
"""
