#!/usr/bin/env python3
"""Checks tests/effects.tsv: which test checks the effect of a function of the API.

Every function of the API table has a row, nothing else has one, and the test it names exists, in a file that names the
function itself or in a header of tests/ that it includes. One line for each difference; exit status 1 if there is any.
--self-test plants violations."""
# SPDX-License-Identifier: MIT
import csv
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def demanded():
    with open(ROOT / "api" / "miopen_api.tsv", newline="") as file:
        return {row["name"] for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)}


def words_with_headers(path, seen):
    """The words of a file and of the headers of tests/ that it includes, also through others."""
    if path in seen:
        return set()
    seen.add(path)
    text = path.read_text()
    words = set(re.findall(r"\w+", text))
    for name in re.findall(r'^#include "([^"]+)"', text, re.M):
        for header in (path.parent / name, ROOT / name):
            if header.is_file() and (ROOT / "tests") in header.parents:
                words |= words_with_headers(header, seen)
    return words


def tests():
    """Suite.Name of every GoogleTest below tests/, and the words of its file."""
    found = {}
    for path in (ROOT / "tests").rglob("*.cc"):
        names = re.findall(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)", path.read_text(), re.M)
        words = words_with_headers(path, set()) if names else set()
        found.update({f"{suite}.{name}": words for suite, name in names})
    return found


def differences(lines, names, existing):
    seen = set()
    for number, line in enumerate(lines, 1):
        cells = line.split("\t")
        if len(cells) != 3:
            yield f"line {number}: function, program and test are wanted, separated by tabs: {line}"
            continue
        name, _, test = cells
        if name in seen:
            yield f"line {number}: {name} has another row"
        seen.add(name)
        if name not in names:
            yield f"line {number}: {name} is no function of the table"
        words = existing.get(test.split("/")[-1])
        if words is None:
            yield f"line {number}: there is no test {test}"
        elif name not in words:
            yield f"line {number}: neither the file of {test} nor a header of it names {name}"
    if lines != sorted(lines):
        yield "rows are not sorted"
    for name in sorted(names - seen):
        yield f"{name} has no row"


def self_test():
    names, existing = {"miopenA", "miopenB"}, {"Suite.Test": {"miopenA", "miopenB"}, "Suite.Other": {"miopenA"}}
    good = ["miopenA\tcapi_tests\tSuite.Test", "miopenB\tcapi_tests\tSuite.Test"]
    assert not list(differences(good, names, existing))
    for bad in (good[:1], good + good[1:], good[::-1], good + ["miopenC\tcapi_tests\tSuite.Test"], ["miopenA"],
                [good[0], "miopenB\tcapi_tests\tSuite.None"], [good[0], "miopenB\tcapi_tests\tSuite.Other"]):
        assert list(differences(bad, names, existing)), bad


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    lines = (ROOT / "tests" / "effects.tsv").read_text().splitlines()
    found = list(differences(lines, demanded(), tests()))
    print("\n".join(found) or f"{len(lines)} functions have a test of their effect")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
