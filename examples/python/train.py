#!/usr/bin/env python3
"""Trains a small network on a leased GPU, and says what each epoch cost.

    python3 examples/python/train.py --epochs 3

The lease comes first: in its block CUDA sees its GPUs and no others, so that a framework begins
there. This network is so small that it is computed in plain Python; put your own training into
train_epoch().
"""

import argparse
import math
import random

import gpuyard


class Network:
    """Two inputs, a hidden layer, one output: enough to learn whether a point lies in a circle."""

    def __init__(self, hidden, chance):
        self.first = [[chance.uniform(-1, 1) for _ in range(3)] for _ in range(hidden)]
        self.second = [chance.uniform(-1, 1) for _ in range(hidden + 1)]

    def forward(self, x, y):
        hidden = [math.tanh(a * x + b * y + c) for a, b, c in self.first]
        total = self.second[-1] + sum(w * h for w, h in zip(self.second, hidden))
        return hidden, 1 / (1 + math.exp(-total))

    def learn(self, x, y, wanted, rate):
        """One step of gradient descent; returns the loss."""
        hidden, got = self.forward(x, y)
        error = got - wanted
        for i, h in enumerate(hidden):
            slope = error * self.second[i] * (1 - h * h)
            self.second[i] -= rate * error * h
            for j, value in enumerate((x, y, 1)):
                self.first[i][j] -= rate * slope * value
        self.second[-1] -= rate * error
        return -math.log(max(got if wanted else 1 - got, 1e-9))


def make_data(count, chance):
    points = [(chance.uniform(-1, 1), chance.uniform(-1, 1)) for _ in range(count)]
    return [(x, y, int(x * x + y * y < 0.5)) for x, y in points]


def train_epoch(network, data, rate):
    return sum(network.learn(x, y, wanted, rate) for x, y, wanted in data) / len(data)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--points", type=int, default=5000)
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--wait", default="10m", help="longest time to wait for the GPUs")
    chosen = parser.parse_args()

    chance = random.Random(1)
    data = make_data(chosen.points, chance)
    network = Network(16, chance)

    with gpuyard.lease(chosen.gpus, wait=chosen.wait, note="examples/python/train.py") as lease:
        print(f"lease {lease.id[:8]}: {', '.join(gpu.name for gpu in lease.gpus)}")
        with gpuyard.energy(name="training") as whole:
            for epoch in range(chosen.epochs):
                with gpuyard.energy(name="epoch") as spent:
                    loss = train_epoch(network, data, rate=0.1)
                cost = f"{spent.joules:.1f} J" if spent.joules is not None else spent.why
                print(f"epoch {epoch + 1}: loss {loss:.3f}, {cost}")
    right = sum((network.forward(x, y)[1] > 0.5) == bool(wanted) for x, y, wanted in data)
    print(f"{100 * right / len(data):.0f} % right")
    if whole.joules is None:
        print(f"energy unknown: {whole.why}")
    else:
        print(f"{whole.joules:.1f} J, {whole.co2(grid=300):.4f} g CO2 at 300 g/kWh")


if __name__ == "__main__":
    main()
