#!/usr/bin/env python3
"""The house rules as a script: include directions, file sizes, number of macros, CMake size.

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
             "driver/**/*.cc": 800, "tests/**/*.cc": 800, "reference/**/*.cc": 800}
KERNELS_SEE = ("base/dtype.h", "base/math.h", "base/built_isas.h")
MAX_CMAKE, MAX_MACROS = 700, 10


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


def check(root):
    for folder in ("src", "driver", "tests", "bench", "reference", "tools", "examples"):
        for path in sorted(p for p in (root / folder).rglob("*") if p.suffix in (".h", ".cc", ".cl", ".c")):
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
        if "SPDX-License-Identifier: MIT" not in "\n".join(text.splitlines()[:12]):
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
    cmake = [p for p in root.rglob("CMakeLists.txt") if "build" not in p.relative_to(root).parts]
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
        "src/db/h.cc": "// SPDX-License-Identifier: MIT\nvoid f(int a, int b) {\n  if (a) a = 1, b = 2;\n}\n",
        "src/base/g.h": "// SPDX-License-Identifier: MIT\n" + "".join(f"#define POLYMIO_M{i}\n" for i in range(11)),
        "CMakeLists.txt": "#\n" * 701,
        "README.md": "```c\nint main(void);\n```\n",
        "examples/convolution.c": "int main(void) { return 0; }\n",
    }
    wanted = ["base may not include core", "only capi/ sees", "kernels see base/dtype.h base/math.h", "sees a backend",
              "face only", "e.h: 301 lines", "h.cc:3: assignments joined", "no SPDX", "11 macros", "701 lines of CMake", "its C example is not"]
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
