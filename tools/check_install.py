#!/usr/bin/env python3
"""Installs a build into a folder, moves the tree and uses it: programs by pkg-config, CMake and the tree's hipcc.

Checks that the component drop-in keeps another MIOpen's files, that libraries are found by $ORIGIN, SONAMEs, sizes, that
no link dangles and no text names the build, and the versions of glibc and libstdc++ that the shipped libraries need.

Usage: check_install.py BUILD [--self-test]. Works in BUILD/install_check. Exit status 1 with a line for each violation."""
# SPDX-License-Identifier: MIT
import argparse
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMPONENTS = ("runtime", "dev", "drop-in")
MAX_VERSIONS = {"GLIBC": (2, 34), "GLIBCXX": (3, 4, 30)}  # the latter is libstdc++'s of GCC 12
PACKAGING_GLIBC = (2, 36)  # of Debian 12, where packages are made; a newer one gives its own versions to old functions
MIB = 1 << 20
# Every function of MIOpen's header, with CPU kernels for five instruction sets; in the tree 4 MiB of packs, too.
MAX_LIBRARY, MAX_TREE = 24 * MIB, 31 * MIB
SONAMES = {"libMIOpen.so": "libMIOpen.so.1", "libpolymio_hip.so": "libpolymio_hip.so.0"}
HIP_PROGRAM = """#include <hip/hip_runtime.h>
#include <miopen/miopen.h>
int main() {
  float host[4] = {1, 2, 3, 4}, back[4] = {};
  void* device = nullptr;
  hipStream_t stream = nullptr;
  miopenHandle_t handle = nullptr;
  bool good = hipMalloc(&device, sizeof host) == hipSuccess && hipStreamCreate(&stream) == hipSuccess &&
              hipMemcpyAsync(device, host, sizeof host, hipMemcpyHostToDevice, stream) == hipSuccess &&
              hipMemcpyAsync(back, device, sizeof host, hipMemcpyDeviceToHost, stream) == hipSuccess &&
              hipStreamSynchronize(stream) == hipSuccess && back[3] == 4 &&
              miopenCreateWithStream(&handle, stream) == miopenStatusSuccess &&
              miopenDestroy(handle) == miopenStatusSuccess &&
              hipStreamDestroy(stream) == hipSuccess && hipFree(device) == hipSuccess;
  return !good;
}
"""


def run(*command, **environment):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False, env={**os.environ, **environment})
    return done.returncode, done.stdout


def must(*command, **environment):
    status, output = run(*command, **environment)
    if status:
        sys.exit(f"check_install: {' '.join(map(str, command))}: status {status}\n{output.strip()}")
    return output


def install(build, prefix, component):
    return run("cmake", "--install", build, "--prefix", prefix, "--strip", "--component", component, DESTDIR="")


def version(symbol):
    return tuple(int(part) for part in re.findall(r"\d+", symbol))


def check_library(name, head, symbols, own_glibc):
    """Violations of one ELF file, from the texts of `objdump -p` and `objdump -T`."""
    for abi, limit in MAX_VERSIONS.items() if own_glibc <= PACKAGING_GLIBC else ():
        needs = max(re.findall(rf"\b({abi}_[\d.]+)", symbols), key=version, default=f"{abi}_0")
        if version(needs) > limit:
            names = re.findall(rf"{re.escape(needs)}\)?\s+(\S+)", symbols)
            yield f"{name} needs {needs} ({' '.join(names)}), at most {'.'.join(map(str, limit))} is allowed"
    for kind, path in re.findall(r"^\s*(R(?:UN)?PATH)\s+(\S+)", head, re.M):
        for folder in path.split(":"):
            if folder != "$ORIGIN" and not folder.startswith("$ORIGIN/"):
                yield f"{name} has {kind} {path}: {folder} does not move with the tree, $ORIGIN does"
    soname = re.search(r"^\s*SONAME\s+(\S+)", head, re.M)
    for prefix, wanted in SONAMES.items():
        if name.startswith(prefix) and (not soname or soname[1] != wanted):
            yield f"{name} has SONAME {soname[1] if soname else 'none'} instead of {wanted}"


def check_link(link, head):
    """A library that is loaded by a link searches from the link's folder, and must reach its own."""
    found = [path for paths in re.findall(r"^\s*R(?:UN)?PATH\s+(\S+)", head, re.M) for path in paths.split(":")]
    own = link.resolve().parent
    if own not in [pathlib.Path(os.path.abspath(path.replace("$ORIGIN", str(link.parent)))) for path in found]:
        yield f"the link {link} is to a library that does not find {own.name} from there by {':'.join(found) or 'no RPATH'}"


def check_sizes(library, tree):
    for what, size, limit in (("the library", library, MAX_LIBRARY), ("the tree", tree, MAX_TREE)):
        if size > limit:
            yield f"{what} has {size / MIB:.1f} MiB, at most {limit // MIB} are allowed"


def check_text(name, text, places):
    for place in places:
        if place in text:
            yield f"{name} names {place}, so that the tree cannot be moved"


def check_tree(tree, places, own_glibc):
    library = total = elf_files = 0
    for path in sorted(tree.rglob("*")):
        name = path.relative_to(tree)
        if path.is_symlink():
            if os.path.isabs(os.readlink(path)) or not path.exists():
                yield f"{name} is a link to {os.readlink(path)}, which is absolute or missing"
            elif re.search(r"\.so[.\d]*$", path.name):
                yield from check_link(path, must("objdump", "-p", path))
        elif path.is_file():
            content = path.read_bytes()
            total += len(content)
            if content.startswith(b"\x7fELF"):
                elf_files += 1
                head, symbols = must("objdump", "-p", path), must("objdump", "-T", path)
                yield from check_library(path.name, head, symbols, own_glibc)
                if path.name.startswith("libMIOpen.so"):
                    library = len(content)
            else:
                yield from check_text(name, content.decode(errors="replace"), places)
    yield from check_sizes(library, total)
    if not library:
        yield "no libMIOpen.so is installed"
    print(f"library {library / MIB:.1f} MiB, tree {total / MIB:.1f} MiB, {elf_files} programs and libraries")


def check_foreign(build, work):
    """Another MIOpen's library in the prefix must be kept, and the installation must say so and write nothing."""
    folder = work / "foreign"
    libdir = re.search(r"^CMAKE_INSTALL_LIBDIR:\w+=(.+)$", (build / "CMakeCache.txt").read_text(), re.M)[1]
    library = folder / libdir / "libMIOpen.so.1"
    library.parent.mkdir(parents=True)
    library.write_text("another MIOpen's")
    status, output = install(build, folder, "drop-in")
    if not status or "belongs to another MIOpen and is kept" not in re.sub(r"\s+", " ", output):
        yield f"drop-in was installed over another MIOpen's {library.name}, status {status}: {output.strip()}"
    if library.is_symlink() or library.read_text() != "another MIOpen's":
        yield f"another MIOpen's {library.name} was replaced"
    if others := [str(p) for p in folder.rglob("*") if p != library and not p.is_dir()]:
        yield f"the refused installation wrote {' '.join(others)}"


def check_hip(tree, work):
    compilers = list(tree.glob("**/rocm/bin/hipcc"))
    if len(compilers) != 1:
        yield f"{len(compilers)} hipcc are installed, one is wanted"
        return
    source = work / "client.cpp"
    source.write_text(HIP_PROGRAM)
    must(compilers[0], "--offload-arch=gfx90a", source, "-o", work / "hip_client", "-lMIOpen", LD_LIBRARY_PATH="")
    status, output = run(work / "hip_client", LD_LIBRARY_PATH="", POLYMIO_DEVICE="cpu", MIOPEN_USER_DB_PATH=str(work / "db"))
    if status:
        yield f"the program by {compilers[0].relative_to(tree)} ends with status {status}: {output.strip()}"


def check(build):
    work = build / "install_check"
    shutil.rmtree(work, ignore_errors=True)
    yield from check_foreign(build, work)
    first, tree = work / "first", work / "moved" / "tree"
    for component in COMPONENTS:
        status, output = install(build, first, component)
        if status:
            yield f"component {component} cannot be installed: {output.strip()}"
            return
    tree.parent.mkdir()
    first.rename(tree)
    own_glibc = tuple(int(part) for part in platform.libc_ver()[1].split(".")[:2])
    yield from check_tree(tree, [str(first), str(build)], own_glibc)
    print(must(ROOT / "packaging" / "client.sh", ROOT / "examples" / "convolution.c", tree, work / "client").strip())
    yield from check_hip(tree, work)
    # The distribution's libraries that the tarball has; they do not count for the sizes.
    status, output = install(build, work / "bundled", "bundled")
    if status:
        yield f"component bundled cannot be installed: {output.strip()}"
    for path in sorted((work / "bundled").rglob("*.so*")):
        yield from check_library(path.name, must("objdump", "-p", path), must("objdump", "-T", path), own_glibc)


def self_test():
    """Each planted violation must be reported, and nothing without one."""
    head = "  NEEDED   libc.so.6\n  SONAME   libMIOpen.so.1\n  RUNPATH  $ORIGIN:$ORIGIN/..\n"
    symbols = "0000 DF *UND* 0000 (GLIBC_2.34) pthread_create\n0000 DF *UND* 0000 (GLIBC_2.2.5) free\n"
    debian = (2, 36)
    text = 'set(prefix "${here}/../..")'
    good = [*check_library("libMIOpen.so.1.0", head, symbols, debian), *check_sizes(MAX_LIBRARY, MAX_TREE),
            *check_text("polymio.pc", text, ["/first"]),
            *check_library("libMIOpen.so.1.0", head, symbols + "(GLIBC_2.38) strtol", (2, 39))]
    good += check_link(pathlib.Path("/nowhere/lib/libMIOpen.so"), "  RUNPATH $ORIGIN:/other")
    missed = [f"reported without a violation: {line}" for line in good]
    planted = [
        ("GLIBC_2.35 (hypot)", check_library("libMIOpen.so.1.0", head, symbols + "(GLIBC_2.35) hypot\n", debian)),
        ("GLIBC_2.100", check_library("MIOpenDriver", head, symbols + "GLIBC_2.100 later\n", debian)),
        ("GLIBCXX_3.4.31", check_library("MIOpenDriver", head, symbols + "(GLIBCXX_3.4.31) later\n", debian)),
        ("/tmp/lib does not move", check_library("MIOpenDriver", head.replace("$ORIGIN/..", "/tmp/lib"), symbols, debian)),
        ("$ORIGINAL does not move", check_library("MIOpenDriver", "  RPATH $ORIGINAL\n", symbols, debian)),
        ("SONAME libMIOpen.so.2", check_library("libMIOpen.so.2.0", head.replace("so.1", "so.2"), symbols, debian)),
        ("SONAME none", check_library("libpolymio_hip.so.0.1.0", "", symbols, debian)),
        ("does not find lib from there by $ORIGIN", check_link(pathlib.Path("/nowhere/lib/libMIOpen.so"), "  RUNPATH $ORIGIN/..")),
        ("the library has", check_sizes(MAX_LIBRARY + 1, MAX_TREE)),
        ("the tree has", check_sizes(MAX_LIBRARY, MAX_TREE + 1)),
        ("polymio.pc names /first", check_text("polymio.pc", "prefix=/first\n", ["/first"])),
    ]
    for wanted, found in planted:
        report = " ".join(found)
        if wanted not in report:
            missed.append(f"'{wanted}' is missing in: {report or 'no violation'}")
    return missed


def main():
    parser = argparse.ArgumentParser(description="Installs a build, moves the tree and uses it.")
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--self-test", action="store_true", help="plant violations, see them reported")
    arguments = parser.parse_args()
    problems = self_test() if arguments.self_test else list(check(arguments.build.resolve()))
    print("\n".join(problems) or "check_install: no violation")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
