"""The document of the API: it has every route, is what OpenAPI says it should be, and its page needs no script."""

import json
import re

from jsonschema import Draft202012Validator

from app.core.ids import new_id
from app.web.api import reference
from app.web.api.operation import Operation
from app.web.routes import SITES
from tests.web.api.world import DOCUMENT, World, problem

# The stable seam, as far as its parts exist: what clients, benchmarks and scripts rely on.
PROMISED = """
GET /healthz
GET /readyz
GET /api/v1/models
PATCH /api/v1/models/{id}
GET /api/v1/endpoints
POST /api/v1/endpoints
GET /api/v1/endpoints/{id}
PATCH /api/v1/endpoints/{id}
DELETE /api/v1/endpoints/{id}
POST /api/v1/chats
GET /api/v1/chats
GET /api/v1/chats/{id}
PATCH /api/v1/chats/{id}
DELETE /api/v1/chats/{id}
GET /api/v1/chats/{id}/draft
PUT /api/v1/chats/{id}/draft
POST /api/v1/chats/{id}/branch
POST /api/v1/chats/{id}/messages
GET /api/v1/events
PATCH /api/v1/messages/{id}
DELETE /api/v1/messages/{id}
POST /api/v1/messages/{id}/send-now
GET /api/v1/replies/{id}
GET /api/v1/replies/{id}/events
POST /api/v1/replies/{id}/stop
POST /api/v1/replies/{id}/regenerate
POST /api/v1/replies/{id}/continue
GET /api/v1/replies/{id}/requests
POST /api/v1/files
GET /api/v1/files/{id}
GET /api/v1/usage
GET /api/v1/roles
PATCH /api/v1/roles
GET /api/v1/users
POST /api/v1/users
PATCH /api/v1/users/{id}
GET /api/v1/sessions
DELETE /api/v1/sessions/{id}
GET /api/v1/keys
POST /api/v1/keys
DELETE /api/v1/keys/{id}
GET /api/v1/audit
GET /api/v1/openapi.json
GET /api/v1/docs
"""


def documented() -> set[str]:
    return {f"{method.upper()} {path}" for path, methods in DOCUMENT["paths"].items() for method in methods}


def test_every_route_of_the_api_is_in_the_document():
    routes = {
        f"{method} {site.path}" for site in SITES if site.path.startswith("/api/") for method in site.methods
    }
    assert documented() == routes | {"GET /healthz", "GET /readyz"}


def test_everything_that_was_promised_is_there():
    assert set(PROMISED.split("\n")) - {""} <= documented()


def test_what_is_said_of_an_operation_is_whole():
    operations = [found for methods in DOCUMENT["paths"].values() for found in methods.values()]
    assert len({found["operationId"] for found in operations}) == len(operations)
    for found in operations:
        assert re.fullmatch(r"[A-Z].{8,100}[^.]", found["summary"]), found["operationId"]
        assert any(status.startswith("2") for status in found["responses"]), found["operationId"]
        assert "default" in found["responses"]


def test_every_schema_is_one_and_every_reference_leads_somewhere():
    text = json.dumps(DOCUMENT)
    for name in re.findall(r'"#/components/schemas/(\w+)"', text):
        assert name in DOCUMENT["components"]["schemas"]
    for schema in DOCUMENT["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


def test_messages_alone_require_a_key():
    required = {
        site.path for site in SITES if isinstance(site.handler, Operation) and site.handler.key == "required"
    }
    assert required == {"/api/v1/chats/{id}/messages"}


async def test_the_document_is_served_to_anybody(here: World):
    nobody = here.desk.client()
    answer = await nobody.get("/api/v1/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == DOCUMENT
    await nobody.aclose()


async def test_its_page_lists_every_operation_and_loads_nothing_from_elsewhere(here: World):
    visitor = here.desk.visitor()
    page = await visitor.get("/api/v1/docs")
    assert page.status_code == 200
    for operation in documented():
        assert f"<code>{operation}</code>" in page.text
    assert "<script" not in page.text
    loaded = re.findall(r'(?:src|href)="([^"]*)"', page.text)
    assert all(address.startswith(("/", "#")) for address in loaded)
    assert "'unsafe-inline'" not in page.headers["content-security-policy"]
    await visitor.web.aclose()


def test_the_page_says_types_in_words():
    shown = reference.of(DOCUMENT)
    (message,) = [shape for shape in shown.shapes if shape.name == "Message"]
    kinds = {field.name: field.kind for field in message.fields}
    assert kinds["id"] == "id or null"
    assert kinds["siblings"] == "list of id"
    assert kinds["created"] == "time"
    assert kinds["parts"] == "list of Text or Reasoning or ToolUse or ToolResult or Attachment"


async def test_what_is_not_there_is_a_problem_document(here: World):
    for path in ("/api/v1/hosts", "/api/v1/rules", "/api/v2", "/v1/unknown", "/api/"):
        assert problem(await here.ada.get(path))[:2] == (404, "not-found")
    wrong = await here.ada.put(f"/api/v1/chats/{new_id()}")
    assert problem(wrong)[:2] == (405, "method")
    assert set(wrong.headers["allow"].split(", ")) == {"GET", "HEAD", "PATCH", "DELETE"}
