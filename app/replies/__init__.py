"""The life of one reply: accept, registry, models, prepare, runner, toolstep, queue, title, finish.

A reply belongs to the server: once its input is committed it runs to its one outcome, whoever watches. It
changes through `feed.Generation.emit` alone; `log` keeps its events on disk and `recovery` picks up what a
restart left.
"""
