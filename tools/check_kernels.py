#!/usr/bin/env python3
"""Compiles the programs of kernel_list, its argument, as HIP for AMD GPUs, by clang-15 alone: no toolkit and no GPU is
needed. Of each source one program for one of two architectures, with optimization, and for the other without. The other
programs for one of them, without: every eighth to assembly, the rest to LLVM's intermediate code, which has all errors
but those of the code generator. With --all: all for both, with optimization. A source that is in no program is an error, unless it is in a folder `cuda` or
listed here.

Exit status 1 with what the compiler says, 77 when there is no clang-15."""
# SPDX-License-Identifier: MIT
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zlib

SRC = pathlib.Path(__file__).resolve().parent.parent / "src"
ARCHITECTURES = ["gfx90a", "gfx1030"]
# Clang leaves some of their largest loops rolled: the results are the same, the speed on AMD is not known.
ROLLED = {"primitives/loss/gpu/multi_margin.cl", "primitives/norm/gpu/norm.cl", "primitives/optimizer/gpu/adam.cl",
          "primitives/pooling/gpu/pooling.cl", "primitives/reduce/gpu/reduce.cl", "primitives/softmax/gpu/softmax.cl"}

# Run on CUDA and OpenCL only.
NOT_FOR_AMD = {"primitives/rnn/gpu/persistent.cl"}


def compile_hip(job):
    architecture, flags, source, options = job
    command = ["clang-15", "-x", "hip", f"--offload-arch={architecture}", "--offload-device-only", "-nogpuinc",
               "-nogpulib", "-std=c++17", *flags, "-Wall", "-Wno-unused-function", "-Werror",
               *(["-Wno-pass-failed"] if source in ROLLED else []), "-I", str(SRC), *options,
               "-S", "-o", "/dev/null", str(SRC / source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"{source} {' '.join(options)} for {architecture}:\n{done.stderr}" if done.returncode else None


def self_test():
    """A source with an error, and one without."""
    with tempfile.TemporaryDirectory() as folder:
        messages = []
        for value in ("1.0f", "missing"):
            source = pathlib.Path(folder) / "planted.cl"
            source.write_text(f'#include "kernels/gpu/portable/portable.h"\nKERNEL planted(GLOBAL float* x) {{ x[0] = {value}; }}\n')
            messages.append(compile_hip((ARCHITECTURES[0], ["-O0", "-emit-llvm"], str(source), [])))
    return [] if not messages[0] and messages[1] and "missing" in messages[1] else [f"self-test: {messages}"]


def main():
    if not shutil.which("clang-15"):
        print("skipped: there is no clang-15")
        return 77
    if "--self-test" in sys.argv:
        failures = self_test()
        print("\n".join(failures) or "self-test passed")
        return bool(failures)
    listed = subprocess.run([sys.argv[1]], capture_output=True, text=True, check=True).stdout
    programs = [line.split() for line in listed.splitlines()]
    used = {arguments[0] for arguments in programs}
    failures = [f"{p.relative_to(SRC)}: no program uses it" for p in sorted(SRC.rglob("*.cl"))
                if str(p.relative_to(SRC)) not in used | NOT_FOR_AMD and p.parent.name != "cuda"]
    first = {arguments[0]: arguments for arguments in programs}.values()
    jobs = []
    for source, *options in programs:
        every, representative = "--all" in sys.argv, [source, *options] in first
        number = zlib.crc32(" ".join([source, *options]).encode())
        chosen = number % len(ARCHITECTURES)
        to_assembly = number // len(ARCHITECTURES) % 8 == 0
        plain = ["-O0"] if to_assembly or representative else ["-O0", "-emit-llvm"]
        for i, architecture in enumerate(ARCHITECTURES):
            if every or representative or i == chosen:
                optimized = every or (representative and i == chosen)
                jobs.append((architecture, ["-O2"] if optimized else plain, source, options))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        failures += filter(None, pool.map(compile_hip, jobs))
    print("\n".join(failures) or f"{len(jobs)} programs compile as HIP")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
