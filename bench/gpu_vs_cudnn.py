#!/usr/bin/env python3
"""Convolution on a CUDA device against cuDNN: both in this process, on the same PyTorch tensors, timed by interleaved
replays of CUDA graphs. This library is autotuned by find, cuDNN by torch.backends.cudnn.benchmark; fp32 without TF32.
Also layout transposes against copies, memory and compile time of ResNet-50. Writes Markdown."""
# SPDX-License-Identifier: MIT
import argparse
import concurrent.futures
import csv
import ctypes
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
DIRECTIONS = {"fwd": "Forward", "bwd": "BackwardData", "wrw": "BackwardWeights"}
TYPE_NUMBERS = {"fp16": 0, "fp32": 1, "bf16": 5}
TOLERANCE = {"fp32": 2e-5, "fp16": 2e-3, "bf16": 1e-2}  # norm of the difference / norm of the expected result
LAYOUTS = ("nchw", "nhwc")
LIST_SIZE = 16
V = ctypes.c_void_p


class Perf(ctypes.Structure):
    _fields_ = [("algorithm", ctypes.c_int), ("time", ctypes.c_float), ("memory", ctypes.c_size_t)]


class Solution(ctypes.Structure):
    _fields_ = [("time", ctypes.c_float), ("workspace", ctypes.c_size_t), ("id", ctypes.c_uint64),
                ("algorithm", ctypes.c_int)]


class Problem:
    """A line of the suite."""

    def __init__(self, row):
        self.name = row["name"]
        for key in row.keys() - {"name"}:
            setattr(self, key, int(row[key]))
        self.p = (self.h + 2 * self.pad_h - self.dilation * (self.r - 1) - 1) // self.stride + 1
        self.q = (self.w + 2 * self.pad_w - self.dilation * (self.s - 1) - 1) // self.stride + 1
        self.x_size = (self.n, self.c, self.h, self.w)
        self.w_size = (self.k, self.c // self.groups, self.r, self.s)
        self.y_size = (self.n, self.k, self.p, self.q)
        self.flops = 2.0 * math.prod(self.y_size) * math.prod(self.w_size[1:])
        self.elements = sum(math.prod(size) for size in (self.x_size, self.w_size, self.y_size))

    def family(self):
        if self.groups == self.c:
            return "depthwise"
        if self.groups > 1:
            return "grouped"
        if self.n == 1:
            return "one image"
        if self.r == self.s == 1:
            return "1x1"
        return "3x3" if self.r == self.s == 3 and self.dilation == 1 and self.c % 8 == 0 else "others"


class Library:
    """The functions of the C API that this benchmark uses."""

    def __init__(self, path, stream=None):
        self.path = path
        self.c = ctypes.CDLL(path)
        self.c.polymioGetLastError.restype = ctypes.c_char_p
        self.handle = V()
        if stream is None:
            self.call("polymioCreateOnDevice", ctypes.byref(self.handle), b"cuda:0")
        else:
            self.call("miopenCreateWithStream", ctypes.byref(self.handle), V(stream.cuda_stream))

    def call(self, name, *arguments):
        if getattr(self.c, name)(*arguments) != 0:
            raise RuntimeError(f"{name}: {self.c.polymioGetLastError().decode()}")

    def tensor(self, size, dtype, layout):
        n, c, h, w = size
        strides = (c * h * w, h * w, w, 1) if layout == "nchw" else (c * h * w, 1, w * c, c)
        made = V()
        self.call("miopenCreateTensorDescriptor", ctypes.byref(made))
        ints = ctypes.c_int * 4
        self.call("miopenSetTensorDescriptor", made, TYPE_NUMBERS[dtype], 4, ints(*size), ints(*strides))
        return made

    def convolution(self, p):
        made = V()
        self.call("miopenCreateConvolutionDescriptor", ctypes.byref(made))
        self.call("miopenInitConvolutionDescriptor", made, 0, p.pad_h, p.pad_w, p.stride, p.stride, p.dilation,
                  p.dilation)
        self.call("miopenSetConvolutionGroupCount", made, p.groups)
        return made

    def name_of(self, solution):
        name = ctypes.c_char_p()
        self.call("polymioGetSolutionName", ctypes.c_uint64(solution), ctypes.byref(name))
        return name.value.decode()


class Ours:
    """A problem in one direction, type and layout."""

    def __init__(self, library, problem, direction, dtype, layout):
        self.library, self.api = library, "miopenConvolution" + DIRECTIONS[direction]
        x, w, y = (library.tensor(size, dtype, layout) for size in (problem.x_size, problem.w_size, problem.y_size))
        self.conv = library.convolution(problem)
        forward = direction == "fwd"
        # In the order of the immediate-mode arguments; find takes x before w.
        self.descriptors = {"fwd": (w, x, y), "bwd": (y, w, x), "wrw": (y, x, w)}[direction]
        self.find_order = (1, 0) if forward else (0, 1)
        self.find_name = f"miopenFindConvolution{DIRECTIONS[direction]}Algorithm"

    def solutions(self):
        a, b, out = self.descriptors
        found, count = (Solution * LIST_SIZE)(), ctypes.c_size_t()
        self.library.call(self.api + "GetSolution", self.library.handle, a, b, self.conv, out,
                          ctypes.c_size_t(LIST_SIZE), ctypes.byref(count), found)
        return list(found[:count.value])

    def compile(self):
        a, b, out = self.descriptors
        for solution in self.solutions():
            self.library.call(self.api + "CompileSolution", self.library.handle, a, b, self.conv, out,
                              ctypes.c_uint64(solution.id))

    def find(self, torch, tensors):
        """`tensors` in the order of the descriptors, the output last."""
        descriptors, pointers = self.descriptors, [V(t.data_ptr()) for t in tensors]
        size = ctypes.c_size_t()
        first, second = self.find_order
        self.library.call(self.api + "GetWorkSpaceSize", self.library.handle, *descriptors[:2], self.conv,
                          descriptors[2], ctypes.byref(size))
        workspace = torch.empty(max(size.value, 1), dtype=torch.uint8, device="cuda")
        count, perf = ctypes.c_int(), (Perf * 1)()
        self.library.call(self.find_name, self.library.handle, descriptors[first], pointers[first],
                          descriptors[second], pointers[second], self.conv, descriptors[2], pointers[2], 1,
                          ctypes.byref(count), perf, V(workspace.data_ptr()), size, False)
        best = next(s for s in self.solutions() if s.algorithm == perf[0].algorithm)
        workspace = torch.empty(max(best.workspace, 1), dtype=torch.uint8, device="cuda")
        a, b, out = descriptors

        def run():
            self.library.call(self.api + "Immediate", self.library.handle, a, pointers[0], b, pointers[1], self.conv,
                              out, pointers[2], V(workspace.data_ptr()), ctypes.c_size_t(best.workspace),
                              ctypes.c_uint64(best.id))

        return self.library.name_of(best.id), run


class Bench:
    def __init__(self, torch, library_path, stream):
        self.torch, self.stream, self.library = torch, stream, Library(library_path, stream)
        self.types = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
        self.pass_rate = self.measure_pass()
        self.peaks = {name: self.measure_product(dtype) for name, dtype in self.types.items()}

    def graph_of(self, call, least_us=1000.0):
        """A graph of as many calls as take about `least_us` microseconds, and their number."""
        for _ in range(2):
            call()
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record(self.stream)
        call()
        end.record(self.stream)
        end.synchronize()
        calls = max(1, min(50, int(least_us / max(1.0, 1e3 * start.elapsed_time(end)))))
        graph = self.torch.cuda.CUDAGraph()
        graph.capture_begin()
        for _ in range(calls):
            call()
        graph.capture_end()
        return graph, calls

    def medians(self, calls, rounds=7):
        """Median microseconds per call, measured round-robin."""
        graphs = [self.graph_of(call) for call in calls]
        times = [[] for _ in graphs]
        for _ in range(rounds):
            for (graph, count), found in zip(graphs, times):
                start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record(self.stream)
                graph.replay()
                end.record(self.stream)
                end.synchronize()
                found.append(1e3 * start.elapsed_time(end) / count)
        return [statistics.median(found[1:]) for found in times]

    def measure_pass(self):
        """Bytes per second of an elementwise multiply, which is faster in a graph than a copy."""
        source = self.torch.rand(1 << 28, device="cuda")
        target = self.torch.empty_like(source)
        return 8 * source.numel() / self.medians([lambda: self.torch.mul(source, 2, out=target)])[0] * 1e6

    def measure_product(self, dtype, size=8192):
        a, b = (self.torch.randn(size, size, device="cuda").to(dtype) for _ in range(2))
        out = self.torch.empty_like(a)
        return 2.0 * size**3 / self.medians([lambda: self.torch.mm(a, b, out=out)], 5)[0] * 1e6

    def floor_us(self, problem, dtype):
        size = {"fp32": 4}.get(dtype, 2)
        return 1e6 * max(problem.elements * size / self.pass_rate, problem.flops / self.peaks[dtype])

    def measure(self, problem, direction, dtype):
        """One row per layout; the baseline's times are those of the same layout and of its faster layout."""
        torch, measured, rows = self.torch, [], []
        for layout in LAYOUTS:
            tensors = self.tensors(problem, dtype, layout)
            row, ours = {"layout": layout}, Ours(self.library, problem, direction, dtype, layout)
            ordered = [tensors[i] for i in {"fwd": "wxy", "bwd": "ywx", "wrw": "yxw"}[direction]]
            baseline = self.baseline(problem, direction, tensors)
            want = self.exact(problem, direction, tensors)
            inputs = ordered[:2]
            ordered[2] = torch.full_like(ordered[2], float("nan"))
            try:
                row["solver"], run = ours.find(torch, ordered)
                ordered[2].fill_(float("nan"))
                run()
                row["error"] = self.difference(ordered[2][:want.shape[0]], want)
                row["wrong"] = not row["error"] <= TOLERANCE[dtype]
            except RuntimeError as error:
                row.update(solver=str(error), wrong=True, error=math.nan)
                run = None
            measured.append((row, run, baseline, (inputs, ordered)))
        calls = [call for row, run, baseline, _ in measured for call in (run, baseline) if call]
        found = iter(self.medians(calls))
        for row, run, baseline, _ in measured:
            row["us"] = next(found) if run else math.inf
            row["cudnn_us"] = next(found)
            rows.append(row)
        best = min(row["cudnn_us"] for row in rows)
        for row in rows:
            row.update(name=problem.name, family=problem.family(), direction=direction, dtype=dtype, best_us=best,
                       floor_us=self.floor_us(problem, dtype), tflops=problem.flops / row["us"] / 1e6,
                       gbs=problem.elements * (4 if dtype == "fp32" else 2) / row["us"] / 1e3)
        return rows

    def tensors(self, problem, dtype, layout):
        torch = self.torch
        form = torch.contiguous_format if layout == "nchw" else torch.channels_last
        sizes = {"x": problem.x_size, "w": problem.w_size, "y": problem.y_size}
        return {name: torch.rand(*size, device="cuda").sub_(0.5).to(self.types[dtype]).to(memory_format=form)
                for name, size in sizes.items()}

    def convolve(self, problem, direction, x, w, y):
        torch, p = self.torch, problem
        if direction == "fwd":
            return torch.nn.functional.conv2d(x, w, stride=p.stride, padding=(p.pad_h, p.pad_w), dilation=p.dilation,
                                              groups=p.groups)
        mask = [direction == "bwd", direction == "wrw", False]
        return torch.ops.aten.convolution_backward(y, x, w, None, [p.stride] * 2, [p.pad_h, p.pad_w], [p.dilation] * 2,
                                                   False, [0, 0], p.groups, mask)[mask.index(True)]

    def baseline(self, problem, direction, tensors):
        return lambda: self.convolve(problem, direction, tensors["x"], tensors["w"], tensors["y"])

    def exact(self, problem, direction, tensors):
        """The expected result: in double for the first image; for gradients of weights in double for the first filters,
        with groups in fp32 for all."""
        x, w, y = (tensors[name] for name in "xwy")
        self.torch.backends.cudnn.benchmark = False
        if direction == "wrw" and problem.groups == 1:
            few = min(4, problem.k)
            want = self.convolve(problem, direction, x.double(), w[:few].double(), y[:, :few].double())
        elif direction == "wrw":
            want = self.convolve(problem, direction, x.float(), w.float(), y.float())
        else:
            want = self.convolve(problem, direction, x[:1].double(), w.double(), y[:1].double())
        self.torch.backends.cudnn.benchmark = True
        return want

    @staticmethod
    def difference(result, want):
        return ((result.double() - want.double()).norm() / want.double().norm()).item()

    def transposes(self):
        """Rows of NCHW to NHWC and back: microseconds and the fraction of the rate of an elementwise multiply."""
        torch, library, rows = self.torch, self.library, []
        one, zero = ctypes.c_float(1), ctypes.c_float(0)
        for size, dtype in (((64, 256, 56, 56), "fp32"), ((64, 256, 56, 56), "bf16"), ((256, 512, 7, 7), "fp32")):
            for source_layout, target_layout in (LAYOUTS, LAYOUTS[::-1]):
                forms = {"nchw": torch.contiguous_format, "nhwc": torch.channels_last}
                x = torch.rand(*size, device="cuda").to(self.types[dtype]).to(memory_format=forms[source_layout])
                y = torch.full_like(x, float("nan"), memory_format=forms[target_layout])
                a, b = library.tensor(size, dtype, source_layout), library.tensor(size, dtype, target_layout)

                def run():
                    library.call("miopenTransformTensor", library.handle, ctypes.byref(one), a, V(x.data_ptr()),
                                 ctypes.byref(zero), b, V(y.data_ptr()))

                flat = torch.empty_like(x)
                name = f"{'x'.join(map(str, size))} {dtype} {source_layout} to {target_layout}"
                try:
                    run()
                except RuntimeError as error:
                    rows.append(f"| {name} | {error} | | |")
                    continue
                wrong = "" if torch.equal(x, y) else " WRONG"
                us, copy_us = self.medians([run, lambda: torch.mul(x, 2, out=flat)])
                rows.append(f"| {name} | {us:.1f}{wrong} | {copy_us:.1f} | {copy_us / us:.2f} |")
        return rows


def geomean(values):
    values = [v for v in values if v > 0 and math.isfinite(v)]
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def family_table(rows):
    lines = ["| family | dtype | layout | problems | baseline / ours, same layout | baseline / ours, its faster layout | "
             "ours / floor |", "|---|---|---|---|---|---|---|"]
    keys = sorted({(r["family"], r["dtype"], r["layout"]) for r in rows})
    for key in keys:
        part = [r for r in rows if (r["family"], r["dtype"], r["layout"]) == key]
        same, best, floor = (geomean(f(r) for r in part) for f in (lambda r: r["cudnn_us"] / r["us"],
                                                                    lambda r: r["best_us"] / r["us"],
                                                                    lambda r: r["us"] / r["floor_us"]))
        lines.append(f"| {' | '.join(key)} | {len(part)} | {same:.2f} | {best:.2f} | {floor:.2f} |")
    return lines


def row_table(rows):
    lines = ["| problem | dir | dtype | layout | us | baseline us | baseline us, faster layout | baseline / ours | floor us | "
             "TFLOP/s | GB/s | solver |", "|---|---|---|---|---|---|---|---|---|---|---|---|"]
    for r in rows:
        mark = f" WRONG ({r['error']:.1e})" if r["wrong"] else ""
        lines.append(f"| {r['name']} | {r['direction']} | {r['dtype']} | {r['layout']} | {r['us']:.1f} | "
                     f"{r['cudnn_us']:.1f} | {r['best_us']:.1f} | {r['best_us'] / r['us']:.2f} | {r['floor_us']:.1f} | "
                     f"{r['tflops']:.1f} | {r['gbs']:.0f} | {r['solver']}{mark} |")
    return lines


def demo_cost(torch, driver, batch=64):
    """Peak device memory and seconds of find for the driver's ResNet-50, with empty database and cache folders."""
    with tempfile.TemporaryDirectory() as folder:
        before, peak = torch.cuda.mem_get_info()[0], 0
        child = subprocess.Popen([driver, "demo", "-n", str(batch), "--device", "cuda:0"], cwd=folder,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        reader = concurrent.futures.ThreadPoolExecutor(1).submit(child.communicate)
        while not reader.done():
            peak = max(peak, before - torch.cuda.mem_get_info()[0])
            time.sleep(0.01)
    text = reader.result()[0].rstrip()
    first, again = (re.search(pattern, text) for pattern in (r"finding took ([\d.]+) s", r"choosing took ([\d.]+) s"))
    if child.returncode or not first or not again:
        return f"ResNet-50: the driver failed: {text.splitlines()[-1]}"
    return (f"ResNet-50 with {batch} images: finding takes {first[1]} s, every kernel compiled, and {again[1]} s in the next "
            f"process; peak device memory {peak / 2**20:.0f} MiB, the context included.")


def compile_all(options):
    """Fills the kernel cache from several processes, since compilation takes most of the time of a find."""
    commands = [[sys.executable, __file__, *sys.argv[1:], "--compile-part", f"{i}/{options.jobs}"]
                for i in range(options.jobs)]
    for child in [subprocess.Popen(command) for command in commands]:
        child.wait()


def compile_part(options, problems):
    part, parts = map(int, options.compile_part.split("/"))
    library = Library(options.library)
    jobs = [(p, d, t, layout) for p in problems for d in DIRECTIONS for t in options.dtypes for layout in LAYOUTS]
    for job in jobs[part::parts]:
        Ours(library, *job).compile()


def report(bench, rows, lines, skipped):
    torch = bench.torch
    head = ["# Convolution on a GPU against cuDNN", "",
            f"`bench/gpu_vs_cudnn.py` on {torch.cuda.get_device_name()}, PyTorch {torch.__version__}, cuDNN "
            f"{torch.backends.cudnn.version()}. An elementwise multiply moves {bench.pass_rate / 1e12:.2f} TB/s; 8192x8192 "
            "matrix products reach " + ", ".join(f"{rate / 1e12:.0f} TFLOP/s in {name}" for name, rate in bench.peaks.items()) +
            ". Ratio: the baseline's (cuDNN's) time / ours, geometric means by family; above 1 ours is faster. The "
            "floor is the larger of bytes / memory rate and operations / rate of the type.", ""]
    if skipped:
        head += [f"Not measured within --seconds: {skipped} combinations.", ""]
    worst = sorted(rows, key=lambda r: r["best_us"] / r["us"])[:10]
    return "\n".join(head + family_table(rows) + ["", "## Worst ten", ""] + row_table(worst) + [""] + lines +
                     ["", "## All", ""] + row_table(rows)) + "\n"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", help="libMIOpen.so.1")
    parser.add_argument("--problems", default=os.path.join(HERE, "problems", "h200_suite.csv"))
    parser.add_argument("--only", default="", help="substrings of problem names, separated by commas")
    parser.add_argument("--dtypes", default="fp32,bf16,fp16", type=lambda text: text.split(","))
    parser.add_argument("--out", default=os.path.join(HERE, "results", "gpu.md"))
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no measurement after this time")
    parser.add_argument("--find-ms", type=float, default=0, help="budget of a find in milliseconds; 0: none")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) - 1), help="number of compiling processes")
    parser.add_argument("--compile-part", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    options = arguments()
    with open(options.problems, encoding="utf-8") as file:
        problems = [p for p in map(Problem, csv.DictReader(file)) if any(part in p.name for part in options.only.split(","))]
    if options.compile_part:
        return compile_part(options, problems)
    try:
        import torch
    except ImportError as error:
        sys.exit(f"gpu_vs_cudnn.py needs PyTorch: {error}")
    if not torch.cuda.is_available() or not torch.backends.cudnn.is_available():
        sys.exit("gpu_vs_cudnn.py needs PyTorch with a CUDA device and cuDNN: PyTorch finds none")
    begin = time.perf_counter()
    if options.jobs > 1:
        compile_all(options)
        print(f"compiled in {time.perf_counter() - begin:.1f} s")
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    torch.zeros(1, device="cuda")
    rows, skipped = [], 0
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream), torch.no_grad():
        bench = Bench(torch, options.library, stream)
        bench.library.call("polymioSetFindBudget", bench.library.handle, ctypes.c_double(options.find_ms))
        for dtype in options.dtypes:
            for problem in problems:
                for direction in DIRECTIONS:
                    if time.perf_counter() - begin > options.seconds:
                        skipped += len(LAYOUTS)
                        continue
                    rows += bench.measure(problem, direction, dtype)
                    print(*row_table(rows[-2:])[2:], sep="\n", flush=True)
        lines = ["## Layout transposes", "", "| tensor | us | multiply us | multiply / transpose |", "|---|---|---|---|",
                 *bench.transposes()]
    driver = os.path.join(os.path.dirname(os.path.abspath(options.library)), "..", "bin", "MIOpenDriver")
    if os.path.exists(driver):
        torch.cuda.empty_cache()
        lines += ["", demo_cost(torch, driver)]
    text = report(bench, rows, lines, skipped)
    with open(options.out, "w", encoding="utf-8") as file:
        file.write(text)
    print(text.split("## All")[0])
    wrong = sum(row["wrong"] for row in rows)
    if wrong:
        sys.exit(f"WRONG: {wrong} results")


if __name__ == "__main__":
    main()
