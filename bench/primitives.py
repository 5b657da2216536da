#!/usr/bin/env python3
"""Primitives other than convolution against PyTorch: both in this process, on the same tensors, timed alternately.

On a CPU several calls in a row are timed, after a pause in which the other's threads fall asleep; on a GPU replays of
CUDA graphs, or calls in a row where PyTorch's cannot be captured. Ratio: PyTorch's time / ours. `copy`: the part of a
copy's rate, on this device with these threads, at which the bytes that must move did move. `first`: milliseconds of the first call, programs compiled. Writes Markdown and CSV.

Usage: primitives.py libMIOpen.so.1 [--device cpu|cuda] [--threads N|all] [--onednn LIBRARY] [--only PART]
                     [--random N] [--out TABLE.md]"""
# SPDX-License-Identifier: MIT
import argparse
import csv
import itertools
import math
import os
import pathlib
import random
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "torch"))

# Images: ResNet-50's, a video network's and a U-Net's layers, odd sizes. Rows: BERT's and Llama's.
IMAGES = [(32, 64, 112, 112), (32, 256, 56, 56), (32, 512, 28, 28), (32, 2048, 7, 7), (1, 64, 56, 56), (4, 64, 8, 56, 56),
          (2, 64, 256, 256), (5, 37, 29, 31)]
SEQUENCES = [(500, 32, 41), (500, 32, 101), (150, 64, 29), (1000, 8, 5000)]
ROWS = [(1, 4096), (128, 768), (4096, 768), (2048, 4096), (256, 16384), (65536, 128), (333, 1001)]
GROUPS = [(2, 320, 64, 64), (2, 640, 32, 32), (2, 1280, 16, 16), (8, 320, 64, 64)]
# Batch, heads, tokens, head size.
HEADS = [(16384 // tokens, 2048 // head, tokens, head) for head in (64, 128) for tokens in (512, 2048, 4096, 16384)]
CPU_HEADS = [(1, max(1, 4096 // tokens), tokens, head) for _, _, tokens, head in HEADS]
# Hidden units and elements of the input, samples, steps.
NETWORKS = [(256, 1, 100), (256, 16, 500), (256, 128, 100), (512, 1, 500), (512, 16, 100), (512, 64, 50), (1024, 1, 100),
            (1024, 16, 25), (1024, 64, 25), (1024, 128, 100), (2048, 1, 25), (2048, 16, 25), (2048, 128, 25)]


def networks(most_work):
    from recurrent import timed
    for (hidden, batch, steps), mode, trains in itertools.product(NETWORKS, ("lstm", "gru"), (False, True)):
        if hidden ** 2 * batch * steps <= most_work:
            yield (f"{mode}{' training step' * trains}",
                   lambda lib, x, m=mode, t=trains: timed(lib, x, m, t), (steps, batch, hidden), False)


def attentions(on_cpu):
    """Against flash attention: on a GPU for 16 bits; on a CPU with few heads, and without the problems of which a call
    takes much more than 2 s on a core: gradients of 16384 tokens with heads of 128, or in 16 bits."""
    from attention import attention
    for size, causal, backward in itertools.product(CPU_HEADS if on_cpu else HEADS, (False, True), (False, True)):
        def make(lib, x, causal=causal, backward=backward):
            few_bits, work = x.element_size() == 2, x.numel() * x.shape[2] * (1 + 1.5 * backward) / (1 + causal)
            if not on_cpu and not few_bits:
                raise RuntimeError("flash attention takes 16 bits")
            if on_cpu and work * (8 if backward and few_bits else 1) > 4.5e10:  # PyTorch's gradient of 16 bits is slow
                raise RuntimeError("too much work")
            return attention(lib, x, causal=causal, backward=backward, by_flash=True)
        yield f"attention{' causal' * causal}{' backward' * backward}", make, size, False


def problems(op):
    """(name, maker, sizes, whether there are two layouts)"""
    for size in IMAGES:
        yield "batch norm training", op.batch_norm_training, size, True
        yield "batch norm inference", op.batch_norm_inference, size, True
        yield "batch norm backward", op.batch_norm_backward, size, True
        yield "pooling max", op.pooling, size, True
        yield "pooling average", lambda lib, x: op.pooling(lib, x, 1), size, True
        yield "pooling max backward", lambda lib, x: op.pooling(lib, x, backward=True), size, True
        yield "reduce sum HW", lambda lib, x: op.reduction(lib, x, "sum", range(2, x.dim())), size, True
        yield "reduce sum C", lambda lib, x: op.reduction(lib, x, "sum", (1,)), size, True
        yield "softmax C", op.softmax, size, True
        if len(size) == 4:
            yield "lrn", op.lrn, size, True
    for size in ROWS:
        yield "softmax", op.softmax, size, False
        yield "softmax backward", lambda lib, x: op.softmax(lib, x, backward=True), size, False
        yield "layer norm", op.layer_norm, size, False
        yield "layer norm backward", lambda lib, x: op.layer_norm(lib, x, True), size, False
        yield "RMS norm", op.rms_norm, size, False
        yield "RMS norm backward", lambda lib, x: op.rms_norm(lib, x, True), size, False
        yield "reduce max rows", lambda lib, x: op.reduction(lib, x, "max", (1,)), size, False
        yield "reduce sum columns", lambda lib, x: op.reduction(lib, x, "sum", (0,)), size, False
    for size in SEQUENCES:
        yield "ctc loss", lambda lib, x: op.ctc_loss(lib, x, 100), size, False
    for size in GROUPS:
        yield "group norm", op.group_norm, size, True


def random_problems(torch, lib, count, seed):
    """The operations of the tests in sizes that no list has: what a benchmark of chosen sizes misses."""
    import torch_test
    torch_test.large = True
    for name, make in torch_test.CASES.items():
        if name.startswith(("attention", "recurrent", "ctc")):  # small there; the lists have more
            continue
        draw = random.Random(seed)
        torch.manual_seed(seed)
        for number in range(count):
            yield name, number, lambda dtype, make=make, draw=draw: make(lib, draw, dtype)


def measure_random(torch, lib, timer, options):
    rows, types = [], {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
    names, begin = options.types.split(","), time.perf_counter()
    for name, number, make in random_problems(torch, lib, options.random, options.seed):
        if not any(part in name for part in options.only.split(",")) or time.perf_counter() - begin > options.seconds:
            continue
        type_ = names[number % len(names)]
        try:
            operation = make(types[type_])
            ours, theirs = timer.microseconds([operation.ours, operation.theirs], rounds=3)
        except (RuntimeError, TypeError) as error:  # PyTorch has fewer types
            print(f"{name} {type_}: {str(error).splitlines()[0]}", flush=True)
            continue
        x = operation.theirs.__defaults__[0]
        last = x.dim() > 2 and not x.is_contiguous()
        rows.append({"name": name, "size": "x".join(map(str, x.shape)), "type": type_, "layout": "nhwc" if last else "nchw",
                     "bytes": operation.bytes, "us": ours, "theirs_us": theirs, "ratio": theirs / ours,
                     "onednn_ratio": math.nan, "copy": math.nan})
        print(f"{theirs / ours:.2f} {name} {rows[-1]['size']} {type_} {rows[-1]['layout']}: {ours:.1f} us, PyTorch "
              f"{theirs:.1f}", flush=True)
    return rows


class CpuTimer:
    def __init__(self, torch):
        self.torch = torch

    def microseconds(self, calls, rounds=7, least=0.004):
        """The median of each call; of three rounds without calls before them if one takes more than 0.3 s."""
        times = [[] for _ in calls]
        counts, slow = [], False
        for call in calls:
            call()
            begin = time.perf_counter()
            call()
            taken = time.perf_counter() - begin
            slow |= taken > 0.3
            counts.append(max(1, min(1000, int(least / max(1e-7, taken)))))
        for _ in range(3 if slow else rounds):
            for call, count, found in zip(calls, counts, times):
                time.sleep(0.005)
                if not slow:
                    call()
                begin = time.perf_counter()
                for _ in range(count):
                    call()
                found.append(1e6 * (time.perf_counter() - begin) / count)
        return [statistics.median(found) for found in times]


class GpuTimer:
    def __init__(self, torch, stream):
        self.torch, self.stream = torch, stream

    def count(self, call):
        """Calls of about a millisecond."""
        for _ in range(2):
            call()
        self.stream.synchronize()
        begin = time.perf_counter()
        call()
        self.stream.synchronize()
        return max(1, min(50, int(1e-3 / max(1e-6, time.perf_counter() - begin))))

    def graph(self, call, count):
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph, stream=self.stream):
            for _ in range(count):
                call()
        return graph.replay

    def microseconds(self, calls, rounds=7):
        """By graphs, or by calls in a row if one of the calls cannot be captured."""
        counts = [self.count(call) for call in calls]
        try:
            runs = [self.graph(call, count) for call, count in zip(calls, counts)]
        except RuntimeError:
            runs = [lambda call=call, count=count: [call() for _ in range(count)] for call, count in zip(calls, counts)]
        times = [[] for _ in runs]
        for _ in range(rounds):
            for run, count, found in zip(runs, counts, times):
                start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record(self.stream)
                run()
                end.record(self.stream)
                end.synchronize()
                found.append(1e3 * start.elapsed_time(end) / count)
        return [statistics.median(found[1:]) for found in times]


def copy_rate(torch, timer, device, bytes_):
    """Bytes per second that a copy of tensors of this size moves in all, read and written."""
    source = torch.rand(max(1024, bytes_ // 8), device=device)
    target = torch.empty_like(source)
    return 8 * source.numel() / timer.microseconds([lambda: target.copy_(source)])[0] * 1e6


def geomean(values):
    values = [v for v in values if v > 0 and math.isfinite(v)]
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def table(rows):
    onednn = any(r["onednn_ratio"] > 0 for r in rows)
    columns = ["primitive", "type", "layout", "problems", "ratio", "worst"] + ["oneDNN", "worst"] * onednn
    lines = [f"| {' | '.join(columns)} | copy, 64 MiB and more |", "|---" * (len(columns) + 1) + "|"]
    for key in sorted({(r["name"], r["type"], r["layout"]) for r in rows}):
        part = [r for r in rows if (r["name"], r["type"], r["layout"]) == key]
        large = [r["copy"] for r in part if r["bytes"] >= 64 << 20]
        ratios = [[r[name] for r in part if r[name] > 0] for name in ["ratio"] + ["onednn_ratio"] * onednn]
        texts = [f"{geomean(r):.2f} | {min(r):.2f}" if r else "- | -" for r in ratios]
        lines.append(f"| {' | '.join(key)} | {len(part)} | {' | '.join(texts)} | {f'{min(large):.2f}' if large else '-'} |")
    return "\n".join(lines)


def onednn_call(onednn, name, x):
    """Nothing where oneDNN, or its version, has no such operation."""
    try:
        made = onednn.operation(name, x) if onednn else None
    except (RuntimeError, AttributeError):
        made = None
    return [made[0]] if made else []


def measure(torch, op, lib, timer, options, onednn=None):
    rows, rates, begin = [], {}, time.perf_counter()
    on_cpu = options.device == "cpu"
    parts = [attentions(on_cpu), networks(5e9 if on_cpu else math.inf)]
    types = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
    for name, make, size, two in itertools.chain(problems(op), *parts):
        if not any(part in name for part in options.only.split(",")):
            continue
        for type_ in options.types.split(","):
            for layout in ("nchw", "nhwc") if two else ("rows",):
                if time.perf_counter() - begin > options.seconds:
                    return rows
                x = torch.randn(size, device=options.device).to(types[type_])
                if layout == "nhwc":
                    x = x.to(memory_format=torch.channels_last if len(size) == 4 else torch.channels_last_3d)
                label = f"{name} {'x'.join(map(str, size))} {type_} {layout}"
                try:
                    operation = make(lib, x)
                    start = time.perf_counter()
                    operation.ours()
                    if options.device != "cpu":
                        torch.cuda.synchronize()
                    first = 1e3 * (time.perf_counter() - start)
                    ours, theirs, *other = timer.microseconds([operation.ours, operation.theirs,
                                                               *onednn_call(onednn, name, x)])
                except RuntimeError as error:
                    print(f"{label}: {str(error).splitlines()[0]}", flush=True)
                    continue
                bucket = 1 << operation.bytes.bit_length()
                if bucket not in rates:
                    rates[bucket] = copy_rate(torch, timer, options.device, bucket)
                rows.append({"name": name, "size": "x".join(map(str, size)), "type": type_, "layout": layout,
                             "bytes": operation.bytes, "us": ours, "theirs_us": theirs, "ratio": theirs / ours,
                             "onednn_us": other[0] if other else math.nan,
                             "onednn_ratio": other[0] / ours if other else math.nan,
                             "copy": operation.bytes / ours * 1e6 / rates[bucket], "first_ms": first})
                print(f"{label}: {ours:.1f} us, PyTorch {theirs:.1f}, ratio {theirs / ours:.2f}"
                      f"{f', oneDNN {other[0]:.1f}, ratio {other[0] / ours:.2f}' if other else ''}, copy "
                      f"{rows[-1]['copy']:.2f}, first {first:.1f} ms", flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--threads", type=lambda n: 0 if n == "all" else int(n), default=0,
                        help="of every library on a CPU: a number, or all cores (the default)")
    parser.add_argument("--onednn", help="libdnnl.so.3, a second baseline on a CPU")
    parser.add_argument("--types", default="fp32,bf16")
    parser.add_argument("--only", default="", help="parts of primitives' names, separated by commas")
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no measurement after this time")
    parser.add_argument("--random", type=int, default=0, metavar="N",
                        help="instead of the lists: N problems of random sizes of each operation")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", help="the table as Markdown, its rows beside it as CSV")
    options = parser.parse_args()
    if options.threads:
        os.environ["POLYMIO_NUM_THREADS"] = str(options.threads)
        os.environ["OMP_NUM_THREADS"] = str(options.threads)
    os.environ.setdefault("KMP_BLOCKTIME", "0")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        import torch
    except ImportError as error:
        sys.exit(f"primitives.py needs PyTorch: {error}")
    import operations as op
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.backends.cudnn.allow_tf32 = False
    with torch.no_grad():
        if options.device == "cpu":
            onednn = None
            if options.onednn:
                import onednn_primitives
                onednn = onednn_primitives.OneDnn(options.onednn)
            lib = op.Library(options.library)
            rows = (measure_random(torch, lib, CpuTimer(torch), options) if options.random else
                    measure(torch, op, lib, CpuTimer(torch), options, onednn))
        else:
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                lib = op.Library(options.library, "cuda")
                rows = (measure_random(torch, lib, GpuTimer(torch, stream), options) if options.random else
                        measure(torch, op, lib, GpuTimer(torch, stream), options))
    text = table(rows)
    print(text)
    if options.out:
        out = pathlib.Path(options.out)
        where = torch.cuda.get_device_name() if options.device == "cuda" else f"a CPU, {torch.get_num_threads()} threads"
        out.write_text(f"# Primitives against PyTorch {torch.__version__} on {where}\n\n{text}\n")
        with open(out.with_suffix(".csv"), "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys())
            writer.writeheader()
            writer.writerows({k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)


if __name__ == "__main__":
    main()
