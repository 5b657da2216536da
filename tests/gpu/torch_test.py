#!/usr/bin/env python3
"""The library in a process that uses PyTorch on CUDA: on PyTorch's memory and streams, against PyTorch's results,
inside CUDA graphs. Usage: torch_test.py libMIOpen.so.1"""
# SPDX-License-Identifier: MIT
import ctypes
import sys
import time

import torch
import torch.nn.functional as functional

SUCCESS, NOT_INITIALIZED, BAD_PARM = 0, 1, 3
FLOAT, HALF, BFLOAT16 = 1, 0, 5
TYPES = {torch.float32: FLOAT, torch.float16: HALF, torch.bfloat16: BFLOAT16}


class Perf(ctypes.Structure):
    _fields_ = [("algorithm", ctypes.c_int), ("time", ctypes.c_float), ("memory", ctypes.c_size_t)]


class Solution(ctypes.Structure):
    _fields_ = [("time", ctypes.c_float), ("workspace", ctypes.c_size_t), ("id", ctypes.c_uint64),
                ("algorithm", ctypes.c_int)]


lib = ctypes.CDLL(sys.argv[1])
lib.polymioGetLastError.restype = ctypes.c_char_p


def check(status, wanted=SUCCESS):
    if status != wanted:
        raise AssertionError(f"status {status}, not {wanted}: {lib.polymioGetLastError().decode()}")


def pointer(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


class Handle:
    def __init__(self, stream=None):
        self.raw = ctypes.c_void_p()
        if stream is None:
            check(lib.miopenCreate(ctypes.byref(self.raw)))
        else:
            check(lib.miopenCreateWithStream(ctypes.byref(self.raw), ctypes.c_void_p(stream.cuda_stream)))

    def __del__(self):
        lib.miopenDestroy(self.raw)


def describe(tensor):
    made = ctypes.c_void_p()
    check(lib.miopenCreateTensorDescriptor(ctypes.byref(made)))
    ints = ctypes.c_int * tensor.dim()
    check(lib.miopenSetTensorDescriptor(made, TYPES[tensor.dtype], tensor.dim(), ints(*tensor.shape),
                                        ints(*tensor.stride())))
    return made


class Convolution:
    """y = x * w of one problem, by the library and by PyTorch."""

    def __init__(self, handle, x, w, pad=1, stride=1, groups=1):
        self.handle, self.x, self.w, self.conv = handle, x, w, ctypes.c_void_p()
        self.want = functional.conv2d(x.double(), w.double(), padding=pad, stride=stride, groups=groups)
        self.y = torch.full_like(self.want, float("nan"), dtype=x.dtype)
        check(lib.miopenCreateConvolutionDescriptor(ctypes.byref(self.conv)))
        check(lib.miopenInitConvolutionDescriptor(self.conv, 0, pad, pad, stride, stride, 1, 1))
        check(lib.miopenSetConvolutionGroupCount(self.conv, groups))
        self.dx, self.dw, self.dy = describe(x), describe(w), describe(self.y)
        size = ctypes.c_size_t()
        check(lib.miopenConvolutionForwardGetWorkSpaceSize(handle.raw, self.dw, self.dx, self.conv, self.dy,
                                                           ctypes.byref(size)))
        self.workspace = torch.empty(max(size.value, 1), dtype=torch.uint8, device="cuda")
        self.bytes = size
        self.algorithm = None

    def prepare(self):
        """What any solution needs, and the solutions."""
        problem, count, found = ctypes.c_void_p(), ctypes.c_size_t(), (Solution * 16)()
        check(lib.miopenCreateConvProblem(ctypes.byref(problem), self.conv, 0))
        for number, tensor in ((1, self.dx), (2, self.dw), (3, self.dy)):
            check(lib.miopenSetProblemTensorDescriptor(problem, number, tensor))
        check(lib.polymioPrepare(self.handle.raw, ctypes.byref(problem), 1))
        check(lib.miopenDestroyProblem(problem))
        check(lib.miopenConvolutionForwardGetSolution(self.handle.raw, self.dw, self.dx, self.conv, self.dy, 16,
                                                      ctypes.byref(count), found))
        return list(found[:count.value])

    def run_solution(self, solution):
        check(lib.miopenConvolutionForwardImmediate(
            self.handle.raw, self.dw, pointer(self.w), self.dx, pointer(self.x), self.conv, self.dy, pointer(self.y),
            pointer(self.workspace), self.bytes, ctypes.c_uint64(solution.id)))

    def find(self):
        count, perf = ctypes.c_int(), (Perf * 4)()
        check(lib.miopenFindConvolutionForwardAlgorithm(
            self.handle.raw, self.dx, pointer(self.x), self.dw, pointer(self.w), self.conv, self.dy, pointer(self.y), 4,
            ctypes.byref(count), perf, pointer(self.workspace), self.bytes, False))
        self.algorithm = perf[0].algorithm
        return perf[0].time

    def run(self, wanted=SUCCESS, algorithm=None, x=None):
        one, zero = ctypes.c_float(1), ctypes.c_float(0)
        check(lib.miopenConvolutionForward(
            self.handle.raw, ctypes.byref(one), self.dx, x or pointer(self.x), self.dw, pointer(self.w), self.conv,
            self.algorithm if algorithm is None else algorithm, ctypes.byref(zero), self.dy, pointer(self.y),
            pointer(self.workspace), self.bytes), wanted)

    def verify(self):
        torch.cuda.synchronize()
        scale = self.want.abs().max().item()
        error = (self.y.double() - self.want).abs().max().item()
        tolerance = {torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}[self.x.dtype]
        assert error <= tolerance * scale, f"off by {error}, results up to {scale}"
        self.y.fill_(float("nan"))


def tensors(dtype, channels_last=False):
    torch.manual_seed(1)
    x, w = torch.randn(4, 16, 20, 20, device="cuda"), torch.randn(32, 16, 3, 3, device="cuda")
    layout = torch.channels_last if channels_last else torch.contiguous_format
    return x.to(dtype).to(memory_format=layout), w.to(dtype).to(memory_format=layout)


def test_results():
    handle = Handle()  # on PyTorch's device, since its context is in use
    for dtype in TYPES:
        for channels_last in (False, True):
            conv = Convolution(handle, *tensors(dtype, channels_last))
            assert conv.find() > 0
            conv.run()
            conv.verify()


def test_stream_and_capture():
    stream = torch.cuda.Stream()
    handle = Handle(stream)
    with torch.cuda.stream(stream):
        conv = Convolution(handle, *tensors(torch.float32))
        conv.find()
        conv.run()
        conv.verify()
        fresh = Convolution(handle, *tensors(torch.float16))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        conv.run()
        fresh.run(wanted=NOT_INITIALIZED, algorithm=1)  # no plan: refused, and the capture goes on
    assert torch.isnan(conv.y).all(), "the captured call ran"
    for _ in range(2):
        graph.replay()
        conv.verify()


def test_capture_of_what_never_ran():
    stream = torch.cuda.Stream()
    handle = Handle(stream)
    with torch.cuda.stream(stream):
        for dtype in TYPES:
            conv = Convolution(handle, *tensors(dtype, channels_last=True))
            for solution in conv.prepare():
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, stream=stream):
                    conv.run_solution(solution)
                assert torch.isnan(conv.y).all(), "the captured call ran"
                graph.replay()
                conv.verify()


def test_host_memory_is_refused():
    conv = Convolution(Handle(), *tensors(torch.float32))
    host = (ctypes.c_float * 64)()
    conv.run(wanted=BAD_PARM, algorithm=1, x=ctypes.cast(host, ctypes.c_void_p))
    assert b"no memory of cuda:0" in lib.polymioGetLastError()


def test_profiling():
    handle = Handle()
    conv = Convolution(handle, *tensors(torch.float32))
    conv.find()
    check(lib.miopenEnableProfiling(handle.raw, True))
    conv.run()
    ms = ctypes.c_float()
    check(lib.miopenGetKernelTime(handle.raw, ctypes.byref(ms)))
    assert 0 < ms.value < 100, ms.value


def test_host_time():
    """Prints what a warm call costs the host beside launching its kernel."""
    handle = Handle()
    conv = Convolution(handle, torch.ones(1, 1, 1, 1, device="cuda"), torch.ones(1, 1, 1, 1, device="cuda"), pad=0)
    conv.find()
    best = min(timed(conv.run) for _ in range(20))
    print(f"host time of a warm call with its launch, from Python: {best:.2f} us")


def timed(call, repeats=200):
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    elapsed = time.perf_counter() - start
    torch.cuda.synchronize()
    return 1e6 * elapsed / repeats


def main():
    torch.zeros(1, device="cuda")  # handles follow a context that is in use
    tests = [f for name, f in sorted(globals().items()) if name.startswith("test_")]
    for test in tests:
        test()
        print(f"passed: {test.__name__}")


if __name__ == "__main__":
    main()
