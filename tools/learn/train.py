#!/usr/bin/env python3
"""Trains the learned model and writes its file. Needs PyTorch; seeded; a few minutes on two cores.

Usage: train.py --train FILE... --validation FILE... --test FILE... --out MODEL [--cases FILE]
The files are those of "MIOpenDriver dataset"; see docs/heuristics.md."""
# SPDX-License-Identifier: MIT
import argparse
import json
import math
import pathlib
import re
import sys
import time

import numpy as np
import torch

import features

MEMBERS, WIDTHS = 6, (80, 48)
EPOCHS, BATCH, RATE, DECAY = 40, 512, 4e-3, 0.15
TEMPERATURE = 0.1  # of the softmax that stands for the choice
NEAR = 0.2          # logarithm of the loss at which a solver's own error counts 1/e
COMMON = 0.02       # weight of what all solvers of a problem are off together: load and frequency, hardly the choice
VERSION, ISA = 2, 3  # of the format; the instruction set that the data were taken with
CASES = 40
KNOBS = ["images", "rows", "pieces", "depth"]  # of matrix products; the first with stored columns only
DEFAULTS = {"images": 0, "rows": 0, "pieces": 0, "depth": 512}
POINT_MEMBERS, POINT_WIDTHS, POINT_EPOCHS = 4, (64, 32), 15
CLEARLY = -0.02  # a point must be better than the default by so much; as in the library
CLOSE = 1.03        # a choice that is so much slower than the best counts as right


def slot_of(solver):
    """The output that a solver's directions share."""
    return re.sub(r"(Fwd|Bwd|Wrw)$", "", solver)


def read(files, points=False):
    """Rows with times of solvers, or those with times of tune points."""
    rows = []
    for name in files:
        for line in open(name):
            row = json.loads(line)
            p = features.parse(row["problem"])
            if p is None or not row["points" if points else "solvers"]:
                continue
            if points:
                row["solvers"] = [[slot_of(row["points"][0][0]), 1, 1, "accurate"]]
            row["parsed"] = p
            row["version"] = row.get("estimates", 1)
            row["estimates"] = {slot_of(s): e for s, _, e, _ in row["solvers"]}
            row["times"] = {slot_of(s): us for s, us, _, _ in row["solvers"]}
            row["allowed"] = {slot_of(s) for s, _, _, c in row["solvers"] if c in ("exact", "accurate")}
            rows.append(row)
    return rows


class Table:
    """Rows as tensors: inputs, log estimates, log times (NaN: none), allowed by default."""

    def __init__(self, rows, slots):
        self.rows, self.slots = rows, slots
        self.names = list(features.inputs(rows[0]["parsed"], rows[0], slots))
        values = [list(features.inputs(r["parsed"], r, slots).values()) for r in rows]
        self.inputs = torch.tensor(values, dtype=torch.float32)
        table = lambda what: torch.tensor([[math.log(r[what][s]) if s in r[what] else math.nan for s in slots] for r in rows])
        self.estimates, self.times = table("estimates"), table("times")
        self.allowed = torch.tensor([[s in r["allowed"] and s in r["times"] for s in slots] for r in rows])


def network(width_in, width_out, widths=WIDTHS):
    layers, width = [], width_in
    for w in widths:
        layers += [torch.nn.Linear(width, w), torch.nn.ReLU()]
        width = w
    return torch.nn.Sequential(*layers, torch.nn.Linear(width, width_out))


def loss_of(corrections, estimates, times, allowed):
    """Errors of log times against each other, and the expected loss of the choice over what is allowed by default."""
    known = ~torch.isnan(times)
    predicted = torch.where(known, corrections + estimates, torch.zeros(()))
    wanted = torch.where(known, times, torch.zeros(()))
    far = torch.full_like(predicted, 1e4)
    behind = wanted - torch.where(known, wanted, far).min(1, keepdim=True).values
    weight = torch.exp(-behind / NEAR).clamp(min=0.1) * known
    size = lambda error: torch.nn.functional.smooth_l1_loss(error, torch.zeros_like(error), reduction="none", beta=0.1)
    error = predicted - wanted
    common = (error * weight).sum(1, keepdim=True) / weight.sum(1, keepdim=True)
    fit = (size(error - common) * weight).sum() / weight.sum() + COMMON * size(common).mean()
    chance = torch.softmax(-torch.where(allowed, predicted, far) / TEMPERATURE, 1)
    best = torch.where(allowed, wanted, far).min(1, keepdim=True).values
    lost = torch.where(allowed, (wanted - best).clamp(max=1.5), torch.zeros(()))
    return fit + 2 * (chance * lost).sum(1).mean()


def train_member(seed, table, mean, scale):
    torch.manual_seed(seed)
    x = ((table.inputs - mean) / scale)
    net = network(x.shape[1], table.times.shape[1])
    optimiser = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=DECAY)
    steps = EPOCHS * (len(x) // BATCH + 1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=steps)
    for _ in range(EPOCHS):
        for at in torch.randperm(len(x)).split(BATCH):
            optimiser.zero_grad()
            loss_of(net(x[at]), table.estimates[at], table.times[at], table.allowed[at]).backward()
            optimiser.step()
            schedule.step()
    return net


def predict(members, table, mean, scale):
    with torch.no_grad():
        x = (table.inputs - mean) / scale
        return torch.stack([m(x) for m in members]).mean(0) + table.estimates


def choice_quality(scores, table):
    """Regret of the choice with the least score over what is allowed, for problems with a choice."""
    far = torch.full_like(scores, 1e9)
    several = table.allowed.sum(1) > 1
    chosen = torch.where(table.allowed, scores, far).argmin(1, keepdim=True)
    times = torch.where(table.allowed, table.times, far)
    regret = (times.gather(1, chosen).squeeze(1) - times.min(1).values).exp()
    return regret[several], several


def report(name, regret):
    r = regret.numpy()
    print(f"{name:24} {len(r):6} problems  top-1 {100 * (r == 1).mean():5.1f}%  within 3% {100 * (r <= CLOSE).mean():5.1f}%  "
          f"geomean {100 * (np.exp(np.log(r).mean()) - 1):6.2f}%  p95 {100 * (np.quantile(r, .95) - 1):6.1f}%  "
          f"worst {r.max():6.2f}x")


def spread_of(scores, table):
    """The spread of the difference of the two best scores, such that confidence equals the fraction of right choices."""
    far = torch.full_like(scores, 1e9)
    several = table.allowed.sum(1) > 1
    two = torch.where(table.allowed, scores, far).topk(2, dim=1, largest=False)
    lead = (two.values[:, 1] - two.values[:, 0])[several].double()
    right = (table.times.gather(1, two.indices[:, 1:]) >= table.times.gather(1, two.indices[:, :1])).squeeze(1)[several]
    low, high = 1e-4, 2.0
    for _ in range(60):
        middle = math.sqrt(low * high)
        sure = (0.5 * torch.erfc(-lead / middle / math.sqrt(2))).mean()
        low, high = (middle, high) if sure > right.double().mean() else (low, middle)
    return low


def checksum(data):
    h = 0xCBF29CE484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001B3 % 2**64
    return h


class Points:
    """Tune points: their inputs, log of time / default's time, and per problem its rows, the default point first."""

    def __init__(self, rows, problem_inputs, kinds):
        inputs, ratios, self.choices = [], [], []
        for row, normal in zip(rows, problem_inputs):
            by_solver = {}
            for solver, point, us in row["points"]:
                by_solver.setdefault(solver, {})[tuple(map(int, point.split(",")))] = us
            for solver, times in by_solver.items():
                knobs = KNOBS[-len(next(iter(times))):]
                standard = tuple(DEFAULTS[k] for k in knobs)
                if standard not in times or len(times) < 2:
                    continue
                order = [standard] + sorted(set(times) - {standard})
                self.choices.append(range(len(ratios), len(ratios) + len(order)))
                kind = [float(k == slot_of(solver)) for k in kinds]
                for point in order:
                    value = dict(zip(knobs, point))
                    inputs.append(normal + kind + [math.log2(1 + value.get(k, 0)) / 4 for k in KNOBS])
                    ratios.append(math.log(times[point] / times[standard]))
        self.inputs, self.ratios = torch.tensor(inputs), torch.tensor(ratios)
        self.standard = torch.tensor([c[0] for c in self.choices for _ in c])


def train_points(seed, points):
    torch.manual_seed(seed)
    net = network(points.inputs.shape[1], 1, POINT_WIDTHS)
    steps = POINT_EPOCHS * (len(points.ratios) // BATCH + 1)
    optimiser = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=steps)
    for _ in range(POINT_EPOCHS):
        for at in torch.randperm(len(points.ratios)).split(BATCH):
            optimiser.zero_grad()
            predicted = (net(points.inputs[at]) - net(points.inputs[points.standard[at]])).squeeze(1)
            torch.nn.functional.smooth_l1_loss(predicted, points.ratios[at].clamp(max=0.7), beta=0.03).backward()
            optimiser.step()
            schedule.step()
    return net


def report_points(name, nets, points):
    """Prints the times of the predicted and of the best tune points, relative to the default point."""
    with torch.no_grad():
        score = torch.stack([net(points.inputs) for net in nets]).mean(0).squeeze(1)
    taken, best, changed = [], [], 0
    for c in points.choices:
        at = min(c, key=lambda i: score[i].item() + (0 if i != c[0] else CLEARLY))
        changed += at != c[0]
        taken.append(points.ratios[at].item())
        best.append(min(points.ratios[i].item() for i in c))
    mean = lambda values: math.exp(sum(values) / len(values))
    print(f"{name:24} {len(taken):6} problems  changed {changed}  geomean time {mean(taken):.4f}, of the best "
          f"{mean(best):.4f}; slower by more than 5%: {sum(t > math.log(1.05) for t in taken)}")


def read_points(files, table, mean, scale, kinds):
    """`table` names the inputs; those of the problem and the number of threads are used."""
    rows = read(files, points=True)
    whole = Table(rows, table.slots).inputs
    count = table.names.index("threads") + 1
    return Points(rows, ((whole - mean) / scale)[:, :count].tolist(), kinds)


def halves(members):
    """The weights as 16-bit floats, in the file's order."""
    parts = [t for m in members for layer in m if isinstance(layer, torch.nn.Linear) for t in (layer.weight.t(), layer.bias)]
    return b"".join(p.detach().contiguous().numpy().astype("<f2").tobytes() for p in parts)


def round_weights(members):
    """Rounds the weights to the file's 16-bit floats, so that predictions equal those of the library."""
    with torch.no_grad():
        for m in members:
            for t in m.parameters():
                t.copy_(t.half().float())


def write_model(path, table, members, mean, scale, spread, points):
    slots = table.slots
    solvers = {s: slots.index(slot_of(s)) for r in table.rows for s, *_ in r["solvers"]}
    low, high = table.inputs.min(0).values, table.inputs.max(0).values
    header = {
        "architecture": table.rows[0]["architecture"], "isa": ISA, "outputs": len(slots), "far": features.FAR,
        "estimates": table.rows[0]["version"],
        "spread": spread, "members": len(members), "widths": list(WIDTHS), "solvers": dict(sorted(solvers.items())),
        "inputs": [[n, *(float(f"{t[i].item():.7g}") for t in (low, high, mean, scale))] for i, n in enumerate(table.names)],
        "machines": sorted({(r["threads"], r["gflops"], r["gbs"]) for r in table.rows}), "problems": len(table.rows)}
    nets = list(members)
    if points:
        members, kinds = points
        solvers = {k + d: i for i, k in enumerate(kinds) for d in ("Fwd", "Bwd", "Wrw")}
        header["points"] = {"solvers": solvers, "slots": len(kinds), "knobs": KNOBS, "widths": list(POINT_WIDTHS),
                            "members": len(members)}
        nets += members
    text = json.dumps(header, separators=(",", ":")).encode()
    body = text + halves(nets)
    path.write_bytes(f"polymio-model {VERSION} {checksum(body):016x} {len(text)}\n".encode() + body)
    print(f"{path}: {path.stat().st_size} bytes")


def write_cases(path, table, slots, predicted):
    """Writes some problems with the machine, each solver's estimate and prediction, for the library's test."""
    lines = []
    for i in range(0, len(table.rows), max(1, len(table.rows) // CASES)):
        row = table.rows[i]
        solvers = [f"{s} {e} {math.exp(predicted[i, slots.index(slot_of(s))]):.6g}" for s, _, e, _ in row["solvers"]]
        lines.append(f"{row['problem']} | {row['threads']} {row['gflops']} {row['gbs']} | {' '.join(solvers)}")
    path.write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for part in ("train", "validation", "test"):
        parser.add_argument(f"--{part}", nargs="+", required=True)
    for part in ("train", "test"):
        parser.add_argument(f"--{part}-points", nargs="+", default=[])
    parser.add_argument("--out", type=pathlib.Path, help="the model's file, named after the device class")
    parser.add_argument("--cases", type=pathlib.Path, help="file for the predictions that the library's test compares")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)  # networks so small gain nothing from more
    start = time.time()
    rows, checked = read(options.train), read(options.validation)
    judged = read(options.test)
    if len(versions := {r["version"] for r in rows + checked + judged}) > 1:
        sys.exit(f"the files have estimates of versions {sorted(versions)}: time all parts with one library")
    slots = sorted({s for r in rows for s in r["times"]})
    table, validation, test = Table(rows, slots), Table(checked, slots), Table(judged, slots)
    train = Table(rows + checked, slots)
    mean, scale = train.inputs.mean(0), train.inputs.std(0).clamp(min=1e-2)
    test.inputs = test.inputs.clamp(train.inputs.min(0).values, train.inputs.max(0).values)
    fit = lambda data: [train_member(options.seed + i, data, mean, scale) for i in range(MEMBERS)]
    members = fit(table)  # judged on the validation part, then trained anew with it
    scores = predict(members, validation, mean, scale)
    spread = spread_of(scores, validation)
    report("validation, estimate", choice_quality(validation.estimates, validation)[0])
    report("validation, model", choice_quality(scores, validation)[0])
    members = fit(train)
    round_weights(members)
    for name, data in (("train", train), ("test", test)):
        report(f"{name}, estimate", choice_quality(data.estimates, data)[0])
        report(f"{name}, model", choice_quality(predict(members, data, mean, scale), data)[0])
    points = None
    if options.train_points:
        kinds = ["ConvCpuGemm", "ConvCpuImplicitGemm"]
        known = [read_points(files, train, mean, scale, kinds) for files in (options.train_points, options.test_points)]
        points = [train_points(options.seed + i, known[0]) for i in range(POINT_MEMBERS)], kinds
        round_weights(points[0])
        for name, some in zip(("train", "test"), known):
            report_points(f"{name}, points", points[0], some)
    print(f"spread {spread:.3f}; {time.time() - start:.0f} s")
    if options.out:
        write_model(options.out, train, members, mean, scale, spread, points)
    if options.cases:
        write_cases(options.cases, test, slots, predict(members, test, mean, scale))


if __name__ == "__main__":
    main()
