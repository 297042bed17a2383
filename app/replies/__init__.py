"""The life of one reply, in reading order.

`accept` (with `intake`, `once`) takes input in · `registry` owns each reply's tasks · `models`, `endpoints` and
`bare` say who answers · `prepare` assembles the request · `runner`, `toolstep` and `meter` run the loop ·
`queue`, `title` come after · `manuscript`, `finish` store rounds and the outcome · `feed`, `log` are what
followers read and its file · `recovery` picks up what a restart left · `ended`, `snapshot`, `reply_view` tell
of replies. A reply belongs to the server: it runs to its one outcome, whoever watches, and changes through
`feed.Generation.emit` alone.
"""
