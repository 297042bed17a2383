"""Files: uploaded once, typed by what is in them, given back to their owner as bytes and nothing else."""

import hashlib
from pathlib import Path

import httpx

from app.core.ids import new_id
from app.web.api.upload import plain_name, type_of
from tests.web.api.world import World, problem, world

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)
SVG = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"


async def upload(
    by: httpx.AsyncClient,
    content: bytes = b"text",
    name: str = "notes.txt",
    says: str = "text/html",
    **headers: str,
) -> httpx.Response:
    return await by.post(
        "/api/v1/files",
        files={"file": (name, content, says)},
        headers={header.replace("_", "-"): value for header, value in headers.items()},
    )


def kept(here: World) -> list[str]:
    """What lies in the folder of files."""
    return sorted(path.name for path in here.desk.house.folder.files.iterdir())


async def test_a_file_is_stored_under_its_hash_and_typed_by_its_content(here: World):
    answer = await upload(here.ada, PNG, "holiday.html")
    assert answer.status_code == 201
    file = answer.json()
    assert file["sha256"] == hashlib.sha256(PNG).hexdigest()
    assert (file["name"], file["type"], file["size"]) == ("holiday.html", "image/png", len(PNG))
    assert kept(here) == [file["sha256"]]


async def test_a_file_comes_back_as_a_download_that_can_do_nothing(here: World):
    file = (await upload(here.ada, SVG, 'ev"il;\n.svg', "image/svg+xml")).json()
    for by, path in ((here.ada, "/api/v1/files"), (await here.browser_of("ada"), "/files")):
        answer = await by.get(f"{path}/{file['id']}")
        assert answer.content == SVG
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert answer.headers["content-disposition"].startswith("attachment")
        assert answer.headers["x-content-type-options"] == "nosniff"
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert policy.endswith("sandbox")


async def test_a_range_of_a_file_is_served(here: World):
    file = (await upload(here.ada, b"0123456789")).json()
    answer = await here.ada.get(f"/api/v1/files/{file['id']}", headers={"range": "bytes=2-4"})
    assert (answer.status_code, answer.content) == (206, b"234")


async def test_a_file_of_somebody_else_does_not_exist(here: World):
    file = (await upload(await here.program("bob"))).json()
    for id in (file["id"], new_id(), "1"):
        assert problem(await here.ada.get(f"/api/v1/files/{id}"))[:2] == (404, "not-found")


async def test_a_damaged_file_is_said_to_be_damaged(here: World):
    file = (await upload(here.ada)).json()
    (here.desk.house.folder.files / file["sha256"]).write_bytes(b"tex7")
    assert problem(await here.ada.get(f"/api/v1/files/{file['id']}"))[:2] == (507, "storage")


async def test_the_same_key_gives_the_same_file(here: World):
    key = new_id()
    first, again = [(await upload(here.ada, idempotency_key=key)).json() for _ in range(2)]
    assert first == again
    assert problem(await upload(here.ada, b"other", idempotency_key=key))[:2] == (409, "key-reused")
    assert (await upload(here.ada)).json()["id"] != first["id"]


async def test_a_file_goes_with_a_message(here: World):
    picture, text = (await upload(here.ada, PNG)).json(), (await upload(here.ada)).json()
    said = await here.post(await here.chat(), "Look", files=[picture["id"], text["id"]])
    assert said.json()["message"]["parts"] == [
        {"type": "text", "text": "Look"},
        {"type": "image", "file": picture["id"], "name": "notes.txt"},
        {"type": "document", "file": text["id"], "name": "notes.txt"},
    ]


async def test_a_file_over_the_limit_leaves_nothing_behind(tmp_path: Path):
    async with world(tmp_path / "data", max_upload=1000) as here:
        assert problem(await upload(here.ada, b"x" * 1001))[:2] == (413, "too-long")
        assert problem(await upload(here.ada, b"x" * 200_000))[:2] == (413, "too-long")
        assert kept(here) == []
        assert (await upload(here.ada, b"x" * 1000)).status_code == 201


async def test_what_is_no_form_with_one_file_is_refused_and_leaves_nothing_behind(here: World):
    form = {"content-type": "multipart/form-data; boundary=b"}
    begun = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\ntext'
    for name, headers, body in (
        ("no form", {"content-type": "text/plain"}, b"text"),
        ("no boundary", {"content-type": "multipart/form-data"}, begun + b"\r\n--b--\r\n"),
        ("a long boundary", {"content-type": f"multipart/form-data; boundary={'b' * 5000}"}, b""),
        ("empty", form, b""),
        ("rubbish", form, b"\x00\xff" * 50),
        ("cut off", form, begun),
        ("no file", form, b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\ntext\r\n--b--\r\n'),
        ("two files", form, begun + b"\r\n" + begun + b"\r\n--b--\r\n"),
        (
            "many parts",
            form,
            b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n' * 50 + b"--b--\r\n",
        ),
        ("a header without end", form, b"--b\r\n" + b"x" * 100_000),
    ):
        answer = await here.ada.post("/api/v1/files", content=body, headers=headers)
        assert problem(answer)[:2] == (400, "invalid"), name
    assert kept(here) == []


async def test_a_page_uploads_with_the_token_in_a_header(here: World):
    browser = await here.browser_of("ada")
    assert (await upload(browser)).status_code == 201
    token = browser.headers.pop("x-csrf-token")
    assert problem(await upload(browser))[:2] == (403, "not-allowed")
    in_form = await browser.post("/api/v1/files", data={"csrf": token}, files={"file": ("a.txt", b"text")})
    assert problem(in_form)[:2] == (403, "not-allowed")


async def test_names_are_cut_down_to_plain_ones():
    assert plain_name("C:\\fakepath\\..\\notes.txt") == "notes.txt"
    assert plain_name("../../etc/passwd") == "passwd"
    assert plain_name(".htaccess") == "htaccess"
    assert plain_name("a\u202egnp.exe\x00") == "agnp.exe"
    assert plain_name("  ") == "file"
    assert plain_name("x" * 300 + ".tar.gz") == "x" * 197 + ".gz"


async def test_types_come_from_a_short_list():
    assert type_of(b"\xff\xd8\xff\xe0") == "image/jpeg"
    assert type_of(b"GIF89a...") == "image/gif"
    assert type_of(b"RIFF\x00\x00\x00\x00WEBPVP8 ") == "image/webp"
    assert type_of(b"%PDF-1.7") == "application/pdf"
    assert type_of(b"PK\x03\x04....") == "application/zip"
    assert type_of(b"<!doctype html><script>") == "text/plain"
    assert type_of("ä".encode()[:1]) == "text/plain"  # cut within a character
    assert type_of(b"") == "text/plain"
    assert type_of(b"MZ\x90\x00") == "application/octet-stream"
    assert type_of(b"\xff\xfe\x00\x01") == "application/octet-stream"
