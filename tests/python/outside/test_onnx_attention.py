"""ONNX's own cases of its operator Attention, which its package makes, answered by otattn.attention."""

from __future__ import annotations

from typing import Any

import numpy as np
import otattn
import pytest
import torch

pytestmark = pytest.mark.long
try:
    import onnx
except ImportError:  # it is none of the packages that CI has; test_all_cases_are_there then fails
    onnx = None

# Of the operator's outputs, those that are no attention: scores before the softmax.
NOT_WEIGHTS = (0, 1, 2)


def cases() -> list[Any]:
    if onnx is None:
        return []
    from onnx.backend.test.case.node import collect_testcases

    found = [case for case in collect_testcases("Attention") if len(case.model.graph.node) == 1]
    return [case for case in found if case.model.graph.node[0].op_type == "Attention"]


def tensor(x: Any) -> torch.Tensor:
    """Also of bf16, which NumPy has from ml_dtypes alone."""
    if x.dtype.name == "bfloat16":
        return torch.from_numpy(x.astype(np.float32)).to(torch.bfloat16)
    return torch.from_numpy(np.ascontiguousarray(x))


def heads(x: torch.Tensor, count: int) -> torch.Tensor:
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def allowed(
    queries: int, keys: int, offset: torch.Tensor, causal: bool, left: int, right: int
) -> torch.Tensor:
    """Which key j query i may use, by its place i + offset among the keys: bool [batch, 1, queries, keys]."""
    place = torch.arange(queries)[:, None] + offset.reshape(-1, 1, 1, 1)
    key = torch.arange(keys)
    found = torch.ones(len(offset), 1, queries, keys, dtype=torch.bool)
    if causal:
        found &= key <= place
    if left >= 0:
        found &= key >= place - left
    if right >= 0:
        found &= key <= place + right
    return found


def attend(inputs: dict[str, torch.Tensor], options: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The operator's outputs by their names."""
    q, k, v = (inputs[name] for name in "QKV")
    flat = q.ndim == 3
    if flat:
        q = heads(q, options["q_num_heads"])
        k, v = (heads(x, options["kv_num_heads"]) for x in (k, v))
    past = 0
    if "past_key" in inputs:
        past = inputs["past_key"].shape[2]
        k = torch.cat([inputs["past_key"], k], 2)
        v = torch.cat([inputs["past_value"], v], 2)
    n, m = q.shape[2], k.shape[2]
    lengths = inputs.get("nonpad_kv_seqlen")
    offset = torch.tensor([past]) if lengths is None else lengths.reshape(-1) - n
    window = (options.get("left_window_size", -1), options.get("right_window_size", -1))
    causal = bool(options.get("is_causal", 0))
    may = None
    if causal or max(window) >= 0:
        may = allowed(n, m, offset, causal, *window)
    if lengths is not None:
        used = (torch.arange(m) < lengths.reshape(-1, 1))[:, None, None, :]
        may = used if may is None else may & used
    mask, bias = inputs.get("attn_mask"), None
    if mask is not None:
        # A mask of fewer keys leaves the others out.
        lacking = m - mask.shape[-1]
        if mask.dtype == torch.bool:
            mask = torch.nn.functional.pad(mask, (0, lacking))
            may = mask if may is None else may & mask
        else:
            bias = torch.nn.functional.pad(mask, (0, lacking), value=-torch.inf)
    out, aux = otattn.attention(
        q, k, v, may, scale=options.get("scale"), enable_gqa=True, bias=bias,
        softcap=options.get("softcap", 0.0), return_aux=otattn.AuxRequest(coupling=True),
    )  # fmt: skip
    if flat:
        out = out.transpose(1, 2).flatten(2)
    return {"Y": out, "present_key": k, "present_value": v, "qk_matmul_output": aux.coupling}


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_case(case: Any) -> None:
    node = case.model.graph.node[0]
    options = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    given, wanted = case.data_sets[0]
    names = [name for name in node.input if name]
    found = attend(dict(zip(names, map(tensor, given), strict=True)), options)
    for name, right in zip([name for name in node.output if name], map(tensor, wanted), strict=True):
        if name == "qk_matmul_output" and options.get("qk_matmul_output_mode", 0) in NOT_WEIGHTS:
            continue
        # bf16 keeps 8 bits of what is compared.
        least = 2e-2 if right.dtype == torch.bfloat16 else 0.0
        torch.testing.assert_close(
            found[name].double().reshape(right.shape), right.double(),
            rtol=max(case.rtol, least), atol=max(case.atol, least), msg=lambda m, name=name: f"{name}: {m}",
        )  # fmt: skip


def test_all_cases_are_there() -> None:
    assert len(cases()) >= 93
