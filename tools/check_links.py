#!/usr/bin/env python3
"""Checks the links of the documentation: every relative target exists, every #anchor is a heading of its page.

Usage: check_links.py [--self-test]. Exit status 1 with a line for each broken link."""
# SPDX-License-Identifier: MIT
import pathlib
import re
import sys
import tempfile
import urllib.parse

SKIPPED = {".git", "build"}
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)|^\[[^\]]+\]:\s*(\S+)", re.M)
CODE = re.compile(r"^(`{3,}).*?^\1`*$|(`+)(?!`).*?(?<!`)\2(?!`)", re.M | re.S)
COMMENT = re.compile(r"<!--.*?-->", re.S)


def blanked(match):
    return re.sub(r"[^\n]", " ", match[0])


def anchors(text):
    """The anchors of a page: each heading in lower case, punctuation dropped, blanks as hyphens; repeated ones numbered."""
    seen, found = {}, set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))
    for heading in re.findall(r"^#{1,6}\s+(.*?)\s*#*$", re.sub(r"^(`{3,}).*?^\1`*$", "", text, flags=re.M | re.S), re.M):
        heading = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        count = seen.get(anchor, 0)
        seen[anchor] = count + 1
        found.add(f"{anchor}-{count}" if count else anchor)
    return found


def check(root):
    pages = sorted(p for p in root.rglob("*.md") if not SKIPPED & set(p.relative_to(root).parts))
    texts = {page: page.read_text() for page in pages}
    for page, text in texts.items():
        plain = COMMENT.sub(blanked, CODE.sub(blanked, text))
        for match in LINK.finditer(plain):
            target = match[1] or match[2]
            where = f"{page.relative_to(root)}:{plain.count(chr(10), 0, match.start()) + 1}"
            if re.match(r"[a-z][a-z+.-]*:", target):
                continue
            path, _, anchor = urllib.parse.unquote(target).partition("#")
            file = (page.parent / path).resolve() if path else page
            if not file.is_relative_to(root):
                yield f"{where}: {target} is outside of the repository"
            elif not file.exists():
                yield f"{where}: {target} does not exist"
            elif anchor and file.suffix == ".md" and anchor not in anchors(texts.get(file) or file.read_text()):
                yield f"{where}: {target}: no heading gives #{anchor}"


def self_test():
    """Plants broken links among good ones; exactly these must be found."""
    good = ("# One `two` & three\n\n## Again\n\n## Again\n\n[a](docs/b.md) [b](docs/b.md#a-b) [c](#one-two--three)\n"
            "[d](#again-1) ![e](docs/c.png) [f](https://example.org/no#where) [g]: x\n[docs/](docs) [`h`](docs/b.md \"t\")\n"
            "`[i](nowhere.md)` <!-- [j](nowhere.md) -->\n\n```c\nint m = a[k](nowhere);\n# Not a heading\n```\n\n"
            "[reference]: docs/b.md#a-b\n")
    bad = {"[a](docs/none.md)": "docs/none.md does not exist", "[b](docs/b.md#none)": "no heading gives #none",
           "[c](#not-a-heading)": "no heading gives #not-a-heading", "[d](../../out.md)": "outside of the repository",
           "![e](docs/none.png)": "docs/none.png does not exist", "[docs/x.md](docs/B.md)": "docs/B.md does not exist",
           "[f]: none.md": "none.md does not exist"}
    missed = []
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name).resolve()
        (root / "docs").mkdir()
        (root / "docs/b.md").write_text("# A: b\n\n[up](../README.md)\n")
        (root / "docs/c.png").write_text("")
        for text, wanted in [("", None), *bad.items()]:
            (root / "README.md").write_text(f"{good}\n{text}\n")
            found = list(check(root))
            if len(found) != (wanted is not None) or (wanted and wanted not in found[0]):
                missed.append(f"self-test: wanted {wanted!r}, found {found} for {text!r}")
    return missed


if __name__ == "__main__":
    problems = self_test() if "--self-test" in sys.argv else list(check(pathlib.Path(__file__).resolve().parent.parent))
    print("\n".join(problems) or "all links lead somewhere")
    sys.exit(bool(problems))
