"""oneDNN's primitives on PyTorch's tensors, by its C API of version 3: a second baseline of primitives.py on CPUs."""
# SPDX-License-Identifier: MIT
import ctypes
import os

import torch
import torch.nn.functional as functional

POINTER = ctypes.c_void_p
TYPES = {torch.float16: 1, torch.bfloat16: 2, torch.float32: 3}
TRAINING, INFERENCE, BACKWARD = 64, 96, 128
GLOBAL_STATISTICS, SCALE_AND_SHIFT = 1, 2 | 4
POOLING = {"max": 0x1ff, "average": 0x3ff}
REDUCTION = {"max": 0x2fff2, "sum": 0x2fff4}
LRN_ACROSS_CHANNELS, SOFTMAX, LEFT_TO_RIGHT = 0xaff, 0x30000, 1
SRC, DST, WEIGHTS, BIAS, MEAN, VARIANCE, SCALE, SHIFT, WORKSPACE = 1, 17, 33, 41, 49, 50, 51, 52, 64
DIFF_SRC, DIFF_DST, DIFF_SCALE, DIFF_SHIFT = 129, 145, 255, 256
TO_DIFF = DIFF_SRC - SRC  # from the number of a network's argument to that of its gradient
QUERY_WORKSPACE, QUERY_ARGUMENT, ANY_LAYOUT = 135, 255, 1
EPSILON = ctypes.c_float(1e-5)


class Argument(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("memory", POINTER)]


def floats(*sizes):
    return torch.rand(sizes).add(0.5)


class OneDnn:
    def __init__(self, path):
        self.c = ctypes.CDLL(path, os.RTLD_LOCAL | os.RTLD_NOW | os.RTLD_DEEPBIND)
        self.engine = self.made("dnnl_engine_create", 1, ctypes.c_size_t(0))
        self.stream = self.made("dnnl_stream_create", self.engine, 1)

    def made(self, name, *arguments):
        result = POINTER()
        status = getattr(self.c, name)(ctypes.byref(result), *arguments)
        if status != 0:
            raise RuntimeError(f"{name}: status {status}")
        return result

    def desc(self, tensor):
        dims = ctypes.c_int64 * 12
        return self.made("dnnl_memory_desc_create_with_strides", tensor.dim(), dims(*tensor.shape), TYPES[tensor.dtype],
                         dims(*tensor.stride()))

    def any_desc(self, tensor):
        """Of a layout that the plan chooses."""
        return self.made("dnnl_memory_desc_create_with_tag", tensor.dim(), (ctypes.c_int64 * 12)(*tensor.shape),
                         TYPES[tensor.dtype], ANY_LAYOUT)

    def own_desc(self, plan, query, argument=0):
        """What the plan chose."""
        ask = self.c.dnnl_primitive_desc_query_md
        ask.restype = POINTER
        return POINTER(ask(plan, query, argument))

    def memory(self, desc):
        """A memory object that the library allocates."""
        return self.made("dnnl_memory_create", desc, self.engine, POINTER(2 ** 64 - 1))

    def reordered(self, plan, argument, tensor):
        """A copy of the tensor in the layout that the plan chose for this argument."""
        desc = self.own_desc(plan, QUERY_ARGUMENT, argument)
        memory = self.memory(desc)
        reorder = self.made("dnnl_reorder_primitive_desc_create", self.desc(tensor), self.engine, desc, self.engine, None)
        self.call(reorder, {SRC: tensor, DST: memory})()
        return memory

    def plan(self, name, *arguments):
        return self.made(f"dnnl_{name}_primitive_desc_create", self.engine, *arguments, None)

    def call(self, plan, tensors):
        """The primitive on tensors, or memory objects, by their argument numbers."""
        primitive, arguments = self.made("dnnl_primitive_create", plan), (Argument * len(tensors))()
        for argument, (number, tensor) in zip(arguments, tensors.items()):
            argument.id = number
            argument.memory = tensor if isinstance(tensor, POINTER) else self.made(
                "dnnl_memory_create", self.desc(tensor), self.engine, POINTER(tensor.data_ptr()))
        execute, wait, count = self.c.dnnl_primitive_execute, self.c.dnnl_stream_wait, len(tensors)

        def run(tensors=tensors):  # keeps them
            if execute(primitive, self.stream, count, arguments) != 0 or wait(self.stream) != 0:
                raise RuntimeError("dnnl_primitive_execute failed")
        return run

    def operation(self, name, x):
        """A call of the operation of this name in primitives.py, and its result; None without one."""
        kind, _, rest = name.partition(" ")
        if kind == "reduce":
            dims = {"sum HW": range(2, x.dim()), "sum C": (1,), "max rows": (1,), "sum columns": (0,)}[rest]
            y = torch.sum(x, tuple(dims), keepdim=True)
            plan = self.plan("reduction", REDUCTION[rest[:3]], self.desc(x), self.desc(y), ctypes.c_float(0),
                             ctypes.c_float(0))
            return self.call(plan, {SRC: x, DST: y}), y
        if kind == "lrn":
            y = torch.empty_like(x)
            plan = self.plan("lrn_forward", INFERENCE, LRN_ACROSS_CHANNELS, self.desc(x), self.desc(y), ctypes.c_int64(5),
                             ctypes.c_float(1e-4), ctypes.c_float(0.75), ctypes.c_float(2))
            return self.call(plan, {SRC: x, DST: y}), y
        make = {"softmax": self.softmax, "batch": self.batch_norm, "layer": self.layer_norm, "group": self.group_norm,
                "pooling": self.pooling, "lstm": self.recurrent, "gru": self.recurrent}.get(kind)
        return make(name, x) if make else None

    def softmax(self, name, x):
        y, d = torch.empty_like(x).copy_(torch.softmax(x, 1)), self.desc(x)
        plan = self.plan("softmax_forward", INFERENCE, SOFTMAX, d, d, 1)
        if not name.endswith("backward"):
            return self.call(plan, {SRC: x, DST: y}), y
        dy, dx = torch.randn_like(x), torch.empty_like(x)
        return self.call(self.plan("softmax_backward", SOFTMAX, d, d, d, 1, plan), {DST: y, DIFF_DST: dy, DIFF_SRC: dx}), dx

    def batch_norm(self, name, x):
        y, d, of_channels = torch.empty_like(x), self.desc(x), [floats(x.shape[1]) for _ in range(6)]
        mean, variance, scale, shift, dscale, dshift = of_channels
        given = {SRC: x, MEAN: mean, VARIANCE: variance, SCALE: scale}
        inference = name.endswith("inference")
        plan = self.plan("batch_normalization_forward", INFERENCE if inference else TRAINING, d, d, EPSILON,
                         SCALE_AND_SHIFT | (GLOBAL_STATISTICS if inference else 0))
        if not name.endswith("backward"):
            return self.call(plan, given | {SHIFT: shift, DST: y}), y
        plan = self.plan("batch_normalization_backward", BACKWARD, d, d, d, EPSILON, SCALE_AND_SHIFT, plan)
        gradients = {DIFF_DST: torch.randn_like(x), DIFF_SRC: y, DIFF_SCALE: dscale, DIFF_SHIFT: dshift}
        return self.call(plan, given | gradients), y

    def layer_norm(self, name, x):
        y, d, mean, variance = torch.empty_like(x), self.desc(x), floats(x.shape[0]), floats(x.shape[0])
        scale, shift, dscale, dshift = (floats(x.shape[1]) for _ in range(4))
        given, ds = {SRC: x, MEAN: mean, VARIANCE: variance, SCALE: scale, SHIFT: shift}, self.desc(mean)
        plan = self.plan("layer_normalization_forward", TRAINING, d, d, ds, EPSILON, SCALE_AND_SHIFT)
        if not name.endswith("backward"):
            return self.call(plan, given | {DST: y}), y
        plan = self.plan("layer_normalization_backward", BACKWARD, d, d, d, ds, EPSILON, SCALE_AND_SHIFT, plan)
        gradients = {DIFF_DST: torch.randn_like(x), DIFF_SRC: y, DIFF_SCALE: dscale, DIFF_SHIFT: dshift}
        return self.call(plan, given | gradients), y

    def group_norm(self, _, x, groups=32):
        y, d, scale, shift = torch.empty_like(x), self.desc(x), floats(x.shape[1]), floats(x.shape[1])
        plan = self.plan("group_normalization_forward", TRAINING, d, d, ctypes.c_int64(groups), EPSILON, SCALE_AND_SHIFT)
        return self.call(plan, {SRC: x, MEAN: floats(x.shape[0], groups), VARIANCE: floats(x.shape[0], groups), SCALE: scale,
                                SHIFT: shift, DST: y}), y

    def pooling(self, name, x):
        rank, mode, backward = x.dim() - 2, name.split()[1], name.endswith("backward")
        size, stride, pad, none = ((ctypes.c_int64 * 12)(*[n] * rank) for n in (3, 2, 1, 0))
        pooled = getattr(functional, f"max_pool{rank}d")(x.float(), 3, 2, 1)
        y = torch.empty_like(pooled, dtype=x.dtype)
        plan = self.plan("pooling_forward", TRAINING if backward else INFERENCE, POOLING[mode], self.desc(x), self.desc(y),
                         stride, size, none, pad, pad)
        if not backward:
            return self.call(plan, {SRC: x, DST: y}), y
        workspace = self.memory(self.own_desc(plan, QUERY_WORKSPACE))
        self.call(plan, {SRC: x, DST: y, WORKSPACE: workspace})()
        dx, dy = torch.empty_like(x), torch.randn_like(y)
        plan = self.plan("pooling_backward", POOLING[mode], self.desc(dx), self.desc(dy), stride, size, none, pad, pad, plan)
        return self.call(plan, {DIFF_DST: dy, DIFF_SRC: dx, WORKSPACE: workspace}), dx

    def recurrent(self, name, x):
        """PyTorch's layer, whose GRU is oneDNN's "linear before reset"; weights in oneDNN's layouts. A training step adds to
        the gradients of weights, and reads those of the last states."""
        units, (kind, _, rest) = x.shape[2], name.partition(" ")
        cell, gates = (1, 4) if kind == "lstm" else (0, 3)
        kind = "lstm" if cell else "lbr_gru"
        weights = [torch.rand(1, 1, units, gates, units).sub(0.5).mul(2 / units ** 0.5).to(x) for _ in range(2)]
        bias, y = torch.rand(1, 1, 4, units).sub(0.5).mul(2 / units ** 0.5), torch.empty_like(x)
        state = torch.randn(1, 1, x.shape[1], units)
        before, after = ([t.to(x), *[torch.randn_like(t)] * cell] for t in (state, state.clone()))

        def descs(dtype):
            """Of all arguments, cell states and biases in fp32."""
            end = [self.desc(t) for t in (x.to(dtype), state.to(dtype), *[state] * cell)]
            return [*end, *[self.any_desc(w.to(dtype)) for w in weights], *[None] * (2 * cell), self.desc(bias), *end]

        plan = self.plan(f"{kind}_forward", TRAINING if rest else INFERENCE, LEFT_TO_RIGHT, *descs(x.dtype), 0)
        given = dict(zip(range(SRC, SRC + 3), (x, *before))) | {BIAS: bias} | dict(zip(range(DST, DST + 3), (y, *after)))

        def own(plan):
            return {WEIGHTS + i: self.reordered(plan, WEIGHTS + i, w) for i, w in enumerate(weights)}

        if not rest:
            return self.call(plan, given | own(plan)), y
        given[WORKSPACE] = self.memory(self.own_desc(plan, QUERY_WORKSPACE))
        forward = self.call(plan, given | own(plan))
        plan = self.plan(f"{kind}_backward", BACKWARD, LEFT_TO_RIGHT, *descs(x.dtype), *descs(torch.float32), 0, plan)
        gradients = {i + TO_DIFF: torch.zeros_like(t, dtype=torch.float32) for i, t in given.items() if i != WORKSPACE}
        gradients[DIFF_DST].normal_()
        gradients |= {i + TO_DIFF: self.reordered(plan, i + TO_DIFF, torch.zeros_like(w, dtype=torch.float32))
                      for i, w in enumerate(weights, WEIGHTS)}
        backward = self.call(plan, given | own(plan) | gradients)
        return lambda: (forward(), backward()), gradients[DIFF_SRC]
