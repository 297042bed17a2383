"""The JSON API under `/api/v1`: one module per resource, each handler with a declaration of what it takes and gives.

    operation.py  what an operation declares of itself     schema.py   types as JSON Schema
    asked.py      what a request says, read and checked    shapes.py   the shapes of answers
    waiting.py    answers that come later                  openapi.py  the document made of all of it

What a body may hold is said once, as a type: the served document is made from it and bodies are checked against it.
"""
