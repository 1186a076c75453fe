"""Models: nothing of a checkpoint is passed over. Every key and every tensor is read as transformers reads
it, is known to be without effect, or is named in a refusal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import test_models
from program import run
from safetensors.torch import load_file, save_file

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SMALL: dict[str, dict[str, Any]] = {
    "gpt2": {"type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 32},
    "bert": {
        "type": "bert", "num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 16,
        "intermediate_size": 24, "max_position_embeddings": 32,
    },
    "llama": {
        "type": "llama", "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
        "hidden_size": 16, "intermediate_size": 24, "max_position_embeddings": 32, "attention_bias": True,
        "mlp_bias": True,
    },
    "gemma 3": {
        "type": "gemma3", "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
        "head_dim": 8, "hidden_size": 16, "intermediate_size": 24, "max_position_embeddings": 32,
        "sliding_window": 5, "layer_types": ["sliding_attention", "full_attention"],
    },
}  # fmt: skip
IDS = test_models.draw_ids(2, 13)
EMBEDDINGS = {
    "gpt2": "transformer.wte.weight", "bert": "bert.embeddings.word_embeddings.weight",
    "llama": "model.embed_tokens.weight", "gemma 3": "model.embed_tokens.weight",
}  # fmt: skip
HEADS = dict.fromkeys(SMALL, "lm_head.weight") | {"bert": "cls.predictions.decoder.weight"}
BLOCKS = {
    "gpt2": "transformer.h.0.", "bert": "bert.encoder.layer.0.", "llama": "model.layers.0.",
    "gemma 3": "model.layers.0.",
}  # fmt: skip


class Checkpoint:
    """A small random model in a folder, whose parts the tests change."""

    def __init__(self, folder: Path, name: str, **settings: Any) -> None:
        test_models.CONFIGS["small"] = {**SMALL[name], **settings}
        test_models.make_model(folder / "model", "small")
        test_models.CONFIGS.pop("small")
        self.folder, self.name = folder, name
        self.model_class = getattr(transformers, test_models.CLASSES[SMALL[name]["type"]][1])
        self.tensors = load_file(folder / "model" / "model.safetensors")
        self.config = json.loads((folder / "model" / "config.json").read_text())
        np.save(folder / "ids.npy", IDS)

    def write(self, tensors: dict[str, Any] | None = None, config: dict[str, Any] | None = None) -> None:
        """All of the tensors in place of the first ones; changes of the configuration, of which ... takes the
        key out."""
        path = self.folder / "model"
        parts = self.tensors if tensors is None else tensors
        save_file(
            {name: part.contiguous().clone() for name, part in parts.items()}, path / "model.safetensors"
        )
        whole = {**self.config, **(config or {})}
        whole = {key: value for key, value in whole.items() if value is not ...}
        (path / "config.json").write_text(json.dumps(whole))

    def logits(self) -> np.ndarray | str:
        """Ours, or the sentence of the refusal."""
        done = run(
            self.folder,
            "capture",
            "model",
            "--ids",
            "ids.npy",
            "--points",
            "logits",
            "-f",
            "-o",
            "run.safetensors",
        )
        if done.returncode != 0:
            text = done.stderr.decode()
            assert done.returncode in (2, 4) and text.count("\n") == 1, (done.returncode, text)
            return text
        ours: np.ndarray = load_file(self.folder / "run.safetensors")["logits"].numpy()
        return ours

    def peer(self, model_class: Any = None) -> np.ndarray:
        model, told = (model_class or self.model_class).from_pretrained(
            self.folder / "model", attn_implementation="eager", output_loading_info=True
        )
        assert not told["missing_keys"], told
        return test_models.logits_of(model.eval(), IDS)

    def agrees(self, model_class: Any = None) -> np.ndarray:
        """Our logits, which are those of transformers."""
        ours, peer = self.logits(), self.peer(model_class)
        assert not isinstance(ours, str), ours
        assert np.abs(ours - peer).max() <= test_models.LOGITS * np.abs(peer).max()
        return ours

    def refuses(self, *parts: str) -> None:
        told = self.logits()
        assert isinstance(told, str) and all(part in told for part in parts), (parts, told)


def noise(tensor: Any, seed: int = 1) -> Any:
    return tensor + torch.randn(tensor.shape, generator=torch.Generator().manual_seed(seed))


# ---- tensors ----


@pytest.mark.parametrize("name", SMALL)
def test_every_tensor_is_missed(tmp_path: Path, name: str) -> None:
    """Without any one tensor: refused by its name, or the same logits as transformers gives."""
    checkpoint = Checkpoint(tmp_path, name)
    head = {HEADS[name]: noise(checkpoint.tensors[EMBEDDINGS[name]])}
    if name == "bert":
        head["cls.predictions.decoder.bias"] = noise(checkpoint.tensors["cls.predictions.bias"])
    whole = {**checkpoint.tensors, **head}
    checkpoint.write(whole)
    checkpoint.agrees()
    taken = 0
    for missing in whole:
        checkpoint.write({key: value for key, value in whole.items() if key != missing})
        told = checkpoint.logits()
        if isinstance(told, str):
            assert f'holds no tensor "{missing}"' in told, (missing, told)
        else:
            checkpoint.agrees()
            taken += 1
    # Either of a tied pair stands for the other; BERT has a pair of biases, too, and Llama's head is its own.
    assert taken == {"gpt2": 2, "bert": 4, "llama": 0, "gemma 3": 2}[name]


@pytest.mark.parametrize("name", SMALL)
def test_tensors_that_nothing_reads(tmp_path: Path, name: str) -> None:
    checkpoint = Checkpoint(tmp_path, name)
    embedding, block = EMBEDDINGS[name], BLOCKS[name]
    strange = [
        "x", f"{block}attn.weight_scale", f"{block}lora_A.weight", "score.bias.more",
        block.replace("0", "7") + "x.weight", embedding.split(".", 1)[1], f"other.{embedding}",
    ]  # fmt: skip
    for more in strange:
        checkpoint.write({**checkpoint.tensors, more: checkpoint.tensors[embedding]})
        checkpoint.refuses(f'"{more}" is a tensor that')
    known = {
        "gpt2": ["h.0.attn.bias", "transformer.h.0.attn.masked_bias", "score.weight"],
        "bert": ["bert.embeddings.position_ids", "bert.pooler.dense.bias", "cls.seq_relationship.weight"],
        "llama": ["model.layers.0.self_attn.rotary_emb.inv_freq", "model.rotary_emb.inv_freq"],
        "gemma 3": ["model.rotary_emb.inv_freq"],
    }[name]
    checkpoint.write()
    before = checkpoint.agrees()
    checkpoint.write({**checkpoint.tensors, **{key: torch.arange(7) for key in known}})
    assert np.array_equal(before, checkpoint.logits())


def test_fewer_layers_than_the_file_has(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, "gemma 3")
    checkpoint.write(config={"num_hidden_layers": 1, "layer_types": ["full_attention"]})
    checkpoint.refuses(
        '"model.layers.1.input_layernorm.weight" is a tensor that gemma3 models of 1 layers do not'
    )


@pytest.mark.parametrize("name", SMALL)
def test_a_head_of_its_own(tmp_path: Path, name: str) -> None:
    """The file's numbers hold, whatever the configuration says of tied heads."""
    checkpoint = Checkpoint(tmp_path, name)
    tensors = dict(checkpoint.tensors)
    tensors[HEADS[name]] = noise(tensors[EMBEDDINGS[name]])
    seen = []
    for tied in (True, False, ...):
        if name == "bert" and tied is False:
            # Only a tied head takes its bias under the other name.
            checkpoint.write(tensors, {"tie_word_embeddings": tied})
            checkpoint.refuses('holds no tensor "cls.predictions.decoder.bias"')
            tensors["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"]
        checkpoint.write(tensors, {"tie_word_embeddings": tied})
        seen.append(checkpoint.agrees())
    assert all(np.array_equal(seen[0], other) for other in seen)
    tensors.pop(HEADS[name])
    checkpoint.write(tensors, {"tie_word_embeddings": False})
    checkpoint.refuses(f'holds no tensor "{HEADS[name]}"')
    checkpoint.write(tensors, {"tie_word_embeddings": True})
    assert np.abs(checkpoint.agrees() - seen[0]).max() > 0.1


def test_the_bias_of_berts_head(tmp_path: Path) -> None:
    """Of its two names the decoder's holds."""
    checkpoint = Checkpoint(tmp_path, "bert")
    bias = checkpoint.tensors.pop("cls.predictions.bias")
    checkpoint.tensors.pop("cls.predictions.decoder.bias", None)
    logits = []
    for names in (["bias"], ["decoder.bias"], ["bias", "decoder.bias"]):
        more = {f"cls.predictions.{word}": noise(bias, len(word)) for word in names}
        checkpoint.write({**checkpoint.tensors, **more})
        logits.append(checkpoint.agrees())
    assert np.array_equal(logits[1], logits[2]) and not np.array_equal(logits[0], logits[1])


def test_berts_norms_by_their_older_names(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, "bert")
    checkpoint.write()
    wanted = checkpoint.agrees()
    older = {
        key.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value
        for key, value in checkpoint.tensors.items()
    }
    assert sum(".gamma" in key for key in older) == 4
    checkpoint.write(older)
    assert np.array_equal(checkpoint.agrees(), wanted)
    norm = "bert.embeddings.LayerNorm.weight"
    checkpoint.write({**older, norm: checkpoint.tensors[norm]})
    checkpoint.refuses('"bert.embeddings.LayerNorm.gamma" is a tensor that')


@pytest.mark.parametrize("key", ["attention_bias", "mlp_bias"])
def test_biases_as_the_configuration_says(tmp_path: Path, key: str) -> None:
    checkpoint = Checkpoint(tmp_path, "llama")
    part = {"attention_bias": "self_attn", "mlp_bias": "mlp"}[key]
    biases = [name for name in checkpoint.tensors if part in name and name.endswith("bias")]
    assert len(biases) == {"attention_bias": 4, "mlp_bias": 3}[key]
    for value in (False, ...):
        checkpoint.write(config={key: value})
        checkpoint.refuses(f'bias" is there, and "{key}" of config.json is false (set it to true')
    # Zeros change nothing; transformers takes no notice of them.
    zeros = {name: torch.zeros_like(checkpoint.tensors[name]) for name in biases}
    checkpoint.write({**checkpoint.tensors, **zeros}, {key: False})
    checkpoint.agrees()
    checkpoint.write(
        {name: value for name, value in checkpoint.tensors.items() if name not in biases}, {key: False}
    )
    checkpoint.agrees()
    checkpoint.write({name: value for name, value in checkpoint.tensors.items() if name != biases[0]})
    checkpoint.refuses(f'holds no tensor "{biases[0]}", and "{key}" of config.json is true')


# ---- config.json ----


@pytest.mark.parametrize("name", SMALL)
def test_keys_that_nothing_reads(tmp_path: Path, name: str) -> None:
    """Refused by name; but all that transformers writes of itself is taken."""
    checkpoint = Checkpoint(tmp_path, name)
    for key in ("x", "residual_multiplier", "num_experts", "hidden_sizes"):
        checkpoint.write(config={key: 3})
        checkpoint.refuses(f'"{key}" is no key that')
    config_class = getattr(transformers, test_models.CLASSES[SMALL[name]["type"]][0])
    standard = config_class().to_dict()
    generation = transformers.GenerationConfig._get_default_generation_params()
    older = {
        "torch_dtype": "float32", "_name_or_path": "x", "gradient_checkpointing": False, "pruned_heads": {},
        "tf_legacy_loss": False, "torchscript": False, "use_bfloat16": False, "finetuning_task": None,
        "is_encoder_decoder": False, "is_decoder": False, "tie_encoder_decoder": False, "num_labels": 2,
        "cross_attention_hidden_size": None, "position_embedding_type": "absolute", "output_past": True,
        "task_specific_params": {"text-generation": {"do_sample": True}}, "use_cache": False,
        "add_cross_attention": False, "quantization_config": None, "transformers_version": "4.0.0",
        "return_dict": True, "auto_map": {}, "tokenizer_class": "X", "prefix": None, "sep_token_id": None,
    }  # fmt: skip
    checkpoint.write()
    before = checkpoint.agrees()
    checkpoint.write(config={**standard, **generation, **older, **checkpoint.config})
    assert np.array_equal(before, checkpoint.logits())
    for key, value in (
        ("quantization_config", {"bits": 4}), ("add_cross_attention", True), ("pruned_heads", {"0": [1]}),
        ("position_embedding_type", "relative_key"), ("per_layer_config", {"0": {}}),
        ("is_encoder_decoder", True),
    ):  # fmt: skip
        checkpoint.write(config={key: value})
        checkpoint.refuses(f'"{key}" is ', "and such models are not run")


@pytest.mark.parametrize("name", ["gpt2", "llama", "gemma 3"])
def test_models_that_are_not_causal(tmp_path: Path, name: str) -> None:
    checkpoint = Checkpoint(tmp_path, name)
    checkpoint.write()
    causal = checkpoint.agrees()
    checkpoint.write(config={"is_decoder": True})
    assert np.array_equal(causal, checkpoint.agrees())
    checkpoint.write(config={"is_causal": False})
    assert np.abs(checkpoint.agrees() - causal).max() > 0.01
    done = run(tmp_path, "info", "model")
    assert b", both ways" in done.stdout


def test_a_bert_that_decodes(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, "bert")
    checkpoint.write()
    both = checkpoint.agrees()
    checkpoint.write(config={"is_decoder": True})
    causal = checkpoint.agrees(transformers.BertLMHeadModel)
    assert np.abs(causal - both).max() > 0.01
    # The cache gives the tokens that whole sequences give.
    model = transformers.BertLMHeadModel.from_pretrained(tmp_path / "model").eval()
    sequence = IDS[:1]
    np.save(tmp_path / "one.npy", sequence[0])
    made = json.loads(run(tmp_path, "generate", "model", "--ids", "one.npy", "--tokens", 5, "--json").stdout)
    for token in made["ids"]:
        logits = test_models.logits_of(model, sequence)[0, -1]
        assert logits.max() - logits[token] <= test_models.LOGITS * np.abs(logits).max()
        sequence = np.concatenate([sequence, [[token]]], 1)


def test_other_names_of_gpt2s_sizes(tmp_path: Path) -> None:
    """The names of other models hold over its own, as in transformers."""
    checkpoint = Checkpoint(tmp_path, "gpt2", n_layer=2)
    checkpoint.write()
    wanted = checkpoint.agrees()
    names = {
        "n_layer": "num_hidden_layers", "n_head": "num_attention_heads", "n_embd": "hidden_size",
        "n_positions": "max_position_embeddings",
    }  # fmt: skip
    for own, other in names.items():
        for config in ({own: ..., other: checkpoint.config[own]}, {own: 1, other: checkpoint.config[own]}):
            checkpoint.write(config=config)
            assert np.array_equal(checkpoint.agrees(), wanted)
    checkpoint.write(config={"num_attention_heads": 4})
    assert np.abs(checkpoint.agrees() - wanted).max() > 0.01
    checkpoint.write(config={"num_hidden_layers": 1})
    checkpoint.refuses('"transformer.h.1.attn.c_attn.bias" is a tensor that gpt2 models of 1 layers')
    checkpoint.write(config={"intermediate_size": 64})
    checkpoint.refuses('"intermediate_size" is no key that')


def test_places_of_rotary_settings(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, "llama")
    llama3 = {
        "rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16, "rope_theta": 50.0,
    }  # fmt: skip
    short = {key: value for key, value in llama3.items() if key != "original_max_position_embeddings"}
    bare = {key: value for key, value in short.items() if key != "rope_theta"}
    taken: list[dict[str, Any]] = [
        {"rope_parameters": ..., "rope_theta": 50.0},
        {"rope_parameters": {"rope_theta": 50.0}, "rope_theta": 70.0},
        {"rope_parameters": {"rope_type": "linear", "factor": 2.0}, "rope_theta": 50.0},
        {"rope_parameters": ..., "rope_scaling": {"type": "linear", "factor": 2.0, "rope_theta": 50.0}},
        {"rope_parameters": {}, "rope_scaling": llama3},
        {"rope_parameters": llama3, "rope_scaling": None},
        {"rope_parameters": llama3, "rope_scaling": llama3},
        {"rope_parameters": short},
        {"rope_parameters": ..., "rope_scaling": bare, "rope_theta": 60.0},
        {"rope_parameters": {**short, "type": "llama3", "partial_rotary_factor": 1.0}},
        {"head_dim": None, "num_key_value_heads": 1},
    ]
    for config in taken:
        checkpoint.write(config=config)
        checkpoint.agrees()
    refused: list[tuple[dict[str, Any], str]] = [
        ({"rope_parameters": llama3, "rope_scaling": short}, '"rope_scaling": differs'),
        ({"rope_parameters": {"factor": 2.0}}, '"factor" in rope_parameters has no effect'),
        ({"rope_parameters": {**llama3, "beta_fast": 32.0}}, '"beta_fast" in rope_parameters has no effect'),
        ({"rope_parameters": {"full_attention": llama3}}, '"full_attention" in rope_parameters is no key'),
        (
            {"rope_parameters": {"rope_theta": 50.0, "partial_rotary_factor": 0.5}},
            '"partial_rotary_factor" is 0.5',
        ),
        ({"partial_rotary_factor": 0.5}, '"partial_rotary_factor" is 0.5'),
        ({"original_max_position_embeddings": 16}, '"original_max_position_embeddings" is no key'),
        ({"sliding_window": 4}, '"sliding_window" is no key'),
        ({"layer_types": ["sliding_attention"]}, "must hold full_attention alone"),
    ]
    for config, part in refused:
        checkpoint.write(config=config)
        checkpoint.refuses(part)
