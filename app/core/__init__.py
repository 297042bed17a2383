"""The words of the domain: values and rules, no I/O.

Everything here is pure: frozen values, one fold (`state.apply`) and one table of legal moves (`reply`).
Every other package may import this one; it imports nothing of `app`.
"""
