"""Attention of the library, through Find 2.0, and PyTorch's scaled_dot_product_attention on the same tensors."""
# SPDX-License-Identifier: MIT
import ctypes
import math

import torch
import torch.nn.functional as functional

import operations as op

# Numbers of miopenTensorArgumentId_t.
K, Q, V, O, AMAX_O, AMAX_S, M, Z_INV, DO, DQ, DK, DV, BIAS = 4, 5, 6, 16, 17, 18, 19, 20, 21, 29, 30, 31, 36
MASK = 1 << 31 | 1
PROBABILITY, SEED, OFFSET = 13, 14, 15
FACTORS = {False: (7, 8, 9, 10, 11, 12), True: (7, 8, 9, 10, 11, 22, 23, 24, 25, 26, 27, 28)}
AMAXES = {False: (AMAX_O, AMAX_S), True: (32, 33, 34, 35)}


class Argument(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint), ("descriptor", ctypes.c_void_p), ("buffer", ctypes.c_void_p)]


class Solution:
    """The best solution of a direction for tensors by id; run() runs it on them."""

    def __init__(self, lib, tensors, backward, causal):
        self.lib, self.solution, size = lib, op.POINTER(), ctypes.c_size_t()
        device = lib.device
        tensors = dict(tensors)
        tensors.update({i: torch.ones(1, device=device) for i in FACTORS[backward]})
        tensors.update({i: torch.full((1,), float("nan"), device=device) for i in AMAXES[backward]})
        tensors[PROBABILITY] = torch.zeros(1, device=device)
        tensors.update({i: torch.zeros(1, dtype=torch.int64, device=device) for i in (SEED, OFFSET)})
        self.tensors, self.mask = tensors, ctypes.c_int(1 if causal else 0)
        problem, descriptor, found = op.POINTER(), op.POINTER(), ctypes.c_size_t()
        lib("miopenCreateMhaDescriptor", ctypes.byref(descriptor))
        lib("miopenSetMhaDescriptor", descriptor, ctypes.c_float(1 / math.sqrt(tensors[Q].shape[-1])))
        lib("miopenCreateMhaProblem", ctypes.byref(problem), descriptor, 1 if backward else 0)
        for number, tensor in tensors.items():
            lib("miopenSetProblemTensorDescriptor", problem, ctypes.c_uint(number), lib.tensor(tensor))
        lib("miopenFindSolutions", lib.handle, problem, None, ctypes.byref(self.solution), ctypes.byref(found),
            ctypes.c_size_t(1))
        lib("miopenGetSolutionWorkspaceSize", self.solution, ctypes.byref(size))
        self.workspace, self.size = torch.empty(max(size.value, 1), dtype=torch.uint8, device=device), size
        lib("miopenDestroyProblem", problem)
        rows = [Argument(number, None, tensor.data_ptr()) for number, tensor in tensors.items()]
        rows.append(Argument(MASK, None, ctypes.addressof(self.mask)))
        self.arguments = (Argument * len(rows))(*rows)

    def run(self):
        self.lib("miopenRunSolution", self.lib.handle, self.solution, ctypes.c_size_t(len(self.arguments)), self.arguments,
                 self.workspace, self.size)


def flash(q, k, v, dout, causal):
    """PyTorch's flash attention, or its gradient, which does not compute the forward pass again."""
    if q.device.type == "cpu":
        run = op.aten._scaled_dot_product_flash_attention_for_cpu
        if dout is None:
            return lambda: [run(q, k, v, 0.0, causal)[0]]
        kept, backward = run(q, k, v, 0.0, causal), op.aten._scaled_dot_product_flash_attention_for_cpu_backward
        return lambda: backward(dout, q, k, v, *kept, 0.0, causal)
    o, logsumexp, *rest = op.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal)
    if dout is None:
        return lambda: [op.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal)[0]]
    return lambda: op.aten._scaled_dot_product_flash_attention_backward(dout, q, k, v, o, logsumexp, *rest[:4], 0.0, causal,
                                                                        *rest[4:6])


def attention(lib, q, keys=None, causal=False, bias=False, backward=False, by_flash=False):
    """q is (batch, heads, tokens, head size). by_flash: theirs() runs the kernels of flash attention alone."""
    n, h, s, d = q.shape
    keys = keys or s
    k, v = (torch.randn(n, h, keys, d, device=q.device).to(q.dtype) for _ in range(2))
    o, m, z_inv = op.like(q), *(q.new_empty(n, h, s, 1, dtype=torch.float32) for _ in range(2))
    added = torch.randn(n, h, s, keys, device=q.device) if bias else None
    tensors = {K: k, Q: q, V: v, O: o, M: m, Z_INV: z_inv} | ({BIAS: added} if bias else {})
    forward = Solution(lib, tensors, False, causal)

    def attend(q, k, v):
        mask = None if added is None else added.to(q.dtype)
        if causal and (mask is not None or keys != s):
            hidden = torch.ones(s, keys, dtype=torch.bool, device=q.device).triu(1)
            mask = (torch.zeros_like(q[..., :1]) if mask is None else mask).masked_fill(hidden, float("-inf"))
        return functional.scaled_dot_product_attention(q, k, v, mask, is_causal=causal and mask is None)

    if not backward:
        theirs = flash(q, k, v, None, causal) if by_flash else lambda x=q: [attend(x, k.to(x.dtype), v.to(x.dtype))]
        return op.Operation(forward.run, theirs, [o], [q, k, v, o])
    forward.run()
    dout, results = torch.randn_like(q), [op.like(q), op.like(k), op.like(v)]
    gradient = Solution(lib, tensors | {DO: dout} | dict(zip((DQ, DK, DV), results)), True, causal)

    def theirs(x=q):
        return op.gradients(attend, (x, k.to(x.dtype), v.to(x.dtype)), dout.to(x.dtype))

    return op.Operation(gradient.run, flash(q, k, v, dout, causal) if by_flash else theirs, results, [q, k, v, o, dout, *results])
