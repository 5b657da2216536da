#!/usr/bin/env python3
"""The house rules as a script: include directions, sizes of files and of kernel classes, number of macros, CMake size.

Usage: check_house.py [--self-test]. Exit status 1 with a line for each violation."""
# SPDX-License-Identifier: MIT
import pathlib
import re
import sys
import tempfile

MAY_INCLUDE = {  # folder of src/ -> folders it may name in #include "..."
    "base": {"base"},
    "runtime": {"base", "runtime"},
    "db": {"base", "db"},
    "core": {"base", "runtime", "db", "core"},
    "search": {"base", "runtime", "db", "core", "search"},
    "kernels": {"base", "kernels"},
    "primitives": {"base", "runtime", "core", "search", "kernels", "primitives"},
    "capi": {"base", "runtime", "db", "core", "search", "primitives", "capi"},
}
MAX_LINES = {"src/**/*.h": 300, "src/**/*.cc": 800, "src/kernels/**/*.cc": 500, "include/**/*.h": 1500,
             "src/**/*.cl": 500, "src/**/*.cu": 500, "src/**/*.cuh": 500, "driver/**/*.cc": 800, "tests/**/*.cc": 800,
             "reference/**/*.cc": 800}
KERNELS_SEE = ("base/dtype.h", "base/math.h", "base/cpu_isa.h", "base/built_isas.h")
MAX_CMAKE, MAX_MACROS = 700, 10
CLASSES_IN, MAX_CLASS_LINES, MAX_MEMBERS = "src/kernels/cpu/isa", 180, 15
LARGE_CLASSES = {"micro_kernel.h Micro"}  # known, and no others


def check_include(rel, inc):
    here, there = rel.parts, inc.split("/")
    if there[0] not in MAY_INCLUDE[here[0]]:
        yield f"src/{rel}: {here[0]} may not include {inc}"
    if here[0] == "kernels" and there[0] == "base" and inc not in KERNELS_SEE:
        yield f"src/{rel}: kernels see {' '.join(KERNELS_SEE)} only ({inc})"
    if here[0] != "runtime" and there[0] == "runtime" and len(there) > 2:
        yield f"src/{rel}: only runtime/ sees a backend ({inc})"
    if here[0] == "primitives" == there[0] and there[1] not in (here[1], "common") and inc != f"primitives/{there[1]}/{there[1]}.h":
        yield f"src/{rel}: another primitive is seen through its face only ({inc})"


TARGET = r"\*?(?!k[A-Z])[A-Za-z_][\w.\[\]>-]*"  # what an assignment writes, constants and designated fields apart
ASSIGN = rf"{TARGET}\s*(?:[-+*/|&^%]|<<|>>)?=(?!=)"
JOINED = re.compile(rf"^(?:.*\)|\s*else)?\s*{ASSIGN}")


def joined_assignments(text):
    """Numbers of lines with a statement of assignments that commas join."""
    code = ""
    for number, line in enumerate(text.splitlines(), 1):
        continues, code = code.rstrip().endswith(","), re.sub(r"//.*", "", line)
        if continues or not JOINED.match(code) or re.match(r"\s*(for\b|#|[\w:<>]+ [*&]?\w+ = )", code):
            continue
        depth = 0
        for i, c in enumerate(code):
            depth += (c in "([{") - (c in ")]}")
            if c == "," and depth <= 0 and re.match(rf",\s*{ASSIGN}", code[i:]) and code.rstrip().endswith(";"):
                yield number
                break


CLASS_HEAD = re.compile(r"(\s*)(?:class|struct) (?:alignas\(\w+\) )?(\w+)(?: final)?(?: :[^;(]*)?\s*{$")
NO_MEMBER = re.compile(r"(?:using|friend|static|template|typedef|enum|struct|class|public|private|protected)\b")


def declarators(statement):
    """A declaration without initialisers, template arguments and what parentheses, brackets and braces enclose."""
    plain, depth, in_initialiser = "", 0, False
    for c in statement:
        opens, closes = ("([{", ")]}") if in_initialiser else ("([{<", ")]}>")
        depth += (c in opens) - (c in closes)
        if depth == 0 and c in "=,;":
            in_initialiser = c == "="
        if not in_initialiser and (depth == 0 or c == "("):
            plain += c
    return plain


def data_members(body, indent):
    """The number of data members that the formatted lines of a class body declare at its own depth."""
    count, statement = 0, ""
    for line in body:
        if line.startswith("#") or (not statement and len(line) - len(line.lstrip()) != indent):
            continue
        statement = f"{statement} {line.strip()}".strip()
        if not re.search(r"[;{}:]$", statement):
            continue
        plain = declarators(statement)
        if plain.endswith(";") and not re.search(r"\(|\boperator\b", plain) and not NO_MEMBER.match(plain):
            count += 1 + plain.count(",")
        statement = ""
    return count


def classes(text):
    """Name, first line, lines of the body and data members of each class of a formatted source."""
    lines = [re.sub(r"\s*//.*", "", line) for line in text.splitlines()]
    for i, line in enumerate(lines):
        if match := CLASS_HEAD.match(line):
            end = next(j for j in range(i + 1, len(lines)) if lines[j].startswith(match[1] + "};"))
            yield match[2], i + 1, end - i - 1, data_members(lines[i + 1:end], len(match[1]) + 2)


def check_classes(root):
    large = set()
    for path in sorted(p for p in (root / CLASSES_IN).rglob("*") if p.suffix in (".h", ".cc")):
        for name, line, length, members in classes(path.read_text()):
            if length <= MAX_CLASS_LINES and members <= MAX_MEMBERS:
                continue
            large.add(f"{path.name} {name}")
            if f"{path.name} {name}" not in LARGE_CLASSES:
                yield (f"{path.relative_to(root)}:{line}: {name} has {length} lines and {members} data members, "
                       f"at most {MAX_CLASS_LINES} and {MAX_MEMBERS}: split plan and worker, group members")
    for known in sorted(LARGE_CLASSES - large) if (root / CLASSES_IN / "micro_kernel.h").exists() else ():
        yield f"{known} is no longer large: remove it from LARGE_CLASSES"


def check(root):
    yield from check_classes(root)
    for folder in ("src", "driver", "tests", "bench", "reference", "tools", "examples"):
        for path in sorted(p for p in (root / folder).rglob("*") if p.suffix in (".h", ".cc", ".cl", ".cu", ".cuh", ".c")):
            for number in joined_assignments(path.read_text()):
                yield f"{path.relative_to(root)}:{number}: assignments joined by commas, write one statement per line"
    src = root / "src"
    macros = set()
    for path in sorted(p for p in src.rglob("*") if p.suffix in (".h", ".cc")):
        rel, text = path.relative_to(src), path.read_text()
        for inc in re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.M):
            yield from check_include(rel, inc)
        if rel.parts[0] != "capi" and re.search(r"#\s*include\s+<miopen/", text):
            yield f"src/{rel}: only capi/ sees the public headers"
        macros.update(re.findall(r"^\s*#\s*define\s+(POLYMIO_\w+)", text, re.M))
        if "// SPDX-License-Identifier: MIT" not in text.splitlines()[:12]:
            yield f"src/{rel}: no SPDX line in the head"
    if len(macros) > MAX_MACROS:
        yield f"{len(macros)} macros in src/, at most {MAX_MACROS}: {', '.join(sorted(macros))}"
    worst = {}
    for pattern, limit in MAX_LINES.items():
        for path in root.glob(pattern):
            worst[path] = min(limit, worst.get(path, limit))
    for path, limit in sorted(worst.items()):
        if (n := len(path.read_text().splitlines())) > limit:
            yield f"{path.relative_to(root)}: {n} lines, at most {limit}"
    readme, example = root / "README.md", root / "examples/convolution.c"
    if readme.exists() and f"```c\n{example.read_text()}```" not in readme.read_text():
        yield "README.md: its C example is not examples/convolution.c"
    cmake = [p for p in root.rglob("CMakeLists.txt") if not {"build", "clients"} & set(p.relative_to(root).parts)]
    if (n := sum(len(p.read_text().splitlines()) for p in cmake)) > MAX_CMAKE:
        yield f"{n} lines of CMake, at most {MAX_CMAKE}"


def self_test():
    """Plants one violation of each rule and expects each to be seen."""
    planted = {
        "src/base/a.h": '// SPDX-License-Identifier: MIT\n#include "core/solver.h"\n',
        "src/core/b.cc": "// SPDX-License-Identifier: MIT\n#include <miopen/miopen.h>\n",
        "src/kernels/k.cc": '// SPDX-License-Identifier: MIT\n#include "base/error.h"\n',
        "src/core/c.cc": '// SPDX-License-Identifier: MIT\n#include "runtime/cpu/cpu.h"\n',
        "src/primitives/x/d.cc": '// SPDX-License-Identifier: MIT\n#include "primitives/y/inner.h"\n',
        "src/search/e.h": "// SPDX-License-Identifier: MIT\n" + "\n" * 300,
        "src/db/f.cc": "int no_licence;\n",
        "src/db/i.cc": "// Text. SPDX-License-Identifier: MIT\n",
        "src/db/h.cc": "// SPDX-License-Identifier: MIT\nvoid f(int a, int b) {\n  if (a) a = 1, b = 2;\n}\n",
        "src/base/g.h": "// SPDX-License-Identifier: MIT\n" + "".join(f"#define POLYMIO_M{i}\n" for i in range(11)),
        "src/kernels/cpu/isa/long.h": "// SPDX-License-Identifier: MIT\nclass Long {\n" + "  void f();\n" * 181 + "};\n",
        "src/kernels/cpu/isa/wide.cc": "// SPDX-License-Identifier: MIT\ntemplate <class T>\nstruct Wide : Base<T, 2> {\n"
                                       + "  Map<T, 3> a_[2], *b_ = f(1, 2);  // two\n" * 8 + "};\n",
        "CMakeLists.txt": "#\n" * 701,
        "README.md": "```c\nint main(void);\n```\n",
        "examples/convolution.c": "int main(void) { return 0; }\n",
    }
    wanted = ["base may not include core", "only capi/ sees", "kernels see base/dtype.h base/math.h", "sees a backend",
              "face only", "e.h: 301 lines", "h.cc:3: assignments joined", "f.cc: no SPDX",
              "i.cc: no SPDX", "Long has 181 lines and 0 data members",
              "Wide has 8 lines and 16 data members", "11 macros", "701 lines of CMake", "its C example is not"]
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in planted.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        found = "\n".join(check(root))
    return [f"self-test: planted violation not seen: {w}" for w in wanted if w not in found]


if __name__ == "__main__":
    problems = self_test() if "--self-test" in sys.argv else list(check(pathlib.Path(__file__).resolve().parent.parent))
    print("\n".join(problems) or "house rules hold")
    sys.exit(bool(problems))
