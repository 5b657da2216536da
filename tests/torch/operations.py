"""Primitives of the library and of PyTorch on the same tensors: each Operation runs either and says what they wrote.

The test `torch_test.py` compares the results, `bench/primitives.py` times the calls."""
# SPDX-License-Identifier: MIT
import ctypes
import math

import torch
import torch.nn.functional as functional

aten = torch.ops.aten
TYPES = {torch.float16: 0, torch.float32: 1, torch.int32: 2, torch.bfloat16: 5, torch.float64: 6, torch.int64: 9}
POINTER = ctypes.c_void_p
EPSILON = 1e-5


class Library:
    """A handle of the library on the device of PyTorch's tensors: "cpu" or "cuda"."""

    def __init__(self, path, device="cpu"):
        self.c, self.device, self.handle = ctypes.CDLL(path), torch.device(device), POINTER()
        self.c.polymioGetLastError.restype = ctypes.c_char_p
        self.scalars_of = {kind: (kind(1), kind(0)) for kind in (ctypes.c_float, ctypes.c_double)}
        if device == "cpu":
            self("polymioCreateOnDevice", ctypes.byref(self.handle), b"cpu")
        else:
            self("miopenCreateWithStream", ctypes.byref(self.handle), POINTER(torch.cuda.current_stream().cuda_stream))

    def __call__(self, name, *arguments):
        if getattr(self.c, name)(*map(self.argument, arguments)) != 0:
            raise RuntimeError(f"{name}: {self.c.polymioGetLastError().decode()}")

    def bound(self, name, *arguments):
        """The call with arguments that are converted once, for a caller that is timed."""
        function, given = getattr(self.c, name), tuple(map(self.argument, arguments))

        def call(arguments=arguments):  # keeps tensors
            if function(*given) != 0:
                self(name, *arguments)
        return call

    def argument(self, value):
        """Tensors pass their address, floating-point numbers are doubles; descriptors are made by tensor()."""
        if isinstance(value, torch.Tensor):
            return POINTER(value.data_ptr())
        return ctypes.c_double(value) if isinstance(value, float) else value

    def tensor(self, tensor, least_rank=1):
        """A descriptor of the tensor's sizes and strides, with dimensions of size 1 added up to the rank."""
        sizes, strides = list(tensor.shape), list(tensor.stride())
        while len(sizes) < least_rank:
            sizes.append(1)
            strides.append(1)
        made, ints = POINTER(), ctypes.c_int * len(sizes)
        self("miopenCreateTensorDescriptor", ctypes.byref(made))
        self("miopenSetTensorDescriptor", made, TYPES[tensor.dtype], len(sizes), ints(*sizes), ints(*strides))
        return made

    def made(self, kind):
        made = POINTER()
        self(f"miopenCreate{kind}Descriptor", ctypes.byref(made))
        return made

    def floats(self):
        """Pointers to 1 and 0 as batch norms take them."""
        return tuple(map(ctypes.byref, self.scalars_of[ctypes.c_float]))

    def scalars(self, tensor):
        """Pointers to 1 and 0 for operations of this tensor."""
        return tuple(map(ctypes.byref, self.scalars_of[scalar_kind(tensor)]))


def scalar_kind(tensor):
    """The type of scaling factors of this tensor."""
    return ctypes.c_double if tensor.dtype == torch.float64 else ctypes.c_float


class Operation:
    """ours() and theirs() compute the same; the first writes `results`, the second returns as many. `moved`: the bytes
    that it must read and write at least once. theirs() takes x, so that it can be called with x in double, too."""

    def __init__(self, ours, theirs, results, moved):
        self.ours, self.theirs, self.results = ours, theirs, results
        self.bytes = sum(t.numel() * t.element_size() for t in moved)


def like(tensor, dtype=None):
    return torch.full_like(tensor, float("nan"), dtype=dtype)


def with_layout_of(tensor, result):
    """The result, channels last if the tensor is, else first: PyTorch does not always keep the layout."""
    last = tensor.dim() > 3 and tensor.stride(1) == 1 and tensor.shape[1] > 1
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return result.contiguous(memory_format=formats[tensor.dim()] if last else torch.contiguous_format)


def parameters(count, device, number=1, dtype=torch.float32):
    return [torch.rand(count, device=device).add(0.5).to(dtype) for _ in range(number)]


def scale_type(x):
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def moments(lib, x, number, per_activation):
    """Parameters of batch norms and their descriptor: one for each channel, or for each element of a sample."""
    size = (1, *x.shape[1:]) if per_activation else (1, x.shape[1], *[1] * (x.dim() - 2))
    made = parameters(size, x.device, number, scale_type(x))
    return *made, lib.tensor(made[0])


def by_features(x, per_activation, *parameters):
    """x with dimension 1 for what has a mean of its own, and the parameters in x's accuracy: what PyTorch takes."""
    return x.flatten(1) if per_activation else x, *[p.flatten().to(scale_type(x)) for p in parameters]


def batch_norm_training(lib, x, per_activation=False):
    scale, bias, mean, variance, dp = moments(lib, x, 4, per_activation)
    y, results, dx = like(x), [like(mean) for _ in range(4)], lib.tensor(x)
    theirs_running = [mean.clone(), variance.clone()]  # they change

    ours = lib.bound("miopenBatchNormalizationForwardTraining_V3", lib.handle, 0 if per_activation else 1, *lib.floats(),
                     dx, x, dx, y, dp, dp, dp, dp, scale, bias, 0.1, mean, variance, *results[:2], EPSILON, *results[2:])

    def theirs(x=x):
        x, *given = by_features(x, per_activation, scale, bias, *theirs_running)
        out, *saved = aten.native_batch_norm(x, *given, True, 0.1, EPSILON)
        return [out, *given[2:], *saved]

    return Operation(ours, theirs, [y, *results], [x, y])


def batch_norm_inference(lib, x, per_activation=False):
    *given, dp = moments(lib, x, 4, per_activation)
    y, dx = like(x), lib.tensor(x)

    ours = lib.bound("miopenBatchNormalizationForwardInference_V2", lib.handle, 0 if per_activation else 1, *lib.floats(),
                     dx, x, dx, y, dp, dp, dp, dp, *given, EPSILON)

    def theirs(x=x):
        return aten.native_batch_norm(*by_features(x, per_activation, *given), False, 0.1, EPSILON)[:1]

    return Operation(ours, theirs, [y], [x, y])


def batch_norm_backward(lib, x, per_activation=False):
    scale, dp = moments(lib, x, 1, per_activation)
    dy, dx = torch.randn_like(x), like(x)
    axes = [0] if per_activation else [d for d in range(x.dim()) if d != 1]
    mean = x.double().mean(axes)
    inverse = (x.double().var(axes, unbiased=False) + EPSILON).rsqrt()
    saved, grads, d = [t.to(scale.dtype) for t in (mean, inverse)], [like(scale), like(scale)], lib.tensor(x)

    ours = lib.bound("miopenBatchNormalizationBackward_V2", lib.handle, 0 if per_activation else 1, *lib.floats(),
                     *lib.floats(), d, x, d, dy, d, dx, dp, dp, dp, dp, scale, *grads, EPSILON, *saved)

    def theirs(x=x, dy=dy):
        x, *given = by_features(x, per_activation, scale, mean, inverse)
        dy, = by_features(dy.to(x.dtype), per_activation)
        return aten.native_batch_norm_backward(dy, x, given[0], None, None, *given[1:], True, EPSILON, [True] * 3)

    return Operation(ours, theirs, [dx, *grads], [x, dy, dx])


class Window:
    """A pooling descriptor; 2-D and 3-D."""

    def __init__(self, lib, mode, rank, size, stride, pad):
        self.window, ints = lib.made("Pooling"), ctypes.c_int * rank
        lib("miopenSetNdPoolingDescriptor", self.window, mode, rank, ints(*[size] * rank), ints(*[pad] * rank),
            ints(*[stride] * rank))
        lib("miopenSetPoolingIndexType", self.window, 2)
        self.size, self.stride, self.pad = [size] * rank, [stride] * rank, [pad] * rank
        self.suffix, self.mode = f"{rank}d", mode

    def forward(self, x):
        if self.mode == 0:
            return getattr(aten, f"max_pool{self.suffix}_with_indices")(x, self.size, self.stride, self.pad)
        return [getattr(aten, f"avg_pool{self.suffix}")(x, self.size, self.stride, self.pad, False, self.mode == 2)]

    def backward(self, dy, x, indices):
        if self.mode == 0:
            name, ones = f"max_pool{self.suffix}_with_indices_backward", [1] * len(self.size)
            return getattr(aten, name)(dy, x, self.size, self.stride, self.pad, ones, False, indices)
        dy, x = dy.contiguous(), x.contiguous()  # on CUDA PyTorch's result for channels last is another
        return getattr(aten, f"avg_pool{self.suffix}_backward")(dy, x, self.size, self.stride, self.pad, False,
                                                               self.mode == 2, None)


def pooling(lib, x, mode=0, size=3, stride=2, pad=1, backward=False):
    window = Window(lib, mode, x.dim() - 2, size, stride, pad)
    want = window.forward(x.to(torch.promote_types(x.dtype, torch.float32)))
    y = like(with_layout_of(x, want[0]), x.dtype)
    index = torch.zeros_like(y, dtype=torch.int32)
    dx, dy = lib.tensor(x), lib.tensor(y)

    def forward(workspace=None, save=False):
        return lib.bound("miopenPoolingForward", lib.handle, window.window, lib.scalars(x)[0], dx, x, lib.scalars(x)[1], dy,
                         y, ctypes.c_bool(save), workspace, ctypes.c_size_t(4 * y.numel() if save else 0))

    if not backward:
        return Operation(forward(), lambda x=x: window.forward(x)[:1], [y], [x, y])
    if mode == 0:
        forward(index, True)()
    gradient, grad_x = torch.randn_like(y), like(x)

    ours = lib.bound("miopenPoolingBackward", lib.handle, window.window, lib.scalars(x)[0], dy, y, dy, gradient, dx,
                     x, lib.scalars(x)[1], dx, grad_x, index if mode == 0 else None)

    def theirs(x=x, dy=gradient):
        return [window.backward(dy.to(x.dtype), x, want[1] if mode == 0 else None)]

    return Operation(ours, theirs, [grad_x], [gradient, grad_x] + [index] * (mode == 0))


SOFTMAXES = {"fast": 0, "accurate": 1, "log": 2}


def softmax(lib, x, algorithm="accurate", backward=False, of_samples=False):
    """Over dimension 1, or all of a sample; rows are (rows, length)."""
    y, how, d = like(x), (SOFTMAXES[algorithm], 0 if of_samples else 1), lib.tensor(x, 4)
    compute, gradient = (aten._log_softmax, aten._log_softmax_backward_data) if algorithm == "log" else (
        aten._softmax, aten._softmax_backward_data)

    def theirs(x=x):
        return [compute(x.flatten(1) if of_samples else x, 1, False)]

    if not backward:
        ours = lib.bound("miopenSoftmaxForward_V2", lib.handle, lib.scalars(x)[0], d, x, lib.scalars(x)[1], d, y, *how)
        return Operation(ours, theirs, [y], [x, y])
    dy, dx = torch.randn_like(x), like(x)
    y.copy_(theirs()[0].view(x.shape))

    ours = lib.bound("miopenSoftmaxBackward_V2", lib.handle, lib.scalars(x)[0], d, y, d, dy, lib.scalars(x)[1], d, dx, *how)

    def theirs_backward(x=x):
        given = [t.to(x.dtype).flatten(1) if of_samples else t.to(x.dtype) for t in (dy, y)]
        return [gradient(*given, 1, x.dtype)]

    return Operation(ours, theirs_backward, [dx], [y, dy, dx])


def layer_norm(lib, x, backward=False):
    """Over the last dimension."""
    weight, bias = parameters(x.shape[-1], x.device, 2, x.dtype)
    y = like(x)
    mean, rstd = like(x[..., 0].contiguous()), like(x[..., 0].contiguous())
    d, dw, ds = lib.tensor(x), lib.tensor(weight), lib.tensor(mean)
    epsilon, axis = ctypes.c_float(EPSILON), x.dim() - 1

    ours = lib.bound("miopenLayerNormForward", lib.handle, 1, d, x, dw, weight, dw, bias, epsilon, axis, d, y, ds,
                     mean, ds, rstd)

    def theirs(x=x):
        return [part.reshape(result.shape) for part, result in
                zip(aten.native_layer_norm(x, [x.shape[-1]], weight.to(x.dtype), bias.to(x.dtype), EPSILON),
                    (y, mean, rstd))]

    if not backward:
        return Operation(ours, theirs, [y, mean, rstd], [x, y])
    ours()
    dy, dx, grads = torch.randn_like(x), like(x), [like(weight), like(weight)]
    size = ctypes.c_size_t()
    lib("miopenGetLayerNormBackwardWorkspaceSize", lib.handle, 1, d, d, dw, ds, ds, axis, d, dw, dw, ctypes.byref(size))
    workspace = torch.empty(max(size.value, 1), dtype=torch.uint8, device=x.device)

    ours_backward = lib.bound("miopenLayerNormBackward", lib.handle, 1, workspace, size, d, dy, d, x, dw, weight, ds, mean,
                              ds, rstd, axis, d, dx, dw, grads[0], dw, grads[1])

    def theirs_backward(x=x):
        to = scale_type(x) if x.device.type == "cuda" or x.dtype == torch.float64 else x.dtype
        return aten.native_layer_norm_backward(dy.to(x.dtype), x, [x.shape[-1]], mean.to(to).unsqueeze(-1),
                                               rstd.to(to).unsqueeze(-1), weight.to(x.dtype), bias.to(x.dtype), [True] * 3)

    return Operation(ours_backward, theirs_backward, [dx, *grads], [x, dy, dx])


def add_layer_norm(lib, x):
    """Of x + x2, over the last dimension."""
    (weight, bias), x2, y = parameters(x.shape[-1], x.device, 2, x.dtype), torch.randn_like(x), like(x)
    mean, rstd = like(x[..., 0].contiguous()), like(x[..., 0].contiguous())
    d, dw, ds = lib.tensor(x), lib.tensor(weight), lib.tensor(mean)

    ours = lib.bound("miopenAddLayerNormForward", lib.handle, 3, d, x, d, x2, dw, weight, dw, bias,
                     ctypes.c_float(EPSILON), x.dim() - 1, d, y, ds, mean, ds, rstd)

    def theirs(x=x):
        return aten.native_layer_norm(x + x2.to(x.dtype), [x.shape[-1]], weight.to(x.dtype), bias.to(x.dtype), EPSILON)

    return Operation(ours, theirs, [y, mean, rstd], [x, x2, y])


def rms_norm(lib, x, backward=False):
    """T5's, over the last dimension."""
    weight, = parameters(x.shape[-1], x.device, 1, x.dtype)
    y, rstd = like(x), like(x[..., 0].contiguous())
    d, dw, ds = lib.tensor(x), lib.tensor(weight), lib.tensor(rstd)

    ours = lib.bound("miopenT5LayerNormForward", lib.handle, 5, d, x, dw, weight, ctypes.c_float(EPSILON), d, y, ds, rstd)

    def norm(x, weight):
        return functional.rms_norm(x, [x.shape[-1]], weight, EPSILON)

    def theirs(x=x):
        return [norm(x, weight.to(x.dtype)), (x.square().mean(-1) + EPSILON).rsqrt()]

    if not backward:
        return Operation(ours, theirs, [y, rstd], [x, y])
    ours()
    dy, dx, dweight, size = torch.randn_like(x), like(x), like(weight), ctypes.c_size_t()
    lib("miopenGetT5LayerNormBackwardWorkspaceSize", lib.handle, 5, d, d, dw, ds, d, dw, ctypes.byref(size))
    workspace = torch.empty(max(size.value, 1), dtype=torch.uint8, device=x.device)

    ours_backward = lib.bound("miopenT5LayerNormBackward", lib.handle, 5, workspace, size, d, dy, d, x, dw, weight, ds, rstd,
                              d, dx, dw, dweight)

    def theirs_backward(x=x):
        return gradients(norm, (x, weight.to(x.dtype)), dy.to(x.dtype))

    return Operation(ours_backward, theirs_backward, [dx, dweight], [x, dy, dx])


def group_norm(lib, x, groups=32):
    weight, bias = parameters(x.shape[1], x.device, 2, x.dtype)
    y = like(x)
    mean, rstd = like(x.new_empty(x.shape[0], groups)), like(x.new_empty(x.shape[0], groups))
    d, dw, ds = lib.tensor(x), lib.tensor(weight), lib.tensor(mean)

    ours = lib.bound("miopenGroupNormForward", lib.handle, 1, d, x, dw, weight, dw, bias, ctypes.c_uint64(groups),
                     ctypes.c_float(EPSILON), d, y, ds, mean, ds, rstd)

    def theirs(x=x):
        def normalized(x):
            return aten.native_group_norm(x, weight.to(x.dtype), bias.to(x.dtype), x.shape[0], x.shape[1],
                                          math.prod(x.shape[2:]), groups, EPSILON)

        try:
            return normalized(x)
        except RuntimeError:  # PyTorch's kernels for CUDA refuse some layouts
            return normalized(x.contiguous())

    return Operation(ours, theirs, [y, mean, rstd], [x, y])


def vector_norm(order):
    return lambda x, dim, keepdim: torch.linalg.vector_norm(x, order, dim, keepdim)


def product(x, dim, keepdim):
    for d in dim:
        x = x.prod(d, keepdim=True)
    return x


REDUCTIONS = {"sum": (0, torch.sum), "product": (1, product), "min": (2, torch.amin), "max": (3, torch.amax),
              "amax": (4, vector_norm(math.inf)), "mean": (5, torch.mean), "norm1": (6, vector_norm(1)),
              "norm2": (7, vector_norm(2))}
# What argmax finds the positions by.
EXTREMES = {"min": torch.neg, "max": lambda x: x, "amax": torch.abs}


def reduction(lib, x, operation="sum", dims=(1,), with_indices=False):
    dims = list(dims)
    number, compute = REDUCTIONS[operation]
    y = like(torch.sum(x, dims, keepdim=True))
    index = torch.full_like(y, -1, dtype=torch.int32, memory_format=torch.contiguous_format) if with_indices else None
    descriptor, d, dy = lib.made("ReduceTensor"), lib.tensor(x), lib.tensor(y)
    lib("miopenSetReduceTensorDescriptor", descriptor, number, TYPES[scale_type(x)], 0, int(with_indices), 0)
    size, index_size = ctypes.c_size_t(), ctypes.c_size_t()
    lib("miopenGetReductionWorkspaceSize", lib.handle, descriptor, d, dy, ctypes.byref(size))
    lib("miopenGetReductionIndicesSize", lib.handle, descriptor, d, dy, ctypes.byref(index_size))
    workspace = torch.empty(max(size.value, 1), dtype=torch.uint8, device=x.device)
    one, zero = lib.scalars(x)

    ours = lib.bound("miopenReduceTensor", lib.handle, descriptor, index, index_size, workspace, size, one, d, x, zero, dy, y)

    def theirs(x=x):
        results = [compute(x, dim=dims, keepdim=True)]
        if with_indices:
            last = EXTREMES[operation](x).movedim(dims, list(range(-len(dims), 0)))
            results.append(last.flatten(x.dim() - len(dims)).argmax(-1))
        return results

    return Operation(ours, theirs, [y, index] if with_indices else [y], [x, y])


def lrn(lib, x, size=5, alpha=1e-4, backward=False):
    y, descriptor, d = like(x), lib.made("LRN"), lib.tensor(x)
    one, zero = lib.scalars(x)
    lib("miopenSetLRNDescriptor", descriptor, 1, size, alpha, 0.75, 2.0)

    def forward(workspace=None):
        return lib.bound("miopenLRNForward", lib.handle, descriptor, one, d, x, zero, d, y,
                         ctypes.c_bool(workspace is not None), workspace)

    def compute(x):
        return functional.local_response_norm(x, size, alpha, 0.75, 2.0)

    if not backward:
        return Operation(forward(), lambda x=x: [compute(x)], [y], [x, y])
    dy, dx, scale = torch.randn_like(x), like(x), like(x, scale_type(x))
    forward(scale)()

    ours = lib.bound("miopenLRNBackward", lib.handle, descriptor, one, d, y, d, dy, d, x, zero, d, dx, scale)

    return Operation(ours, lambda x=x: gradients(compute, (x,), dy.to(x.dtype)), [dx], [x, y, dy, dx])


def gradients(compute, inputs, dy):
    """What autograd finds for `inputs`, which are detached first."""
    inputs = [t.detach().clone().requires_grad_() for t in inputs]
    with torch.enable_grad():
        return torch.autograd.grad(compute(*inputs), inputs, dy)


def prelu_backward(lib, x, shared=True):
    # Positive gradients: the terms of a parameter's sum, one for each negative x, have one sign.
    weight, dy, dx = torch.randn(1 if shared else x.shape[1], device=x.device).to(x.dtype), torch.rand_like(x), like(x)
    dw, d, dp, size = like(weight), lib.tensor(x), lib.tensor(weight), ctypes.c_size_t()
    lib("miopenGetPReLUBackwardWorkspaceSize", lib.handle, d, dp, ctypes.byref(size))
    workspace = torch.empty(max(size.value, 1), dtype=torch.uint8, device=x.device)

    def ours():
        lib("miopenPReLUBackward", lib.handle, workspace, size, d, x, dp, weight, d, dy, d, dx, dp, dw)

    def theirs(x=x):
        return gradients(functional.prelu, (x, weight.to(x.dtype)), dy.to(x.dtype))

    return Operation(ours, theirs, [dx, dw], [x, dy, dx])


def rotate(x, cos, sin):
    pairs = torch.stack((-x[..., 1::2], x[..., 0::2]), -1).flatten(-2)
    return x * cos + pairs * sin


def rope(lib, x, backward=False):
    cos, sin = torch.randn(2, *x.shape[1:], device=x.device).to(x.dtype)
    y, d, dc = like(x), lib.tensor(x), lib.tensor(cos)

    def ours():
        lib(f"miopenRoPE{'Backward' if backward else 'Forward'}", lib.handle, d, x, dc, cos, dc, sin, lib.tensor(y), y)

    def theirs(x=x):
        both = cos.to(x.dtype), sin.to(x.dtype)
        return gradients(lambda t: rotate(t, *both), (x,), x) if backward else [rotate(x, *both)]

    return Operation(ours, theirs, [y], [x, y])


REDUCED = ("none", "sum", "mean")


def soft_margin_loss(lib, x, reduction="none", backward=False):
    target, number = torch.randint(0, 2, x.shape, device=x.device).mul(2).sub(1).to(x.dtype), REDUCED.index(reduction)
    y = like(x) if reduction == "none" or backward else like(x.new_empty(1))
    dy, d, dt, out, size = torch.randn_like(x), lib.tensor(x), lib.tensor(target), lib.tensor(y), ctypes.c_size_t()
    scalar = dy.flatten()[:1].clone()  # the gradient of a reduced loss
    grad = dy if reduction == "none" else scalar
    if not backward:
        lib("miopenGetSoftMarginLossForwardWorkspaceSize", lib.handle, d, dt, out, number, ctypes.byref(size))
    workspace = torch.empty(max(size.value, 1), dtype=torch.uint8, device=x.device)

    def ours():
        if backward:
            lib("miopenSoftMarginLossBackward", lib.handle, d, x, dt, target, lib.tensor(grad), grad, out, y, number)
        else:
            lib("miopenSoftMarginLossForward", lib.handle, d, x, dt, target, out, y, number, workspace, size)

    def theirs(x=x):
        def loss(t):
            return functional.soft_margin_loss(t, target.to(x.dtype), reduction=reduction)
        outer = grad if reduction == "none" else grad[0]
        return gradients(loss, (x,), outer.to(x.dtype)) if backward else [loss(x)]

    return Operation(ours, theirs, [y], [x, target, y])


def multi_margin_loss(lib, x, reduction="none", p=1, margin=0.75):
    weight, target = torch.rand(x.shape[1]).to(x), torch.randint(0, x.shape[1], x.shape[:1], device=x.device)
    y, number, size = like(x.new_empty(x.shape[0] if reduction == "none" else 1)), REDUCED.index(reduction), ctypes.c_size_t()
    tensors = [lib.tensor(t) for t in (x, target, weight, y)]
    power, distance = ctypes.c_long(p), ctypes.c_float(margin)
    lib("miopenGetMultiMarginLossForwardWorkspaceSize", lib.handle, *tensors, power, distance, number, ctypes.byref(size))
    workspace = torch.empty(max(size.value, 1), dtype=torch.uint8, device=x.device)

    def ours():
        arguments = [a for pair in zip(tensors, (x, target, weight, y)) for a in pair]
        lib("miopenMultiMarginLossForward", lib.handle, *arguments, power, distance, number, workspace, size)

    def theirs(x=x):
        return [functional.multi_margin_loss(x, target, p, margin, weight.to(x.dtype), reduction=reduction)]

    return Operation(ours, theirs, [y], [x, y])


def ctc_loss(lib, x, longest=10, blank=0):
    """Losses of sequences of (steps, batch, classes), and the gradients of the logits x. At least two classes."""
    steps, batch, classes = x.shape
    inputs = torch.randint((steps + 1) // 2, steps + 1, (batch,), dtype=torch.int32)
    counts = torch.minimum(torch.randint(0, longest + 1, (batch,), dtype=torch.int32), (inputs + 1) // 2)
    labels = torch.randint(1, classes, (max(int(counts.sum()), 1),), dtype=torch.int32)
    labels[labels <= blank] -= 1
    descriptor, d, size, losses, gradient = lib.made("CTCLoss"), lib.tensor(x), ctypes.c_size_t(), like(x[0, :, 0]), like(x)
    lib("miopenSetCTCLossDescriptor", descriptor, TYPES[x.dtype], blank, True)
    arrays = (labels, counts, inputs)
    lib("miopenGetCTCLossWorkspaceSize", lib.handle, d, d, *arrays, 0, descriptor, ctypes.byref(size))
    workspace = torch.empty(size.value, dtype=torch.uint8, device=x.device)

    ours = lib.bound("miopenCTCLoss", lib.handle, d, x, *arrays, losses, d, gradient, 0, descriptor, workspace, size)

    def theirs(x=x):
        with torch.enable_grad():
            logits = x.detach().clone().requires_grad_()
            each = functional.ctc_loss(logits.log_softmax(2), labels[:int(counts.sum())].long(), inputs.long(),
                                       counts.long(), blank, "none")
            return [each.detach(), torch.autograd.grad(each.sum(), logits)[0]]

    return Operation(ours, theirs, [losses, gradient], [x, gradient])


# No value of 16 bits is at a kink.
ACTIVATIONS = {"logistic": (1, torch.sigmoid), "tanh": (2, lambda x: 1.2501 * torch.tanh(0.7501 * x)), "relu": (3, torch.relu),
               "softrelu": (4, functional.softplus), "abs": (5, torch.abs),
               "clipped relu": (7, lambda x: x.clamp(0, 0.7501)), "elu": (9, lambda x: functional.elu(x, 0.7501)),
               "leaky relu": (8, lambda x: functional.leaky_relu(x, 0.7501)), "clamp": (10, lambda x: x.clamp(0.7501, 1.2501))}


def activation(lib, x, mode="relu", backward=False):
    number, compute = ACTIVATIONS[mode]
    descriptor, d, dy, y, dx = lib.made("Activation"), lib.tensor(x), torch.randn_like(x), like(x), like(x)
    lib("miopenSetActivationDescriptor", descriptor, number, 0.7501, 1.2501, 1.5)
    one, zero = lib.scalars(x)

    def ours():
        lib("miopenActivationForward", lib.handle, descriptor, one, d, x, zero, d, y)
        if backward:
            lib("miopenActivationBackward", lib.handle, descriptor, one, d, y, d, dy, d, x, zero, d, dx)

    def theirs(x=x):
        return gradients(compute, (x,), dy.to(x.dtype)) if backward else [compute(x)]

    return Operation(ours, theirs, [dx if backward else y], [x, y])


def glu(lib, x, dim=0, backward=False):
    half = x.narrow(dim, 0, x.shape[dim] // 2).contiguous()
    dy, result, d, dh = torch.randn_like(half), like(x if backward else half), lib.tensor(x), lib.tensor(half)

    def ours():
        if backward:
            lib("miopenGLUBackward", lib.handle, d, x, dh, dy, lib.tensor(result), result, dim)
        else:
            lib("miopenGLUForward", lib.handle, d, x, dh, result, dim)

    def theirs(x=x):
        return gradients(lambda t: functional.glu(t, dim), (x,), dy.to(x.dtype)) if backward else [functional.glu(x, dim)]

    return Operation(ours, theirs, [result], [x, result])


def filters_for(x, count, size):
    """Filters for a convolution of x, in x's layout, and PyTorch's function for them."""
    spatial = x.dim() - 2
    w = torch.randn(count, x.shape[1], *[size] * spatial, device=x.device).div((x.shape[1] * size ** spatial) ** 0.5)
    return with_layout_of(x, w.to(x)), getattr(functional, f"conv{spatial}d")


def convolution_descriptor(lib, spatial, pad, stride):
    made, ints = lib.made("Convolution"), ctypes.c_int * spatial
    lib("miopenInitConvolutionNdDescriptor", made, spatial, ints(*[pad] * spatial), ints(*[stride] * spatial),
        ints(*[1] * spatial), 0)
    return made


def convolution_bias_activation(lib, x, filters=16, size=3, stride=1, mode="relu"):
    """activation(convolution + z / 2 + bias) in one call."""
    w, convolution = filters_for(x, filters, size)
    y = like(with_layout_of(x, convolution(x, w, None, stride, size // 2)))
    z, (bias,), descriptor = torch.randn_like(y), parameters(filters, x.device, 1, x.dtype), lib.made("Activation")
    lib("miopenSetActivationDescriptor", descriptor, ACTIVATIONS[mode][0], 0.7501, 1.2501, 1.5)
    dy, db = lib.tensor(y), lib.tensor(bias.view(1, -1, *[1] * (x.dim() - 2)))
    half = scalar_kind(x)(0.5)

    ours = lib.bound("miopenConvolutionBiasActivationForward", lib.handle, None, lib.tensor(x), x, lib.tensor(w), w,
                     convolution_descriptor(lib, x.dim() - 2, size // 2, stride), 0, None, ctypes.c_size_t(0),
                     ctypes.byref(half), dy, z, db, bias, descriptor, dy, y)

    def theirs(x=x):
        out = convolution(x, w.to(x.dtype), bias.to(x.dtype), stride, size // 2) + z.to(x.dtype) / 2
        return [ACTIVATIONS[mode][1](out)]

    return Operation(ours, theirs, [y], [x, w, z, y])


def fused_convolution(lib, x, filters=16, size=3, stride=1, norm=False, mode="relu"):
    """Convolution, bias or batch norm with given moments, and an activation as one fusion plan."""
    w, convolution = filters_for(x, filters, size)
    y = like(with_layout_of(x, convolution(x, w, None, stride, size // 2)))
    bias, = parameters(filters, x.device, 1, x.dtype)
    given = parameters(filters, x.device, 4, scale_type(x))  # scale, bias, mean, variance
    plan, arguments, operators = POINTER(), POINTER(), [POINTER() for _ in range(3)]
    number, (alpha, beta) = ACTIVATIONS[mode][0], lib.floats()
    dx, dw, dy = lib.tensor(x), lib.tensor(w), lib.tensor(y)
    of_channels = lib.tensor((given[0] if norm else bias).view(1, -1, *[1] * (x.dim() - 2)))
    lib("miopenCreateFusionPlan", ctypes.byref(plan), 0, dx)
    lib("miopenCreateOpConvForward", plan, ctypes.byref(operators[0]),
        convolution_descriptor(lib, x.dim() - 2, size // 2, stride), dw)
    if norm:
        lib("miopenCreateOpBatchNormInference", plan, ctypes.byref(operators[1]), 1, of_channels)
    else:
        lib("miopenCreateOpBiasForward", plan, ctypes.byref(operators[1]), of_channels)
    lib("miopenCreateOpActivationForward", plan, ctypes.byref(operators[2]), number)
    lib("miopenCompileFusionPlan", lib.handle, plan)
    lib("miopenCreateOperatorArgs", ctypes.byref(arguments))
    lib("miopenSetOpArgsConvForward", arguments, operators[0], alpha, beta, w)
    if norm:
        lib("miopenSetOpArgsBatchNormInference", arguments, operators[1], alpha, beta, *given, EPSILON)
    else:
        lib("miopenSetOpArgsBiasForward", arguments, operators[1], alpha, beta, bias)
    lib("miopenSetOpArgsActivForward", arguments, operators[2], alpha, beta, 0.7501, 1.2501, 1.5)

    def ours():
        lib("miopenExecuteFusionPlan", lib.handle, plan, dx, x, dy, y, arguments)

    def theirs(x=x):
        out = convolution(x, w.to(x.dtype), None if norm else bias.to(x.dtype), stride, size // 2)
        if norm:
            out = aten.native_batch_norm(*by_features(out, False, *given), False, 0.1, EPSILON)[0]
        return [ACTIVATIONS[mode][1](out)]

    return Operation(ours, theirs, [y], [x, w, y])
