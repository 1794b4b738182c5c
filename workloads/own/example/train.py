"""A training that survives its end: plain torch, any number of processes, one file as its checkpoint.

The stack `own` runs it as an example. Replace it by your own program.
"""

import json
import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

FOLDER = Path(os.environ["RUN_FOLDER"])
STEPS = int(os.environ.get("STEPS", "500"))
ROWS, WIDTH, SAVE_EVERY = 256, 512, 10
INTERRUPTED = 143


def main() -> int:
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    on_gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if on_gpu else "gloo")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, 1))
    model = DistributedDataParallel(net.to(device))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    # 1. Every try looks for the newest checkpoint in the same folder.
    step, losses = load(model, optimizer, device)
    print(f"rank {dist.get_rank()} of {dist.get_world_size()} goes on after step {step}", flush=True)
    while step < STEPS:
        step += 1
        loss = train_on(step, model, optimizer, device)
        losses.append({"step": step, "loss": loss})
        # 2. All processes agree on a stop, because each hears SIGTERM at another time.
        stop = torch.tensor(len(stopped), device=device)
        dist.all_reduce(stop)
        if dist.get_rank() == 0 and (stop.item() or step % SAVE_EVERY == 0 or step == STEPS):
            save(step, losses, model, optimizer)
        dist.barrier()
        if stop.item() and step < STEPS:
            # 3. This exit code says: interrupted and saved. It never counts as a failed try.
            return INTERRUPTED
    return 0


def train_on(
    step: int, model: torch.nn.Module, optimizer: torch.optim.Optimizer, device: torch.device
) -> float:
    """One step on this process's part of its rows. Returns the loss of all rows."""
    random = torch.Generator().manual_seed(step)
    rows = torch.randn(ROWS, WIDTH, generator=random)[dist.get_rank() :: dist.get_world_size()].to(device)
    loss = (model(rows).squeeze() - rows.sum(1) / WIDTH**0.5).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    whole = loss.detach()
    dist.all_reduce(whole)
    return whole.item() / dist.get_world_size()


def load(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, device: torch.device
) -> tuple[int, list[dict[str, float]]]:
    """The step and the losses of the checkpoint. Without one the run begins."""
    file = FOLDER / "checkpoint.pt"
    if not file.exists():
        return 0, []
    checkpoint = torch.load(file, map_location=device)
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    return checkpoint["step"], checkpoint["losses"]


def save(
    step: int,
    losses: list[dict[str, float]],
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
) -> None:
    """Write the checkpoint beside the old one and put it in its place, so that one is always whole."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step, "losses": losses}
    torch.save(state, FOLDER / "checkpoint.new")
    (FOLDER / "checkpoint.new").replace(FOLDER / "checkpoint.pt")
    (FOLDER / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in losses))
    print(f"step {step}: loss {losses[-1]['loss']:.4f}, saved", flush=True)


if __name__ == "__main__":
    sys.exit(main())
