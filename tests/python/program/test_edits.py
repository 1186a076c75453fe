"""Edits in the middle of runs against transformers with torch hooks, on small random checkpoints: what
--edit changes there, at points of every kind, gives the same logits. Chosen heads, received mass, scores and
scales against the same models, and how much memory a long capture takes."""

from __future__ import annotations

import contextlib
import re
import resource
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_families import FAMILIES
from model_families import make_model as make_family
from program import PROGRAM, ROOT, answer, environment, run
from safetensors.numpy import load_file, save_file
from test_models import CONFIGS, LOGITS, STATES, draw_ids, make_model

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

LAYER = 1
Change = Callable[[Any], Any]


def part(module: Any, *names: str) -> Any:
    """The first of these submodules that exists."""
    for name in names:
        with contextlib.suppress(AttributeError):
            return module.get_submodule(name)
    raise AttributeError(names)


def block_of(model: Any) -> Any:
    for name in ("transformer.h", "bert.encoder.layer", "model.layers"):
        with contextlib.suppress(AttributeError):
            return model.get_submodule(name)[LAYER]
    raise AttributeError("no blocks")


def first_of(change: Change) -> Callable[[Any, Any, Any], Any]:
    """A hook of what a module gives; attention gives a tuple."""

    def hook(module: Any, inputs: Any, output: Any) -> Any:
        return (change(output[0]), *output[1:]) if isinstance(output, tuple) else change(output)

    return hook


@contextlib.contextmanager
def softmax_changed(layers: int, before: Change, after: Change) -> Iterator[None]:
    """Scores and weights of one layer: attention in eager mode calls softmax once a layer."""
    plain = torch.nn.functional.softmax
    calls = 0

    def changed(scores: Any, *words: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if (calls - 1) % layers != LAYER:
            return plain(scores, *words, **more)
        return after(plain(before(scores), *words, **more))

    torch.nn.functional.softmax = changed
    try:
        yield
    finally:
        torch.nn.functional.softmax = plain


def at_heads(change: Change, heads: int) -> Change:
    """Of an array [batch, n, heads * width] as [batch, n, heads, width]."""
    return lambda x: change(x.unflatten(-1, (heads, -1)).clone()).flatten(-2)


@contextlib.contextmanager
def hooked(model: Any, point: str, change: Change) -> Iterator[None]:
    """`change` of our array of that point of the block, carried out in transformers."""
    block, config = block_of(model), model.config
    layers, heads = config.num_hidden_layers, config.num_attention_heads
    keys = getattr(config, "num_key_value_heads", heads)
    same: Change = lambda x: x  # noqa: E731
    if point in ("attn.hook_pattern", "attn.hook_attn_scores"):
        pattern = point.endswith("pattern")
        with softmax_changed(layers, same if pattern else change, change if pattern else same):
            yield
        return
    attention = part(block, "attn", "self_attn", "attention")
    before = {
        "hook_resid_pre": (block, same),
        "attn.hook_z": (part(attention, "c_proj", "o_proj", "output.dense"), None),
        "mlp.hook_post": (part(block, "mlp.c_proj", "mlp.down_proj", "output.dense"), same),
    }
    behind = {
        "hook_resid_post": [block],
        "mlp.hook_pre": [("mlp.c_fc", "mlp.gate_proj", "intermediate.dense")],
        "attn.hook_q": [("attn.c_attn", "self_attn.q_proj", "attention.self.query")],
        "attn.hook_v": [("attn.c_attn", "self_attn.v_proj", "attention.self.value")],
        "ln1.hook_normalized": [("ln_1", "input_layernorm")],
    }
    if point in before:
        module, _ = before[point]
        use = at_heads(change, heads) if point == "attn.hook_z" else change
        handle = module.register_forward_pre_hook(lambda m, inputs: (use(inputs[0]), *inputs[1:]))
    else:
        [found] = behind[point]
        module = part(block, *found) if isinstance(found, tuple) else found
        use = change
        if point in ("attn.hook_q", "attn.hook_v"):
            mine = at_heads(change, heads if point.endswith("q") else keys)
            merged = config.model_type == "gpt2"
            width = config.hidden_size
            start = 0 if point.endswith("q") else 2 * width

            def use(x: Any) -> Any:
                if not merged:
                    return mine(x)
                x = x.clone()
                x[..., start : start + width] = mine(x[..., start : start + width])
                return x

        handle = module.register_forward_hook(first_of(use))
    try:
        yield
    finally:
        handle.remove()


def scaled(index: Any, factor: float) -> Change:
    def change(x: Any) -> Any:
        x = x.clone()
        x[index] = torch.where(x[index] < -1e30, x[index], x[index] * factor)
        return x

    return change


def averaged(x: Any) -> Any:
    return x.mean(1, keepdim=True).expand_as(x).clone()


def added(index: Any, number: float) -> Change:
    def change(x: Any) -> Any:
        x = x.clone()
        x[index] += number
        return x

    return change


EVERY = slice(None)
# point, what follows it in --edit, the same of our array
CASES: list[tuple[str, str, Change]] = [
    ("hook_resid_pre", "[token=3-7]*=0", scaled((EVERY, slice(3, 8)), 0.0)),
    ("hook_resid_pre", "[token=-1,column=2-5]+=1.5", added((EVERY, -1, slice(2, 6)), 1.5)),
    ("hook_resid_post", "[sequence=1]*=0.5", scaled(1, 0.5)),
    ("attn.hook_z", "[head=1]*=0", scaled((EVERY, EVERY, 1), 0.0)),
    ("attn.hook_z", "[head=0]=mean", lambda x: torch.cat([averaged(x[:, :, :1]), x[:, :, 1:]], 2)),
    ("attn.hook_q", "[head=1,token=2-9]+=0.7", added((EVERY, slice(2, 10), 1), 0.7)),
    ("attn.hook_v", "[head=0,token=0]*=-2", scaled((EVERY, 0, 0), -2.0)),
    ("mlp.hook_pre", "[column=3]+=2", added((..., 3), 2.0)),
    ("mlp.hook_post", "[column=0-9]*=0", scaled((..., slice(0, 10)), 0.0)),
    ("ln1.hook_normalized", "[column=0-7]*=2", scaled((..., slice(0, 8)), 2.0)),
    ("attn.hook_pattern", "[head=1,key=0]*=0", scaled((EVERY, 1, EVERY, 0), 0.0)),
    ("attn.hook_attn_scores", "[head=1,key=0-3]*=2", scaled((EVERY, 1, EVERY, slice(0, 4)), 2.0)),
]


@pytest.mark.parametrize("name", ["gpt2", "bert", "llama", "gemma 3"])
def test_edits_against_hooks(tmp_path: Path, name: str) -> None:
    model = make_model(tmp_path / "model", name)
    ids = draw_ids(2, 17)
    np.save(tmp_path / "ids.npy", ids)
    plain = model(torch.tensor(ids)).logits.detach()
    for point, operation, change in CASES:
        if CONFIGS[name]["type"] == "bert" and point in ("ln1.hook_normalized", "hook_resid_post"):
            continue
        words = ["--edit", f"blocks.{LAYER}.{point}{operation}", "--points", "logits"]
        answer(tmp_path, "capture", "model", "--ids", "ids.npy", *words, "-f", "-o", "run.safetensors")
        ours = load_file(tmp_path / "run.safetensors")["logits"]
        with hooked(model, point, change), torch.no_grad():
            peer = model(torch.tensor(ids)).logits
        far = float(np.abs(ours - peer.numpy()).max() / peer.abs().max())
        assert far <= LOGITS, (point, operation, far)
        assert float((peer - plain).abs().max() / plain.abs().max()) > 20 * LOGITS, (point, operation)


# Sinks of heads, slopes, soft caps, windows on both sides, parallel blocks, experts.
@pytest.mark.parametrize("name", ["gpt_oss", "bloom", "gemma2", "modernbert", "falcon", "qwen3_moe"])
def test_weights_of_every_rule_are_made_again(tmp_path: Path, name: str) -> None:
    """Scores and weights that are edited to themselves, and weights in blocks, are those of the plan."""
    make_family(tmp_path / "model", name, 1)
    np.save(tmp_path / "ids.npy", np.random.default_rng(0).integers(3, 50, (2, 19)))
    words = ["capture", "model", "--ids", "ids.npy", "-f", "-o", "run.safetensors", "--points"]
    answer(tmp_path, *words, "all")
    plain = load_file(tmp_path / "run.safetensors")
    last = max(
        (key for key in plain if key.endswith("hook_resid_post")), key=lambda key: int(key.split(".")[1])
    )
    for point in ("attn.hook_attn_scores", "attn.hook_pattern"):
        answer(tmp_path, *words, last, "--edit", f"{point}*=1")
        edited = load_file(tmp_path / "run.safetensors")[last]
        assert np.abs(edited - plain[last]).max() <= STATES * np.abs(plain[last]).max(), point
    answer(tmp_path, *words, last, "--weights", "all:1")
    for key, some in load_file(tmp_path / "run.safetensors").items():
        if key.endswith("hook_pattern"):
            assert np.abs(some[:, 0] - plain[key][:, 1]).max() <= STATES


def test_a_file_patches_a_run(tmp_path: Path) -> None:
    """Arrays of one run in the place of another's: whole files and their parts."""
    model = make_model(tmp_path / "model", "gpt2")
    clean, other = draw_ids(1, 15), draw_ids(1, 15, seed=9)
    np.save(tmp_path / "clean.npy", clean)
    np.save(tmp_path / "other.npy", other)
    point = f"blocks.{LAYER}.hook_resid_pre"
    words = ["capture", "model", "--ids", "clean.npy", "--points", point]
    answer(tmp_path, *words, "-o", "clean.safetensors")
    stream = load_file(tmp_path / "clean.safetensors")[point]
    for where, at in (("", EVERY), ("[token=4-6]", slice(4, 7))):
        edit = f"{point}{where}=@clean.safetensors:{point}"
        answer(
            tmp_path, "capture", "model", "--ids", "other.npy", "--points", "logits", "--edit", edit,
            "-f", "-o", "run.safetensors",
        )  # fmt: skip

        def patched(x: Any, at: slice = at) -> Any:
            x = x.clone()
            x[:, at] = torch.tensor(stream)[:, at]
            return x

        with hooked(model, "hook_resid_pre", patched), torch.no_grad():
            peer = model(torch.tensor(other)).logits.numpy()
        ours = load_file(tmp_path / "run.safetensors")["logits"]
        assert np.abs(ours - peer).max() <= LOGITS * np.abs(peer).max()


@pytest.mark.parametrize("name", ["gpt2", "llama", "bert", "gemma 3"])
def test_scores_scales_and_mass(tmp_path: Path, name: str) -> None:
    """Scores before softmax, what norms divide by, and column sums, of chosen heads and of all."""
    model = make_model(tmp_path / "model", name)
    layers = model.config.num_hidden_layers
    ids = draw_ids(2, 21)
    np.save(tmp_path / "ids.npy", ids)
    answer(tmp_path, "capture", "model", "--ids", "ids.npy", "--points", "all", "-o", "all.safetensors")
    ours = load_file(tmp_path / "all.safetensors")
    seen: list[np.ndarray] = []

    def keep(scores: Any) -> Any:
        seen.append(scores.detach().numpy())
        return scores

    with watched(keep), torch.no_grad():
        peer = model(torch.tensor(ids), output_attentions=True)
    for layer in range(layers):
        scores, wanted = ours[f"blocks.{layer}.attn.hook_attn_scores"], seen[layer]
        allowed = wanted > -1e30
        assert np.array_equal(np.isfinite(scores), np.broadcast_to(allowed, scores.shape))
        assert np.abs(scores - wanted)[allowed].max() <= STATES * np.abs(wanted[allowed]).max()
        mass = peer.attentions[layer].numpy().sum(-2)
        assert np.abs(ours[f"blocks.{layer}.attn.hook_receiver"] - mass).max() <= STATES * mass.max()
    norms = {"gpt2": "transformer.ln_f", "llama": "model.norm", "gemma3": "model.norm"}
    if CONFIGS[name]["type"] in norms:
        last = ours[f"blocks.{layers - 1}.hook_resid_post"].astype(float)
        centred = last - last.mean(-1, keepdims=True) if name == "gpt2" else last
        epsilon = getattr(model.config, "layer_norm_epsilon", getattr(model.config, "rms_norm_eps", 0))
        wanted = np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)
        assert np.abs(ours["ln_final.hook_scale"] - wanted).max() <= STATES * wanted.max()
    words = ["--weights", f"{LAYER}:1,0", "--scores", "all:1", "--receiver"]
    found = answer(tmp_path, "capture", "model", "--ids", "ids.npy", *words, "-o", "some.safetensors")
    some = load_file(tmp_path / "some.safetensors")
    assert {entry["name"] for entry in found["tensors"]} == set(some)
    assert len(some) == 2 + 2 * layers
    for entry in found["tensors"]:
        whole = ours[entry["name"]][:, entry.get("heads", EVERY)]
        part = some[entry["name"]]
        there = np.isfinite(whole)
        assert part.shape == whole.shape and np.array_equal(there, np.isfinite(part))
        assert np.abs(part[there] - whole[there]).max() <= STATES * np.abs(whole[there]).max()


@contextlib.contextmanager
def watched(keep: Change) -> Iterator[None]:
    plain = torch.nn.functional.softmax
    torch.nn.functional.softmax = lambda scores, *words, **more: plain(keep(scores), *words, **more)
    try:
        yield
    finally:
        torch.nn.functional.softmax = plain


def test_the_list_of_points_is_documented(tmp_path: Path) -> None:
    """The table of names is the program's; the page has no other."""
    names = set()
    for name in ("gpt2", "bert", "llama", "gemma 3", "deepseek_v3", "qwen2_moe"):
        (make_family(tmp_path / name, name, 1) if name in FAMILIES else make_model(tmp_path / name, name))
        np.save(tmp_path / "ids.npy", draw_ids(1, 3))
        found = answer(
            tmp_path, "capture", name, "--ids", "ids.npy", "--points", "all", "-f", "-o", "all.safetensors"
        )
        names |= {re.sub(r"^blocks\.\d+\.", "", entry["name"]) for entry in found["tensors"]}
    page = (ROOT / "docs" / "users" / "weights.md").read_text()
    rows = [row for row in page.splitlines() if row.startswith("| [batch")]
    documented = {word for row in rows for word in re.findall(r"`([\w.]+)`", row)}
    assert documented - {"all"} == names | {"logits", "attn.hook_result"}


TOKENS = 8192


def long_model(folder: Path) -> Path:
    config = transformers.GPT2Config(
        vocab_size=61, n_layer=2, n_head=2, n_embd=16, n_inner=16, n_positions=TOKENS,
        bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    torch.manual_seed(1)
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("method", ["softmax", "softmax/online:1.5"])
def test_memory_of_long_captures(tmp_path: Path, method: str) -> None:
    """The weights of one head would take 256 MB; the program takes at most half of that."""
    long_model(tmp_path / "model")
    np.save(tmp_path / "ids.npy", draw_ids(1, TOKENS))
    command = [
        PROGRAM, "capture", "model", "--ids", "ids.npy", "--weights", "1:1", "--receiver", "--method", method,
        "--threads", "2", "--out-dtype", "f16", "-o", "run.safetensors",
    ]  # fmt: skip
    most = 4 * TOKENS * TOKENS // 2
    limit = lambda: resource.setrlimit(resource.RLIMIT_DATA, (most, most))  # noqa: E731
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, timeout=300, env=environment(), preexec_fn=limit
    )
    assert done.returncode == 0, done.stderr.decode()
    size = sum(x.nbytes for x in load_file(tmp_path / "run.safetensors").values())
    assert f"3 tensors of {size / 1e6:.1f} MB to write, about ".encode() in done.stderr
    arrays = load_file(tmp_path / "run.safetensors")
    weights, mass = (arrays[f"blocks.1.attn.hook_{word}"][0] for word in ("pattern", "receiver"))
    assert weights.shape == (1, TOKENS, TOKENS)
    assert np.abs(weights[0, ::97].astype(np.float32).sum(-1) - 1).max() <= 0.01  # of f16
    columns = weights[0, :, :64].astype(np.float32).sum(0)
    assert np.abs(columns - mass[1, :64].astype(np.float32)).max() <= 0.02 * columns.max()


# Norms of one layer: module within the block, our names before hook_scale and hook_normalized.
NORMS = {
    "qwen3": {"self_attn.q_norm": "attn.q_norm.hook_{}", "self_attn.k_norm": "attn.k_norm.hook_{}"},
    "olmo2": {
        "self_attn.q_norm": "attn.q_norm.hook_{}",
        "self_attn.k_norm": "attn.k_norm.hook_{}",
        "post_attention_layernorm": "ln1_post.hook_{}",
        "post_feedforward_layernorm": "ln2_post.hook_{}",
    },
    "gemma2": {
        "post_attention_layernorm": "ln1_post.hook_{}",
        "pre_feedforward_layernorm": "ln2.hook_{}",
        "post_feedforward_layernorm": "ln2_post.hook_{}",
    },
    "deepseek_v3": {
        "self_attn.q_a_layernorm": "attn.q_latent_norm.hook_{}",
        "self_attn.kv_a_layernorm": "attn.kv_latent_norm.hook_{}",
        "post_attention_layernorm": "ln2.hook_{}",
    },
    "gpt_neox": {"post_attention_layernorm": "ln2.hook_{}", "input_layernorm": "ln1.hook_{}"},
}
LATENT = {"attn.q_latent_norm.hook_normalized": "attn.hook_q_latent",
          "attn.kv_latent_norm.hook_normalized": "attn.hook_kv_latent"}  # fmt: skip


@pytest.mark.parametrize("name", NORMS)
def test_norms_have_names(tmp_path: Path, name: str) -> None:
    """What every norm divides by and what it gives, and logits where each is edited."""
    known: dict[str, dict[str, Any]] = {
        "deepseek_v3": {"q_lora_rank": 12},
        "gpt_neox": {"use_parallel_residual": True},
    }
    changes = known.get(name, {})
    model = make_family(tmp_path / "model", name, 2, **changes)
    ids = np.random.default_rng(3).integers(3, 53, size=(2, 17))
    np.save(tmp_path / "ids.npy", ids)
    block = part(model, "model.layers", "gpt_neox.layers")[LAYER]
    out = ("-f", "-o", "run.safetensors")
    answer(tmp_path, "capture", "model", "--ids", "ids.npy", "--points", "all", *out)
    ours = load_file(tmp_path / "run.safetensors")
    for module, form in NORMS[name].items():
        norm = block.get_submodule(module)
        epsilon = getattr(norm, "eps", None) or getattr(norm, "variance_epsilon", None)
        bias = getattr(norm, "bias", None)
        seen: list[Any] = []
        keep = lambda _, given, made, seen=seen: seen.extend((given[0], made))  # noqa: E731
        with norm.register_forward_hook(keep), torch.no_grad():
            model(torch.tensor(ids))
        x, made = (each.numpy().astype(float) for each in seen)
        if bias is not None:
            x = x - x.mean(-1, keepdims=True)
        scale = np.sqrt((x**2).mean(-1, keepdims=True) + epsilon)
        for word, wanted in (("scale", scale), ("normalized", made)):
            point = f"blocks.{LAYER}." + LATENT.get(form.format(word), form.format(word))
            # transformers has heads before tokens in some, and all heads as one row in others.
            found = ours[point].astype(float)
            if wanted.ndim == 4 and wanted.shape[1] != found.shape[1]:
                wanted = wanted.swapaxes(1, 2)
            assert found.shape[:2] == ids.shape and found.ndim in (3, 4)
            assert np.abs(found - wanted.reshape(found.shape)).max() <= STATES * np.abs(wanted).max(), point
            edit = f"{point}*=1.5"
            answer(
                tmp_path, "capture", "model", "--ids", "ids.npy", "--points", "logits", "--edit", edit, *out
            )

            def change(y: Any, w: str = word, b: Any = bias) -> Any:
                return 1.5 * y if w == "normalized" else y / 1.5 if b is None else (y - b) / 1.5 + b

            with norm.register_forward_hook(first_of(change)), torch.no_grad():
                peer = model(torch.tensor(ids)).logits.numpy()
            logits = load_file(tmp_path / "run.safetensors")["logits"]
            assert np.abs(logits - peer).max() <= LOGITS * np.abs(peer).max(), edit


def refused(folder: Path, code: int, part: str, *words: Any) -> None:
    done = run(folder, *words)
    assert done.returncode == code, done.stderr.decode()
    text = done.stderr.decode()
    assert part in text and text.strip().count("\n") <= 1, text


def test_refusals(tmp_path: Path) -> None:
    make_model(tmp_path / "model", "gpt2")
    np.save(tmp_path / "ids.npy", draw_ids(1, 9))
    save_file({"x": np.zeros((5, 5), np.float32)}, tmp_path / "x.safetensors")
    words = ["capture", "model", "--ids", "ids.npy", "-f", "-o", "run.safetensors"]
    for edit, part, code in [
        ("attn.hook_w*=0", "no point 'attn.hook_w'", 2),
        ("attn.hook_z", "does not say", 2),
        ("attn.hook_z*2", "does not say", 2),
        ("attn.hook_z*=two", "no number", 2),
        ("attn.hook_z*=@x.safetensors", "no number", 2),
        ("attn.hook_z[head=7]*=0", "heads 7 to 7, and there are 4", 2),
        ("attn.hook_z[head=2-1]*=0", "list of ranges", 2),
        ("attn.hook_z[heads=2]*=0", "list of ranges", 2),
        ("attn.hook_z[token=9]*=0", "tokens 9 to 9", 2),
        ("[head=1]*=0", "names no point", 2),
        ("attn.hook_receiver*=0", "cannot be edited", 2),
        ("attn.hook_pattern=mean", "no mean", 2),
        ("hook_embed=@x.safetensors", "[1, 1, 5, 5]", 2),
        ("hook_embed=@missing.npy", "cannot be opened", 6),
        ("hook_embed*=nan", "no number", 2),
    ]:
        refused(tmp_path, code, part, *words, "--edit", edit)
        assert not (tmp_path / "run.safetensors").exists()
    for flag, text in [
        ("weights", "3:0"),
        ("weights", "0:4"),
        ("scores", "x"),
        ("weights", "1-0"),
        ("scores", "0,"),
    ]:
        refused(tmp_path, 2, f"--{flag} '{text}' names no heads", *words, f"--{flag}", text)
    refused(tmp_path, 2, "no type bf16", *words[:-1], "run.npz", "--receiver", "--out-dtype", "bf16")
    answer(tmp_path, *words, "--points", "all,logits")
    answer(tmp_path, *words[:-1], "run.npz", "--points", "all,logits")
    streamed, whole = np.load(tmp_path / "run.npz"), load_file(tmp_path / "run.safetensors")
    assert set(streamed) == set(whole)
    assert all(np.array_equal(streamed[name], x) for name, x in whole.items())
    refused(tmp_path, 2, "one array", *words[:-1], "run.npy", "--receiver")
    answer(tmp_path, *words[:-1], "run.npy", "--weights", "2:1")
    assert np.load(tmp_path / "run.npy").shape == (1, 1, 9, 9)
    mean = ["generate", "model", "--ids", "ids.npy", "--tokens", "2", "--edit", "hook_mlp_out=mean"]
    refused(tmp_path, 2, "one after another", *mean)
    exits = ["perplexity", "model", "--ids", "ids.npy", "--exit", "0.9", "--edit", "hook_mlp_out*=0"]
    refused(tmp_path, 2, "stop early", *exits)


def test_generate_with_an_edit(tmp_path: Path) -> None:
    """Token by token, an edit of every position changes what whole runs with hooks predict."""
    model = make_model(tmp_path / "model", "llama")
    ids = draw_ids(1, 8)
    np.save(tmp_path / "ids.npy", ids)
    edit = f"blocks.{LAYER}.attn.hook_z[head=2]*=0"
    found = answer(tmp_path, "generate", "model", "--ids", "ids.npy", "--tokens", "6", "--edit", edit)
    whole = ids
    with hooked(model, "attn.hook_z", scaled((EVERY, EVERY, 2), 0.0)), torch.no_grad():
        for _ in range(6):
            best = int(model(torch.tensor(whole)).logits[0, -1].argmax())
            whole = np.concatenate([whole, [[best]]], 1)
    assert found["ids"] == whole[0, 8:].tolist()
