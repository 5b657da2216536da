"""The features of a problem: the Python side of src/primitives/convolution/features.cc and of the inputs in
src/search/learned.cc. Both must agree; tests/search/learned_test.cc checks it on lines that train.py writes."""
# SPDX-License-Identifier: MIT
import math
import re

FAR = 5.0  # of a logarithm of times: where a solver does not apply
AXES = [("-!", "-@", "-$", "-#", "-^"), ("-H", "-y", "-p", "-u", "-l"), ("-W", "-x", "-q", "-v", "-j")]
TYPES = {"conv": None, "convfp16": "half", "convbfp16": "bfloat16", "convint8": "int8"}
DIRECTIONS = {"1": "forward", "2": "backward", "4": "weights"}


def waste(size, step):
    """log2 of (size rounded up to a multiple of step) / size."""
    return math.log2(-(-size // step) * step / size)


def parse(key):
    """Sizes of a problem from its key; None where the model has no features."""
    arguments = key.split()
    flags = dict(zip(arguments[1::2], arguments[2::2]))
    if arguments[0] not in TYPES or any(f in key for f in ("_strides", "_type", "--fuse", "_cast")):
        return None
    p = {"type": arguments[0], "direction": DIRECTIONS[flags["-F"]], "dims": int(flags.get("-_", 2))}
    p["n"], p["c"], p["k"], p["g"] = (int(flags[f]) for f in ("-n", "-c", "-k", "-g"))
    p["last"] = bool(re.search(r" -[IfO] \S*C\b", key))
    for what, at, missing in (("in", 0, 1), ("filter", 1, 1), ("pad", 2, 0), ("stride", 3, 1), ("dilation", 4, 1)):
        p[what] = [int(flags.get(names[at], missing)) if i >= 3 - p["dims"] else missing for i, names in enumerate(AXES)]
    p["out"] = [(i + 2 * q - d * (f - 1) - 1) // s + 1
                for i, q, d, f, s in zip(p["in"], p["pad"], p["dilation"], p["filter"], p["stride"])]
    return p


def problem_features(p):
    """Name and value of each, in the order of the C++ side."""
    lg = math.log2
    n, g, c, k = p["n"], p["g"], p["c"] // p["g"], p["k"] // p["g"]
    i, o, r = p["in"], p["out"], p["filter"]
    f = {"n": lg(n), "c": lg(c), "k": lg(k), "g": lg(g)}
    f |= {f"in{d}": lg(i[d]) for d in range(3)} | {f"out{d}": lg(o[d]) for d in range(3)}
    f |= {f"filter{d}": lg(r[d]) for d in range(3)}
    f |= {"stride": lg(max(p["stride"])), "dilation": lg(max(p["dilation"]))}
    size = {None: 4, "half": 2, "bfloat16": 2, "int8": 1}[TYPES[p["type"]]]
    work = lg(2) + lg(n * g) + lg(c) + lg(k) + sum(map(lg, o)) + sum(map(lg, r))
    x, w, y = n * g * c * math.prod(i) * size, g * k * c * math.prod(r) * size, n * g * k * math.prod(o) * size
    f |= {"work": work, "x": lg(x), "w": lg(w), "y": lg(y), "intensity": work - lg(x + w + y)}
    for name in DIRECTIONS.values():
        f[name] = float(p["direction"] == name)
    for name in ("half", "bfloat16", "int8"):
        f[name] = float(TYPES[p["type"]] == name)
    f["last"] = float(p["last"])
    f["padded"] = float(any(p["pad"]))
    f["pointwise"] = float(math.prod(r) == 1 and max(p["stride"]) == 1 and not any(p["pad"]))
    f["depthwise"] = float(g > 1 and c == 1)
    for name, s, step in (("c16", c, 16), ("k16", k, 16), ("k8", k, 8), ("in16", i[2], 16), ("out16", o[2], 16),
                          ("plane16", o[1] * o[2], 16)):
        f[name] = waste(s, step)
    for step in (2, 4):
        f[f"in_tile{step}"] = waste(i[1], step) + waste(i[2], step)
        f[f"out_tile{step}"] = waste(o[1], step) + waste(o[2], step)
    rows, columns, depth = {"forward": (k, n * math.prod(o), c * math.prod(r)),
                            "backward": (c, n * math.prod(i), k * math.prod(r)),
                            "weights": (k, c * math.prod(r), n * math.prod(o))}[p["direction"]]
    f |= {"rows": lg(rows), "columns": lg(columns), "depth": lg(depth)}
    return f | {"rows8": waste(rows, 8), "columns48": waste(columns, 48)}


def inputs(p, row, slots):
    """All inputs of the network. `row` has threads, gflops, gbs and estimates by slot in microseconds."""
    f = problem_features(p)
    threads = row["threads"]
    f |= {"threads": math.log2(threads), "gflops": math.log2(row["gflops"] / threads),
          "gbs": math.log2(row["gbs"])}
    estimates = {s: math.log(us) for s, us in row["estimates"].items()}
    least = min(estimates.values())
    f["best"] = least
    for s in slots:
        f[s] = min(estimates[s] - least, FAR) if s in estimates else FAR
    return f
