#!/usr/bin/env python3
"""Commit messages read `scope: imperative summary`, at most 72 characters, with a body where the change is large.

Usage: check_commits.py [BASE..HEAD] | --hook FILE | --self-test
Without a range: the commits after the one that adds this file. Merges are skipped. A subject that is too long or has no
scope, and a change of more than 100 lines without a body, fail; a verb that is not imperative is a warning. --hook reads
one message as git's commit-msg hook does. Exit status 77 where there is no history."""
# SPDX-License-Identifier: MIT
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_SUBJECT, MAX_LINES_WITHOUT_BODY = 72, 100


def git(*arguments):
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def check(message, changed_lines):
    """Violations and warnings of one message."""
    lines = [line for line in message.splitlines() if not line.startswith("#")]
    subject, body = (lines[0] if lines else ""), "\n".join(lines[1:]).strip()
    errors, warnings = [], []
    if len(subject) > MAX_SUBJECT:
        errors.append(f"the subject has {len(subject)} characters, at most {MAX_SUBJECT} are allowed")
    match = re.match(r"[\w./-]+(?:, [\w./-]+)*: (\w+)", subject)
    if not match:
        errors.append("the subject is not 'scope: imperative summary'")
    elif re.search(r"(ed|ing|s)$", match.group(1)) and match.group(1) not in ("address", "pass", "process", "bring", "need",
                                                                             "embed", "feed", "compress", "speed"):
        warnings.append(f"'{match.group(1)}' does not look like an imperative")
    if changed_lines > MAX_LINES_WITHOUT_BODY and not body:
        errors.append(f"{changed_lines} lines change and no body says why")
    return errors, warnings


def changed_lines(commit):
    lines = 0
    for row in (git("show", "--numstat", "--format=", commit) or "").splitlines():
        added, removed, _ = row.split("\t")
        lines += sum(int(n) for n in (added, removed) if n.isdigit())
    return lines


def check_range(commits):
    failed = False
    for commit in commits:
        errors, warnings = check(git("show", "-s", "--format=%B", commit), changed_lines(commit))
        subject = git("show", "-s", "--format=%h %s", commit).strip()
        for kind, texts in (("error", errors), ("warning", warnings)):
            for text in texts:
                print(f"{kind}: {subject}: {text}")
        failed |= bool(errors)
    print(f"{len(commits)} commits checked")
    return failed


def self_test():
    assert check("cpu: size scratch for any batch\n", 20) == ([], [])
    assert len(check("cpu: " + "x" * 80, 1)[0]) == 1
    assert len(check("fix things", 1)[0]) == 1
    assert len(check("cpu: size scratch", 101)[0]) == 1
    assert check("cpu: size scratch\n\nBecause.", 101) == ([], [])
    assert check("cpu: sized scratch", 1) == ([], ["'sized' does not look like an imperative"])
    print("self-test passed")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if sys.argv[1:2] == ["--hook"]:
        staged = git("diff", "--cached", "--numstat") or ""
        lines = sum(int(n) for row in staged.splitlines() for n in row.split("\t")[:2] if n.isdigit())
        errors, warnings = check(pathlib.Path(sys.argv[2]).read_text(), lines)
        print("\n".join([*errors, *warnings]), file=sys.stderr)
        return bool(errors)
    wanted = sys.argv[1] if len(sys.argv) > 1 else None
    if not wanted:
        first = (git("log", "--diff-filter=A", "--format=%H", "--", "tools/check_commits.py") or "").split()
        if not first or git("rev-parse", "--is-shallow-repository") == "true\n":
            print("skipped: the history does not reach back to the commit that adds this script")
            return 77
        wanted = f"{first[-1]}..HEAD"
    return check_range((git("rev-list", "--no-merges", wanted) or "").split())


if __name__ == "__main__":
    sys.exit(main())
