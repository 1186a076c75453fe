"""The loop that the training examples share: seeded, resumable, with one JSON line for each evaluation.

A run is one task, method and seed. It lives in FOLDER/TASK/METHOD/: SEED.jsonl has the configuration in its
first line and then {step, loss, ms, cpu_ms, and what the task evaluates}; SEED.pt is the checkpoint. A run
that was stopped goes on from it and ends with the numbers that it would have had without the stop, times
aside.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import time
from pathlib import Path
from typing import Any, Protocol

import otattn
import torch
from layers import harden, learned
from torch import Tensor, nn

Batch = tuple[Tensor, Tensor]


class Task(Protocol):
    """What a program brings: data, a model and a way to judge it."""

    name: str
    metric: str
    """The entry of `evaluate` that the table reports."""
    facts: dict[str, Any]
    """Sizes and sources: part of the configuration that a resumed run must share."""

    def model(self, method: str) -> nn.Module: ...

    def batch(self, generator: torch.Generator, size: int) -> Batch: ...

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor: ...

    def evaluate(self, model: nn.Module, last: bool) -> dict[str, float]: ...


def classified(outputs: Tensor, targets: Tensor) -> Tensor:
    """The cross entropy of logits (..., classes) and numbers of classes (...)."""
    return nn.functional.cross_entropy(outputs.flatten(0, -2), targets.flatten())


def parser(
    description: str, methods: list[str], steps: int, batch: int, rate: float
) -> argparse.ArgumentParser:
    """The flags that all programs take, with a program's own defaults."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument(
        "--method",
        nargs="+",
        default=methods,
        metavar="M",
        help="methods of otattn.attention, or torch; 'M learn=NAME,...' learns its numbers, 'M harden=T' "
        "lets its temperature fall from 1 to T",
    )
    made.add_argument("--seeds", type=int, default=3, help="run seeds 0 to SEEDS - 1")
    made.add_argument("--steps", type=int, default=steps)
    made.add_argument("--batch", type=int, default=batch)
    made.add_argument("--rate", type=float, default=rate, help="largest learning rate")
    made.add_argument("--evaluations", type=int, default=10, help="times a run is judged")
    made.add_argument(
        "--budget", type=float, default=math.inf, metavar="MINUTES", help="then stop; run again to go on"
    )
    made.add_argument("--threads", type=int, default=1)
    made.add_argument("--device", default="cpu", help="of torch, where models train and are judged (cpu)")
    made.add_argument(
        "--autocast", action="store_true", help="train with products in bf16 (torch.autocast), judge in f32"
    )
    made.add_argument("--folder", type=Path, default=Path("build/training"))
    return made


def run_all(task: Task, options: argparse.Namespace) -> bool:
    """All runs, seed by seed, so that a short budget still compares methods. True when all are done."""
    torch.set_num_threads(options.threads)
    otattn.set_num_threads(options.threads)
    deadline = time.monotonic() + 60.0 * options.budget
    clock = Clock(task.name, options)
    for seed in range(options.seeds):
        for method in options.method:
            if not Run(task, method, seed, options, clock).train(deadline):
                print(
                    f"the budget of {options.budget:g} minutes is spent; the same command goes on from here"
                )
                return False
    print(table(task, options))
    return True


def place(folder: Path, task: str, method: str) -> Path:
    return folder / task / re.sub(r"[^\w.]+", "-", method).strip("-")


def steps_done(lines: Path, steps: int) -> int:
    """How far a run came, by its records; one that failed is at its end."""
    if not lines.exists():
        return 0
    last = json.loads(lines.read_text(encoding="utf-8").splitlines()[-1])
    return steps if "failed" in last else last["step"] if "loss" in last else 0


class Clock:
    """How long all runs of a command will still take, from the steps that it has done itself."""

    def __init__(self, task: str, options: argparse.Namespace) -> None:
        runs = [(method, seed) for method in options.method for seed in range(options.seeds)]
        files = [place(options.folder, task, method) / f"{seed}.jsonl" for method, seed in runs]
        self.wanted = sum(options.steps - steps_done(file, options.steps) for file in files)
        self.done, self.begun = 0, time.perf_counter()

    def tick(self) -> None:
        self.done += 1

    def left(self) -> float:
        """Minutes, as if every method took as long a step as those so far in the mean."""
        return (time.perf_counter() - self.begun) / 60.0 * (self.wanted - self.done) / max(self.done, 1)


class Run:
    """One task, method and seed, between its checkpoint and its last step."""

    def __init__(
        self, task: Task, method: str, seed: int, options: argparse.Namespace, clock: Clock | None = None
    ) -> None:
        self.task, self.method, self.seed, self.options = task, method, seed, options
        self.clock = clock or Clock(task.name, options)
        folder = place(options.folder, task.name, method)
        folder.mkdir(parents=True, exist_ok=True)
        self.lines, self.checkpoint = folder / f"{seed}.jsonl", folder / f"{seed}.pt"
        self.every = max(1, options.steps // options.evaluations)
        self.facts = {
            "task": task.name,
            "method": method,
            "seed": seed,
            "steps": options.steps,
            "batch": options.batch,
            "rate": options.rate,
            "autocast": options.autocast,
            "every": self.every,
            **({} if options.device == "cpu" else {"device": options.device}),
            **task.facts,
        }
        torch.manual_seed(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.model = task.model(method).to(options.device)
        if options.device != "cpu":
            # Tasks draw and judge on the CPU; a model takes what comes there and, when judged, gives it back.
            self.model.register_forward_pre_hook(
                lambda _, inputs: tuple(x.to(options.device) for x in inputs)
            )
            self.model.register_forward_hook(lambda model, _, found: found if model.training else found.cpu())
        self.facts["parameters"] = sum(x.numel() for x in self.model.parameters())
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=options.rate, weight_decay=0.05, fused=True
        )
        self.step = 0
        self.records: list[dict[str, Any]] = []
        self.losses: list[float] = []
        """Of the steps since the last record."""

    def resume(self) -> None:
        if not self.checkpoint.exists():
            return
        state = torch.load(self.checkpoint, weights_only=True)
        if state["facts"] != self.facts:
            raise SystemExit(
                f"{self.checkpoint} has {state['facts']}, wanted {self.facts}; choose another --folder"
            )
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])
        torch.set_rng_state(state["random"])
        self.step, self.records = state["step"], state["records"]
        self.losses = state["losses"]

    def save(self) -> None:
        state = {
            "facts": self.facts,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
            "random": torch.get_rng_state(),
            "step": self.step,
            "records": self.records,
            "losses": self.losses,
        }
        # A stop while writing leaves the last whole checkpoint.
        partial = self.checkpoint.with_suffix(".partial")
        torch.save(state, partial)
        partial.replace(self.checkpoint)
        text = "".join(json.dumps(row) + "\n" for row in [self.facts, *self.records])
        partial.write_text(text, encoding="utf-8")
        partial.replace(self.lines)

    def train(self, deadline: float) -> bool:
        """Trains to the end, False if the deadline came first."""
        self.resume()
        walls: list[float] = []
        cpus: list[float] = []
        while self.step < self.options.steps and not (self.records and "failed" in self.records[-1]):
            if time.monotonic() > deadline:
                self.save()
                return False
            wall, cpu = time.perf_counter(), time.process_time()
            try:
                self.losses.append(self.one_step())
            except otattn.SolveError as error:
                # A method that cannot solve its problem is a result; the other runs go on.
                self.records.append({"step": self.step, "failed": str(error)})
                break
            walls.append(time.perf_counter() - wall)
            cpus.append(time.process_time() - cpu)
            self.step += 1
            self.clock.tick()
            if self.step % self.every == 0 or self.step == self.options.steps:
                self.judge(walls, cpus)
                self.losses, walls, cpus = [], [], []
                self.save()
        self.save()
        return True

    def one_step(self) -> float:
        share = (self.step + 1) / self.options.steps
        # Linear over the first twentieth, then a half cosine down to 0.
        rate = self.options.rate * min(20.0 * share, 0.5 * (1.0 + math.cos(math.pi * share)))
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        harden(self.model, share)
        self.model.train()
        inputs, targets = self.task.batch(self.generator, self.options.batch)
        targets = targets.to(self.options.device)
        with torch.autocast(
            torch.device(self.options.device).type, torch.bfloat16, enabled=self.options.autocast
        ):
            outputs = self.model(inputs)
        loss = self.task.loss(outputs.float(), targets)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.item()

    def judge(self, walls: list[float], cpus: list[float]) -> None:
        self.model.eval()
        with torch.no_grad():
            found = self.task.evaluate(self.model, self.step == self.options.steps)
        self.records.append(
            {
                "step": self.step,
                "loss": statistics.fmean(self.losses),
                "ms": 1e3 * statistics.median(walls),
                "cpu_ms": 1e3 * statistics.median(cpus),
                **found,
                **({"learned": numbers} if (numbers := learned(self.model)) else {}),
            }
        )
        shown = " ".join(f"{name} {value:.4g}" for name, value in found.items())
        print(
            f"{self.task.name} {self.method} seed {self.seed} step {self.step}: {shown}, "
            f"{self.clock.left():.0f} minutes left",
            flush=True,
        )


def read(folder: Path) -> list[dict[str, Any]]:
    """Every record below the folder together with the configuration of its run."""
    rows: list[dict[str, Any]] = []
    for path in sorted(folder.glob("*/*/*.jsonl")):
        facts, *records = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
        rows += [{**facts, **record} for record in records]
    return rows


def spread(values: list[float]) -> str:
    """mean ± standard deviation over the seeds (n - 1 in the denominator)."""
    if len(values) < 2:
        return " ".join(f"{x:.3f}" for x in values)
    return f"{statistics.fmean(values):.3f} ± {statistics.stdev(values):.3f}"


def table(task: Task, options: argparse.Namespace) -> str:
    """A Markdown table: the last step of every run of the task, over its seeds. A task with `other_metrics`
    has a column for each of these entries of `evaluate` too."""
    last: dict[str, list[dict[str, Any]]] = {}
    failed: dict[str, str] = {}
    for row in read(options.folder):
        if row["task"] != task.name or row["method"] not in options.method:
            continue
        if "failed" in row:
            failed[row["method"]] = row["failed"]
        elif row["step"] == row["steps"]:
            last.setdefault(row["method"], []).append(row)
    metrics = [task.metric, *getattr(task, "other_metrics", ())]
    names = ["method", "seeds", "steps", *metrics, "ms a step", "CPU ms a step"]
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]

    def column(rows: list[dict[str, Any]], name: str) -> list[float]:
        return [row[name] for row in rows]

    for method in options.method:
        rows = last.get(method, [])
        if rows:
            cells = [spread(column(rows, name)) for name in metrics]
            cells += [f"{statistics.median(column(rows, name)):.1f}" for name in ("ms", "cpu_ms")]
            lines.append(f"| `{method}` | {len(rows)} | {rows[0]['steps']} | " + " | ".join(cells) + " |")
        if method in failed:
            lines.append(f"| `{method}` | failed: {failed[method]} |" + " |" * (len(names) - 2))
    return "\n".join(lines)
