#!/usr/bin/env python3
"""Draws the convolutions that the learned model is trained and tested on.

Usage: problems.py [--count N] [--seed N] [--known FILE...] --out FOLDER. Writes train.txt, validation.txt and test.txt,
driver lines in random order. A layer goes into one of the three as a whole, whatever its batch, type, layout or
direction. With another seed and --known, the lists of earlier ones, the test part is fresh."""
# SPDX-License-Identifier: MIT
import argparse
import math
import pathlib
import random
import re
import zlib

WIDTHS = [16, 24, 32, 40, 48, 64, 80, 96, 112, 128, 144, 160, 192, 224, 240, 256, 288, 320, 384, 448, 480, 512, 576, 640,
          672, 768, 832, 960, 1024, 1152, 1280, 1536, 2048]
SIZES = [4, 5, 6, 7, 8, 10, 12, 13, 14, 16, 17, 19, 20, 24, 26, 27, 28, 32, 35, 38, 40, 48, 52, 54, 55, 56, 64, 75, 80, 96,
         104, 109, 112, 128, 147, 150, 152, 160, 192, 208, 224, 256, 300, 320, 416, 512]
BATCHES = [1, 1, 1, 2, 4, 8, 16, 32, 64]
KINDS = {"3x3": 26, "3x3s2": 7, "1x1": 20, "1x1s2": 4, "5x5": 5, "7x7": 2, "first": 5, "depthwise": 13, "grouped": 8,
         "dilated": 5, "line": 4, "1d": 4, "3d": 4}
HARD = {"1x1s2": 5, "line": 2, "1d": 3, "3x3s2": 1, "1x1": 1, "dilated": 1}  # kinds that training gets more of
HARD_SHARE, LAST_SHARE, HARD_LAST_SHARE = 0.25, 0.2, 0.5  # of lines; channels last
TYPES = {"conv": 79, "convbfp16": 8, "convfp16": 8, "convint8": 5}
MOST_FLOPS, LEAST_FLOPS, BINS = 5e9, 1e5, 25  # the work is spread evenly over its logarithm
MOST_BYTES = 200e6
BENCH = ["cpu_suite.txt", "cpu_variants.txt", "miopen_finddb_fp32.txt"]


def channels(rng, most=2048):
    pick = rng.choice(WIDTHS) if rng.random() < 0.8 else round(2 ** rng.uniform(1, 11))
    return min(pick, most)


def size(rng):
    return rng.choice(SIZES) if rng.random() < 0.8 else rng.randint(4, 256)


def layer(rng, kinds):
    """Sizes of one layer; lists have one entry per spatial dimension."""
    kind = rng.choices(list(kinds), kinds.values())[0]
    dims = {"1d": 1, "3d": 3}.get(kind, 2)
    c, k = channels(rng), channels(rng)
    groups, stride, dilation, taps = 1, 1, 1, 3
    if kind in ("1x1", "1x1s2"):
        taps, stride = 1, 1 if kind == "1x1" else 2
    elif kind == "3x3s2":
        stride = 2
    elif kind in ("5x5", "7x7"):
        taps, stride = int(kind[0]), rng.choice([1, 1, 1, 2])
    elif kind == "first":
        c, k, taps, stride = rng.choice([1, 3, 3, 3, 4]), channels(rng, 128), rng.choice([3, 3, 5, 7, 7, 11]), rng.choice([1, 2, 2, 4])
    elif kind == "depthwise":
        taps, stride, groups = rng.choice([3, 3, 3, 5, 7]), rng.choice([1, 1, 2]), c
        k = c * rng.choice([1, 1, 1, 1, 2])
    elif kind == "grouped":
        groups, stride = rng.choice([2, 4, 8, 16, 32, 32, 64]), rng.choice([1, 1, 1, 2])
        taps = rng.choice([1, 3, 3, 3])
        c, k = groups * max(1, c // groups), groups * max(1, k // groups)
    elif kind == "dilated":
        dilation = rng.choice([2, 2, 4, 6])
    elif kind in ("1d", "3d"):
        taps, stride = rng.choice([1, 3, 3, 5, 7] if dims == 1 else [1, 3, 3, 3, 5]), rng.choice([1, 1, 1, 2])
    filters = [taps] * dims
    if kind == "line":
        long = rng.choice([3, 5, 7])
        filters = rng.choice([[1, long], [long, 1]])
    edge = {1: lambda: 4 * size(rng), 2: lambda: size(rng), 3: lambda: min(size(rng), 64)}[dims]()
    sizes = [edge] * dims
    if dims > 1 and rng.random() < 0.25:
        sizes[0] = size(rng) if dims == 2 else rng.choice([4, 8, 16, 32])
    same = rng.random() < 0.9
    pads = [dilation * (f - 1) // 2 if same else rng.choice([0, dilation * (f - 1) // 2]) for f in filters]
    return {"c": c, "k": k, "g": groups, "in": sizes, "filter": filters, "pad": pads, "stride": [stride] * dims,
            "dilation": [dilation] * dims}


def outputs(s):
    return [(i + 2 * p - d * (f - 1) - 1) // t + 1
            for i, p, d, f, t in zip(s["in"], s["pad"], s["dilation"], s["filter"], s["stride"])]


def flops(s, n):
    return 2 * n * s["k"] * s["c"] / s["g"] * math.prod(outputs(s)) * math.prod(s["filter"])


def elements(s, n):
    return (n * s["c"] * math.prod(s["in"]) + n * s["k"] * math.prod(outputs(s)) +
            s["k"] * s["c"] / s["g"] * math.prod(s["filter"]))


FLAGS = [("-!", "-@", "-$", "-#", "-^"), ("-H", "-y", "-p", "-u", "-l"), ("-W", "-x", "-q", "-v", "-j")]


def layer_text(s):
    dims = len(s["in"])
    arguments = [] if dims == 2 else ["-_", dims]
    arguments += ["-c", s["c"], "-k", s["k"], "-g", s["g"]]
    for i, names in enumerate(FLAGS[3 - dims:]):
        for name, what in zip(names, ("in", "filter", "pad", "stride", "dilation")):
            arguments += [name, s[what][i]]
    return " ".join(map(str, arguments))


def layer_of(line):
    """The text that lines of one layer have in common."""
    flags = dict(re.findall(r"(-[^ ]+) (\S+)", line))
    layer_flags = {f: v for f, v in flags.items() if f not in ("-n", "-F", "-m", "-t", "-I", "-f", "-O") and
                   v != {"-p": "0", "-q": "0", "-$": "0"}.get(f, "1")}
    return " ".join(f"{f} {v}" for f, v in sorted(layer_flags.items()))


def part_of(line):
    """The part (train or test) of a line's layer, a function of its text, so that later lists keep it."""
    return {0: "test", 1: "validation"}.get(zlib.crc32(layer_of(line).encode()) % 10, "train")


def drawn(rng, count, kinds, last_share):
    """Lines, uniform over the logarithm of the work."""
    room = [math.ceil(count / BINS)] * BINS
    made, seen = 0, set()
    while made < count:
        s = layer(rng, kinds)
        if min(outputs(s)) < 1 or any(i < 1 for i in s["in"]):
            continue
        n, kind = rng.choice(BATCHES), rng.choices(list(TYPES), TYPES.values())[0]
        work = flops(s, n)
        at = math.floor(BINS * math.log(max(work, 1) / LEAST_FLOPS) / math.log(MOST_FLOPS / LEAST_FLOPS))
        if not 0 <= at < BINS or room[at] == 0 or 4 * elements(s, n) > MOST_BYTES:
            continue
        last = {1: "", 2: "NHWC", 3: "NDHWC"}[len(s["in"])] if rng.random() < last_share else ""
        layout = f" -I {last} -f {last} -O {last}" if last else ""
        line = f"{kind} -n {n} {layer_text(s)} -F {1 if kind == 'convint8' else 0}{layout}"
        if line in seen:
            continue
        seen.add(line)
        room[at] -= 1
        made += 1
        yield line


def bench_lines(folder):
    """The lines of the benchmarks' lists that are not too large."""
    for name in BENCH:
        for line in (folder / name).read_text().splitlines():
            line = line.split("#")[0].strip()
            if line:
                yield line


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=6000, help="lines; most have three directions")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--known", type=pathlib.Path, nargs="+", default=[], help="lists whose layers are for training")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    parts = {"train": [], "validation": [], "test": []}
    known = {layer_of(line) for file in options.known for line in file.read_text().splitlines()}
    lines = list(drawn(rng, options.count, KINDS, LAST_SHARE))
    lines += bench_lines(pathlib.Path(__file__).resolve().parents[2] / "bench/problems")
    for line in lines:
        parts["train" if layer_of(line) in known else part_of(line)].append(line)
    seen = set(lines)
    more = drawn(rng, int(HARD_SHARE * options.count), HARD, HARD_LAST_SHARE)
    parts["train"] += [line for line in more if part_of(line) == "train" and line not in seen]
    options.out.mkdir(parents=True, exist_ok=True)
    for name, lines in parts.items():
        rng.shuffle(lines)
        (options.out / f"{name}.txt").write_text("\n".join(lines) + "\n")
        print(f"{options.out / name}.txt: {len(lines)} lines")


if __name__ == "__main__":
    main()
