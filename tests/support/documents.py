"""Awkward markdown: what has broken one renderer or another, and what models like to write."""

# ruff: noqa: E501

AWKWARD: dict[str, str] = {
    "plain": "Just a line.",
    "empty": "",
    "blank lines alone": "\n\n \n\t\n",
    "setext headings": "Title\n=====\n\nText\nmore\n---\n\nEnd",
    "a rule below a paragraph": "para\n\n---\n\nafter",
    "a list below a line": "Intro:\n- a\n- b\n\nOutro",
    "an ordered list whose dots come late": "1. a\n\n2. b\n\n3) c\n\n4) d",
    "a list that starts at seven": "7. seven\n8. eight\n\n   more of eight\n9. nine",
    "a list of one item": "- alone",
    "a tight list that turns loose": "- a\n- b\n\n- c\n- d\n",
    "deep lists": "- a\n  - b\n    - c\n      - d\n        - e\n\n          text of e\n- f",
    "lists of other markers": "- a\n* b\n+ c\n1. d\n1) e\n",
    "an item that is empty": "-\n\n  not in it\n\n- \n- x",
    "task lists": "- [ ] open\n- [x] done\n- [X] done, too\n- [a] no task\n  - [ ] nested\n- [ ]\n",
    "a fence in a list": "1. do\n   ```sh\n   ls\n\n   pwd\n   ```\n2. then\n\n   - [ ] more",
    "a fence right below a line": "Code:\n```python\ndef f():\n\n    return 1\n```\nafter it\n\nend",
    "nested fences": "````md\n```py\nx\n```\n````\n\n~~~\n```\n~~~\n",
    "an unclosed fence": "text\n\n```js\nlet a = 1;\n\n\nlet b = 2;",
    "a fence that is closed by a longer one": "```\na\n`````\nb",
    "an indented fence": "  ```\n  a\n    b\n c\n  ```\nend",
    "a fence in a quote": "> ```\n> a\n\nb\n> > deep\n> back",
    "lazy quotes": "> a\nb\n\n> c\n> > d\ne\n",
    "indented code": "para\n\n    code\n\n    more code\n\nend",
    "hard tabs": "-\ta\n\tb\n\n\tc\n\n\tcode?\n1.\tone\n\n\t\tcode",
    "tables": "| a | b |\n|---|--:|\n| 1 | 2 |\n| `x\\|y` | **b** |\n\nafter",
    "a table without outer bars": "a | b\n--|:-:\n1 | 2\n3\n\nafter",
    "a table that is none": "| a | b |\n| 1 | 2 |\n\nafter | bar",
    "a table below a line": "Look:\n| a |\n|---|\n| 1 |\n- item\n",
    "definitions that come late": "See [one] and [two][2] and [three].\n\n- [one]\n- x\n\n[one]: https://a.example\n[2]: <https://b.example> 'T'\n\nMore [three].\n\n[three]:\nhttps://c.example\n\"title\"\n",
    "a definition twice": "[a]: https://first.example\n\n[a]: https://second.example\n\n[a] [A] [ a ]",
    "footnotes": "One[^1] and two[^long] and again[^1].\n\n[^1]: First.\n\n[^long]: Second,\n\n    with a second paragraph and `code`.\n\nThird[^none].\n\n[^unused]: nobody points here\n",
    "footnotes before their use": "[^a]: Note with [^b].\n\n[^b]: Other.\n\nText[^b] text[^a].",
    "prices": "It costs $5 to $10, or $1,000/month and 50$ more. US$3 is not $4.50.",
    "formulas": "With $x^2 + y_1$ and \\(a\\), $$E = mc^2$$ inline.\n\n$$\n\\frac{a}{b}\n$$\n\n\\[\nx = \\sum_i i\n\\]\n\nend",
    "formulas that never end": "$$\na = b\n\nnot any more\n\n$x and\n\n\\[ y",
    "minus signs in a formula": "$$\nx =\n- a\n- b\n$$\n\nend",
    "brackets that are no formula": "An \\[optional\\] word, \\(really\\).",
    "html": "<div onclick=alert(1)>\n\n<script>alert(1)</script>\n\ntext <b>bold</b> <img src=x onerror=alert(1)>",
    "entities": "&amp; &copy; &#35; &#x41; &nope; & < > \" '",
    "emphasis at odd places": "**bold *both* bold** *it**it* __a__ snake_case_name 2*3*4 ***all*** ~~gone~~",
    "emphasis that never ends": "**bold\n\n*it\n\n`code\n\n~~x",
    "escapes": "\\*not\\* \\`not\\` \\[no\\](x) \\\\ \\$5",
    "line breaks": "one  \ntwo\\\nthree\nfour\n\n\n\nfive",
    "carriage returns": "a\r\nb\r\n\r\n- c\r- d\r\rend\r\n",
    "NUL": "a\0b\n\nc\0",
    "right to left": "שלום **עולם**\n\n- فارسی\n- English\n\n> עברית",
    "emoji and combining": "👩‍👩‍👧‍👦 e\u0301 🇩🇪\n\n- 😀\n- 🏳️‍🌈 `😀`\n\n😀",
    "bare addresses": "See https://example.org/a_b_(c), http://x.y. and www.no.link or mail@no.link.\n\n<https://auto.link>",
    "images": "![a](https://evil.test/x.png)\n\n[![b](https://evil.test/y.png)](https://ok.example)\n\n![c][r]\n\n[r]: https://evil.test/z.png\n",
    "links of odd schemes": "[a](javascript:alert(1)) [b](data:text/html,x) [c](//evil.test) [d](file:///etc) [e](mailto:a@b.example)",
    "a long line": "word " * 400 + "\n\nend",
    "headings in a row": "# A\n## B\ntext\n### C\n\n#### D\n##### E\n###### F\n####### no",
    "rules": "***\n---\n___\n- - -\n\n* * *\ntext",
    "markers that are none": "-a\n1.b\n#c\n>d\n+\n",
    "a heading in an item": "- # head\n\n  text\n- ---\n- > quote\n",
    "a wall of signs": "![" * 400,
    "a paragraph that is too long": "lorem *ipsum* " * 1500 + "\nand [x](https://x.example)\n\nafter **it**",
    "code that is too long": "```py\n" + "x = 'a'  # comment\n" * 1200 + "```\nafter",
    "a line that is too long": "x" * 40_000 + "\n\nafter",
    "a list with an item that is too long": "- a\n- " + "word " * 4000 + "\n- c\n\nend",
}

# What random documents are made of.
LINES = (
    """
- a|- b|* c|1. one|2. two|10. ten|  - nested|   cont|    code|> q|>> qq|```|```py|~~~|````|# H|## H2|===|---|***|- - -
para text|more *em* text|[x]: /no|[x]: http://x.y|[y]:|http://y.z 'title'|'title'|[x] and [y]|![i][x]|$$|a = b|$$ x $$
\\[|\\]|<div>|&amp; &copy;|*a|b*|`code|`|-|1.|- [ ] t|- [x] d|-b|1)x|  ```|   > q|text  |--|[^1]: note|see [^1]|😀 e\u0301
""".strip()
    .replace("\n", "|")
    .split("|")
)
LINES += ["\tcode", "| a | b |", "|---|---|", "| 1 | 2 |", "a | b", "--|--", ""]
