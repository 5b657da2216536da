"""Recurrent networks of the library and of PyTorch: a training step on packed sequences, for the test, and the passes that
`bench/primitives.py` times."""
# SPDX-License-Identifier: MIT
import ctypes
import math

import torch

from operations import TYPES, Operation, like

# mode -> number, PyTorch's gates in the library's order
CELLS = {"relu": (0, [0]), "tanh": (1, [0]), "lstm": (2, [0, 1, 3, 2]), "gru": (3, [1, 0, 2])}


class Network:
    """On packed sequences: x is [rows, elements], the lengths do not ascend."""

    def __init__(self, lib, x, lengths, mode, hidden, layers, both):
        self.mode, self.hidden, self.layers, self.directions = mode, hidden, layers, 1 + both
        number, self.order = CELLS[mode]
        batch, steps, dtype = len(lengths), max(lengths), TYPES[x.dtype]
        network, sequences = lib.made("RNN"), [lib.made("SeqTensor"), lib.made("SeqTensor")]
        bytes_, training, inference, kept = [ctypes.c_size_t() for _ in range(4)]
        lib("miopenSetRNNDescriptor", network, hidden, layers, 0, int(both), number, 1, 0, dtype)
        for sequence, width in zip(sequences, (x.shape[1], self.directions * hidden)):
            lib("miopenSetRNNDataSeqTensorDescriptor", sequence, dtype, 1, steps, batch, width,
                (ctypes.c_int * batch)(*lengths), None)
        lib("miopenGetRNNTempSpaceSizes", lib.handle, network, sequences[0], 0, *map(ctypes.byref, (training, kept)))
        lib("miopenGetRNNTempSpaceSizes", lib.handle, network, sequences[0], 1, ctypes.byref(inference), None)
        lib("miopenGetRNNParamsSize", lib.handle, network, lib.tensor(x), ctypes.byref(bytes_), dtype)
        self.x = x
        self.w = torch.rand(bytes_.value // x.element_size(), device=x.device).sub(0.5).mul(2 / hidden ** 0.5).to(x)
        self.h = torch.randn(layers * self.directions, batch, hidden, device=x.device).to(x)
        self.c, self.y = torch.randn_like(self.h), like(x.new_empty(x.shape[0], self.directions * hidden))
        self.dy, self.hy, self.cy = torch.randn_like(self.y), like(self.h), torch.zeros_like(self.c)
        self.dx, self.dw = like(x), like(self.w)
        state, cell = lib.tensor(self.h), self.c if mode == "lstm" else None
        space, reserve = [torch.empty(size, dtype=torch.uint8, device=x.device)
                          for size in (max(training.value, inference.value), kept.value)]
        rest = (bytes_, space, ctypes.c_size_t(space.numel()))

        def forward(mode, *reserved):
            return lib.bound("miopenRNNForward", lib.handle, network, mode, sequences[0], x, state, self.h, self.hy, state,
                             cell, self.cy, sequences[1], self.y, self.w, *rest, *reserved)

        self.inference = forward(1, None, ctypes.c_size_t(0))
        self.training = [
            forward(0, reserve, kept),
            lib.bound("miopenRNNBackwardSeqData", lib.handle, network, sequences[1], self.y, self.dy, state, self.h, None,
                      None, state, cell, None, None, sequences[0], self.dx, self.w, *rest, reserve, kept),
            lib.bound("miopenRNNBackwardWeightsSeqTensor", lib.handle, network, sequences[0], x, state, self.h,
                      sequences[1], self.y, self.dw, *rest, reserve, kept)]

    def train(self):
        for call in self.training:
            call()

    def parts(self, w):
        """PyTorch's list of weights: per layer and direction both matrices, then both biases."""
        taken, of, gates, hidden = 0, {}, len(self.order), self.hidden
        for kind in ("matrix", "bias"):
            for layer in range(self.layers):
                for columns in (self.x.shape[1] if layer == 0 else self.directions * hidden, hidden):
                    for direction in range(self.directions):
                        shape = (gates, hidden, columns) if kind == "matrix" else (gates, hidden)
                        part = w[taken:taken + math.prod(shape)].view(shape)
                        taken += part.numel()
                        of.setdefault((layer, direction), []).append(part[self.order].flatten(0, 1))
        return [part for key in sorted(of) for part in of[key]]

    def start(self, dtype):
        return (self.h.to(dtype), self.c.to(dtype)) if self.mode == "lstm" else self.h.to(dtype)


def recurrent(lib, x, lengths, mode="lstm", hidden=8, layers=2, both=False):
    """A training step."""
    net = Network(lib, x, lengths, mode, hidden, layers, both)
    size = torch.tensor([sum(n > t for n in lengths) for t in range(max(lengths))])

    def theirs(x=x):
        x, w = x.detach().requires_grad_(), net.w.detach().to(x.dtype).requires_grad_()
        run = getattr(torch, mode if mode in ("lstm", "gru") else f"rnn_{mode}")
        out, *last = run(x, size, net.start(x.dtype), net.parts(w), True, layers, 0.0, True, both)
        return [out.detach(), last[0].detach(), *torch.autograd.grad(out, (x, w), net.dy.to(x.dtype))]

    return Operation(net.train, theirs, [net.y, net.hy, net.dx, net.dw], [x, net.y, net.w, net.dy, net.dx, net.dw])


def timed(lib, x, mode, trains):
    """A layer of as many units as x has elements beside PyTorch's module, on [steps, samples, elements]: inference, or a
    training step."""
    steps, samples, hidden = x.shape
    net = Network(lib, x.view(-1, hidden), [steps] * samples, mode, hidden, 1, False)
    module = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[mode](hidden, hidden, device=x.device, dtype=x.dtype)
    with torch.no_grad():
        for parameter, part in zip(module.parameters(), net.parts(net.w)):
            parameter.copy_(part)
    start, dy = net.start(x.dtype), net.dy.view_as(x)

    def infer():
        with torch.no_grad():
            return [module(x, start)[0]]

    def train():
        with torch.enable_grad():
            given = x.detach().requires_grad_()
            out = module(given, start)[0]
            return [out.detach(), *torch.autograd.grad(out, (given, *module.parameters()), dy)]

    if not trains:
        return Operation(net.inference, infer, [net.y], [x, net.y, net.w])
    return Operation(net.train, train, [net.y, net.dx], [x, net.y, net.w, net.dy, net.dx, net.dw])
