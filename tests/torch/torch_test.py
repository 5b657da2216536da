#!/usr/bin/env python3
"""The primitives against PyTorch on the CPU, a second oracle that shares nothing with the tests' reference: random sizes,
types and layouts; what both compute is compared with PyTorch's result in double. On a GPU what is compared is a replay
of a CUDA graph.

Usage: torch_test.py libMIOpen.so.1 [--shapes N] [--only PART] [--device cpu|cuda] [--seed S]"""
# SPDX-License-Identifier: MIT
import argparse
import collections
import math
import random
import sys

import torch

import attention as attending
import indexing
import operations as op
import optimizers
import recurrent as recurring

# Norm of the difference / norm of the result in double.
TOLERANCE = {torch.float64: 1e-6, torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
FLOATS = list(TOLERANCE)


# Sizes that take long enough to be timed: bench/primitives.py --random
large = False


def some_size(draw, *choices):
    """A size of 2^16 to 2^22 elements."""
    while True:
        size = [draw.choice(c) for c in choices]
        if 1 << 16 <= math.prod(size) <= 1 << 22:
            return size


def large_image(draw, rank):
    return some_size(draw, (1, 2, 8, 32), (1, 3, 16, 37, 64, 256, 512), *[(1, 7, 14, 28, 31, 56, 112, 200)] * rank)


def image(draw, dtype, device, channels=(1, 70), rank=None):
    """A tensor of 2 or 3 spatial dimensions, channels first or last."""
    rank = rank or draw.choice((2, 2, 3))
    size = [draw.randint(1, 5), draw.randint(*channels)] + [draw.randint(1, 20 if rank == 2 else 9) for _ in range(rank)]
    if large:
        size = large_image(draw, rank)
    last = torch.channels_last if rank == 2 else torch.channels_last_3d
    x = torch.randn(size, device=device).to(dtype)
    return x.to(memory_format=draw.choice((torch.contiguous_format, last)))


def samples(x):
    """At least five: gradients of fewer are small differences of large terms where each element has a mean."""
    return torch.cat([x, torch.randn_like(x[:1].expand(4, *x.shape[1:]))])


def near_one(x):
    """Values whose products do not leave 16 bits."""
    return torch.where(x < 0, -1, 1) * (1 + x / 128)


def rows(draw, dtype, device, shortest=1):
    size = [draw.randint(1, 40), max(shortest, draw.choice((1, 3, 17, 64, 255, 1000, 5000)))]
    if large:
        size = some_size(draw, (1, 7, 64, 1000, 20000, 100000), (3, 17, 64, 255, 1000, 5000, 50257, 200000))
    return torch.randn(size, device=device).mul(2).to(dtype)


def window(draw):
    size = draw.randint(1, 4)
    return {"mode": draw.randint(0, 2), "size": size, "stride": draw.randint(1, 3), "pad": draw.randint(0, size // 2)}


def wide_image(draw, dtype, device):
    """Large enough for every window that is drawn."""
    rank = draw.choice((2, 3))
    size = [draw.randint(1, 4), draw.randint(1, 40)] + [draw.randint(4, 18 if rank == 2 else 9) for _ in range(rank)]
    while large and (size := large_image(draw, rank)) and min(size[2:]) < 4:
        pass
    last = torch.channels_last if rank == 2 else torch.channels_last_3d
    return torch.randn(size, device=device).to(dtype).to(memory_format=draw.choice((torch.contiguous_format, last)))


def some_dims(draw, x):
    return tuple(sorted(draw.sample(range(x.dim()), draw.randint(1, x.dim()))))


def many(x):
    return x if x.numel() // x.shape[1] > 1 else torch.cat([x, x])  # PyTorch refuses one value per channel


def group_norm(lib, draw, dtype):
    groups = draw.choice((1, 2, 8))
    x = image(draw, dtype, lib.device, (1, 6))
    if lib.device.type != "cpu":
        x = x.contiguous()  # PyTorch refuses channels last
    return op.group_norm(lib, op.with_layout_of(x, torch.cat([x] * groups, 1)), groups)


def pairs(draw, dtype, device):
    """(batch, positions, heads, an even number); or the same of a tensor that has positions and heads exchanged."""
    size = [draw.randint(1, 4), draw.randint(1, 33), draw.randint(1, 6), 2 * draw.choice((1, 3, 16, 40))]
    if large:
        size = some_size(draw, (1, 4), (128, 1000), (8, 32), (64, 128))
    x = torch.randn(size, device=device).to(dtype)
    return draw.choice((x, x.transpose(1, 2)))


def sequences(draw, dtype, device):
    """(steps, batch, classes), in this order in memory or batch first, of a type that CTC losses take."""
    size = [draw.choice((1, 7, 40, 130)), draw.randint(1, 6), draw.choice((2, 9, 16, 33, 70))]
    x = torch.randn(size, device=device).mul(2).to(torch.float32 if dtype == torch.float64 else dtype)
    return draw.choice((x, x.transpose(0, 1).contiguous().transpose(0, 1)))


def ctc_loss(lib, draw, dtype):
    x = sequences(draw, dtype, lib.device)
    return op.ctc_loss(lib, x, draw.choice((0, 3, 40)), draw.randint(0, x.shape[2] - 1))


def attention(lib, draw, dtype, backward):
    dtype = torch.float32 if dtype == torch.float64 else dtype
    size = [draw.randint(1, 3), draw.randint(1, 3), draw.randint(1, 150), draw.choice((1, 8, 17, 64, 80, 128))]
    q = torch.randn(size, device=lib.device).to(dtype)
    if draw.random() < 0.3:
        q = q.transpose(1, 2).contiguous().transpose(1, 2)
    return attending.attention(lib, q, draw.choice((None, draw.randint(1, 300))), draw.random() < 0.4, draw.random() < 0.4,
                               backward)


def reduced(draw, dtype):
    return draw.choice(op.REDUCED if dtype != torch.float16 else ("none", "mean"))  # sums may be above 65504


def even(x):
    return torch.cat([x, x + 1])


def recurrent(lib, draw, dtype, mode):
    """None for a type that recurrent networks do not have, and for 16-bit ReLU: rounding moves sums across the kink."""
    if dtype == torch.float64 or (mode == "relu" and dtype != torch.float32):
        return None
    lengths = sorted((draw.randint(1, 9) for _ in range(draw.randint(1, 6))), reverse=True)
    x = torch.randn(sum(lengths), draw.randint(1, 40), device=lib.device).to(dtype)
    return recurring.recurrent(lib, x, lengths, mode, draw.randint(1, 70), draw.randint(1, 3), draw.random() < 0.5,
                               draw.random() < 0.7, draw.choice(recurring.LAYOUTS))


def fused_convolution(lib, draw, dtype, make, **flags):
    x = wide_image(draw, dtype, lib.device)
    mode = draw.choice(("relu", "logistic", "clipped relu", "leaky relu", "elu"))
    return make(lib, x, draw.randint(1, 40), draw.choice((1, 3)), draw.randint(1, 2), mode=mode, **flags)


def softmax(lib, draw, dtype, backward):
    x = draw.choice((image, rows))(draw, dtype, lib.device)
    return op.softmax(lib, x, draw.choice(list(op.SOFTMAXES)), backward, draw.random() < 0.5)


def cat(lib, draw, dtype):
    x = image(draw, dtype, lib.device)
    dim = draw.randrange(x.dim())
    cuts = sorted(draw.randint(0, x.shape[dim]) for _ in range(draw.randint(0, 5)))
    sizes = [end - begin for begin, end in zip([0, *cuts], [*cuts, x.shape[dim]])]
    return indexing.cat(lib, x, [size for size in sizes if size], dim)


def getitem_backward(lib, draw, dtype):
    x = image(draw, dtype, lib.device, (1, 20))
    first, sliced = draw.randrange(x.dim()), draw.randrange(x.dim())
    dims = list(range(first, min(first + draw.randint(1, 3), x.dim())))
    return indexing.getitem_backward(lib, x, dims, draw.randint(1, 50), sliced, draw.randrange(x.shape[sliced]),
                                     draw.randint(1, 3))


def kthvalue(lib, draw, dtype):
    x = image(draw, dtype, lib.device)
    dim = draw.randrange(x.dim())
    return indexing.kthvalue(lib, x, draw.randint(1, x.shape[dim]), dim, draw.random() < 0.5)


def along_dim(lib, draw, dtype, make, operation):
    x = image(draw, dtype, lib.device)
    return make(lib, near_one(x) if operation == "product" else x, operation, draw.randrange(x.dim()))


def optimizer_step(lib, draw, dtype, adamw, transformers):
    flags = [draw.random() < 0.5] if transformers else [draw.random() < 0.5, draw.random() < 0.5, adamw]
    return optimizers.optimizer_step(lib, image(draw, dtype, lib.device), draw.randint(1, 1000), flags, transformers,
                                     draw.random() < 0.5)


def reduction(lib, draw, dtype, operation):
    x = image(draw, dtype, lib.device)
    return op.reduction(lib, near_one(x) if operation == "product" else x, operation, some_dims(draw, x),
                        operation in op.EXTREMES and draw.random() < 0.5)


# name -> operation of a random problem
CASES = {
    "batch norm training": lambda lib, d, t: op.batch_norm_training(lib, many(image(d, t, lib.device))),
    "batch norm inference": lambda lib, d, t: op.batch_norm_inference(lib, image(d, t, lib.device), d.random() < 0.5),
    "batch norm backward": lambda lib, d, t: op.batch_norm_backward(lib, many(image(d, t, lib.device))),
    "batch norm per activation, training": lambda lib, d, t: op.batch_norm_training(lib, samples(image(d, t, lib.device)), True),
    "batch norm per activation, backward": lambda lib, d, t: op.batch_norm_backward(lib, samples(image(d, t, lib.device)), True),
    "layer norm": lambda lib, d, t: op.layer_norm(lib, rows(d, t, lib.device)),
    "layer norm backward": lambda lib, d, t: op.layer_norm(lib, rows(d, t, lib.device, 3), True),
    "layer norm of a sum": lambda lib, d, t: op.add_layer_norm(lib, rows(d, t, lib.device)),
    "group norm": group_norm,
    "convolution+bias+activation": lambda lib, d, t: fused_convolution(lib, d, t, op.fused_convolution),
    "convolution+batch norm+activation": lambda lib, d, t: fused_convolution(lib, d, t, op.fused_convolution, norm=True),
    "convolution+z+bias+activation": lambda lib, d, t: fused_convolution(lib, d, t, op.convolution_bias_activation),
    "prelu backward": lambda lib, d, t: op.prelu_backward(lib, image(d, t, lib.device), d.random() < 0.5),
    "multi margin loss": lambda lib, d, t: op.multi_margin_loss(lib, rows(d, t, lib.device), reduced(d, t), d.choice((1, 2))),
    "ctc loss": ctc_loss,
    "cat": cat,
    "getitem backward": getitem_backward,
    "kthvalue": kthvalue,
    "adam": lambda lib, d, t: optimizer_step(lib, d, t, False, False),
    "adamw": lambda lib, d, t: optimizer_step(lib, d, t, True, False),
    "transformers adamw": lambda lib, d, t: optimizer_step(lib, d, t, True, True),
}
for backward in (False, True):
    name = " backward" if backward else ""
    CASES.update({
        f"pooling{name}": lambda lib, d, t, b=backward: op.pooling(lib, wide_image(d, t, lib.device), backward=b, **window(d)),
        f"softmax{name}": lambda lib, d, t, b=backward: softmax(lib, d, t, b),
        f"lrn{name}": lambda lib, d, t, b=backward: op.lrn(lib, image(d, t, lib.device), d.choice((1, 3, 5)), 0.5, b),
        f"rms norm{name}": lambda lib, d, t, b=backward: op.rms_norm(lib, rows(d, t, lib.device, 3), b),
        f"rope{name}": lambda lib, d, t, b=backward: op.rope(lib, pairs(d, t, lib.device), b),
        f"soft margin loss{name}": lambda lib, d, t, b=backward: (
            op.soft_margin_loss(lib, d.choice((image, rows))(d, t, lib.device), reduced(d, t), b)),
        f"glu{name}": lambda lib, d, t, b=backward: op.glu(lib, even(rows(d, t, lib.device)), 0, b),
        f"activation{name}": lambda lib, d, t, b=backward: (
            op.activation(lib, image(d, t, lib.device), d.choice(list(op.ACTIVATIONS)), b)),
        f"attention{name}": lambda lib, d, t, b=backward: attention(lib, d, t, b),
    })
for mode in recurring.CELLS:
    CASES[f"recurrent {mode}"] = lambda lib, d, t, m=mode: recurrent(lib, d, t, m)
for each in op.REDUCTIONS:
    CASES[f"reduce {each}"] = lambda lib, d, t, r=each: reduction(lib, d, t, r)
for each in indexing.EXTREMES:
    CASES[f"extreme {each}"] = lambda lib, d, t, e=each: along_dim(lib, d, t, indexing.extreme, e)
for each in indexing.CALCULATIONS:
    CASES[f"calculation {each}"] = lambda lib, d, t, c=each: along_dim(lib, d, t, indexing.calculation, c)


def in_double(operation):
    """PyTorch's results for the same values in double."""
    x = operation.theirs.__defaults__[0]
    return operation.theirs(x.double())


def difference(got, want):
    got, want = got.double().reshape(want.shape), want.double()
    least = 1e-3 * want.numel() ** 0.5  # gradients of constant rows are 0
    return ((got - want).norm() / want.norm().clamp_min(least)).item() if want.numel() else 0.0


def replay(operation):
    """Records the call in a CUDA graph and computes its results again by a replay."""
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        operation.ours()
    for result in operation.results:
        result.fill_(float("nan") if result.is_floating_point() else -1)
    graph.replay()
    torch.cuda.synchronize()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library")
    parser.add_argument("--shapes", type=int, default=200)
    parser.add_argument("--only", default="")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if not any(options.only in name for name in CASES):
        parser.error(f"--only: no operation has '{options.only}' in its name: {', '.join(CASES)}")
    if options.device != "cpu":
        torch.cuda.set_stream(torch.cuda.Stream())  # the default one cannot be recorded
    lib, failed = op.Library(options.library, options.device), collections.Counter()
    for name, make in CASES.items():
        if options.only not in name:
            continue
        draw, worst = random.Random(options.seed), collections.defaultdict(float)
        torch.manual_seed(options.seed)
        for number in range(options.shapes):
            operation = make(lib, draw, FLOATS[number % len(FLOATS)])
            if operation is None:
                continue
            dtype = operation.theirs.__defaults__[0].dtype
            operation.ours()
            if options.device != "cpu":
                replay(operation)
            for result, want in zip(operation.results, in_double(operation)):
                error = difference(result, want)
                worst[dtype] = max(worst[dtype], error)
                if not error <= TOLERANCE[dtype]:
                    failed[name] += 1
                    x = operation.theirs.__defaults__[0]
                    print(f"WRONG: {name} {tuple(x.shape)} strides {x.stride()} {dtype}: {error:.2e} in a result of "
                          f"{tuple(want.shape)}")
        print(f"{name}: {options.shapes} problems, largest difference "
              + ", ".join(f"{str(t)[6:]} {e:.1e}" for t, e in worst.items()), flush=True)
    print("FAILED" if failed else "PASSED")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
