"""Trains the demo model: GPT-2's architecture, small, on the first nine tenths of one text file.

    x[n,d] = token[ids] + position[0..n)
    per layer: x += W_o softmax(q k^T / sqrt(d/h), causal) v,  (q,k,v) = W_qkv LN(x)
               x += W_2 gelu(W_1 LN(x))
    logits = token LN(x)            (tied)

The vocabulary is the 256 bytes in GPT-2's byte alphabet, --merges byte-pair merges learnt on the training
part, and `<|endoftext|>`, so that any bytes can be encoded. The last tenth is never trained on: its cost
in bits per byte, each window predicting what the one before it, half a window back, did not, is reported
at each checkpoint beside what bzip2 -9 makes of the whole file and of these bytes alone.

The folder gets `checkpoint-STEP/` at least five times and the final model itself: config.json,
model.safetensors (bf16, at most 4 MB), vocab.json, merges.txt. After a kill the same command goes on from
state.pt; --steps and --checkpoints may then differ, and the rate follows its new half cosine. One seed fixes
weights, batches and dropout for one number of threads and one version of torch.

    python -m venv venv && venv/bin/pip install torch safetensors tokenizers
    venv/bin/python scripts/train_demo_model.py wikitext-2-raw.test.txt data/demo/model
"""

from __future__ import annotations

import argparse
import bz2
import json
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch import Tensor, nn
from torch.nn import functional

END = "<|endoftext|>"
LARGEST = 4_000_000  # bytes of model.safetensors


@dataclass
class Settings:
    layers: int = 4
    heads: int = 6
    width: int = 192
    context: int = 256
    merges: int = 256
    batch: int = 16
    steps: int = 6000
    checkpoints: int = 6
    rate: float = 2e-3
    decay: float = 0.1
    dropout: float = 0.2
    seed: int = 1


# ---- tokens ----


def learn_tokens(text: bytes, merges: int) -> Tokenizer:
    """The 256 bytes and the most frequent pairs, one after another, in words cut as GPT-2 cuts them."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=256 + merges,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([text.decode()], trainer)
    return tokenizer


# ---- model ----


class Block(nn.Module):
    def __init__(self, settings: Settings):
        super().__init__()
        width, self.heads, self.dropout = settings.width, settings.heads, settings.dropout
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(settings.dropout)

    def forward(self, x: Tensor) -> Tensor:
        batch, n, width = x.shape
        heads = self.attention(self.ln_1(x)).view(batch, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        dropout = self.dropout if self.training else 0.0
        out = functional.scaled_dot_product_attention(
            heads[0], heads[1], heads[2], dropout_p=dropout, is_causal=True
        )
        x = x + self.drop(self.project(out.transpose(1, 2).reshape(batch, n, width)))
        return x + self.drop(self.narrow(functional.gelu(self.widen(self.ln_2(x)), approximate="tanh")))


class Model(nn.Module):
    def __init__(self, settings: Settings, vocabulary: int):
        super().__init__()
        self.token = nn.Embedding(vocabulary, settings.width)
        self.position = nn.Embedding(settings.context, settings.width)
        self.blocks = nn.ModuleList(Block(settings) for _ in range(settings.layers))
        self.ln_f, self.drop = nn.LayerNorm(settings.width), nn.Dropout(settings.dropout)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                # Residual branches begin smaller, so that depth does not widen the stream.
                scale = math.sqrt(2 * settings.layers) if "project" in name or "narrow" in name else 1.0
                nn.init.normal_(weight, std=0.02 / scale)
            elif name.endswith("bias"):
                nn.init.zeros_(weight)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.drop(self.token(ids) + self.position.weight[: ids.shape[1]])
        for block in self.blocks:
            x = block(x)
        return self.ln_f(x) @ self.token.weight.T


# ---- files ----

NAMES = {"attention": "attn.c_attn", "project": "attn.c_proj", "widen": "mlp.c_fc", "narrow": "mlp.c_proj"}


def tensors_of(model: Model) -> dict[str, Tensor]:
    """GPT-2's names; its linear layers are stored [in, out]."""
    out = {"wte.weight": model.token.weight, "wpe.weight": model.position.weight}
    for number, block in enumerate(model.blocks):
        for name, weight in block.named_parameters():
            layer, _, kind = name.partition(".")
            stored = weight.T if layer in NAMES and kind == "weight" else weight
            out[f"h.{number}.{NAMES.get(layer, layer)}.{kind}"] = stored
    out |= {f"ln_f.{name}": weight for name, weight in model.ln_f.named_parameters()}
    return {name: weight.detach().to(torch.bfloat16).contiguous() for name, weight in out.items()}


def write_folder(folder: Path, model: Model, settings: Settings, tokenizer: Tokenizer) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    learnt = json.loads(tokenizer.to_str())["model"]
    end = len(learnt["vocab"])
    config = {
        "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "activation_function": "gelu_new",
        "n_layer": settings.layers, "n_head": settings.heads, "n_embd": settings.width,
        "n_positions": settings.context, "n_ctx": settings.context, "n_inner": None, "vocab_size": end + 1,
        "layer_norm_epsilon": 1e-5, "bos_token_id": end, "eos_token_id": end, "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    vocabulary = {**learnt["vocab"], END: end}
    (folder / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False) + "\n")
    lines = [f"{left} {right}\n" for left, right in learnt["merges"]]
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(lines))
    save_file(tensors_of(model), folder / "model.safetensors", metadata={"format": "pt"})
    return (folder / "model.safetensors").stat().st_size


# ---- training ----


@torch.no_grad()
def bits_per_byte(model: Model, ids: Tensor, size: int, context: int) -> float:
    """Windows overlap by half, and each is charged for what the one before it did not predict."""
    model.eval()
    # The first token has nothing before it: every token is as likely.
    half, total = context // 2, math.log(model.token.num_embeddings)
    windows = ids.unfold(0, context + 1, half)
    for number, few in enumerate(windows.split(16)):
        logits = model(few[:, :-1])
        losses = functional.cross_entropy(logits.flatten(0, 1), few[:, 1:].flatten(), reduction="none")
        total += losses.view(len(few), -1)[:, context - half :].sum().item()
        if number == 0:
            total += losses[: context - half].sum().item()
    last = ids[len(windows) * half :]
    if len(last) - 1 > context - half:
        logits = model(last[None, :-1])[0, context - half :]
        total += functional.cross_entropy(logits, last[1 + context - half :], reduction="sum").item()
    model.train()
    return total / math.log(2) / size


def rate_at(step: int, settings: Settings) -> float:
    """Linear warm-up over a fiftieth of the steps, then half a cosine down to a twentieth."""
    warm = max(1, settings.steps // 50)
    if step < warm:
        return settings.rate * (step + 1) / warm
    done = (step - warm) / max(1, settings.steps - warm)
    return settings.rate * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * done)))


def make_optimizers(model: Model, settings: Settings) -> list[torch.optim.Optimizer]:
    """Muon turns the matrices of the blocks by steps of equal singular values; the rest is AdamW's."""
    blocks = [weight for weight in model.blocks.parameters() if weight.dim() == 2]
    tables = [model.token.weight, model.position.weight]
    vectors = [weight for weight in model.parameters() if weight.dim() < 2]
    groups = [
        {"params": tables, "weight_decay": settings.decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return [
        torch.optim.Muon(
            blocks, lr=settings.rate, weight_decay=settings.decay, adjust_lr_fn="match_rms_adamw"
        ),
        torch.optim.AdamW(groups, lr=settings.rate, betas=(0.9, 0.99)),
    ]


def save_state(path: Path, **state: object) -> None:
    """Whole or not at all."""
    torch.save({**state, "random": torch.get_rng_state()}, path.with_suffix(".new"))
    path.with_suffix(".new").replace(path)


def same_run(begun: dict[str, object], settings: Settings) -> bool:
    """Whether only what may change on the way differs."""
    free = ("steps", "checkpoints")
    return all(begun[name] == value for name, value in asdict(settings).items() if name not in free)


def train(text: bytes, folder: Path, settings: Settings, stop_after: float, until: int) -> None:
    cut = text.rfind(b"\n", 0, len(text) * 9 // 10) + 1
    held = text[cut:]
    torch.manual_seed(settings.seed)
    tokenizer = learn_tokens(text[:cut], settings.merges)
    ids, held_ids = (torch.tensor(tokenizer.encode(part.decode()).ids) for part in (text[:cut], held))
    model = Model(settings, 257 + settings.merges)
    optimizers = make_optimizers(model, settings)
    path, step, record = folder / "state.pt", 0, []
    folder.mkdir(parents=True, exist_ok=True)
    if path.exists():
        state = torch.load(path)
        if not same_run(state["settings"], settings):
            raise SystemExit(f"{path} was begun with other settings: {state['settings']}")
        model.load_state_dict(state["model"])
        for optimizer, stored in zip(optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(stored)
        torch.set_rng_state(state["random"])
        step, record = state["step"], state["record"]
        print(f"going on from step {step}")
    parameters = sum(weight.numel() for weight in model.parameters())
    whole = 8 * len(bz2.compress(text, 9)) / len(text)
    packed = 8 * len(bz2.compress(held, 9)) / len(held)
    print(f"{parameters} parameters, seed {settings.seed}, {len(ids)} tokens of {cut} bytes to train on")
    print(f"{len(held_ids)} tokens of {len(held)} bytes held out")
    print(f"bzip2 -9: {whole:.3f} bits per byte of the whole file, {packed:.3f} of the held out bytes alone")
    every = max(1, settings.steps // settings.checkpoints)
    begun = time.monotonic()
    offsets = torch.arange(settings.context + 1)
    while step < settings.steps:
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate_at(step, settings)
        starts = torch.randint(len(ids) - settings.context, (settings.batch, 1))
        window = ids[starts + offsets]
        logits = model(window[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten())
        model.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
        step += 1
        late = step == until or time.monotonic() - begun > stop_after
        if step % every == 0 or step == settings.steps or late:
            bits = bits_per_byte(model, held_ids, len(held), settings.context)
            spent = time.monotonic() - begun
            record.append({"step": step, "of": settings.steps, "loss": loss.item(), "bits_per_byte": bits})
            shown = f"loss {loss.item():.3f} nats a token, held out {bits:.3f} bits per byte"
            print(f"step {step}: {shown}, {spent:.0f} s", flush=True)
            size = write_folder(folder / f"checkpoint-{step}", model, settings, tokenizer)
            if size > LARGEST:
                raise SystemExit(f"model.safetensors has {size} bytes, above {LARGEST}")
            save_state(
                path,
                settings=asdict(settings),
                step=step,
                record=record,
                model=model.state_dict(),
                optimizers=[optimizer.state_dict() for optimizer in optimizers],
            )
        if late:
            print(f"stopped after step {step}; the same command goes on")
            return
    size = write_folder(folder, model, settings, tokenizer)
    report = {
        "settings": asdict(settings),
        "parameters": parameters,
        "bytes": size,
        "bzip2_whole": whole,
        "bzip2_held_out": packed,
        "record": record,
    }
    (folder / "training.json").write_text(json.dumps(report, indent=1) + "\n")
    print(f"wrote {folder}: {size} bytes of weights")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("text", type=Path)
    parser.add_argument("folder", type=Path)
    for name, standard in asdict(Settings()).items():
        parser.add_argument(f"--{name}", type=type(standard), default=standard, help=f"({standard})")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--stop-after", type=float, default=math.inf, help="seconds; then save and end")
    parser.add_argument("--until", type=int, default=-1, metavar="STEP", help="save and end there")
    given = vars(parser.parse_args())
    torch.set_num_threads(given["threads"])
    settings = Settings(**{name: given[name] for name in asdict(Settings())})
    train(given["text"].read_bytes(), given["folder"], settings, given["stop_after"], given["until"])


if __name__ == "__main__":
    main()
