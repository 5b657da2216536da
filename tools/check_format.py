#!/usr/bin/env python3
"""Every source is as clang-format 14 writes it with the .clang-format files of the tree.

Usage: check_format.py [--fix | --self-test]. Exit status 1 with a line for each file that differs; --fix rewrites them."""
# SPDX-License-Identifier: MIT
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

VERSION = "14."
SUFFIXES = {".cc", ".h", ".c", ".cl", ".cu", ".cuh"}
FOLDERS = ("src", "include", "hip", "driver", "reference", "tests", "bench", "tools", "examples")


def find_program():
    for name in ("clang-format-14", "clang-format"):
        program = shutil.which(name)
        if program and f"version {VERSION}" in subprocess.run([program, "--version"], capture_output=True, text=True).stdout:
            return program
    sys.exit("clang-format 14 is needed: ./dev test installs it (package clang-format-14)")


def unformatted(program, files):
    """Those of the files that the program would change."""
    told = subprocess.run([program, "--dry-run", *map(str, files)], capture_output=True, text=True, check=True).stderr
    named = set(re.findall(r"^(.+?):\d+:\d+: warning: code should be clang-formatted", told, re.M))
    return [file for file in files if str(file) in named]


def self_test(program, style):
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(style, folder)
        good, bad = pathlib.Path(folder) / "good.cc", pathlib.Path(folder) / "bad.cc"
        good.write_text("int f() { return 1; }\n")
        bad.write_text("int f(){return 1;}\n")
        assert unformatted(program, [good, bad]) == [bad]
    print("self-test passed")


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    program = find_program()
    if "--self-test" in sys.argv:
        return self_test(program, root / ".clang-format")
    files = sorted(p for folder in FOLDERS for p in (root / folder).rglob("*") if p.suffix in SUFFIXES)
    found = unformatted(program, files)
    if "--fix" in sys.argv and found:
        subprocess.run([program, "-i", *map(str, found)], check=True)
        return 0
    for file in found:
        print(f"{file.relative_to(root)}: not as clang-format writes it; tools/check_format.py --fix")
    if not found:
        print(f"{len(files)} files are formatted")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
