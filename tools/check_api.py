#!/usr/bin/env python3
# Checks the public headers, and a built library, against the API tables: every
# signature, every enumerator, the beta gating, the exported symbols and the SONAME. One line for
# each difference; exit status 1 if there is any. --self-test plants violations and must see them.
# SPDX-License-Identifier: MIT
import argparse
import csv
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
API_TABLE = ROOT / "api" / "miopen_api.tsv"
ENUM_TABLE = ROOT / "tests" / "capi" / "miopen_enums.tsv"
SONAME = "libMIOpen.so.1"

# Exported beside the table: miopen_internal.h.
INTERNAL = {
    "miopenHiddenSetConvolutionFindMode":
        "(miopenConvolutionDescriptor_t convDesc, int findMode)",
    "miopenHiddenGetConvolutionFindMode":
        "(const miopenConvolutionDescriptor_t convDesc, int* findMode)",
    "miopenConvolutionABBackwardWeightsGetWorkSpaceSize":
        "(const miopenAlphaBetaCase_t alpha_beta_case, const miopenTensorDescriptor_t x,"
        " const miopenTensorDescriptor_t y, const miopenConvolutionDescriptor_t convDesc,"
        " size_t* size)",
}
INCLUDES = ["miopen/miopen.h", "miopen/miopen_internal.h", "miopen/polymio.h"]


def read_table(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def functions():
    """(name, type, is beta) of every MIOpen function; defaults of C++ are no part of a type."""
    rows = []
    for row in read_table(API_TABLE):
        parameters = re.sub(r"\s*=\s*[^,)]+", "", row["parameters"])
        rows.append((row["name"], row["returns"] + " " + parameters, row["status"] == "beta"))
    for name, parameters in INTERNAL.items():
        rows.append((name, "miopenStatus_t " + parameters, "AlphaBetaCase" in parameters))
    return rows


def declared(headers):
    """Names of all functions that the headers export."""
    names = set()
    for header in sorted((headers / "miopen").glob("*.h")):
        text = re.sub(r"//.*|^#.*", "", header.read_text(), flags=re.MULTILINE)
        names.update(re.findall(r"MIOPEN_EXPORT\s[^;()]*?\b(\w+)\s*\(", text))
    return names


def errors_by_line(command, source):
    """Compiles the text; the errors in it by line number, and those in other files as text."""
    result = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    lines, others = {}, []
    for message in result.stderr.splitlines():
        found = re.match(r"<stdin>:(\d+):(?:\d+:)? (?:fatal )?error: (.*)", message)
        if found:
            lines.setdefault(int(found[1]), found[2])
        elif " error: " in message:
            others.append(message)
    if result.returncode and not lines and not others:
        others.append(f"{' '.join(command)}: {result.stderr.strip() or 'failed'}")
    return lines, others


def compile_checks(command, prologue, checks):
    """Compiles one line for each (what, code); a text for each that fails."""
    source = "\n".join(prologue + [code for _, code in checks]) + "\n"
    lines, differences = errors_by_line(command, source)
    for number, message in sorted(lines.items()):
        index = number - len(prologue) - 1
        what = checks[index][0] if index >= 0 else prologue[number - 1]
        differences.append(f"{what}: {message}")
    return differences


def check_headers(headers, compiler):
    command = [compiler, "-fsyntax-only", f"-I{headers}", "-Wall", "-Wextra", "-Wpedantic",
               "-Werror", "-fno-diagnostics-color"]
    c11 = command + ["-std=c11", "-xc", "-"]
    cxx17 = command + ["-std=c++17", "-xc++", "-"]
    include = [f"#include <{name}>" for name in INCLUDES]
    beta = ["#define MIOPEN_BETA_API"]
    table = functions()
    enumerators = [(row["enum"], row["enumerator"], row["value"])
                   for row in read_table(ENUM_TABLE)]

    def c_signatures(rows):
        return [(f"{name} (C)", f"_Static_assert(__builtin_types_compatible_p(__typeof__({name}), "
                 f'{kind}), "the table says {kind}");') for name, kind, _ in rows]

    differences = compile_checks(c11, beta + include, c_signatures(table) + [
        (f"{name} (C)", f'_Static_assert({name} == {value}, "the table says {value}");')
        for _, name, value in enumerators])
    differences += compile_checks(c11, include, c_signatures([r for r in table if not r[2]]))
    differences += compile_checks(cxx17, beta + include + ["#include <type_traits>"], [
        (f"{name} (C++)", f"static_assert(std::is_same_v<decltype({name}), {kind}>, "
         f'"the table says {kind}");') for name, kind, _ in table] + [
        (f"{name} (C++)", f"static_assert(std::is_same_v<decltype({name}), {kind}> && "
         f'static_cast<long long>({name}) == {value}LL, "the table says {kind} {value}");')
        for kind, name, value in enumerators])
    differences += check_names(headers, compiler, include, table)
    for header in sorted((headers / "miopen").glob("*.h")):
        alone = [f"#include <miopen/{header.name}>", "extern int any_declaration;"]
        for language in (c11, cxx17):
            for prologue in (alone, beta + alone):
                differences += compile_checks(language, prologue, [])
    return sorted(set(differences))


def check_names(headers, compiler, include, table):
    """Nothing is declared beyond the table, and nothing that is beta without MIOPEN_BETA_API."""
    known = {name for name, _, _ in table}
    differences = [f"{name}: declared in the headers, not in the table"
                   for name in sorted(declared(headers) - known) if not name.startswith("polymio")]
    released = subprocess.run([compiler, "-E", f"-I{headers}", "-xc", "-"], text=True, check=True,
                              input="\n".join(include) + "\n", stdout=subprocess.PIPE).stdout
    arguments = set(re.findall(r"\w+", released))
    differences += [f"{name}: released, but not declared without MIOPEN_BETA_API"
                    for name, _, beta in table if not beta and name not in arguments]
    differences += [f"{name}: beta, but declared without MIOPEN_BETA_API"
                    for name, _, beta in table if beta and name in arguments]
    return differences


def run_tool(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def check_library(library, headers):
    expected = {name for name, _, _ in functions()}
    expected |= {name for name in declared(headers) if name.startswith("polymio")} | {"polymioRuntimeAccess"}
    exported = {}
    for line in run_tool("nm", "-D", "--defined-only", str(library)).splitlines():
        kind, name = line.split()[-2:]
        exported[name] = kind
    differences = [f"{name}: not exported by {library}" for name in expected - set(exported)]
    differences += [f"{name}: exported by {library}, but in no table and no header"
                    for name in set(exported) - expected]
    differences += [f"{name}: exported by {library} as '{kind}', must be a function"
                    for name, kind in exported.items() if name in expected and kind != "T"]
    found = re.search(r"SONAME.*\[(.*)\]", run_tool("readelf", "-d", str(library)))
    soname = found[1] if found else "none"
    if soname != SONAME:
        differences.append(f"{library}: SONAME is {soname}, must be {SONAME}")
    return sorted(differences)


def build_stub(folder, compiler, names, soname):
    source, library = folder / "stub.c", folder / "stub.so"
    source.write_text("".join(f"void {name}(void) {{}}\n" for name in sorted(names)))
    run_tool(compiler, "-shared", "-fPIC", f"-Wl,-soname,{soname}", "-o", str(library), str(source))
    return library


def self_test(headers, compiler):
    """Plants violations; each must give a difference that names it."""
    planted = [
        ("handle.h", "bool enable", "int enable", "miopenEnableProfiling"),
        ("handle.h", r"MIOPEN_EXPORT[^;]*miopenGetKernelTime\(", "MIOPEN_EXPORT int other(",
         "miopenGetKernelTime"),
        ("tensor.h", "miopenTensorOpMax = 3", "miopenTensorOpMax = 4", "miopenTensorOpMax"),
        ("handle.h", r"\Z", "MIOPEN_EXPORT int miopenExtra(void);\n", "miopenExtra"),
        ("tensor.h", "#ifdef MIOPEN_BETA_API", "#if 1", "miopenSetTensorCastType"),
    ]
    missed = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        copy = folder / "headers"
        shutil.copytree(headers, copy)
        for file, old, new, _ in planted:
            path = copy / "miopen" / file
            text = path.read_text()
            changed = re.sub(old, new, text, count=1)
            path.write_text(changed)
            if changed == text:
                missed.append(f"{file}: there is no '{old}'")
        found = check_headers(copy, compiler)
        for file, old, new, argument in planted:
            if not any(line.startswith(argument) for line in found):
                missed.append(f"{file}: '{old}' -> '{new}' was not seen; found: {found}")
        missed += self_test_library(folder, headers, compiler)
    return missed


def self_test_library(folder, headers, compiler):
    names = {name for name, _, _ in functions()}
    names |= {name for name in declared(headers) if name.startswith("polymio")} | {"polymioRuntimeAccess"}
    cases = [
        (names, SONAME, None),
        (names - {"miopenCreate"}, SONAME, "miopenCreate: not exported"),
        (names | {"leaked"}, SONAME, "leaked: exported"),
        (names, "libother.so", "SONAME is libother.so"),
    ]
    missed = []
    for exported, soname, text in cases:
        found = check_library(build_stub(folder, compiler, exported, soname), headers)
        seen = not found if text is None else len(found) == 1 and text in found[0]
        if not seen:
            missed.append(f"library case '{text}' found: {found}")
    return missed


def main():
    parser = argparse.ArgumentParser(description="Compares headers and library with the tables.")
    parser.add_argument("--headers", type=pathlib.Path, default=ROOT / "include")
    parser.add_argument("--library", type=pathlib.Path, help="also check this libMIOpen.so")
    parser.add_argument("--cc", default="gcc", help="gcc or clang")
    parser.add_argument("--self-test", action="store_true", help="plant violations, see them fail")
    arguments = parser.parse_args()
    differences = check_headers(arguments.headers, arguments.cc)
    if arguments.library:
        differences += check_library(arguments.library, arguments.headers)
    if arguments.self_test:
        differences += self_test(arguments.headers, arguments.cc)
    for line in differences:
        print(line)
    count = len(functions())
    print(f"check_api: {count} functions, {len(read_table(ENUM_TABLE))} enumerators, "
          f"{len(differences)} differences")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
