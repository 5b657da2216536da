#!/usr/bin/env python3
"""Compares the ABI of the public headers with the committed baseline api/libMIOpen.abi, by abidiff (libabigail).

The library of the baseline has every declared function with its types and no code, so that neither the optimizer nor
the compiler's debugging information of the real one matters; check_api.py sees to it that the real one exports the same
functions. Every difference fails; one that breaks programs is called incompatible.

Usage: check_abi.py [--headers FOLDER] [--update | --self-test]. Exit status 1 with abidiff's report, 77 without abidiff.
"""
# SPDX-License-Identifier: MIT
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BASELINE = ROOT / "api" / "libMIOpen.abi"
INCLUDES = ["miopen/miopen.h", "miopen/miopen_internal.h", "miopen/polymio.h"]
MARK = "exported_here"


def run(*command, text=None):
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"check_abi: {' '.join(map(str, command))}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def build_library(headers, folder):
    """A library of all declared functions, with their types as debugging information."""
    prologue = f"#include <miopen/export.h>\n#undef MIOPEN_EXPORT\n#define MIOPEN_EXPORT {MARK}\n"
    includes = "".join(f"#include <{name}>\n" for name in INCLUDES)
    text = run("gcc", "-E", "-P", f"-I{headers}", "-DMIOPEN_BETA_API", "-xc", "-", text=prologue + includes)
    source, defined = re.subn(rf"\b{MARK}\b([^;]*);", r"\1 { __builtin_trap(); }", text)
    if not defined:
        sys.exit(f"check_abi: the headers in {headers} declare no function as MIOPEN_EXPORT")
    library = folder / "libMIOpen.so.1"
    (folder / "declared.c").write_text(source)
    run("gcc", "-std=gnu11", "-w", "-g", "-O0", "-shared", "-fPIC", "-Wl,-soname,libMIOpen.so.1", "-o", library,
        folder / "declared.c")
    return library


def abi_text(headers):
    with tempfile.TemporaryDirectory() as name:
        library = build_library(headers, pathlib.Path(name))
        text = run("abidw", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--no-parameter-names",
                   "--type-id-style", "hash", library)
    text = re.sub(r" (path|name)='[^']*declared\.c'", r" \1='declared.c'", text)
    return re.sub(r" producer='[^']*'", "", text)


def compare(baseline, headers):
    """abidiff's report, empty if there is no difference."""
    with tempfile.TemporaryDirectory() as name:
        library = build_library(headers, pathlib.Path(name))
        done = subprocess.run(["abidiff", "--no-show-locs", "--harmless", str(baseline), str(library)],
                              capture_output=True, text=True, check=False)
    if done.returncode & 3:
        sys.exit(f"check_abi: abidiff: {done.stderr.strip() or done.stdout.strip()}")
    if not done.returncode:
        return ""
    return f"{'incompatible' if done.returncode & 8 else 'compatible, or a change of a type'}:\n{done.stdout.strip()}"


def self_test(headers):
    """Plants one change of the ABI at a time; each must be reported with its name, and none without a change."""
    planted = [
        ("handle.h", "bool enable", "int enable", "miopenEnableProfiling"),
        ("handle.h", r"MIOPEN_EXPORT[^;]*miopenGetKernelTime\([^;]*;", "", "incompatible.*miopenGetKernelTime"),
        ("tensor.h", "miopenTensorOpMax = 3", "miopenTensorOpMax = 4", "miopenTensorOpMax"),
        ("polymio.h", r"(typedef struct polymioDeviceInfo\w*\s*{)", r"\1 int planted;", "planted"),
        ("handle.h", r"MIOPEN_EXPORT[^;]*miopenGetKernelTime", "MIOPEN_EXPORT int miopenExtra(void);\n\\g<0>", "miopenExtra"),
    ]
    missed = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        baseline = folder / "baseline.abi"
        baseline.write_text(abi_text(headers))
        if report := compare(baseline, headers):
            missed.append(f"differences where there are none: {report}")
        for index, (file, old, new, wanted) in enumerate(planted):
            copy = folder / str(index)
            shutil.copytree(headers, copy)
            path = copy / "miopen" / file
            text = path.read_text()
            path.write_text(re.sub(old, new, text, count=1))
            report = compare(baseline, copy)
            if path.read_text() == text or not re.search(wanted, report, re.S):
                missed.append(f"{file}: '{old}' -> '{new}' was not reported: {report or 'no difference'}")
    return missed


def main():
    parser = argparse.ArgumentParser(description="Compares the ABI of the headers with the committed baseline.")
    parser.add_argument("--headers", type=pathlib.Path, default=ROOT / "include")
    parser.add_argument("--update", action="store_true", help=f"write {BASELINE.relative_to(ROOT)} anew")
    parser.add_argument("--self-test", action="store_true", help="plant changes, see them reported")
    arguments = parser.parse_args()
    if not shutil.which("abidiff"):
        print("check_abi: skipped, there is no abidiff (Debian: abigail-tools)")
        return 77
    if arguments.update:
        BASELINE.write_text(abi_text(arguments.headers))
        return 0
    problems = self_test(arguments.headers) if arguments.self_test else list(filter(None, [
        compare(BASELINE, arguments.headers)]))
    print("\n".join(problems) or "check_abi: no difference from the baseline")
    if problems and not arguments.self_test:
        print("check_abi: if this is meant, run tools/check_abi.py --update; an incompatible change needs a new SONAME")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
