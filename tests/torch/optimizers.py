"""Steps of the library's optimizers and of PyTorch's, in place, from the same state."""
# SPDX-License-Identifier: MIT
import ctypes

import torch

from operations import Operation, like

LR, BETAS, DECAY, SMALL = 2 ** -9, (0.875, 1 - 2 ** -9), 2 ** -5, 2 ** -20  # exact in the call's floats


def transformers_adamw(p, grad, mean, square, step, correct_bias):
    """As the Transformers library defines it; PyTorch has none."""
    mean, square = mean.lerp(grad, 1 - BETAS[0]), square.lerp(grad * grad, 1 - BETAS[1])
    size = LR * ((1 - BETAS[1] ** step) ** 0.5 / (1 - BETAS[0] ** step) if correct_bias else 1)
    p = p - size * mean / (square.sqrt() + SMALL)
    return [p - LR * DECAY * p, mean, square]


def adam(p, grad, mean, square, largest, step, amsgrad, maximize, adamw):
    p = p.clone()
    optimizer = (torch.optim.AdamW if adamw else torch.optim.Adam)(
        [p], LR, BETAS, SMALL, DECAY, amsgrad, maximize=maximize, foreach=False)
    state = {"step": torch.tensor(step - 1.0), "exp_avg": mean.clone(), "exp_avg_sq": square.clone(),
             "max_exp_avg_sq": largest.clone()}
    optimizer.state[p], p.grad = state, grad.clone()
    optimizer.step()
    return [p, state["exp_avg"], state["exp_avg_sq"]] + ([state["max_exp_avg_sq"]] if amsgrad else [])


def optimizer_step(lib, x, step, flags, transformers=False, counts=False):
    """One step from parameters x. flags: correct_bias, or amsgrad, maximize and adamw. counts: the number of the step is in
    device memory."""
    grad, mean, square, largest = torch.randn_like(x), torch.randn_like(x), torch.rand_like(x), torch.rand_like(x)
    largest = torch.maximum(square, largest)
    amsgrad = not transformers and flags[0]
    start = [x, mean, square] + ([largest] if amsgrad else [])
    results = [like(t) for t in start]
    before = torch.full((1,), step - 1, dtype=torch.int32, device=x.device)
    counter, tensors = before.clone(), [(lib.tensor(t), t) for t in results]
    tensors.insert(1, (lib.tensor(grad), grad))
    if not transformers and not amsgrad:
        tensors.append((None, None))
    state = (lib.tensor(counter), counter) if counts else (None, None)
    floats = map(ctypes.c_float, (LR, *BETAS, DECAY, SMALL))

    update = lib.bound("miopenTransformersAdamW" if transformers else "miopenFusedAdam", lib.handle,
                       *[part for pair in tensors for part in pair], *state, 0 if counts else step, *floats,
                       *map(ctypes.c_bool, flags), None, None, None, None)

    def ours():
        counter.copy_(before)
        for result, value in zip(results, start):
            result.copy_(value)
        update()

    def theirs(x=x):
        rest = [t.to(x.dtype) for t in (grad, mean, square, largest)]
        stepped = transformers_adamw(x, *rest[:3], step, *flags) if transformers else adam(x, *rest, step, *flags)
        return stepped + ([before + 1] if counts else [])

    return Operation(ours, theirs, results + ([counter] if counts else []), [*start, grad, *results])
