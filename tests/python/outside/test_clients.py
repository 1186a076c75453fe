"""Programs that use SciPy's, POT's or torch's functions, given otattn's in their places: the same answers.

Each runs on a small synthetic input, once as it is and once with otattn behind it. A program whose package is
not installed is skipped; `./dev outside` installs all.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import otattn
import pytest
import torch

pytestmark = pytest.mark.long


def replaced(monkeypatch: pytest.MonkeyPatch, module: Any, **names: Any) -> None:
    for name, value in names.items():
        monkeypatch.setattr(module, name, value)


# ---- matchings -----------------------------------------------------------------------------------


def frames(count: int) -> list[Any]:
    """Boxes that move over a picture, some missed, with confidences: supervision's detections."""
    sv = pytest.importorskip("supervision")
    rng = np.random.default_rng(5)
    corner, speed = 500 * rng.random((12, 2)), 6 * rng.standard_normal((12, 2))
    size = 30 + 40 * rng.random((12, 2))
    found = []
    for t in range(count):
        seen = rng.random(12) < 0.9
        low = (corner + t * speed + rng.standard_normal((12, 2)))[seen]
        boxes = np.concatenate([low, low + size[seen]], 1)
        found.append(
            sv.Detections(
                xyxy=boxes, confidence=0.3 + 0.7 * rng.random(len(boxes)), class_id=np.zeros(len(boxes), int)
            )
        )
    return found


@pytest.mark.parametrize("name", ["SORT", "ByteTrack", "OCSORT", "BoTSORT"])
def test_tracker(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trackers = pytest.importorskip("trackers")
    kind = getattr(trackers, f"{name}Tracker")
    picture = np.zeros((600, 600, 3), np.uint8)

    def run() -> list[Any]:
        tracker = kind()
        detections = frames(12)
        if name == "BoTSORT":
            return [tracker.update(x, picture).tracker_id for x in detections]
        return [tracker.update(x).tracker_id for x in detections]

    theirs = run()
    replaced(
        monkeypatch,
        importlib.import_module(kind.__module__),
        linear_sum_assignment=otattn.linear_sum_assignment,
    )
    for ours, other in zip(run(), theirs, strict=True):
        np.testing.assert_array_equal(ours, other)
    assert max(max(x, default=-1) for x in theirs) >= 5


def test_detr(monkeypatch: pytest.MonkeyPatch) -> None:
    """The matching of predicted boxes to true ones in the loss of DETR, as transformers has it."""
    module = importlib.import_module("transformers.loss.loss_for_object_detection")
    generator = torch.Generator().manual_seed(0)
    outputs = {
        "logits": torch.randn(3, 20, 6, generator=generator),
        "pred_boxes": 0.2 + 0.5 * torch.rand(3, 20, 4, generator=generator),
    }
    targets = [
        {"class_labels": torch.arange(k) % 6, "boxes": 0.2 + 0.5 * torch.rand(k, 4, generator=generator)}
        for k in (4, 0, 7)
    ]
    theirs = module.HungarianMatcher()(outputs, targets)
    replaced(monkeypatch, module, linear_sum_assignment=otattn.linear_sum_assignment)
    for ours, other in zip(module.HungarianMatcher()(outputs, targets), theirs, strict=True):
        assert all(torch.equal(x, y) for x, y in zip(ours, other, strict=True))


# ---- transport -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["exact", "sinkhorn", "unbalanced"])
def test_torchcfm(method: str) -> None:
    module = pytest.importorskip("torchcfm.optimal_transport")
    generator = torch.Generator().manual_seed(1)
    x0, x1 = (torch.randn(24, 2, generator=generator) for _ in range(2))
    # Of relaxed sums POT's default stops at 1e-6, from where its plan is as far as its rounds go.
    far = {"exact": 1e-9, "sinkhorn": 1e-5, "unbalanced": 1e-5}[method]
    theirs = module.OTPlanSampler(method, reg=0.5).get_map(x0, x1)
    ours = otattn.ot.PlanSampler(method, reg=0.5).get_map(x0, x1)
    np.testing.assert_allclose(np.asarray(ours), theirs, atol=far)


@pytest.mark.parametrize("kind", ["EMDTransport", "SinkhornTransport"])
def test_domain_adaptation(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """POT's transport of samples of one domain to another, fit and transform."""
    da = pytest.importorskip("ot.da")
    rng = np.random.default_rng(2)
    xs, xt = rng.standard_normal((40, 2)), rng.standard_normal((30, 2)) + 2
    options = {} if kind == "EMDTransport" else {"reg_e": 1.0}
    theirs = getattr(da, kind)(**options).fit_transform(xs, Xt=xt)
    replaced(monkeypatch, da, emd=otattn.ot.emd, sinkhorn=otattn.ot.sinkhorn)
    ours = getattr(da, kind)(**options).fit_transform(xs, Xt=xt)
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


@pytest.mark.parametrize(("rounds", "scale"), [(20, 1.0), (1, 1.0), (3, 8.0)])
def test_hyper_connections(rounds: int, scale: float) -> None:
    """The doubly stochastic mix of residual streams, and its gradient: rounds of columns and rows, which
    are the symmetric order turned, also long before they settle."""
    module = pytest.importorskip("hyper_connections.manifold_constrained_hyper_connections")

    def mixed(x: torch.Tensor) -> torch.Tensor:
        turned: torch.Tensor = otattn.sinkhorn_normalize(x.mT, rounds, order="symmetric")
        return turned.mT

    generator = torch.Generator().manual_seed(3)
    for n in (1, 4, 17):
        logits = (scale * torch.randn(5, n, n, generator=generator)).requires_grad_()
        theirs = module.sinkhorn_knopps(logits, iters=rounds)
        along = torch.randn(theirs.shape, generator=generator)
        (their_gradient,) = torch.autograd.grad(theirs, logits, along)
        ours = mixed(logits)
        (gradient,) = torch.autograd.grad(ours, logits, along)
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)
        torch.testing.assert_close(gradient, their_gradient, atol=1e-5, rtol=0)
    found = []
    for constraint in (None, mixed):
        torch.manual_seed(4)
        layer = module.ManifoldConstrainedHyperConnections(
            4,
            dim=8,
            branch=torch.nn.Linear(8, 8),
            layer_index=0,
            sinkhorn_iters=rounds,
            residual_mix_constraint_fn=constraint,
        )
        found.append(layer(torch.randn(8, 5, 8)))
    torch.testing.assert_close(found[1], found[0], atol=1e-5, rtol=1e-5)


# ---- clusters ------------------------------------------------------------------------------------


def test_k_means_constrained() -> None:
    module = pytest.importorskip("k_means_constrained")
    rng = np.random.default_rng(4)
    x = np.concatenate([rng.standard_normal((50, 2)) + shift for shift in ([0, 0], [6, 0], [0, 6])])
    start = x[[0, 60, 120]]
    theirs = module.KMeansConstrained(3, size_min=45, size_max=55, init=start, n_init=1, random_state=0).fit(
        x
    )
    ours = otattn.cluster.BalancedKMeans(
        3, size_min=45, size_max=55, init=start, n_init=1, random_state=0
    ).fit(x)
    # It rounds costs to whole numbers, so its last step may be another one: ours is as good or better.
    assert np.count_nonzero(ours.labels_ != theirs.labels_) <= 3
    assert ours.inertia_ <= theirs.inertia_ * (1 + 1e-12)


def test_scikit_learn() -> None:
    """A pipeline and a grid search take the estimator as one of their own."""
    sklearn = pytest.importorskip("sklearn")
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(5)
    x = np.concatenate([rng.standard_normal((40, 2)), rng.standard_normal((40, 2)) + 5])
    labels = make_pipeline(StandardScaler(), otattn.cluster.BalancedKMeans(2, random_state=0)).fit_predict(x)
    assert sorted(np.bincount(labels)) == [40, 40]
    estimator = otattn.cluster.BalancedKMeans(random_state=0)
    assert sklearn.base.clone(estimator).get_params() == estimator.get_params()
    search = GridSearchCV(estimator, {"n_clusters": [1, 2]}, scoring=lambda e, x: -e.inertia_).fit(x)
    assert search.best_params_ == {"n_clusters": 2}


# ---- training frameworks -------------------------------------------------------------------------


def test_lightning(tmp_path: Any) -> None:
    lightning = pytest.importorskip("lightning")

    class Model(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.attention = otattn.nn.Attention(16, 2, method="softmax/capped:1.5", batch_first=True)
            self.head = torch.nn.Linear(16, 1)
            self.losses: list[float] = []

        def training_step(self, batch: Any, _: int) -> torch.Tensor:
            x, y = batch
            out = self.head(self.attention(x, x, x, need_weights=False)[0].mean(1)).squeeze(-1)
            loss = torch.nn.functional.mse_loss(out, y)
            self.losses.append(loss.item())
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters(), 1e-2)

    torch.manual_seed(0)
    x = torch.randn(32, 6, 16)
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x[:, 0, 0]), batch_size=32)
    model = Model()
    trainer = lightning.Trainer(
        max_epochs=30, accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=tmp_path,
    )  # fmt: skip
    trainer.fit(model, data)
    assert model.losses[-1] < 0.5 * model.losses[0]


def test_equinox() -> None:
    eqx = pytest.importorskip("equinox")
    jax = pytest.importorskip("jax")
    import jax.numpy as jnp

    class Model(eqx.Module):  # type: ignore[misc]
        project: Any

        def __call__(self, x: Any) -> Any:
            q, k, v = jnp.split(jax.vmap(self.project)(x), 3, -1)
            return otattn.jax.attention(q[None, None], k[None, None], v[None, None], method="entmax:1.5")[
                0, 0
            ]

    model = Model(eqx.nn.Linear(4, 12, key=jax.random.PRNGKey(0)))
    x = jax.random.normal(jax.random.PRNGKey(1), (5, 4))
    loss, gradient = eqx.filter_jit(eqx.filter_value_and_grad(lambda m: (m(x) ** 2).sum()))(model)
    step = 1e-2
    moved = eqx.apply_updates(model, jax.tree_util.tree_map(lambda g: -step * g, gradient))
    assert (moved(x) ** 2).sum() < loss


def test_flax() -> None:
    """flax's own attention layer with otattn's function; its masks are 0 and 1 in floats."""
    nnx = pytest.importorskip("flax.nnx")
    jax = pytest.importorskip("jax")

    def attend(query: Any, key: Any, value: Any, *_: Any, mask: Any = None, **__: Any) -> Any:
        heads_first = [x.swapaxes(-3, -2) for x in (query, key, value)]
        allowed = None if mask is None else mask.astype(bool)
        return otattn.jax.attention(*heads_first, attn_mask=allowed).swapaxes(-3, -2)

    x = jax.random.normal(jax.random.PRNGKey(2), (2, 7, 16))
    layers = [
        nnx.MultiHeadAttention(2, 16, attention_fn=f, rngs=nnx.Rngs(0), decode=False)
        for f in (attend, nnx.dot_product_attention)
    ]
    for mask in (None, nnx.make_causal_mask(x[..., 0])):
        ours, theirs = (layer(x, mask=mask) for layer in layers)
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
    for layer in layers:
        layer.init_cache(x.shape)
    ours, theirs = ([layer(x[:, i : i + 1], decode=True) for i in range(7)] for layer in layers)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
