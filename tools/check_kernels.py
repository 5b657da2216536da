#!/usr/bin/env python3
"""Compiles every portable kernel as HIP for two AMD GPUs, by clang-15 alone: no toolkit and no GPU is needed.

Exit status 1 with what the compiler says, 77 when there is no clang-15."""
# SPDX-License-Identifier: MIT
import pathlib
import shutil
import subprocess
import sys

SRC = pathlib.Path(__file__).resolve().parent.parent / "src"
ARCHITECTURES = ["gfx90a", "gfx1030"]
# Options of each source that between them reach every branch of it.
OPTIONS = {
    "primitives/convolution/gpu/reference.cl": [
        ["-DIN=fp32", "-DOUT=fp32", "-DSUM=real", "-DFP64"], ["-DIN=fp16", "-DOUT=fp16", "-DSUM=real"],
        ["-DIN=bf16", "-DOUT=bf16", "-DSUM=real"], ["-DIN=int8", "-DOUT=int8", "-DSUM=i64", "-DFP64"]],
}


def compile_hip(source, architecture, options):
    command = ["clang-15", "-x", "hip", f"--offload-arch={architecture}", "--offload-device-only", "-nogpuinc",
               "-nogpulib", "-std=c++17", "-O2", "-Wall", "-Wno-unused-function", "-Werror", "-I", str(SRC), *options,
               "-S", "-o", "/dev/null", str(SRC / source)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def main():
    if not shutil.which("clang-15"):
        print("skipped: there is no clang-15")
        return 77
    sources = sorted(str(p.relative_to(SRC)) for p in SRC.rglob("*.cl"))
    failures = [f"{s}: not in the table of this script" for s in sources if s not in OPTIONS]
    count = 0
    for source in OPTIONS:
        for architecture in ARCHITECTURES:
            for options in OPTIONS[source]:
                count += 1
                done = compile_hip(source, architecture, options)
                if done.returncode:
                    failures.append(f"{source} {' '.join(options)} for {architecture}:\n{done.stderr}")
    print("\n".join(failures) or f"{count} programs compile as HIP")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
