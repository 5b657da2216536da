#!/usr/bin/env python3
"""Time of a build and of its tests: the ten slowest sources and the ten slowest tests.

Usage: slowest.py BUILD_DIR... | --self-test
Sources are from the last entries of ninja's log, tests from ctest's log of its last run in that folder; a test is a
GoogleTest case if the program prints its time, else a whole program."""
# SPDX-License-Identifier: MIT
import pathlib
import re
import sys
import tempfile

COUNT = 10


def sources(log):
    """Seconds per object in a log of ninja; the last build of an object counts."""
    seconds = {}
    for line in log.splitlines():
        fields = line.split("\t")
        if len(fields) == 5 and fields[3].endswith((".o", ".gch")):
            seconds[fields[3]] = (int(fields[1]) - int(fields[0])) / 1000
    return seconds


def tests(log):
    """Seconds per test in a log of ctest."""
    seconds = {}
    for name, ms in re.findall(r"^\[ +OK \] (\S+)(?:, where .*)? \((\d+) ms\)$", log, re.M):
        seconds[name] = max(seconds.get(name, 0), int(ms) / 1000)
    programs = re.findall(r"^\d+/\d+ Test: (\S+)$(.*?)^Test time = +([\d.]+) sec$", log, re.M | re.S)
    for name, text, time in programs:
        if "[       OK ]" not in text:
            seconds[name] = float(time)
    return seconds


def print_slowest(title, seconds):
    print(f"\n{title}, {sum(seconds.values()):.0f} s in all:")
    for name, time in sorted(seconds.items(), key=lambda item: -item[1])[:COUNT]:
        print(f"{time:8.1f} s  {name}")


def report(build):
    for title, file, parse in (("slowest sources", ".ninja_log", sources),
                               ("slowest tests", "Testing/Temporary/LastTest.log", tests)):
        path = pathlib.Path(build) / file
        if path.exists():
            print_slowest(f"{build}: {title}", parse(path.read_text(errors="replace")))


def self_test():
    log = "# ninja log v5\n10\t2010\t0\ta.o\tx\n0\t500\t0\ta.o\tx\n0\t9000\t0\tlib.so\tx\n"
    assert sources(log) == {"a.o": 0.5}
    log = ("1/2 Test: unit\nOutput:\n[       OK ] A.B (1500 ms)\n[       OK ] A.B/1, where GetParam() = x (20 ms)\n"
           "Test time =   2.00 sec\n2/2 Test: script\nOutput:\nTest time =   0.25 sec\n")
    assert tests(log) == {"A.B": 1.5, "A.B/1": 0.02, "script": 0.25}, tests(log)
    with tempfile.TemporaryDirectory() as empty:
        report(empty)
    print("self-test passed")


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        self_test()
    elif len(sys.argv) < 2:
        sys.exit(__doc__)
    else:
        for folder in sys.argv[1:]:
            report(folder)
