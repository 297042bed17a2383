"""Code blocks as HTML: a label, and the code with Pygments' short classes.

Only what has a colour gets a span, under one class per kind: `k` keyword, `s` string, `m` number, `c` comment,
`nf` function, `nc` class, `nb` built-in, `nd` decorator, `nt` tag, `na` attribute, and in diffs `gi`, `gd`,
`gh` and `gu`.
"""

from functools import lru_cache
from html import escape

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Generic, Keyword, Literal, Name, Number, Operator, String, _TokenType
from pygments.util import ClassNotFound

# No person reads a longer line of code, and some lexers are slow on it.
_LINE = 2_000

_CLASSES: dict[_TokenType, str] = {
    Keyword: "k",
    Operator.Word: "k",
    String: "s",
    Literal: "s",
    Number: "m",
    Comment: "c",
    Name.Function: "nf",
    Name.Class: "nc",
    Name.Exception: "nc",
    Name.Builtin: "nb",
    Name.Decorator: "nd",
    Name.Tag: "nt",
    Name.Attribute: "na",
    Generic.Inserted: "gi",
    Generic.Deleted: "gd",
    Generic.Heading: "gh",
    Generic.Subheading: "gu",
}
CLASSES = frozenset(_CLASSES.values())

# Known and quick ones. The others have no colour: a lexer is code that a model's text would choose and run.
_KNOWN = """
    asm awk bash bat batch c c++ caddy caddyfile clojure cmake console cpp cs csharp css cuda dart diff docker
    dockerfile elixir elm erlang f# fish fortran fsharp gherkin glsl go golang graphql groovy haskell hcl hs html http
    ini java javascript jinja js json json5 jsonc jsx julia kotlin latex less lisp lua make makefile markdown matlab md
    nasm nginx nim nix objc objective-c objectivec ocaml pascal perl php pl powershell prolog properties proto protobuf
    ps1 pwsh py python python3 py3 r racket rb rs rst ruby rust sass scala scheme scss sh shell shell-session sql
    svelte swift systemd tcl terraform tex tf toml ts tsx twig typescript udiff v verilog vhdl vim vue xml xslt yaml
    yml zig zsh
"""
_LANGUAGES = frozenset(_KNOWN.split())
_ALIASES = {
    "jsonc": "json",
    "jsx": "javascript",
    "shell-session": "console",
    "svelte": "html",
    "tsx": "typescript",
}


def label_of(info: str) -> str:
    """The first word behind a fence: it labels the block and chooses its colours."""
    words = info.split(None, 1)
    return words[0][:32].strip("{}.") if words else ""


def coloured(code: str, language: str) -> str:
    """`code`, a whole block or one line of it, as HTML; what stands before it is not looked at."""
    lexer = _lexer(language.lower())
    if lexer is None or (len(code) > _LINE and any(len(line) > _LINE for line in code.split("\n"))):
        return escape(code, quote=False)
    return _spans(lexer, code)


def frame(language: str) -> tuple[str, str]:
    """What stands before and behind the code of a block."""
    label = escape(language or "text")
    opening = f'<div class="code"><header><span>{label}</span></header><pre tabindex="0"><code>'
    return opening, "</code></pre></div>"


def framed(content: str, language: str) -> str:
    """The whole block around `content`, which is HTML already."""
    opening, closing = frame(language)
    return f"{opening}{content}{closing}"


@lru_cache(maxsize=128)
def _lexer(language: str) -> Lexer | None:
    if language not in _LANGUAGES:
        return None
    try:
        return get_lexer_by_name(_ALIASES.get(language, language), stripnl=False, ensurenl=False)
    except ClassNotFound:  # a name that this version of Pygments does not know
        return None


def _spans(lexer: Lexer, code: str) -> str:
    out: list[str] = []
    within = ""
    for kind, text in lexer.get_tokens(code):
        name = _class_of(kind)
        # Blanks between two words of one colour stay in their span.
        if name != within and not (within and text.isspace() and "\n" not in text):
            out.append("</span>" if within else "")
            out.append(f'<span class="{name}">' if name else "")
            within = name
        out.append(escape(text, quote=False))
    out.append("</span>" if within else "")
    return "".join(out)


@lru_cache(maxsize=512)
def _class_of(kind: _TokenType) -> str:
    found: _TokenType | None = kind
    while found is not None:
        if found in _CLASSES:
            return _CLASSES[found]
        found = found.parent
    return ""
