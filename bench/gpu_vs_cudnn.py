#!/usr/bin/env python3
"""Convolution on a CUDA device against cuDNN: both in this process, on the same PyTorch tensors, timed by interleaved
replays of CUDA graphs. This library is autotuned by find, cuDNN by torch.backends.cudnn.benchmark; tf32 is fp32 for which
both may use TF32.
Also layout transposes against copies, memory and compile time of ResNet-50. Writes Markdown, and a line of JSON per
row, which later runs may merge."""
# SPDX-License-Identifier: MIT
import argparse
import concurrent.futures
import csv
import ctypes
import json
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
TYPE_NUMBERS = {"fp16": 0, "fp32": 1, "tf32": 1, "bf16": 5}
TYPE_BYTES = {"fp16": 2, "fp32": 4, "tf32": 4, "bf16": 2}
MATH_TF32 = 2  # polymioMathTf32
TOLERANCE = {"fp32": 2e-5, "tf32": 1e-3, "fp16": 2e-3, "bf16": 1e-2}  # norm of the difference / norm of the expected result
LAYOUTS = ("nchw", "nhwc")
LARGE = 1e11  # operations per image, of whose result only some channels are compared
LIST_SIZE = 16
V = ctypes.c_void_p


class Perf(ctypes.Structure):
    _fields_ = [("algorithm", ctypes.c_int), ("time", ctypes.c_float), ("memory", ctypes.c_size_t)]


class Solution(ctypes.Structure):
    _fields_ = [("time", ctypes.c_float), ("workspace", ctypes.c_size_t), ("id", ctypes.c_uint64),
                ("algorithm", ctypes.c_int)]


class Problem:
    """A line of a list of problems: two dimensions as in h200_suite.csv, or 1 to 3 as in user_shapes.csv, where missing
    dimensions have size 1, and a line has its type and directions."""

    def __init__(self, row):
        self.name = row["name"]
        if "dims" in row:
            self.read_dims(row)
        else:
            self.read_planes({key: int(value) for key, value in row.items() if key != "name"})
        taps, pairs = math.prod(self.filter), zip(self.image, self.filter, self.stride, self.pad, self.dilation)
        if self.transposed:
            out = [(size - 1) * u - 2 * p + d * (r - 1) + 1 for size, r, u, p, d in pairs]
        else:
            out = [(size + 2 * p - d * (r - 1) - 1) // u + 1 for size, r, u, p, d in pairs]
        first, second = (self.c, self.k) if self.transposed else (self.k, self.c)
        self.x_size = (self.n, self.c, *self.image)
        self.w_size = (first, second // self.groups, *self.filter)
        self.y_size = (self.n, self.k, *out)
        pixels = math.prod(self.image if self.transposed else out)
        self.flops = 2.0 * self.n * pixels * self.c * self.k // self.groups * taps
        self.elements = sum(math.prod(size) for size in (self.x_size, self.w_size, self.y_size))

    def read_planes(self, row):
        self.n, self.c, self.k, self.groups = (row[key] for key in ("n", "c", "k", "groups"))
        self.image, self.filter = (row["h"], row["w"]), (row["r"], row["s"])
        self.pad = (row["pad_h"], row["pad_w"])
        self.stride, self.dilation = (row["stride"],) * 2, (row["dilation"],) * 2
        self.transposed, self.dtype, self.directions, self.kind = False, None, tuple(DIRECTIONS), None

    def read_dims(self, row):
        dims = int(row["dims"])
        self.n, self.c, self.k, self.groups = (int(row[key]) for key in ("N", "C", "K", "groups"))
        self.image = tuple(int(row[key]) for key in "DHW")[-dims:]
        self.filter, self.stride, self.pad, self.dilation = (
            tuple(map(int, row[key].split("x")))[-dims:] for key in ("filter", "stride", "pad", "dilation"))
        self.transposed, self.dtype, self.kind = row["transposed"] == "1", row["dtype"], row["family"]
        self.directions = tuple(d for letter, d in zip("FBW", DIRECTIONS) if letter in row["directions"])

    def measured_in(self, direction, dtype):
        return direction in self.directions and self.dtype in (None, dtype)

    def line(self, dtype, layout):
        """The problem as a line of MIOpenDriver; a transposed convolution as the plain one whose gradient it is."""
        c, k, image = (self.k, self.c, self.y_size[2:]) if self.transposed else (self.c, self.k, self.image)
        swapped = {"fwd": "bwd", "bwd": "fwd", "wrw": "wrw"} if self.transposed else {d: d for d in DIRECTIONS}
        mask = sum(1 << list(DIRECTIONS).index(swapped[d]) for d in self.directions)
        dims, base = len(image), {"fp16": "convfp16", "bf16": "convbfp16"}.get(dtype, "conv")
        flags = [("_", dims), ("n", self.n), ("c", c), ("k", k), ("g", self.groups)]
        for letters, values in (("!HW", image), ("@yx", self.filter), ("$pq", self.pad), ("#uv", self.stride),
                                ("^lj", self.dilation)):
            flags += zip(letters[-dims:], values)
        name = {"nchw": ("NCW", "NCHW", "NCDHW"), "nhwc": ("NWC", "NHWC", "NDHWC")}[layout][dims - 1]
        flags += [(letter, name) for letter in "IfO"] + [("F", mask)]
        math_mode = " --math tf32" if dtype == "tf32" else ""
        return (f"{base} {' '.join(f'-{f} {v}' for f, v in flags)}{math_mode}  # {self.name} "
                f"{self.family().replace(' ', '_')}")

    def family(self):
        if self.kind:
            return self.kind
        if self.groups == self.c:
            return "depthwise"
        if self.groups > 1:
            return "grouped"
        if self.n == 1:
            return "one image"
        if self.filter == (1, 1):
            return "1x1"
        return "3x3" if self.filter == (3, 3) and self.dilation == (1, 1) and self.c % 8 == 0 else "others"


def strides_of(size, layout):
    """Elements between neighbours of a packed tensor; `layout` nhwc: channels are innermost, in any number of
    dimensions."""
    order = range(len(size)) if layout == "nchw" else (0, *range(2, len(size)), 1)
    strides, step = [0] * len(size), 1
    for axis in reversed(order):
        strides[axis], step = step, step * size[axis]
    return tuple(strides)


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
        made, ints = V(), ctypes.c_int * len(size)
        self.call("miopenCreateTensorDescriptor", ctypes.byref(made))
        self.call("miopenSetTensorDescriptor", made, TYPE_NUMBERS[dtype], len(size), ints(*size),
                  ints(*strides_of(size, layout)))
        return made

    def convolution(self, p, dtype):
        made, ints = V(), ctypes.c_int * len(p.image)
        self.call("miopenCreateConvolutionDescriptor", ctypes.byref(made))
        self.call("miopenInitConvolutionNdDescriptor", made, len(p.image), ints(*p.pad), ints(*p.stride),
                  ints(*p.dilation), int(p.transposed))
        self.call("miopenSetConvolutionGroupCount", made, p.groups)
        if dtype == "tf32":
            self.call("polymioSetConvolutionMathMode", made, MATH_TF32)
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
        self.conv = library.convolution(problem, dtype)
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

    def runner(self, torch, pointers, solution):
        """Runs a solution in the immediate mode."""
        workspace = torch.empty(max(solution.workspace, 1), dtype=torch.uint8, device="cuda")
        a, b, out = self.descriptors

        def run():
            self.library.call(self.api + "Immediate", self.library.handle, a, pointers[0], b, pointers[1], self.conv,
                              out, pointers[2], V(workspace.data_ptr()), ctypes.c_size_t(solution.workspace),
                              ctypes.c_uint64(solution.id))

        return run

    def first_call(self, torch, tensors):
        """Milliseconds of a problem's first call, without find, until its result is there."""
        torch.cuda.synchronize()
        begin = time.perf_counter()
        self.runner(torch, [V(t.data_ptr()) for t in tensors], self.solutions()[0])()
        torch.cuda.synchronize()
        return 1e3 * (time.perf_counter() - begin)

    def find(self, torch, tensors):
        """`tensors` in the order of the descriptors, the output last: the solver's name, its bytes of workspace, and a
        call."""
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
        return self.library.name_of(best.id), best.workspace, self.runner(torch, pointers, best)


class Bench:
    def __init__(self, torch, library_path, stream, layouts):
        self.torch, self.stream, self.library, self.layouts = torch, stream, Library(library_path, stream), layouts
        self.device = f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}"
        self.types = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
        self.pass_rate = self.measure_pass()
        self.peaks = {name: self.measure_product(name) for name in self.types}

    def allow_tf32(self, allowed):
        """Whether PyTorch's products and convolutions of fp32 may use TF32."""
        self.torch.backends.cudnn.allow_tf32 = self.torch.backends.cuda.matmul.allow_tf32 = allowed

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
        self.allow_tf32(dtype == "tf32")
        a, b = (self.torch.randn(size, size, device="cuda").to(self.types[dtype]) for _ in range(2))
        out = self.torch.empty_like(a)
        return 2.0 * size**3 / self.medians([lambda: self.torch.mm(a, b, out=out)], 5)[0] * 1e6

    def floor_us(self, problem, dtype):
        return 1e6 * max(problem.elements * TYPE_BYTES[dtype] / self.pass_rate, problem.flops / self.peaks[dtype])

    def measure(self, problem, direction, dtype):
        """One row per layout; the baseline's times are those of the same layout and of its faster layout."""
        torch, measured, rows = self.torch, [], []
        for layout in self.layouts:
            tensors = self.tensors(problem, dtype, layout)
            row = {"layout": layout, "first_ms": math.nan, "workspace": 0}
            ours = Ours(self.library, problem, direction, dtype, layout)
            ordered = [tensors[i] for i in {"fwd": "wxy", "bwd": "ywx", "wrw": "yxw"}[direction]]
            baseline = self.baseline(problem, direction, tensors)
            self.allow_tf32(False)
            want = self.exact(problem, direction, tensors)
            self.allow_tf32(dtype == "tf32")
            inputs = ordered[:2]
            ordered[2] = torch.full_like(ordered[2], float("nan"))
            try:
                row["first_ms"] = ours.first_call(torch, ordered)
                row["solver"], row["workspace"], run = ours.find(torch, ordered)
                ordered[2].fill_(float("nan"))
                run()
                row["error"] = self.difference(ordered[2][tuple(map(slice, want.shape))], want)
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
            row.update(device=self.device, name=problem.name, family=problem.family(), direction=direction, dtype=dtype,
                       best_us=best, floor_us=self.floor_us(problem, dtype), tflops=problem.flops / row["us"] / 1e6,
                       gbs=problem.elements * TYPE_BYTES[dtype] / row["us"] / 1e3)
        return rows

    def tensors(self, problem, dtype, layout):
        """x, w and y; one dimension as two, of which the first has size 1, as PyTorch passes it to cuDNN."""
        torch, sizes = self.torch, {"x": problem.x_size, "w": problem.w_size, "y": problem.y_size}
        made = {}
        for name, size in sizes.items():
            size = planes_of(size)
            last = torch.channels_last if len(size) == 4 else torch.channels_last_3d
            made[name] = torch.rand(*size, device="cuda").sub_(0.5).to(self.types[dtype]).to(
                memory_format=torch.contiguous_format if layout == "nchw" else last)
        return made

    def convolve(self, problem, direction, x, w, y):
        p, dims = problem, x.dim() - 2
        missing = dims - len(p.image)
        stride, dilation = (1,) * missing + p.stride, (1,) * missing + p.dilation
        pad, out_pad = (0,) * missing + p.pad, (0,) * dims
        if direction == "fwd":
            return self.torch.ops.aten.convolution(x, w, None, stride, pad, dilation, p.transposed, out_pad, p.groups)
        mask = [direction == "bwd", direction == "wrw", False]
        return self.torch.ops.aten.convolution_backward(y, x, w, None, stride, pad, dilation, p.transposed, out_pad,
                                                        p.groups, mask)[mask.index(True)]

    def baseline(self, problem, direction, tensors):
        return lambda: self.convolve(problem, direction, tensors["x"], tensors["w"], tensors["y"])

    def exact(self, problem, direction, tensors):
        """The leading part of the expected result: in double for the first image, of a large problem without groups for
        the first channels; for gradients of weights in double for the first filters, with groups in fp32 for all."""
        x, w, y = (tensors[name] for name in "xwy")
        self.torch.backends.cudnn.benchmark = False
        if direction == "wrw" and problem.groups > 1:
            want = self.convolve(problem, direction, x.float(), w.float(), y.float())
        else:
            images = problem.n if direction == "wrw" else 1
            large = problem.groups == 1 and problem.flops / problem.n > LARGE
            few = 4 if direction == "wrw" or large else max(problem.c, problem.k)
            # Of w, the axis of the channels of y is the first, that of x the second; transposed, the reverse.
            x_few, y_few = (few, problem.k) if direction == "bwd" else (problem.c, few)
            w_few = (x_few, y_few) if problem.transposed else (y_few, x_few)
            if problem.groups > 1:
                w_few = w.shape[:2]
            want = self.convolve(problem, direction, x[:images, :x_few].double(), w[:w_few[0], :w_few[1]].double(),
                                 y[:images, :y_few].double())
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


def planes_of(size):
    """The size of a 1-D tensor as a 2-D one; others as they are."""
    return (*size[:2], 1, *size[2:]) if len(size) == 3 else size


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
             "floor / ours | TFLOP/s | GB/s | first call ms | workspace MiB | solver |",
             "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"]
    for r in rows:
        mark = f" WRONG ({r['error']:.1e})" if r["wrong"] else ""
        lines.append(f"| {r['name']} | {r['direction']} | {r['dtype']} | {r['layout']} | {r['us']:.1f} | "
                     f"{r['cudnn_us']:.1f} | {r['best_us']:.1f} | {r['best_us'] / r['us']:.2f} | {r['floor_us']:.1f} | "
                     f"{r['floor_us'] / r['us']:.2f} | {r['tflops']:.1f} | {r['gbs']:.0f} | {r['first_ms']:.1f} | "
                     f"{r['workspace'] / 2**20:.1f} | {r['solver']}{mark} |")
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
    jobs = [(p, d, t, layout) for p in problems for d in DIRECTIONS for t in options.dtypes for layout in options.layouts
            if p.measured_in(d, t)]
    for job in jobs[part::parts]:
        Ours(library, *job).compile()


def key_of(row):
    """What a row measures."""
    return tuple(row[name] for name in ("device", "name", "direction", "dtype", "layout"))


def read_rows(paths):
    """The rows of earlier runs; of those that measure the same the last one. A last line that is cut off is left out."""
    rows = {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith("\n"):
                    break
                try:
                    row = json.loads(line)
                    rows[key_of(row)] = row
                except (ValueError, KeyError, TypeError) as error:
                    sys.exit(f"{path}:{number}: not a row of gpu_vs_cudnn.py: {error!r}")
    return list(rows.values())


def report(rows, rates, lines, skipped):
    """`rates`: a sentence on the rates of the device, if it was measured."""
    devices = "; ".join(sorted({row["device"] for row in rows}))
    head = ["# Convolution on a GPU against cuDNN", "",
            f"`bench/gpu_vs_cudnn.py` on {devices}.{rates} Ratio: the baseline's (cuDNN's) time / ours, geometric means by "
            "family; above 1 ours is faster. The floor is the larger of bytes / memory rate and operations / rate of the "
            "type.", ""]
    if skipped:
        head += [f"Not measured within --seconds: {skipped} combinations.", ""]
    worst = sorted(rows, key=lambda r: r["best_us"] / r["us"])[:10]
    return "\n".join(head + family_table(rows) + ["", "## Worst ten", ""] + row_table(worst) + [""] + lines +
                     ["", "## All", ""] + row_table(rows)) + "\n"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", nargs="?", help="libMIOpen.so.1")
    parser.add_argument("--problems", default=os.path.join(HERE, "problems", "h200_suite.csv"))
    parser.add_argument("--only", default="", help="substrings of problem names, separated by commas")
    parser.add_argument("--dtypes", default="fp32,bf16,fp16", type=lambda text: text.split(","))
    parser.add_argument("--every-type", action="store_true",
                        help="measure each problem in every type of --dtypes, also if its line names one")
    parser.add_argument("--layouts", default="nchw,nhwc", type=lambda text: text.split(","))
    parser.add_argument("--lines", action="store_true", help="only print the problems as lines of MIOpenDriver")
    parser.add_argument("--rows", help="append a line of JSON per row to this file")
    parser.add_argument("--merge", nargs="+", default=[], metavar="FILE",
                        help="files of --rows: their rows are in the report and not measured again; without a library only "
                        "the report is made")
    parser.add_argument("--out", default=os.path.join(HERE, "results", "gpu.md"))
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no measurement after this time")
    parser.add_argument("--find-ms", type=float, default=0, help="budget of a find in milliseconds; 0: none")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) - 1), help="number of compiling processes")
    parser.add_argument("--compile-part", help=argparse.SUPPRESS)
    options = parser.parse_args()
    for name, values, allowed in (("--dtypes", options.dtypes, TYPE_NUMBERS), ("--layouts", options.layouts, LAYOUTS)):
        for value in set(values) - set(allowed):
            parser.error(f"{name}: bad value '{value}', allowed: {', '.join(allowed)}")
    if not (options.library or options.lines or options.merge):
        parser.error("the library is missing")
    return options


def read_problems(path, every_type=False):
    """`every_type`: without the types that lines name."""
    with open(path, encoding="utf-8") as file:
        problems = list(map(Problem, csv.DictReader(file)))
    for problem in problems if every_type else ():
        problem.dtype = None
    return problems


def self_test():
    """Reads the lists of problems: no library and no GPU is needed."""
    suite, user = ({p.name: p for p in read_problems(os.path.join(HERE, "problems", name))}
                   for name in ("h200_suite.csv", "user_shapes.csv"))
    conv1 = suite["rn50_conv1"]
    assert (conv1.x_size, conv1.w_size, conv1.y_size) == ((256, 3, 224, 224), (64, 3, 7, 7), (256, 64, 112, 112))
    assert conv1.flops == 2.0 * 256 * 64 * 112 * 112 * 3 * 49 and conv1.family() == "others"
    assert conv1.measured_in("bwd", "fp32") and conv1.measured_in("fwd", "bf16")
    video = user["hunyuan_512_512"]
    assert (video.x_size, video.w_size, video.y_size) == ((1, 512, 35, 130, 130), (512, 512, 3, 3, 3),
                                                          (1, 512, 33, 128, 128))
    assert video.measured_in("fwd", "bf16") and not video.measured_in("fwd", "fp16")
    assert not video.measured_in("bwd", "bf16") and video.family() == "video VAE"
    audio = user["conformer_dw31"]
    assert (audio.x_size, audio.w_size, audio.y_size) == ((16, 768, 1024), (768, 1, 31), (16, 768, 1024))
    assert audio.directions == ("fwd", "bwd", "wrw") and audio.flops == 2.0 * 16 * 768 * 1024 * 31
    every = {p.name: p for p in read_problems(os.path.join(HERE, "problems", "user_shapes.csv"), every_type=True)}
    assert every["hunyuan_512_512"].measured_in("fwd", "fp32") and not every["hunyuan_512_512"].measured_in("bwd", "fp32")
    up = user["hifigan_up0"]
    assert (up.x_size, up.w_size, up.y_size) == ((1, 512, 400), (512, 256, 16), (1, 256, 3200))
    patch = user["video_patch_2x16x16"]
    assert (patch.w_size, patch.y_size) == ((1024, 3, 2, 16, 16), (4, 1024, 8, 14, 14))
    assert strides_of((2, 3, 4, 5), "nchw") == (60, 20, 5, 1) and strides_of((2, 3, 4, 5), "nhwc") == (60, 1, 15, 3)
    assert strides_of((2, 3, 4), "nhwc") == (12, 1, 3) and planes_of((2, 3, 4)) == (2, 3, 1, 4)
    row = {"name": "a", "direction": "fwd", "dtype": "fp32", "layout": "nchw", "us": 4.0, "cudnn_us": 8.0, "best_us": 6.0,
           "floor_us": 2.0, "tflops": 1.0, "gbs": 2.0, "first_ms": 3.5, "workspace": 3 << 19, "solver": "s", "wrong": False}
    assert conv1.line("fp16", "nhwc") == (
        "convfp16 -_ 2 -n 256 -c 3 -k 64 -g 1 -H 224 -W 224 -y 7 -x 7 -p 3 -q 3 -u 2 -v 2 -l 1 -j 1 -I NHWC -f NHWC -O NHWC "
        "-F 7  # rn50_conv1 others")
    assert up.line("fp32", "nchw").startswith("conv -_ 1 -n 1 -c 256 -k 512 -g 1 -W 3200 -x 16"), "a gradient"
    assert conv1.line("tf32", "nchw").endswith("-F 7 --math tf32  # rn50_conv1 others")
    head, rule, line = row_table([row])
    assert head.count("|") == rule.count("|") == line.count("|")
    assert line == "| a | fwd | fp32 | nchw | 4.0 | 8.0 | 6.0 | 1.50 | 2.0 | 0.50 | 1.0 | 2 | 3.5 | 1.5 | s |", line
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rows")
        rows = [{**row, "device": "d", "us": us, "layout": layout} for us, layout in ((1, "nchw"), (2, "nhwc"), (3, "nchw"))]
        with open(path, "w", encoding="utf-8") as file:
            file.write("".join(json.dumps(r) + "\n" for r in rows) + '{"device": "cut')
        assert read_rows([path]) == [rows[2], rows[1]], read_rows([path])
    print("self-test passed")


def main():
    options = arguments()
    problems = [p for p in read_problems(options.problems, options.every_type)
                if any(part in p.name for part in options.only.split(","))]
    if options.lines:
        chosen = [(p, t, layout) for p in problems for t in options.dtypes for layout in options.layouts if p.dtype in (None, t)]
        return print(*(p.line(t, layout) for p, t, layout in chosen), sep="\n")
    if options.compile_part:
        return compile_part(options, problems)
    rows, rates, lines, skipped = read_rows(options.merge), "", [], 0
    if options.library:
        rates, lines, skipped = measure_all(options, problems, rows)
    text = report(rows, rates, lines, skipped)
    with open(options.out, "w", encoding="utf-8") as file:
        file.write(text)
    print(text.split("## All")[0])
    wrong = sum(row["wrong"] for row in rows)
    if wrong:
        sys.exit(f"WRONG: {wrong} results")


def measure_all(options, problems, rows):
    """Adds what is not in `rows` yet; returns the device's rates, what else was measured, and what was skipped."""
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
    torch.backends.cudnn.benchmark = True
    torch.zeros(1, device="cuda")
    skipped, done = 0, set(map(key_of, rows))
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream), torch.no_grad():
        bench = Bench(torch, options.library, stream, options.layouts)
        bench.library.call("polymioSetFindBudget", bench.library.handle, ctypes.c_double(options.find_ms))
        for dtype in options.dtypes:
            for problem in problems:
                for direction in DIRECTIONS:
                    keys = {(bench.device, problem.name, direction, dtype, layout) for layout in options.layouts}
                    if not problem.measured_in(direction, dtype) or keys <= done:
                        continue
                    if time.perf_counter() - begin > options.seconds:
                        skipped += len(options.layouts)
                        continue
                    made = bench.measure(problem, direction, dtype)
                    rows += made
                    if options.rows:
                        with open(options.rows, "a", encoding="utf-8") as file:
                            file.writelines(json.dumps(row) + "\n" for row in made)
                    print(*row_table(made)[2:], sep="\n", flush=True)
        lines = ["## Layout transposes", "", "| tensor | us | multiply us | multiply / transpose |", "|---|---|---|---|",
                 *bench.transposes()]
    driver = os.path.join(os.path.dirname(os.path.abspath(options.library)), "..", "bin", "MIOpenDriver")
    if os.path.exists(driver):
        torch.cuda.empty_cache()
        lines += ["", demo_cost(torch, driver)]
    rates = (f" An elementwise multiply moves {bench.pass_rate / 1e12:.2f} TB/s; 8192x8192 matrix products reach " +
             ", ".join(f"{rate / 1e12:.0f} TFLOP/s in {name}" for name, rate in bench.peaks.items()) + ".")
    return rates, lines, skipped


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        self_test()
    else:
        main()
