"""What lies within mixtures against transformers, on small random checkpoints: the router's logits, the
experts that it chose and their weights, within them and beside them; edits; the same bits on any threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_families import make_model
from model_peers import BOUND
from program import answer, run
from safetensors.numpy import load_file

torch = pytest.importorskip("torch")

OUT = ("-f", "-o", "run.safetensors")
CHANGES: dict[str, dict[str, Any]] = {
    "mixtral": {"num_local_experts": 5, "num_experts_per_tok": 2},
    "qwen2_moe": {
        "num_experts": 6,
        "num_experts_per_tok": 2,
        "mlp_only_layers": [],
        "decoder_sparse_step": 1,
    },
    "deepseek_v3": {"first_k_dense_replace": 1},
    "gpt_oss": {},
}


def capture(folder: Path, points: str, *words: Any) -> dict[str, np.ndarray]:
    answer(folder, "capture", "model", "--ids", "ids.npy", "--points", points, *OUT, *words)
    return {name: x.astype(float) for name, x in load_file(folder / "run.safetensors").items()}


def prepare(folder: Path, name: str) -> tuple[Any, Any, np.ndarray]:
    """The model, the MLP of its second layer, and ids."""
    model = make_model(folder / "model", name, 1, **CHANGES[name])
    ids = np.random.default_rng(1).integers(3, 53, size=(2, 19))
    np.save(folder / "ids.npy", ids)
    return model, model.model.layers[1].mlp, ids


def run_expert(mlp: Any, name: str, expert: int, x: Any) -> list[np.ndarray]:
    """Gate, up, their product and what comes out, of rows."""
    e = mlp.experts
    if name == "gpt_oss":
        both = x @ e.gate_up_proj[expert] + e.gate_up_proj_bias[expert]
        gate, up = both[:, ::2], both[:, 1::2]
        bounded = gate.clamp(max=e.limit)
        post = (up.clamp(-e.limit, e.limit) + 1) * bounded * torch.sigmoid(bounded * e.alpha)
        out = post @ e.down_proj[expert] + e.down_proj_bias[expert]
    else:
        gate, up = (x @ e.gate_up_proj[expert].T).chunk(2, -1)
        post = e.act_fn(gate) * up
        out = post @ e.down_proj[expert].T
    return [each.numpy() for each in (gate, up, post, out)]


def near(ours: np.ndarray, theirs: np.ndarray) -> bool:
    return bool(np.abs(ours - theirs).max() <= BOUND * np.abs(theirs).max())


@pytest.mark.parametrize("name", CHANGES)
def test_points_within_a_mixture(tmp_path: Path, name: str) -> None:
    model, mlp, ids = prepare(tmp_path, name)
    seen: list[Any] = []
    gate = mlp.router if name == "gpt_oss" else mlp.gate
    with gate.register_forward_hook(lambda _, given, made: seen.extend((given[0], *made))), torch.no_grad():
        model(torch.tensor(ids))
        x, logits, scores, chosen = (each.reshape(-1, each.shape[-1]) for each in seen)
        ours = capture(tmp_path, "all")
        found = {key[len("blocks.1.mlp.") :]: a for key, a in ours.items() if key.startswith("blocks.1.mlp.")}
        rows = {key: a.reshape(ids.size, *a.shape[2:]) for key, a in found.items()}
        assert near(rows["hook_router_logits"], logits.numpy())
        every = torch.sigmoid(logits) if name == "deepseek_v3" else torch.softmax(logits, -1)
        assert near(rows["hook_expert_weights"], every.numpy())
        places = rows["hook_expert_indices"].astype(int)
        order, theirs = places.argsort(-1), chosen.numpy().argsort(-1)
        take = np.take_along_axis
        assert np.array_equal(take(places, order, -1), take(chosen.numpy(), theirs, -1))
        weights = take(rows["hook_chosen_weights"], order, -1)
        assert near(weights, take(scores.numpy(), theirs, -1))
        words = ("hook_pre", "hook_pre_linear", "hook_post", "hook_out")
        for expert in range(logits.shape[-1]):
            at, place = np.nonzero(places == expert)
            if at.size == 0:
                continue
            for word, right in zip(words, run_expert(mlp, name, expert, x[at]), strict=True):
                assert near(rows[f"experts.{word}"][at, place], right), word
        total = (rows["experts.hook_out"] * rows["hook_chosen_weights"][..., None]).sum(1)
        shared = getattr(mlp, "shared_expert", getattr(mlp, "shared_experts", None))
        assert (shared is not None) == ("shared.hook_out" in rows)
        if shared is not None:
            pre, up = shared.gate_proj(x), shared.up_proj(x)
            assert near(rows["shared.hook_pre"], pre.numpy())
            assert near(rows["shared.hook_pre_linear"], up.numpy())
            assert near(rows["shared.hook_post"], (shared.act_fn(pre) * up).numpy())
            out = shared(x)
            if hasattr(mlp, "shared_expert_gate"):
                out = torch.sigmoid(mlp.shared_expert_gate(x)) * out
            assert near(rows["shared.hook_out"], out.numpy())
            total = total + rows["shared.hook_out"]
        assert near(total, ours["blocks.1.hook_mlp_out"].reshape(total.shape))


@pytest.mark.parametrize("name", ["mixtral", "deepseek_v3"])
def test_edits_within_a_mixture(tmp_path: Path, name: str) -> None:
    model, mlp, ids = prepare(tmp_path, name)

    def change(_: Any, __: Any, made: Any) -> Any:
        return made[0], 1.5 * made[1], made[2]

    with mlp.gate.register_forward_hook(change), torch.no_grad():
        right = model(torch.tensor(ids)).logits.numpy()
    # Experts have no biases here, so all of these are the same.
    points = ("hook_chosen_weights", "experts.hook_pre_linear", "experts.hook_post", "experts.hook_out")
    for point in points:
        logits = capture(tmp_path, "logits", "--edit", f"blocks.1.mlp.{point}*=1.5")["logits"]
        assert near(logits, right), point
    # An expert that every token is pushed to is chosen by all.
    np.save(tmp_path / "push.npy", np.full((1, 1, 1), 60.0, np.float32))
    edit = ("--edit", "blocks.1.mlp.hook_router_logits[column=1]+=@push.npy")
    pushed = capture(tmp_path, "mlp.hook_expert_indices", *edit)["blocks.1.mlp.hook_expert_indices"]
    assert (pushed == 1).any(-1).all()
    ablated = capture(tmp_path, "all", "--edit", "mlp.experts.hook_out[head=0,token=3]*=0")
    kept = ablated["blocks.1.mlp.experts.hook_out"]
    assert not kept[:, 3, 0].any() and kept[:, 3, 1:].any() and kept[:, 2, 0].any()
    done = run(tmp_path, "capture", "model", "--ids", "ids.npy", *OUT, "--edit", "mlp.hook_expert_indices*=0")
    assert done.returncode == 2 and b"edit those" in done.stderr


def test_bits_of_a_mixture_on_any_threads(tmp_path: Path) -> None:
    prepare(tmp_path, "qwen2_moe")
    found = []
    for threads in (1, 2, 5):
        capture(tmp_path, "all,logits", "--threads", threads)
        found.append((tmp_path / "run.safetensors").read_bytes())
    assert found[0] == found[1] == found[2]


def test_rows_of_a_mixture_in_passes(tmp_path: Path) -> None:
    """A text whose choices take more room than one pass has, and at once, as points within experts ask."""
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8}
    experts = {"num_local_experts": 5, "num_experts_per_tok": 4, "intermediate_size": 1 << 14}
    rope = {"rope_type": "default", "rope_theta": 1e4}
    lengths = {"num_hidden_layers": 2, "max_position_embeddings": 600, "rope_parameters": rope}
    make_model(tmp_path / "model", "mixtral", 1, **sizes, **experts, **lengths)
    np.save(tmp_path / "ids.npy", np.random.default_rng(1).integers(3, 53, size=(1, 600)))
    passes = capture(tmp_path, "logits")["logits"]
    whole = capture(tmp_path, "logits", "--edit", "mlp.experts.hook_out*=1")["logits"]
    assert near(passes, whole)
