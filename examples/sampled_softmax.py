"""A plain PyTorch training loop with a softmax over 20,000 classes whose steps only touch a few: two lines are new.

Run it with ``python examples/sampled_softmax.py``; it takes a few seconds. Needs ``pip install "sylvan[neural]"``.
"""

import torch
from torch import nn

from sylvan.sampling import MIDX, RowwiseAdagrad, SampledSoftmaxLoss

torch.manual_seed(0)
n_classes, dim = 20_000, 32
signals = torch.randn(n_classes, 64)  # what tells a class; in an input it is buried in noise
frequency = 1 / torch.arange(1.0, n_classes + 1)  # Zipf's


def batch(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    y = torch.multinomial(frequency, size, replacement=True)
    return signals[y] + torch.randn(size, 64), y


encoder, classes = nn.Linear(64, dim), nn.Parameter(torch.randn(n_classes, dim) * 0.1)
# loss_fn = nn.CrossEntropyLoss()
sampler = MIDX(n_classes, dim, n_codewords=32, query_aware=True)
loss_fn = SampledSoftmaxLoss(sampler, n_samples=50)
optimizers = [torch.optim.Adam(encoder.parameters(), lr=0.01), RowwiseAdagrad([classes], lr=0.3)]

for step in range(301):
    if step % 50 == 0:
        sampler.refresh(classes)
    x, y = batch(256)
    # loss = loss_fn(encoder(x) @ classes.T, y)
    loss = loss_fn(encoder(x), classes, y)
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()

x, y = batch(2000)
print(f"right: {100 * ((encoder(x) @ classes.T).argmax(1) == y).float().mean():.0f}% of 2,000 among 20,000 classes")
