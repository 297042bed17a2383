"""Who is asking, what they may touch, and what is kept secret.

In reading order: `access` (a person and their rights), `passwords`, `rates`, `sessions` (tokens and keys to
persons), `people` (accounts and the links that make them), `vault` (secrets at rest), `audit` (who did what).
"""
