"""The application around a house: its site map, the gate before it, and what errors look like."""

from starlette.applications import Starlette
from starlette.middleware import Middleware

from app.web.house import House
from app.web.middleware import Gate
from app.web.problems import HANDLERS
from app.web.routes import routes


def site(house: House) -> Starlette:
    """The application that answers for `house`."""
    app = Starlette(routes=routes(), middleware=[Middleware(Gate)], exception_handlers=HANDLERS)
    app.state.house = house
    return app
