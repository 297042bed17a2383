"""A request in, a stream of neutral events out: one adapter per wire API, each only translating.

`base` is the seam, `sse`, `reasoning` and `calls` read the wire, `table` maps an API's name to its class.
Nothing above this package knows which API it was.
"""
