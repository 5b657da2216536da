#!/usr/bin/env python3
"""Which tests match a name, and what has to be built for them: the inner loop behind `./dev test NAME`.

Usage: pick_tests.py BUILD_DIR NAME targets|run | --self-test
NAME is a regular expression for names of ctest (solver_cases.convolution/pointwise) or, where none matches, a part of a test's own
name (FindTest.RecordsOf). `targets` prints what ninja has to build, `run` runs the tests; exit status 1 if one fails,
2 if nothing matches."""
# SPDX-License-Identifier: MIT
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile


def ctest_matches(build, name):
    shown = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1", "-R", name], capture_output=True, text=True)
    return json.loads(shown.stdout)["tests"] if shown.returncode == 0 else []


def programs_of(build, tests):
    """Programs below bin/ that commands of tests name."""
    bin_dir = os.path.join(os.path.abspath(build), "bin") + os.sep
    arguments = {argument for test in tests for argument in test.get("command", [])}
    return sorted({re.sub(r"^.*/bin/", "bin/", argument) for argument in arguments if argument.startswith(bin_dir)})


def gtest_matches(build, name):
    """Test programs with a source that defines a test of such a name."""
    programs = set()
    for entry in json.loads((pathlib.Path(build) / "compile_commands.json").read_text()):
        program = re.search(r"-o tests/CMakeFiles/(\w+)\.dir/", entry["command"])
        if not program or not entry["file"].endswith("_test.cc"):
            continue
        names = re.findall(r"^(?:TYPED_)?TEST(?:_[FP])?\((\w+),\s*(\w+)\)", pathlib.Path(entry["file"]).read_text(), re.M)
        if any(name in f"{suite}.{test}" for suite, test in names):
            programs.add(f"bin/{program.group(1)}")
    return sorted(programs)


def run(build, name, tests):
    if tests:
        jobs = str(os.cpu_count() or 1)
        return subprocess.run(["ctest", "--test-dir", build, "-R", name, "-j", jobs, "--output-on-failure"]).returncode != 0
    failed = False
    environment = {**os.environ, "MIOPEN_USER_DB_PATH": os.path.join(os.path.abspath(build), "test_db", "picked")}
    for program in gtest_matches(build, name):
        command = [os.path.join(build, program), f"--gtest_filter=*{name}*"]
        failed |= subprocess.run(command, env=environment).returncode != 0
    return failed


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "some_test.cc"
        source.write_text("TEST(Suite, DoesIt) {}\nTEST_P(Other, Works) {}\n")
        entry = {"file": str(source), "command": "c++ -o tests/CMakeFiles/some_tests.dir/some_test.cc.o -c some_test.cc"}
        (pathlib.Path(folder) / "compile_commands.json").write_text(json.dumps([entry]))
        assert gtest_matches(folder, "Suite.Does") == gtest_matches(folder, "Works") == ["bin/some_tests"]
        assert gtest_matches(folder, "DoesNot") == []
        tests = [{"command": [f"{folder}/bin/a", "x"]}, {"command": ["python3", "s.py", f"{folder}/bin/b"]}, {}]
        assert programs_of(folder, tests) == ["bin/a", "bin/b"]
    print("self-test passed")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if len(sys.argv) != 4 or sys.argv[3] not in ("targets", "run"):
        sys.exit(__doc__)
    build, name, action = sys.argv[1:]
    tests = ctest_matches(build, name)
    programs = programs_of(build, tests) if tests else gtest_matches(build, name)
    if not tests and not programs:
        print(f"no test matches '{name}'; names: ctest --test-dir {build} -N, or those in TEST() of tests/", file=sys.stderr)
        return 2
    if action == "targets":
        print("\n".join(programs))
        return 0
    return run(build, name, tests)


if __name__ == "__main__":
    sys.exit(main())
