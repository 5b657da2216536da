#!/usr/bin/env python3
"""The words that docs/glossary.md bans do not occur in code, comments and documents; entries of CHANGELOG.md are short.

Usage: check_words.py [--count | --self-test]. Exit status 1 with a line for each word found; --count prints one line a
word instead. A row of the glossary's second table bans its words in any case, also as parts of identifiers (camel case
and snake case are taken apart); a word with '*' or '_' is compared with whole identifiers."""
# SPDX-License-Identifier: MIT
import collections
import fnmatch
import pathlib
import re
import sys
import tempfile

CHECKED = ("src", "docs", "bench", "driver", "tests", "README.md", "CHANGELOG.md")
MOST_WORDS = 25  # of an entry of the changelog, links included
SUFFIXES = {".cc", ".h", ".c", ".cl", ".cu", ".cuh", ".md", ".py", ".txt", ".sh", ".map", ".cmake"}


def read_glossary(text):
    """Banned words and allowed phrases of the table under the second heading."""
    banned, allowed = [], []
    for line in text.split("\n## ")[2].splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) != 3 or cells[0] in ("not", "---"):
            continue
        banned += [word.strip().lower() for word in cells[0].split(",") if word.strip()]
        allowed += [word.strip().lower() for word in cells[2].split(",") if word.strip()]
    return banned, allowed


def words_of(line):
    """The line with identifiers taken apart, in lower case: kTurnedRows and turned_rows become words. Punctuation is
    kept, so that phrases do not match across it."""
    line = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", line)
    line = re.sub(r"\bk (?=[A-Z])", " ", line)
    return " ".join(re.findall(r"[a-z0-9]+|[^a-z0-9\s]", re.sub("[_-]", " ", line).lower()))


class Checker:
    def __init__(self, banned, allowed):
        self.patterns = [word for word in banned if "_" in word or "*" in word]
        phrases = [word for word in banned if word not in self.patterns]
        self.allowed_identifiers = {word for word in allowed if "_" in word}
        self.allowed = [re.escape(words_of(word)) for word in allowed]
        self.phrase = re.compile(r"(?<![a-z0-9])(" + "|".join(sorted(map(re.escape, phrases), key=len, reverse=True)) +
                                 r")(?![a-z0-9])")

    def find(self, line):
        text = words_of(line)
        for phrase in self.allowed:
            if phrase:
                text = re.sub(rf"(?<![a-z0-9]){phrase}(?![a-z0-9])", "", text)
        yield from (match.group(1) for match in self.phrase.finditer(text))
        for identifier in re.findall(r"\w+", line.lower()):
            if identifier not in self.allowed_identifiers:
                yield from (p for p in self.patterns if fnmatch.fnmatchcase(identifier, p))


def files(root):
    for name in CHECKED:
        path = root / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and file.suffix in SUFFIXES and file.relative_to(root).as_posix() != "docs/glossary.md":
                yield file


def long_entries(text):
    """The changelog's entries of too many words."""
    for entry in re.findall(r"^- (.*(?:\n  .*)*)", text, re.M):
        if len(entry.split()) > MOST_WORDS:
            yield f"CHANGELOG.md: {len(entry.split())} words, at most {MOST_WORDS}: {entry[:60]}"


def check(root):
    checker = Checker(*read_glossary((root / "docs/glossary.md").read_text()))
    for file in files(root):
        name = file.relative_to(root).as_posix()
        for word in checker.find(name):
            yield word, f"{name}: the name says '{word}'"
        for number, line in enumerate(file.read_text().splitlines(), 1):
            for word in checker.find(line):
                yield word, f"{name}:{number}: '{word}': {line.strip()[:90]}"


def self_test():
    glossary = "# G\n\n## Terms\n\n| a | b |\n\n## Words that are not used\n\n| not | but | except |\n|---|---|---|\n" \
               "| turned, as it lies, *s_a_* | transposed | turned down |\n"
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name in ("docs", "src/turned_rows"):
            (root / name).mkdir(parents=True)
        (root / "docs/glossary.md").write_text(glossary)
        (root / "README.md").write_text("Turned rows, where x is read as it\nlies. It was turned down, returned.\n")
        (root / "src/turned_rows/a.h").write_text("int kTurnedRows, pieces_a_task, transposed; // as it lies; as it, lies\n")
        found = sorted(word for word, _ in check(root))
    wanted = sorted(["turned", "turned", "turned", "*s_a_*", "as it lies"])
    entries = len(list(long_entries("### Added\n\n- " + "a " * 24 + "\n  b.\n- c\n- " + "d " * 26)))
    if entries != 1:
        return [f"self-test: {entries} long entries, wanted 1"]
    return [] if found == wanted else [f"self-test: found {found}, wanted {wanted}"]


def main():
    if "--self-test" in sys.argv:
        problems = self_test()
    else:
        root = pathlib.Path(__file__).resolve().parent.parent
        found = list(check(root))
        if "--count" in sys.argv:
            counts = collections.Counter(word for word, _ in found)
            print("\n".join(f"{n:6} {word}" for word, n in counts.most_common()), f"\n{len(found):6} in all")
            return 0
        problems = [line for _, line in found] + list(long_entries((root / "CHANGELOG.md").read_text()))
    print("\n".join(problems) or "no banned word")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
