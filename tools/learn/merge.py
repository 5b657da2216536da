#!/usr/bin/env python3
"""Merges the files of several runs of "MIOpenDriver dataset": keeps the least time per problem, number of threads and
solver, since disturbances only add time.

Usage: merge.py FILE... > FILE"""
# SPDX-License-Identifier: MIT
import fileinput
import json


def main():
    rows = {}
    for line in fileinput.input():
        row = json.loads(line)
        first = rows.setdefault((row["problem"], row["threads"]), row)
        times = {s: us for s, us, *_ in row["solvers"]}
        known = {s for s, *_ in first["solvers"]}
        first["solvers"] = [[s, min(us, times.get(s, us)), *rest] for s, us, *rest in first["solvers"]]
        first["solvers"] += [entry for entry in row["solvers"] if entry[0] not in known]
    for row in rows.values():
        print(json.dumps(row, separators=(",", ":")))


if __name__ == "__main__":
    main()
