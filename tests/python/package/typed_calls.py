"""What type checkers say of calls: checked by mypy and pyright with the package, run by nobody."""

from __future__ import annotations

from typing import Any, assert_type

import jax
import numpy as np
import otattn
import otattn.jax
import torch
from numpy.typing import NDArray

own = otattn.Regulariser(lambda x: max(x, 0.0), lambda x: float(x > 0.0))


def arrays_of_jax(x: jax.Array) -> None:
    assert_type(otattn.jax.attention(x, x, x, method="ceta"), jax.Array)
    assert_type(otattn.jax.attention(x, x, x, return_aux="lse"), tuple[jax.Array, otattn.AuxOutput])
    assert_type(otattn.jax.coupling(x), jax.Array)
    assert_type(otattn.jax.sinkhorn_normalize(x), jax.Array)
    assert_type(otattn.jax.coupling(x, return_aux=True), tuple[jax.Array, otattn.AuxOutput])


def arrays(x: NDArray[np.float64], mask: NDArray[np.bool_]) -> None:
    assert_type(otattn.attention(x, x, x, mask, method=own), NDArray[np.float64])
    assert_type(otattn.attention(x, x, x, return_aux=None), NDArray[np.float64])
    assert_type(otattn.attention(x, x, x, return_aux=True), tuple[NDArray[np.float64], otattn.AuxOutput])
    request = otattn.AuxRequest(receiver=True)
    assert_type(otattn.coupling(x, method=own), NDArray[np.float64])
    assert_type(otattn.coupling(x, return_aux=request), tuple[NDArray[np.float64], otattn.AuxOutput])
    assert_type(otattn.coupling(x, return_aux="receiver"), tuple[NDArray[np.float64], otattn.AuxOutput])
    assert_type(otattn.coupling(x, return_aux=("lse",)), tuple[NDArray[np.float64], otattn.AuxOutput])
    assert_type(otattn.coupling([[1.0, 2.0]]), Any)
    assert_type(otattn.decode(x, x, x)[0], NDArray[np.float64])
    assert_type(otattn.decode(x, x, x, return_aux="receiver")[2], otattn.AuxOutput)
    assert_type(otattn.sinkhorn_normalize(x), NDArray[np.float64])
    maps = otattn.activations
    assert_type(maps.softmax(x), NDArray[np.float64])
    assert_type(maps.entmax15(x, return_support_size=True), tuple[NDArray[np.float64], NDArray[np.float64]])
    assert_type(maps.budget_bisect(maps.sparsemax(x)), NDArray[np.float64])
    assert_type(otattn.flash.flash_attn_func(x, x, x), NDArray[np.float64])
    assert_type(otattn.flash.flash_attn_qkvpacked_func(x, causal=True), NDArray[np.float64])
    assert_type(otattn.linear_sum_assignment(x), tuple[NDArray[np.int64], NDArray[np.int64]])
    assert_type(otattn.linear_sum_assignment([x, x]), list[tuple[NDArray[np.int64], NDArray[np.int64]]])
    assert_type(otattn.k_best_assignments(x, 2), otattn.RankedAssignments)
    assert_type(otattn.k_best_assignments(x, 2).columns, NDArray[np.int64])
    assert_type(otattn.k_best_assignments(x, 2).bound, NDArray[np.float64] | None)
    assert_type(otattn.k_best_assignments(x, 2).found, int | NDArray[np.int64])
    assert_type(otattn.k_best_assignments([x, x], 2, cost_limit=1.0), list[otattn.RankedAssignments])
    assert_type(otattn.bottleneck_assignment(x), otattn.BottleneckAssignment)
    assert_type(otattn.bottleneck_assignment(x).value, float | NDArray[np.float64])
    assert_type(otattn.bottleneck_assignment(x).marked_rows, NDArray[np.bool_])
    assert_type(otattn.bottleneck_assignment([x])[0].covered_columns, NDArray[np.bool_])
    assert_type(otattn.k_best_assignments([[1.0, 2.0]], 2), Any)
    found = otattn.linear_sum_assignment(x, certificate=True)
    assert_type(found, tuple[NDArray[np.int64], NDArray[np.int64], otattn.AssignmentCertificate])
    packed = otattn.linear_sum_assignment(x, rows=[2, 3], columns=[2, 2])
    assert_type(packed, tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]])
    proven = otattn.linear_sum_assignment(x, True, rows=[2, 3], columns=[2, 2], certificate=True)
    assert_type(
        proven,
        tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], otattn.AssignmentCertificate],
    )
    ragged = otattn.linear_sum_assignment([x, x], certificate=True)
    assert_type(ragged, list[tuple[NDArray[np.int64], NDArray[np.int64], otattn.AssignmentCertificate]])
    assert_type(otattn.maxsim(x, x), NDArray[np.float32])
    assert_type(otattn.maxsim(x, x, top_k=2), tuple[NDArray[np.float32], NDArray[np.int64]])
    assert_type(otattn.alibi_slopes(4), NDArray[np.float64])
    plan = otattn.Plan(x, x, x, method=own)
    assert_type(plan.forward(x, x, x), NDArray[Any])
    assert_type(plan.forward(x, x, x, True), tuple[NDArray[Any], otattn.AuxOutput])


def several_matrices(x: list[NDArray[np.float32]], t: list[torch.Tensor]) -> None:
    assert_type(otattn.linear_sum_assignment(x), list[tuple[NDArray[np.int64], NDArray[np.int64]]])
    assert_type(otattn.linear_sum_assignment(tuple(t)), list[tuple[torch.Tensor, torch.Tensor]])
    assert_type(otattn.k_best_assignments(x, 2), list[otattn.RankedAssignments])
    assert_type(otattn.bottleneck_assignment(x), list[otattn.BottleneckAssignment])


def clusters_and_experts(x: NDArray[np.float32], t: torch.Tensor) -> None:
    found = otattn.cluster.BalancedKMeans(3).fit(x)
    assert_type(found, otattn.cluster.BalancedKMeans)
    assert_type(found.labels_, NDArray[np.int32])
    assert_type(found.predict(x, size_min="init"), NDArray[np.int32])
    assert_type(found.fit_predict(x), NDArray[np.int32])
    assert_type(found.transform(x), NDArray[Any])
    assert_type(found.cluster_centers_, NDArray[Any])
    assert_type(otattn.moe.route(x, 2), otattn.moe.Routing[NDArray[Any]])
    assert_type(otattn.moe.route(x, 2).experts, NDArray[Any])
    assert_type(otattn.moe.route(t, 2, method="soft").weights, torch.Tensor)
    assert_type(otattn.moe.route([[1.0, 2.0]], 1).load, Any)
    assert_type(otattn.moe.route(t, 2).certificate, otattn.moe.RouteCertificate)


def losses(x: torch.Tensor, target: torch.Tensor) -> None:
    maps = otattn.activations
    assert_type(maps.sparsemax_loss(x, target), torch.Tensor)
    assert_type(maps.entmax15_loss(x, target, return_support_size=True), tuple[torch.Tensor, torch.Tensor])
    assert_type(maps.entmax_bisect_loss(x, target, 1.5), torch.Tensor)
    assert_type(maps.sparsemax_bisect_loss(x, target), torch.Tensor)
    assert_type(maps.normmax_bisect_loss(x, target), torch.Tensor)


def transport_of_arrays(x: NDArray[np.float64], y: NDArray[np.float32]) -> None:
    ot = otattn.ot
    assert_type(ot.emd(x, x, y), NDArray[np.float32])
    assert_type(ot.emd([0.5, 0.5], None, x, log=True), tuple[NDArray[np.float64], dict[str, Any]])
    assert_type(ot.emd(x, x, [[1.0, 2.0]]), Any)
    assert_type(ot.sinkhorn(x, x, x, 0.1), NDArray[np.float64])
    assert_type(ot.sinkhorn(x, x, x, 0.1, log=True), tuple[NDArray[np.float64], dict[str, Any]])
    assert_type(ot.sinkhorn_unbalanced(x, x, x, 0.1, (1.0, 2.0)), NDArray[np.float64])
    unbalanced = ot.sinkhorn_unbalanced(x, x, x, 0.1, 1.0, log=True)
    assert_type(unbalanced, tuple[NDArray[np.float64], dict[str, Any]])
    assert_type(ot.solve(x, reg=0.1), otattn.ot.OTResult[NDArray[np.float64]])
    assert_type(ot.solve(x).plan, NDArray[np.float64])
    assert_type(ot.solve(x).potentials, tuple[NDArray[np.float64], NDArray[np.float64]] | None)
    assert_type(ot.solve(x).marginal_a, NDArray[np.float64])
    assert_type(ot.solve([[1.0, 2.0]]).potential_b, Any | None)
    assert_type(
        ot.solve_sample(y, y, metric="euclidean").marginals, tuple[NDArray[np.float32], NDArray[np.float32]]
    )
    assert_type(ot.dist(y), NDArray[np.float32])
    assert_type(ot.unif(3), NDArray[np.float64])
    assert_type(ot.unif(3, y), NDArray[np.float32])
    assert_type(ot.partial.partial_wasserstein(x, x, x), NDArray[np.float64])
    part = ot.partial.entropic_partial_wasserstein(x, x, x, 0.1, log=True)
    assert_type(part, tuple[NDArray[np.float64], dict[str, Any]])
    assert_type(ot.sinkhorn_knopp_teacher(x, 0.1), NDArray[np.float64])
    sampler = ot.PlanSampler("exact")
    assert_type(sampler.sample_plan(x, x), tuple[NDArray[np.float64], NDArray[np.float64]])
    assert_type(sampler.sample_trajectory(x), NDArray[np.float64])


def transport_of_tensors(x: torch.Tensor) -> None:
    ot = otattn.ot
    assert_type(ot.emd(x, x, x), torch.Tensor)
    assert_type(ot.sinkhorn(x, x, x, 0.1), torch.Tensor)
    assert_type(ot.sinkhorn2(x, x, x, 0.1), torch.Tensor)
    assert_type(ot.sinkhorn2(x, x, x, 0.1, log=True), tuple[torch.Tensor, dict[str, Any]])
    assert_type(ot.solve(x).plan, torch.Tensor)
    assert_type(ot.unif(3, x), torch.Tensor)
    assert_type(ot.PlanSampler("exact").get_map(x, x), NDArray[Any])
    assert_type(ot.PlanSampler("exact").sample_plan_with_labels(x, x)[1], torch.Tensor)
    assert_type(otattn.maxsim(x, x), torch.Tensor)
    assert_type(otattn.maxsim(x, [x, x], top_k=2), tuple[torch.Tensor, torch.Tensor])


def tensors(x: torch.Tensor, progress: list[otattn.Progress]) -> None:
    out, aux = otattn.attention(x, x, x, return_aux=True)
    assert_type(out, torch.Tensor)
    assert_type(aux.certificate, otattn.Certificate | None)
    assert_type(otattn.attention(x, x, x, deadline=1.0, progress=progress.append), torch.Tensor)
    assert_type(otattn.varlen_attention(x, x, x, [0, 2], [0, 2], method=own), torch.Tensor)
    several = otattn.varlen_attention(x, x, x, [0, 2], [0, 2], return_aux=True)
    assert_type(several, tuple[torch.Tensor, list[otattn.AuxOutput]])
    probable = otattn.flash.flash_attn_func(x, x, x, return_attn_probs=True)
    assert_type(probable, tuple[torch.Tensor, torch.Tensor, torch.Tensor])
    packed = otattn.flash.flash_attn_varlen_func(x, x, x, [0, 2], [0, 2], return_attn_probs=True)
    assert_type(packed, tuple[torch.Tensor, torch.Tensor, list[torch.Tensor]])
    assert_type(otattn.linear_sum_assignment(x), tuple[torch.Tensor, torch.Tensor])
    proven = otattn.linear_sum_assignment(x, certificate=True)
    assert_type(proven, tuple[torch.Tensor, torch.Tensor, otattn.AssignmentCertificate])
    rows = otattn.linear_sum_assignment(x, rows=x, columns=x)
    assert_type(rows, tuple[torch.Tensor, torch.Tensor, torch.Tensor])
    assert_type(otattn.linear_sum_assignment([x]), list[tuple[torch.Tensor, torch.Tensor]])
    assert_type(otattn.k_best_assignments(x, 2).columns, torch.Tensor)
    assert_type(otattn.k_best_assignments(x, 2).found, int | torch.Tensor)
    assert_type(otattn.k_best_assignments([x], 2)[0].value, torch.Tensor)
    assert_type(otattn.bottleneck_assignment(x).marked_rows, torch.Tensor)
    assert_type(otattn.bottleneck_assignment([x])[0].value, float | torch.Tensor)
    layer = otattn.nn.Attention(8, 2, method=own)
    assert_type(layer.forward(x, x, x), tuple[torch.Tensor, torch.Tensor | None])
