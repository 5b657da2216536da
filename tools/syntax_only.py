#!/usr/bin/env python3
"""A launcher of CMake's: runs the compiler for its errors alone, without code generation. The object is an empty file."""
# SPDX-License-Identifier: MIT
import pathlib
import subprocess
import sys

command = sys.argv[1:]
status = subprocess.run([*command, "-fsyntax-only"], check=False).returncode
if status == 0:
    pathlib.Path(command[command.index("-o") + 1]).touch()
sys.exit(status)
