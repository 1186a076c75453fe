"""Models of images against transformers: pixels in the place of words."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from model_families import make_model, pick, torch, transformers, truth
from model_peers import BOUND, distance, save_drawn
from program import answer, run
from safetensors.numpy import load_file


@pytest.mark.parametrize("seed", range(2))
def test_images(tmp_path: Path, seed: int) -> None:
    """ViT: pixels in the place of words; its class token has the image's logits. Texts are refused."""
    generator = np.random.default_rng(seed)
    heads, pieces, patch = pick(generator, 2, 3), pick(generator, 2, 3), pick(generator, 3, 5)
    channels, labels = pick(generator, 1, 3), pick(generator, 2, 7)
    config = transformers.ViTConfig(
        hidden_size=8 * heads, num_hidden_layers=2, num_attention_heads=heads, intermediate_size=40,
        hidden_act=pick(generator, "gelu", "relu"), layer_norm_eps=pick(generator, 1e-12, 1e-5),
        image_size=pieces * patch + pick(generator, 0, 1), patch_size=patch, num_channels=channels,
        qkv_bias=truth(generator), num_labels=labels, attn_implementation="eager",
    )  # fmt: skip
    torch.manual_seed(seed)
    model = transformers.ViTForImageClassification(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.15)
    save_drawn(tmp_path / "model", model, generator)
    pixels = generator.normal(size=(2, channels, config.image_size, config.image_size)).astype(np.float32)
    np.save(tmp_path / "pixels.npy", pixels)
    with torch.no_grad():
        peer = model(torch.tensor(pixels), output_hidden_states=True, output_attentions=True)
    out = ("--points", "all,logits", "-f", "-o", "run.safetensors")
    answer(tmp_path, "capture", "model", "--pixels", "pixels.npy", *out)
    ours = load_file(tmp_path / "run.safetensors")
    for layer in range(2):
        assert distance(ours[f"blocks.{layer}.hook_resid_pre"], peer.hidden_states[layer]) <= BOUND
        assert distance(ours[f"blocks.{layer}.attn.hook_pattern"], peer.attentions[layer]) <= BOUND
    assert distance(ours["logits"][:, 0], peer.logits) <= BOUND
    np.save(tmp_path / "one.npy", pixels[1])
    answer(tmp_path, "capture", "model", "--pixels", "one.npy", *out)
    assert np.allclose(load_file(tmp_path / "run.safetensors")["logits"][0], ours["logits"][1], atol=1e-6)
    assert answer(tmp_path, "info", "model")["vocabulary"] == labels
    np.save(tmp_path / "ids.npy", np.arange(5))
    for words in (
        ("perplexity", "model", "--ids", "ids.npy"),
        ("generate", "model", "--ids", "ids.npy"),
        ("analyze", "model", "--text", "a", "-o", "run"),
        ("capture", "model", "--ids", "ids.npy", "-o", "run.npz"),
        ("lens", "model", "--text", "a"),
        ("patch", "model", "--clean", "a", "--corrupt", "b", "--answer", "c"),
    ):
        assert b"sees images" in run(tmp_path, *words).stderr, words
    np.save(tmp_path / "one.npy", pixels[1][:, 1:])
    assert b"the pixels are not [" in run(tmp_path, "capture", "model", "--pixels", "one.npy", *out).stderr
    settings = json.loads((tmp_path / "model" / "config.json").read_text())
    for changes, part in (
        ({"image_size": 1}, b"in pieces of"),
        ({"image_size": [8, 8]}, b"must be an exact integer"),
        ({"num_channels": channels + 1}, b"does not have the shape"),
    ):
        (tmp_path / "model" / "config.json").write_text(json.dumps(settings | changes))
        assert part in run(tmp_path, "info", "model").stderr, changes
    make_model(tmp_path / "text", "opt", 1)
    done = run(tmp_path, "capture", "text", "--pixels", "pixels.npy", *out)
    assert done.returncode == 2 and b"sees no images" in done.stderr
