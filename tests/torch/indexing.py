"""Primitives that move or select elements, of the library and of PyTorch: concatenation, gradients of indexing, order
statistics, and extremes, sums and products along a dimension."""
# SPDX-License-Identifier: MIT
import ctypes

import torch

from operations import Operation, gradients, like


def array_of(pointers):
    return (ctypes.c_void_p * len(pointers))(*pointers)


def cat(lib, x, sizes, dim):
    """x as the concatenation of parts of these sizes along dim."""
    parts, y = [part.contiguous() for part in x.split(sizes, dim)], like(x)
    descriptors = array_of([lib.tensor(part).value for part in parts])

    concatenate = lib.bound("miopenCatForward", lib.handle, len(parts), descriptors, array_of([p.data_ptr() for p in parts]),
                            lib.tensor(y), y, dim)

    def ours(kept=parts):  # the call has their addresses
        concatenate()

    def theirs(x=x):
        return [torch.cat(parts if x.dtype == parts[0].dtype else x.split(sizes, dim), dim, out=torch.empty_like(x))]

    return Operation(ours, theirs, [y], [x, y])


def getitem_backward(lib, x, dims, count, sliced, begin, step):
    """The gradient of x, sliced along `sliced` and indexed by tensors of `count` elements, one for each of `dims`."""
    def view(x):
        return x[(slice(None),) * sliced + (slice(begin, None, step),)]

    sizes = view(x).shape
    indices = [torch.randint(-sizes[d], sizes[d], (count,), dtype=torch.int32, device=x.device) for d in dims]

    def select(x):
        return view(x)[(slice(None),) * dims[0] + tuple(i.long() for i in indices)]

    dy, dx, size = torch.randn_like(select(x)).contiguous(), like(x), ctypes.c_size_t()
    descriptors, ints = array_of([lib.tensor(i).value for i in indices]), ctypes.c_int32 * len(dims)
    lib("miopenGetGetitemWorkspaceSize", lib.handle, len(dims), descriptors, ctypes.byref(size))
    workspace = torch.empty(max(size.value, 1), dtype=torch.uint8, device=x.device)
    add = lib.bound("miopenGetitemBackward", lib.handle, workspace, size, lib.tensor(dy), dy, len(dims), descriptors,
                    array_of([i.data_ptr() for i in indices]), lib.tensor(dx), dx, None, None, len(dims), ints(*dims), 1,
                    (ctypes.c_int32 * 4)(sliced, begin, x.shape[sliced], step), begin * dx.stride(sliced))

    def ours(kept=indices):  # the call has their addresses
        dx.zero_()
        add()

    return Operation(ours, lambda x=x: gradients(select, (x,), dy.to(x.dtype)), [dx], [dy, dx])


def kthvalue(lib, x, k, dim, keep):
    """The values, and those at the positions: which of equal values is found is not said."""
    y = like(torch.kthvalue(x, k, dim, keep)[0])
    index, at = torch.full(y.shape, -1, dtype=torch.int64, device=x.device), like(y)

    def ours():
        lib("miopenKthvalueForward", lib.handle, lib.tensor(x), x, lib.tensor(y), y, lib.tensor(index), index,
            ctypes.c_size_t(k), dim, ctypes.c_bool(keep))
        picked = x.gather(dim, index if keep else index.unsqueeze(dim))
        at.copy_(picked if keep else picked.squeeze(dim))

    def theirs(x=x):
        return [torch.kthvalue(x, k, dim, keep)[0]] * 2

    return Operation(ours, theirs, [y, at], [x, y])


# operation -> (number, the values by PyTorch, their positions)
EXTREMES = {"argmin": (1, None, torch.argmin), "argmax": (2, None, torch.argmax), "min": (3, torch.amin, torch.argmin),
            "max": (4, torch.amax, torch.argmax)}


def extreme(lib, x, operation, dim):
    number, values, positions = EXTREMES[operation]
    y = like(x.select(dim, 0).contiguous())
    index = torch.full(y.shape, -1, dtype=torch.int32, device=x.device)

    ours = lib.bound("miopenReduceExtremeForward", lib.handle, lib.tensor(x), x, dim, number, lib.tensor(y) if values else None,
                     y if values else None, lib.tensor(index), index)

    def theirs(x=x):
        return ([values(x, dim)] if values else []) + [positions(x, dim)]

    return Operation(ours, theirs, [y, index] if values else [index], [x, index])


CALCULATIONS = {"product": (1, torch.prod), "sum": (2, torch.sum)}


def calculation(lib, x, operation, dim):
    number, compute = CALCULATIONS[operation]
    y, d, size = like(x.select(dim, 0).contiguous()), lib.tensor(x), ctypes.c_size_t()
    dy = lib.tensor(y)
    lib("miopenGetReduceCalculationWorkspaceSize", lib.handle, d, dim, number, dy, ctypes.byref(size))
    workspace = torch.empty(max(size.value, 1), dtype=torch.uint8, device=x.device)

    ours = lib.bound("miopenReduceCalculationForward", lib.handle, 0, workspace, size, d, x, dim, number, dy, y)

    return Operation(ours, lambda x=x: [compute(x, dim)], [y], [x, y])
