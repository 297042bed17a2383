"""Static files: joined, versioned, packed once, and what is not ours accounted for."""

import gzip
import hashlib
import re
import tomllib
from pathlib import Path

import pytest

from app.web.assets import ENTRY, SHEET, Assets, Unjoinable, join_modules, join_sheets

STATIC = Path(__file__).resolve().parents[2] / "static"


def modules(**sources: str) -> dict[str, bytes]:
    """Files under `js/`: `a__b` stands for `a/b.js`."""
    return {f"js/{name.replace('__', '/')}.js": source.encode() for name, source in sources.items()}


def test_a_module_stands_behind_what_it_imports():
    joined = join_modules(
        modules(
            app='import { two } from "./lib/two.js";\ntwo();\n',
            lib__two='import { one } from "./one.js";\nexport function two() { one(); }\n',
            lib__one="export const one = () => 1;\n",
        )
    )[ENTRY].decode()
    assert joined.index("const one") < joined.index("function two") < joined.index("two();\n")
    assert "import" not in joined.split("export {")[0]


def test_a_joined_module_keeps_an_address_that_exports_the_same_things():
    again = join_modules(
        modules(app='import { one } from "./lib/one.js";\none();\n', lib__one="export const one = () => 1;\n")
    )
    assert again["js/lib/one.js"] == b'export { one } from "../app.js";\n'


def test_modules_may_import_each_other():
    joined = join_modules(
        modules(
            app='import { a } from "./a.js";\na();\n',
            a='import { b } from "./b.js";\nexport function a() { b; }\n',
            b='import { a } from "./a.js";\nexport function b() { a; }\n',
        )
    )[ENTRY].decode()
    assert joined.count("function a()") == joined.count("function b()") == 1


def test_what_is_loaded_later_is_named_as_seen_from_the_entry():
    joined = join_modules(
        modules(
            app='import "./controllers/keys.js";\n',
            controllers__keys='const open = () => import("./palette.js");\n',
        )
    )[ENTRY].decode()
    assert 'import("./controllers/palette.js")' in joined


def test_a_module_that_is_loaded_later_takes_what_is_joined_from_the_entry():
    later = join_modules(
        modules(
            app='import { one } from "./lib/one.js";\none();\n',
            lib__one="export const one = () => 1;\n",
            lib__two="export const two = 2;\n",
            controllers__late='import { one } from "../lib/one.js";\nimport { two } from "../lib/two.js";\none(two);\n',
        )
    )["js/controllers/late.js"].decode()
    assert 'import { one } from "../app.js";' in later
    assert 'import { two } from "../lib/two.js";' in later


@pytest.mark.parametrize(
    ("sources", "named"),
    [
        ({"app": 'import { a } from "./gone.js";\n'}, "gone.js"),
        (
            {"app": 'import { a as b } from "./a.js";\nexport default b;\n', "a": "export const a = 1;\n"},
            "app.js",
        ),
        (
            {
                "app": 'import { a } from "./a.js";\nconst x = 1;\n',
                "a": "const x = 2;\nexport const a = x;\n",
            },
            "'x'",
        ),
    ],
    ids=["missing", "default export", "one name twice"],
)
def test_what_cannot_be_joined_is_named(sources, named):
    with pytest.raises(Unjoinable, match=re.escape(named)):
        join_modules(modules(**sources))


def test_the_order_of_layers_comes_first_and_comments_go():
    sheet = join_sheets(
        {"css/a.css": b"/* why */\n@layer base { a { b: c } }\n", "css/layers.css": b"@layer x;\n"}
    )
    assert sheet.startswith(b"@layer x;")
    assert b"why" not in sheet


def test_the_version_changes_with_any_file():
    one = Assets({"a.txt": b"1", "b.txt": b"1"})
    assert one.version == Assets({"b.txt": b"1", "a.txt": b"1"}).version
    assert one.version != Assets({"a.txt": b"1", "b.txt": b"2"}).version
    assert one.version != Assets({"a.txt": b"1", "c.txt": b"1"}).version


def test_text_is_packed_and_fonts_are_not():
    assets = Assets({"a.css": b"a {}" * 100, "f.woff2": b"x" * 100})
    sheet, font = assets.find("a.css"), assets.find("f.woff2")
    assert sheet is not None
    assert font is not None
    assert sheet.packed is not None
    assert gzip.decompress(sheet.packed) == sheet.body
    assert font.packed is None
    assert (sheet.type, font.type) == ("text/css; charset=utf-8", "font/woff2")


def test_what_the_first_screen_loads_is_light():
    assets = Assets.load(STATIC)
    first = (SHEET, ENTRY, "vendor/htmx/htmx.min.js", "icons.svg", "sign.svg", "font/public-sans.woff2")
    weights = {path: len(found.packed or found.body) for path in first if (found := assets.find(path))}
    assert len(weights) == len(first)
    # SPEC 17 allows 120 KB for all of a chat page; the rest is for the page itself.
    assert sum(weights.values()) < 90_000, weights


def test_nothing_names_an_address_elsewhere():
    """Whatever the page needs comes from this server: there is no other one it may ask."""
    for asset in Assets.load(STATIC):
        if asset.path.endswith((".css", ".js")) and not asset.path.startswith("vendor/"):
            assert not re.search(rb"https?://(?!www\.w3\.org/)", asset.body), asset.path


def test_what_is_not_ours_is_as_the_manifest_says():
    manifest = tomllib.loads((STATIC / "vendor/manifest.toml").read_text())
    listed: dict[Path, str] = {}
    for package in manifest["package"]:
        assert package["version"]
        assert package["licence"]
        listed |= {(STATIC / "vendor" / path).resolve(): wanted for path, wanted in package["files"].items()}
    there = {path for folder in ("vendor", "font") for path in (STATIC / folder).rglob("*") if path.is_file()}
    assert there - {STATIC / "vendor/manifest.toml"} == set(listed)
    for path, wanted in listed.items():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == wanted, path
