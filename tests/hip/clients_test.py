#!/usr/bin/env python3
"""Builds the client programs by their own build files against the tree of ROCm's shape, and runs them on a device.

Usage: clients_test.py PREFIX WORK build, clients_test.py PREFIX WORK DEVICE. Exit status 77: there is no such device."""
# SPDX-License-Identifier: MIT
import os
import pathlib
import re
import shutil
import subprocess
import sys

CLIENTS = pathlib.Path(__file__).resolve().parent / "clients"
PROGRAMS = {"layers2017": "layers", "cgo2018": "binding", "onnx2020": "session", "torch2020": "trainer", "graph2026": "graph"}


def run(command, folder, **environment):
    print(f"{folder}: {' '.join(command)}", flush=True)
    return subprocess.run(command, cwd=folder, env={**os.environ, **environment}, check=False, timeout=300,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def must(command, folder, **environment):
    result = run(command, folder, **environment)
    if result.returncode:
        sys.exit(f"{result.stdout}\nstatus {result.returncode}")


def check_table():
    """The quoted lines of the table of habits are in their files."""
    rows = re.findall(r"^\| [^`]*(?:`[^`]*`[^`]*)? \| `(\S+/\S+)` \| `(.*)` \|$", (CLIENTS / "README.md").read_text(), re.M)
    missing = [f"{name} has no {line}" for name, line in rows
               if line.replace("\\|", "|") not in re.sub(r"\s+", " ", (CLIENTS / name).read_text())]
    if missing or len(rows) < 50:
        sys.exit("\n".join([f"README.md: {len(rows)} habits", *missing]))


def build(prefix, work):
    check_table()
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(CLIENTS, work)
    for name, program in PROGRAMS.items():
        folder = work / name
        if (folder / "Makefile").exists():
            must(["make", f"ROCM_PATH={prefix}", f"HIP_PATH={prefix}"], folder)
        else:
            must(["cmake", "-S", ".", "-B", ".", f"-DCMAKE_PREFIX_PATH={prefix}"], folder, ROCM_PATH=str(prefix))
            must(["cmake", "--build", "."], folder)
        if not (folder / program).exists():
            sys.exit(f"{folder / program} was not built")


def run_all(work, device):
    for name, program in PROGRAMS.items():
        extra = {"MIOPEN_DEBUG_CONV_IMPLICIT_GEMM": "0"} if name == "layers2017" else {}  # it knows algorithms 0 to 3
        result = run([f"./{program}"], work / name, POLYMIO_DEVICE=device, **extra)
        print(result.stdout, flush=True)
        if f"no device '{device}'" in result.stdout:
            sys.exit(77)
        if result.returncode or f"{program}: passed" not in result.stdout:
            sys.exit(f"{name} on {device}: status {result.returncode}")


if __name__ == "__main__":
    tree, place, what = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), sys.argv[3]
    build(tree, place) if what == "build" else run_all(place, what)
