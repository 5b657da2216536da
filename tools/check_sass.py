#!/usr/bin/env python3
"""Checks the machine code of C++ template kernels for sm90: counts the matrix instructions of the main loop, of wgmma
(HGMMA, IGMMA, QGMMA) and mma.sync (HMMA), and finds what the compiler keeps in local memory (LDL, STL). Needs nvdisasm
(PyPI: nvidia-cuda-nvdisasm) and NVRTC.

Usage: check_sass.py KERNEL_LIST [--only TEXT] | FILE... | --self-test. KERNEL_LIST is the program kernel_list, which
compiles every tune point; --only: programs whose name contains TEXT. FILE is a cubin, or a file of the kernel cache.
Exit status 1 if a kernel uses local memory or a program of KERNEL_LIST has none of them, 77 without
nvdisasm."""
# SPDX-License-Identifier: MIT
import argparse
import collections
import concurrent.futures
import glob
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile

LABEL = re.compile(r"^(\.L_\w+):")
INSTRUCTION = re.compile(r"^\s*(?:/\*[0-9a-f]+\*/)?\s*(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)[.\s;]")
BRANCH = re.compile(r"\bBRA\b.*`\((\.L_\w+)\)")
FUNCTION = re.compile(r"^\.text\.(\w+):")


def find_nvdisasm():
    site = sysconfig.get_path("purelib")
    found = [shutil.which("nvdisasm"), *glob.glob(f"{site}/nvidia/**/bin/nvdisasm", recursive=True),
             "/usr/local/cuda/bin/nvdisasm"]
    return next((path for path in found if path and os.access(path, os.X_OK)), None)


Kernel = collections.namedtuple("Kernel", "name instructions in_loop products local")
PRODUCTS = {"HGMMA", "IGMMA", "QGMMA", "HMMA"}


def read_kernels(text):
    """The functions of a disassembly. Their main loop: of those with products, the innermost with the most."""
    kernels, name, opcodes, labels, loops = [], None, [], {}, []

    def count(begin, end):
        return sum(opcode in PRODUCTS for opcode in opcodes[begin:end])

    def finish():
        if name:
            multiply = [(b, e) for b, e in loops if count(b, e)]
            inner = [(b, e) for b, e in multiply if not any((b, e) != (c, f) and b <= c and f <= e for c, f in multiply)]
            in_loop = max((count(b, e) for b, e in inner), default=0)
            local = sum(opcode in ("LDL", "STL") for opcode in opcodes)
            kernels.append(Kernel(name, len(opcodes), in_loop, count(0, len(opcodes)), local))

    for line in text.splitlines():
        if match := FUNCTION.match(line):
            finish()
            name, opcodes, labels, loops = match[1], [], {}, []
        elif match := LABEL.match(line):
            labels[match[1]] = len(opcodes)
        elif match := INSTRUCTION.match(line):
            opcodes.append(match[1])
            target = BRANCH.search(line)
            if target and labels.get(target[1], len(opcodes)) < len(opcodes) - 1:  # itself: the end of the program
                loops.append((labels[target[1]], len(opcodes)))
    finish()
    return kernels


def disassemble(nvdisasm, path):
    data = pathlib.Path(path).read_bytes()
    start = data.find(b"\x7fELF")
    if start < 0:
        sys.exit(f"check_sass: {path} is no cubin")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(data[start:])  # a file of the kernel cache begins with a line of text
        file.flush()
        done = subprocess.run([nvdisasm, "-c", file.name], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"check_sass: {path}: {done.stderr.strip()}")
    return read_kernels(done.stdout)


def check(nvdisasm, programs, needs_products):
    """`programs`: pairs of a file and its name. Prints a line per kernel; whether all are right."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        listed = list(pool.map(lambda program: disassemble(nvdisasm, program[0]), programs))
    failed = 0
    for (_, title), kernels in zip(programs, listed):
        for kernel in kernels:
            wrong = ["local memory"] * (kernel.local > 0) + ["no product in a loop"] * (needs_products and not kernel.in_loop)
            failed += bool(wrong)
            print(f"{title}: {kernel.name}: {kernel.instructions} instructions, {kernel.in_loop} products in the main loop, "
                  f"{kernel.products} in all, {kernel.local} LDL and STL" + "".join(f", WRONG: {text}" for text in wrong))
    print(f"{len(programs)} programs, {failed} kernels are wrong")
    return not failed and bool(programs)


def self_test():
    text = """
.text.product:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_0:
        /*0010*/                   MOV R2, R3 ;
.L_x_1:
.L_x_3:
        /*0020*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R4+URZ], R5 ;
        /*0020*/              @!P0 BRA `(.L_x_3) ;
        /*0020*/                   HGMMA.64x128x16.F32 R24, gdesc[UR4], R24 ;
        /*0030*/              @!P0 HGMMA.64x128x16.F32 R24, gdesc[UR8], R24 ;
        /*0040*/               @P1 BRA `(.L_x_1) ;
        /*0050*/                   HGMMA.64x128x16.F32 R24, gdesc[UR4], R24 ;
        /*0060*/               @P0 BRA `(.L_x_0) ;
        /*0070*/                   EXIT ;
.L_x_2:
        /*0080*/                   BRA `(.L_x_2);
.text.spilled:
        /*0000*/                   STL [R1+0x4], R5 ;
        /*0010*/              @!P0 LDL.LU R5, [R1+0x4] ;
        /*0020*/                   EXIT ;
"""
    found = read_kernels(text)
    assert found == [Kernel("product", 11, 2, 3, 0), Kernel("spilled", 3, 0, 0, 2)], found
    print("self-test passed")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    nvdisasm = find_nvdisasm()
    if not nvdisasm:
        print("skipped: there is no nvdisasm; python3 -m pip install nvidia-cuda-nvdisasm")
        return 77
    if pathlib.Path(options.files[0]).name != "kernel_list":
        return not check(nvdisasm, [(path, path) for path in options.files], False)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([options.files[0], "--templates", folder, options.only], capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"check_sass: {done.stderr.strip()}")
        programs = [line.split(" ", 1) for line in done.stdout.splitlines()]
        return not check(nvdisasm, programs, True)


if __name__ == "__main__":
    sys.exit(self_test() if sys.argv[1:] == ["--self-test"] else main())
