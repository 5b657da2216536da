#!/usr/bin/env python3
"""Runs the commands of the documentation.

A ```sh block under the comment <!-- run --> is run by sh -eu in a temporary folder of its page, with the given folder of
programs first in PATH and a find database of its own. A block under <!-- expect: REGEX --> shows output: the expression
must match somewhere in what the run before it printed. A block under <!-- file: NAME --> is written to that file in the
folder.

Usage: check_docs.py --bin FOLDER [PAGE...] | --self-test. Exit status 1 with a line for each failure."""
# SPDX-License-Identifier: MIT
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = ["find-and-immediate", "databases", "first-call-is-slow", "ship-tuned", "gpu", "report",
         "porting-from-cudnn", "graph-api", "containers-and-hpc"]
BLOCK = re.compile(r"^<!-- (run|expect: (?P<pattern>.*?)|file: (?P<file>[\w.]+)) -->\n+```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S)
SECONDS = 300


def environment(folder, programs):
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MIOPEN_", "POLYMIO_"))}
    env.update(PATH=f"{programs}{os.pathsep}{env.get('PATH', '')}", HOME=str(folder), MIOPEN_USER_DB_PATH=str(folder / "db"),
               POLYMIO_INCLUDE=str(ROOT / "include"), POLYMIO_LIB=str(programs.parent / "lib"))
    return env


def run_block(text, folder, programs):
    try:
        done = subprocess.run(["sh", "-eu", "-c", text], cwd=folder, env=environment(folder, programs), text=True,
                              errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS,
                              stdin=subprocess.DEVNULL, check=False)
    except subprocess.TimeoutExpired:
        return None, f"took longer than {SECONDS} s"
    return done.stdout, f"ended with status {done.returncode}" if done.returncode else ""


def check_page(page, programs):
    """A text for each failure."""
    content = page.read_text()
    found = list(BLOCK.finditer(content))
    marks = len(re.findall(r"^<!-- (?:run|expect|file)\b", content, re.M))
    failures = []
    if len(found) != marks:
        failures.append(f"{page.name}: {marks - len(found)} of {marks} comments are not followed by a block")
    if not any(block[1] == "run" for block in found):
        failures.append(f"{page.name}: no command to run")
    output = ""
    with tempfile.TemporaryDirectory() as name:
        for block in found:
            where = f"{page.name}:{content.count(chr(10), 0, block.start('text'))}"
            if block["file"]:
                (pathlib.Path(name) / block["file"]).write_text(block["text"])
            elif block["pattern"] is None:
                output, failure = run_block(block["text"], pathlib.Path(name), programs)
                if failure:
                    failures.append(f"{where}: {failure}\n{block['text']}--- its output:\n{output}")
            elif not re.search(block["pattern"], output or "", re.M):
                failures.append(f"{where}: '{block['pattern']}' is not in the output:\n{output}")
    return failures


def self_test():
    """Plants failures; each must be seen, and a page without any must pass."""
    good = "<!-- run -->\n```sh\necho one 1\n```\n\n<!-- expect: one \\d -->\n```text\none 1\n```\n"
    cases = [
        (good, None),
        ("<!-- run -->\n```sh\necho before\nfalse\necho behind\n```\n", "status 1"),
        ("<!-- run -->\n```sh\nno-such-program-at-all\n```\n", "status 127"),
        (good.replace("echo one", "echo two"), "is not in the output"),
        ("```sh\necho not marked\n```\n", "no command to run"),
        ("<!-- run -->\nnothing\n" + good, "not followed by a block"),
        ("<!-- run -->\n```sh\ntouch here\n```\n<!-- run -->\n```sh\ntest -f here && test -n \"$MIOPEN_USER_DB_PATH\"\n```\n", None),
    ]
    cases.append(("<!-- file: a.c -->\n```c\none 7\n```\n" + good.replace("echo one 1", "cat a.c"), None))
    missed = []
    with tempfile.TemporaryDirectory() as name:
        page = pathlib.Path(name) / "page.md"
        for text, wanted in cases:
            page.write_text(text)
            failures = "\n".join(check_page(page, pathlib.Path(name)))
            if (wanted is None and failures) or (wanted is not None and wanted not in failures):
                missed.append(f"self-test: wanted {wanted!r}, found {failures!r} for\n{text}")
    return missed


def main():
    parser = argparse.ArgumentParser(description="Runs the commands of the documentation.")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin", help="folder of MIOpenDriver")
    parser.add_argument("--self-test", action="store_true", help="plant failures, see them found")
    parser.add_argument("pages", nargs="*", type=pathlib.Path, help="default: the pages with commands in docs/")
    arguments = parser.parse_args()
    if arguments.self_test:
        failures = self_test()
    elif not (arguments.bin / "MIOpenDriver").exists():
        failures = [f"there is no MIOpenDriver in {arguments.bin}"]
    else:
        pages = arguments.pages or [ROOT / f"docs/{name}.md" for name in PAGES]
        failures = [failure for page in pages for failure in check_page(page, arguments.bin.resolve())]
    print("\n".join(failures) or "the commands of the documentation work")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
