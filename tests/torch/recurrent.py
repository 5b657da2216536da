"""Recurrent networks of the library and of PyTorch: a training step for the test, and the passes that
`bench/primitives.py` times."""
# SPDX-License-Identifier: MIT
import ctypes
import math

import torch

from operations import TYPES, Operation, like

# mode -> number, PyTorch's gates in the library's order
CELLS = {"relu": (0, [0]), "tanh": (1, [0]), "lstm": (2, [0, 1, 3, 2]), "gru": (3, [1, 0, 2])}
LAYOUTS = PACKED, STEPS_PADDED, SAMPLES_PADDED = 1, 2, 3


class Network:
    """x is [rows, elements] of packed sequences, whose lengths do not ascend; in memory they have a layout of
    miopenRNNBaseLayout_t."""

    def __init__(self, lib, x, lengths, mode, hidden, layers, both, bias=True, layout=PACKED):
        self.mode, self.width, self.hidden, self.layers = mode, x.shape[1], hidden, layers
        self.directions, self.bias = 1 + both, bias
        number, self.order = CELLS[mode]
        batch, steps, dtype = len(lengths), max(lengths), TYPES[x.dtype]
        network, sequences = lib.made("RNN"), [lib.made("SeqTensor"), lib.made("SeqTensor")]
        bytes_, training, inference, kept = [ctypes.c_size_t() for _ in range(4)]
        lib("miopenSetRNNDescriptor", network, hidden, layers, 0, int(both), number, int(bias), 0, dtype)
        for sequence, width in zip(sequences, (x.shape[1], self.directions * hidden)):
            lib("miopenSetRNNDataSeqTensorDescriptor", sequence, dtype, layout, steps, batch, width,
                (ctypes.c_int * batch)(*lengths), None)
        lib("miopenGetRNNTempSpaceSizes", lib.handle, network, sequences[0], 0, *map(ctypes.byref, (training, kept)))
        lib("miopenGetRNNTempSpaceSizes", lib.handle, network, sequences[0], 1, ctypes.byref(inference), None)
        lib("miopenGetRNNParamsSize", lib.handle, network, lib.tensor(x), ctypes.byref(bytes_), dtype)
        self.rows = len(x) if layout == PACKED else steps * batch
        places = [(t, n) for t in range(steps) for n in range(batch) if lengths[n] > t]  # of the packed rows
        self.at = torch.tensor([{PACKED: i, STEPS_PADDED: t * batch + n, SAMPLES_PADDED: n * steps + t}[layout]
                                for i, (t, n) in enumerate(places)], device=x.device)
        given, self.dy = self.laid_out(x), torch.randn(len(x), self.directions * hidden, device=x.device).to(x)
        self.w = torch.rand(bytes_.value // x.element_size(), device=x.device).sub(0.5).mul(2 / hidden ** 0.5).to(x)
        self.h = torch.randn(layers * self.directions, batch, hidden, device=x.device).to(x)
        self.c, self.dhy, self.dcy = [torch.randn_like(self.h) for _ in range(3)]
        dy = self.laid_out(self.dy)
        self.dx, self.y, self.dw = like(given), like(dy), like(self.w)
        lstm = mode == "lstm"
        self.states = [like(self.h) for _ in range(2 + 2 * lstm)]  # hy, dhx, cy, dcx
        hy, dhx, cy, dcx = (self.states + [None, None])[:4]
        cell, dcy = (self.c, self.dcy) if lstm else (None, None)
        state = lib.tensor(self.h)
        space, reserve = [torch.empty(size, dtype=torch.uint8, device=x.device)
                          for size in (max(training.value, inference.value), kept.value)]
        rest = (bytes_, space, ctypes.c_size_t(space.numel()))

        def forward(mode, *reserved):
            return lib.bound("miopenRNNForward", lib.handle, network, mode, sequences[0], given, state, self.h, hy, state,
                             cell, cy, sequences[1], self.y, self.w, *rest, *reserved)

        self.inference = forward(1, None, ctypes.c_size_t(0))
        self.training = [
            forward(0, reserve, kept),
            lib.bound("miopenRNNBackwardSeqData", lib.handle, network, sequences[1], self.y, dy, state, self.h, self.dhy,
                      dhx, state, cell, dcy, dcx, sequences[0], self.dx, self.w, *rest, reserve, kept),
            lib.bound("miopenRNNBackwardWeightsSeqTensor", lib.handle, network, sequences[0], given, state, self.h,
                      sequences[1], self.y, self.dw, *rest, reserve, kept)]

    def laid_out(self, packed):
        """The rows where the layout has them, and zeros for the padding."""
        return packed.new_zeros(self.rows, packed.shape[1]).index_copy(0, self.at, packed)

    def train(self):
        for call in self.training:
            call()

    def parts(self, w):
        """PyTorch's list of weights: per layer and direction both matrices, then both biases."""
        taken, of, gates, hidden = 0, {}, len(self.order), self.hidden
        for kind in ("matrix", "bias")[:1 + self.bias]:
            for layer in range(self.layers):
                for columns in (self.width if layer == 0 else self.directions * hidden, hidden):
                    for direction in range(self.directions):
                        shape = (gates, hidden, columns) if kind == "matrix" else (gates, hidden)
                        part = w[taken:taken + math.prod(shape)].view(shape)
                        taken += part.numel()
                        of.setdefault((layer, direction), []).append(part[self.order].flatten(0, 1))
        return [part for key in sorted(of) for part in of[key]]

    def start(self, dtype):
        return (self.h.to(dtype), self.c.to(dtype)) if self.mode == "lstm" else self.h.to(dtype)


def recurrent(lib, x, lengths, mode="lstm", hidden=8, layers=2, both=False, bias=True, layout=PACKED):
    """A training step."""
    net = Network(lib, x, lengths, mode, hidden, layers, both, bias, layout)
    size = torch.tensor([sum(n > t for n in lengths) for t in range(max(lengths))])

    def theirs(x=x):
        lstm, run = mode == "lstm", getattr(torch, mode if mode in ("lstm", "gru") else f"rnn_{mode}")
        inputs = [t.detach().to(x.dtype).requires_grad_() for t in (x, net.w, net.h, net.c)[:3 + lstm]]
        x, w, *start = inputs
        results = run(x, size, start if lstm else start[0], net.parts(w), bias, layers, 0.0, True, both)
        dresults = [t.to(x.dtype) for t in (net.dy, net.dhy, net.dcy)[:2 + lstm]]
        dx, dw, *dstart = torch.autograd.grad(results, inputs, dresults)
        states = [t.detach() for pair in zip(results[1:], dstart) for t in pair]
        return [net.laid_out(results[0].detach()), *states, net.laid_out(dx), dw]

    return Operation(net.train, theirs, [net.y, *net.states, net.dx, net.dw], [x, net.y, net.w, net.dy, net.dx, net.dw])


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
