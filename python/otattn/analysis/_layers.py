"""LayerNorm, positional scores, multi-head layers and blocks, and how far they can move."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from .. import _structs as c
from .._library import CANCEL, library
from .._settings import count, flag, number, shown
from ._call import Dims, Record, call, choice, plain, record

_PLACES = {"inside": c.BIAS_INSIDE, "outside": c.BIAS_OUTSIDE}
_WEIGHTS = ("query_weights", "key_weights", "value_weights", "output_weights")
_BIASES = ("query_bias", "key_bias", "value_bias", "output_bias")


def _maybe(dims: Dims, name: str, x: Any, letters: str) -> Any:
    return None if x is None else dims(name, x, letters)


def _norm(gamma: Any, beta: Any, epsilon: float) -> Any:
    norm = c.Norm()
    norm.gamma, norm.beta = (None if x is None else x.ctypes.data for x in (gamma, beta))
    norm.epsilon = number("epsilon", epsilon)
    return norm


def layernorm(u: Any, gamma: Any = None, beta: Any = None, epsilon: float = 1e-5) -> tuple[Any, Any]:
    """LayerNorm of rows (rows, width) with gamma, beta (width,), and sigma (rows,). [TOT-56]

    Raises
    ------
    ValueError
        For shapes that do not fit, or an epsilon that is not above 0.

    Examples
    --------
    >>> from otattn import analysis
    >>> analysis.layernorm([[1.0, -1.0]], epsilon=3.0)[0]
    array([[ 0.5, -0.5]])
    """
    dims = Dims()
    u = dims("u", u, "rows width")
    gamma, beta = _maybe(dims, "gamma", gamma, "width"), _maybe(dims, "beta", beta, "width")
    y, sigma = np.empty_like(u), np.empty(dims["rows"])
    call("layernorm", u, *u.shape, _norm(gamma, beta, epsilon), y, sigma, of="u")
    return y, sigma


def layernorm_backward(u: Any, dy: Any, gamma: Any = None, epsilon: float = 1e-5) -> tuple[Any, Any, Any]:
    """du (rows, width), dgamma and dbeta (width,) from dy (rows, width). [TOT-57]"""
    dims = Dims()
    u, dy = dims("u", u, "rows width"), dims("dy", dy, "rows width")
    gamma = _maybe(dims, "gamma", gamma, "width")
    du, dgamma, dbeta = np.empty_like(u), np.empty(dims["width"]), np.empty(dims["width"])
    gradients = c.NormGradients(*(x.ctypes.data for x in (dy, du, dgamma, dbeta)))
    call("layernorm_backward", u, *u.shape, _norm(gamma, None, epsilon), gradients, of="u")
    return du, dgamma, dbeta


def layernorm_jacobian(u: Any, epsilon: float = 1e-5) -> Any:
    """Jacobian (width, width) of (u - mean) / sigma at u (width,). [TOT-57]"""
    u = Dims()("u", u, "width")
    jacobian = np.empty((len(u), len(u)))
    call("layernorm_jacobian", u, len(u), epsilon, jacobian)
    return jacobian


def layernorm_geometry(u: Any, gamma: Any = None, epsilon: float = 1e-5) -> Record:
    """Spectrum and norms of LayerNorm's Jacobian at u (width,). [TOT-58, 59]"""
    dims, found = Dims(), c.LayernormSpectrum()
    u = dims("u", u, "width")
    gamma = _maybe(dims, "gamma", gamma, "width")
    call("layernorm_geometry", u, len(u), _norm(gamma, None, epsilon), np.empty(len(u)), found)
    return record(found)


def layernorm_change(u: Any, v: Any, gamma: Any = None, epsilon: float = 1e-5) -> Record:
    """||LN(u) - LN(v)|| of two tokens (width,) and its bounds. [TOT-59, 60]"""
    dims, found = Dims(), c.Change()
    u, v = dims("u", u, "width"), dims("v", v, "width")
    gamma = _maybe(dims, "gamma", gamma, "width")
    call("layernorm_change", u, v, len(u), _norm(gamma, None, epsilon), np.empty(2 * len(u)), found)
    return record(found)


def rmsnorm(u: Any, gamma: Any = None, epsilon: float = 1e-5) -> tuple[Any, Any]:
    """RMSNorm of rows (rows, width) with gamma (width,), and rho (rows,). [TOT-56]"""
    dims = Dims()
    u, gamma = dims("u", u, "rows width"), _maybe(dims, "gamma", gamma, "width")
    y, rho = np.empty_like(u), np.empty(dims["rows"])
    call("rmsnorm", u, *u.shape, _norm(gamma, None, epsilon), y, rho, of="u")
    return y, rho


def rmsnorm_geometry(u: Any, gamma: Any = None, epsilon: float = 1e-5) -> Record:
    """Spectrum and norms of RMSNorm's Jacobian at u (width,). [TOT-58, 59]"""
    dims, found = Dims(), c.LayernormSpectrum()
    u, gamma = dims("u", u, "width"), _maybe(dims, "gamma", gamma, "width")
    call("rmsnorm_geometry", u, len(u), _norm(gamma, None, epsilon), found)
    return record(found)


def rmsnorm_change(u: Any, v: Any, gamma: Any = None, epsilon: float = 1e-5) -> Record:
    """||N(u) - N(v)|| of two tokens (width,) under RMSNorm, and its bounds. [TOT-59, 60]"""
    dims, found = Dims(), c.Change()
    u, v = dims("u", u, "width"), dims("v", v, "width")
    gamma = _maybe(dims, "gamma", gamma, "width")
    call("rmsnorm_change", u, v, len(u), _norm(gamma, None, epsilon), found)
    return record(found)


def absolute_costs(
    x: Any, positions: Any, query_weights: Any, key_weights: Any, temperature: float = 1.0
) -> tuple[Any, Any]:
    """Costs of content plus absolute positions, and their four parts. [TOT-49]

    Parameters
    ----------
    x, positions : array, shape (tokens, width)
    query_weights, key_weights : array, shape (width, head_width)
    temperature : float

    Returns
    -------
    costs : array, shape (tokens, tokens)
    parts : array, shape (4, tokens, tokens)
        content-content, content-position, position-content, position-position.
    """
    dims = Dims()
    x, p = dims("x", x, "tokens width"), dims("positions", positions, "tokens width")
    wq = dims("query_weights", query_weights, "width head_width")
    wk = dims("key_weights", key_weights, "width head_width")
    tokens, head = dims["tokens"], dims["head_width"]
    costs, parts, space = (
        np.empty((tokens, tokens)),
        np.empty((4, tokens, tokens)),
        np.empty(4 * tokens * head),
    )
    of = c.AbsolutePositions(tokens=tokens, width=dims["width"], head_width=head)
    of.x, of.positions, of.query_weights, of.key_weights = (a.ctypes.data for a in (x, p, wq, wk))
    of.temperature = number("temperature", temperature)
    call("absolute_costs", of, space, costs, parts)
    return costs, parts


def relative_costs(q: Any, k: Any, bias: Any, temperature: float = 1.0, place: str = "inside") -> Any:
    """-(q k^T + b_(i-j)) / temperature, or with the bias "outside" the temperature. [TOT-50]

    q (queries, width), k (keys, width), bias (queries + keys - 1,), result (queries, keys).
    """
    dims = Dims()
    q, k = dims("q", q, "queries width"), dims("k", k, "keys width")
    dims.sizes["queries+keys-1"] = len(q) + len(k) - 1
    bias = dims("bias", bias, "queries+keys-1")
    costs = np.empty((len(q), len(k)))
    of = c.RelativePositions(queries=len(q), keys=len(k), head_width=dims["width"])
    of.q, of.k, of.bias = (x.ctypes.data for x in (q, k, bias))
    of.temperature, of.place = number("temperature", temperature), choice("place", place, _PLACES)
    call("relative_costs", of, costs)
    return costs


def alibi_bias(slope: float, queries: int, keys: int, offset: int = 0, causal: bool = False) -> Any:
    """`-slope |i + offset - j|` (queries, keys); with `causal` -inf above the diagonal. [LIT-32]"""
    sizes = count("queries", queries, 1) or 0, count("keys", keys, 1) or 0
    if not 0 < sizes[0] * sizes[1] <= 1 << 40:
        raise ValueError(f"queries is {queries!r} and keys is {keys!r}, wanted 1 to {1 << 40} pairs")
    bias = np.empty(sizes)
    call("alibi_bias", slope, *sizes, offset, int(flag("causal", causal)), bias)
    return bias


def rope_matrix(width: int, position: float, base: float = 10000.0) -> Any:
    """The rotation (width, width) of `position`. [TOT-51, 52]"""
    width = count("width", width, 1, 1 << 20) or 0
    rotation = np.empty((width, width))
    call("rope_matrix", width, position, base, rotation)
    return rotation


def context(p: Any, values: Any) -> Any:
    """sum_j p_j v_j (width,) of weights (keys,) and values (keys, width). [LIT-15]"""
    dims = Dims()
    p, V = dims("p", p, "keys"), dims("values", values, "keys width")
    out = np.empty(dims["width"])
    call("context", p, V, *V.shape, out)
    return out


def head_chain_rule(q: Any, k: Any, v: Any, p: Any, dout: Any, dscores: Any, scale: float = 0.0) -> Record:
    """dp, dq, dk, dv of one head around its weights. [LIT-21]

    q (queries, width), k (keys, width), v (keys, values_width), p and dscores (queries, keys), dout (queries,
    values_width); scale 0: 1 / sqrt(width).
    """
    dims, chain = Dims(), c.HeadChain()
    arrays = {
        "q": dims("q", q, "queries width"),
        "k": dims("k", k, "keys width"),
        "v": dims("v", v, "keys values_width"),
        "p": dims("p", p, "queries keys"),
        "dout": dims("dout", dout, "queries values_width"),
        "dscores": dims("dscores", dscores, "queries keys"),
    }
    results = {f"d{name}": np.empty_like(arrays[name]) for name in ("p", "q", "k", "v")}
    for name in ("queries", "keys", "width", "values_width"):
        setattr(chain, name, dims[name])
    chain.scale = scale
    for name, x in {**arrays, **results}.items():
        setattr(chain, name, x.ctypes.data)
    call("head_chain_rule", chain)
    return Record(**results)


class AttentionLayer:
    """Multi-head attention with its projections, as the C library runs it in f64. [CETA-29, TOT-53]

    Parameters
    ----------
    query_weights, key_weights : array, shape (width, heads * head_width)
    value_weights : array, shape (width, heads * value_width)
    output_weights : array, shape (heads * value_width, width)
    query_bias, key_bias, value_bias, output_bias : array, optional
        Of the projections' columns.
    heads : int
    rotary_base : float
        More than 0: queries and keys are rotated.
    method : str
        As in `otattn.attention`, braces included.
    temperature : float
    tolerance, rounds, backend : optional
        As in `otattn.attention`.

    Examples
    --------
    >>> import numpy as np
    >>> from otattn import analysis
    >>> one = np.eye(4)
    >>> layer = analysis.AttentionLayer(one, one, one, one, heads=2, method="softmax/exact")
    >>> layer.forward(np.eye(3, 4)).receiver.round(6)
    array([[1., 1., 1.],
           [1., 1., 1.]])
    """

    def __init__(
        self,
        query_weights: Any,
        key_weights: Any,
        value_weights: Any,
        output_weights: Any,
        query_bias: Any = None,
        key_bias: Any = None,
        value_bias: Any = None,
        output_bias: Any = None,
        *,
        heads: int = 1,
        rotary_base: float = 0.0,
        method: str = "softmax",
        temperature: float = 1.0,
        tolerance: float | None = None,
        rounds: int | None = None,
        backend: str | None = None,
    ) -> None:
        if not isinstance(method, str):
            raise TypeError(f"method is a {type(method).__name__}, wanted a string")
        if not isinstance(backend, (str, type(None))):
            raise TypeError(f"backend is a {type(backend).__name__}, wanted a string or None")
        heads = count("heads", heads, 1) or 0
        dims = Dims()
        letters = ("width projected", "width projected", "width valued", "valued width")
        weights = (query_weights, key_weights, value_weights, output_weights)
        self._arrays = [
            dims(name, x, shape) for name, x, shape in zip(_WEIGHTS, weights, letters, strict=True)
        ]
        biases = (query_bias, key_bias, value_bias, output_bias)
        for name, x, letter in zip(
            _BIASES, biases, ("projected", "projected", "valued", "width"), strict=True
        ):
            self._arrays.append(_maybe(dims, name, x, letter))
        self.heads, self.width = heads, dims["width"]
        for name in ("projected", "valued"):
            if not heads or dims[name] % heads:
                raise ValueError(f"heads is {heads}, which does not divide the {dims[name]} columns")
        self._problem, self._options = c.Problem(), c.Options()
        self._problem.size, self._options.size = ctypes.sizeof(c.Problem), ctypes.sizeof(c.Options)
        self._options.cancel = CANCEL
        call("method_parse", method.encode(), self._problem, self._options, of="method")
        temperature = number("temperature", temperature)
        if temperature != 1.0:
            self._problem.temperature = temperature
        if tolerance is not None:
            self._options.tolerance = number("tolerance", tolerance)
        if (rounds := count("rounds", rounds)) is not None:
            self._options.rounds = rounds if rounds > 0 else c.NO_ROUNDS
        if backend is not None:
            self._options.backend = backend.encode()
        layer = self._layer = c.AttentionLayer()
        layer.size = ctypes.sizeof(layer)
        layer.width, layer.heads = self.width, heads
        layer.head_width, layer.value_width = dims["projected"] // heads, dims["valued"] // heads
        for name, x in zip(_WEIGHTS + _BIASES, self._arrays, strict=True):
            setattr(layer, name, None if x is None else x.ctypes.data)
        layer.rotary_base = number("rotary_base", rotary_base)
        layer.method, layer.options = ctypes.addressof(self._problem), ctypes.addressof(self._options)

    def _space(self, queries: int, keys: int, change: bool = False) -> Any:
        sizes = library.ota_attention_change_workspace if change else library.ota_attention_workspace
        return np.empty(max(1, sizes(ctypes.byref(self._layer), queries, keys)))

    def forward(self, x: Any, context: Any = None) -> Record:
        """out, mixed, parts, coupling, receiver of tokens x (queries, width).

        Parameters
        ----------
        x : array, shape (queries, width)
        context : array, shape (keys, width), optional
            Where keys and values come from; default x.

        Returns
        -------
        Record
            out (queries, width), mixed (queries, heads * value_width), parts (heads, queries, width),
            coupling (heads, queries, keys), receiver (heads, keys), status.
        """
        dims = self._dims()
        x = dims("x", x, "queries width")
        context = _maybe(dims, "context", context, "keys width")
        n, m = len(x), len(x if context is None else context)
        outputs, result = c.AttentionOutputs(), c.Result()
        outputs.size, result.size = ctypes.sizeof(outputs), ctypes.sizeof(result)
        arrays = {
            "out": np.empty((n, self.width)),
            "mixed": np.empty((n, self.heads * self._layer.value_width)),
            "parts": np.empty((self.heads, n, self.width)),
            "coupling": np.empty((self.heads, n, m)),
            "receiver": np.empty((self.heads, m)),
        }
        for name, array in arrays.items():
            setattr(outputs, name, array.ctypes.data)
        given = self._input(x, context)
        call("attention_forward", self._layer, given, outputs, self._space(n, m), result)
        return record(result, **arrays)

    def block(self, x: Any, alpha: float = 1.0, norm: tuple[Any, Any, float] | None = None) -> Any:
        """x + alpha A(N(x)) of tokens (tokens, width); norm = (gamma, beta, epsilon). [CETA-27]"""
        x = self._dims()("x", x, "tokens width")
        y, given, keep = np.empty_like(x), *self._norm(norm)
        block = self._block(given, alpha)
        call("attention_block", block, x, len(x), y, self._space(len(x), len(x)), None)
        del keep
        return y

    def mean_change(self, x: Any) -> Record:
        """receiver_error, value_change, input_change of self-attention on x (tokens, width). [CETA-30]"""
        x = self._dims()("x", x, "tokens width")
        found = c.AttentionMeans()
        call("attention_mean_change", self._layer, x, len(x), self._space(len(x), len(x)), found)
        return record(found)

    def change(self, x: Any, x2: Any, context: Any = None, context2: Any = None) -> tuple[Record, Record]:
        """How far outputs and weights move from (x, context) to (x2, context2), and bounds. [TOT-54, 55]

        Raises
        ------
        ValueError
            For methods outside the theorems.
        """
        dims = self._dims()
        x, x2 = dims("x", x, "queries width"), dims("x2", x2, "queries width")
        context = _maybe(dims, "context", context, "keys width")
        context2 = _maybe(dims, "context2", context2, "keys width")
        n, m = len(x), len(x if context is None else context)
        output, weights, space = c.Change(), c.Change(), self._space(n, m, True)
        before, after = self._input(x, context), self._input(x2, context2)
        after.keys = before.keys
        call("attention_change", self._layer, before, after, space, output, weights)
        return record(output), record(weights)

    def block_change(
        self, x: Any, x2: Any, alpha: float = 1.0, norm: tuple[Any, Any, float] | None = None
    ) -> Record:
        """How far `block` moves from x to x2 (tokens, width), and bounds. [TOT-60]"""
        dims, found = self._dims(), c.Change()
        x, x2 = dims("x", x, "tokens width"), dims("x2", x2, "tokens width")
        given, keep = self._norm(norm)
        space = self._space(len(x), len(x), True)
        call("block_change", self._block(given, alpha), x, x2, len(x), space, found)
        del keep
        return record(found)

    def projected_change(
        self, before: tuple[Any, Any, Any], after: tuple[Any, Any, Any]
    ) -> tuple[Record, Record]:
        """As `change`, from what the projections of a model made, biases and rotations included. [TOT-54, 55]

        Parameters
        ----------
        before, after : tuple of array
            q, k (tokens, heads * head_width), v (tokens, heads * value_width) of two runs; heads that share
            keys and values have copies.
        """
        dims, output, weights = self._dims(), c.Change(), c.Change()
        first, keep = self._projected(dims, before)
        second, also = self._projected(dims, after)
        tokens = dims["tokens"]
        space = self._space(tokens, tokens, True)
        call("projected_change", self._layer, first, second, tokens, space, output, weights)
        del keep, also
        return record(output), record(weights)

    def projected_block_change(
        self,
        before: tuple[Any, Any, Any],
        after: tuple[Any, Any, Any],
        x: Any,
        x2: Any,
        norm: tuple[Any, Any, float] | None = None,
        rms: bool = False,
        behind: bool = False,
    ) -> Record:
        """As `block_change`, from two runs as in `projected_change` and their inputs. [TOT-60]

        Parameters
        ----------
        before, after : tuple of array
            As in `projected_change`.
        x, x2 : array, shape (tokens, width)
        norm : tuple, optional
            gamma, beta, epsilon.
        rms : bool
            The norm is RMSNorm, and beta is not read.
        behind : bool
            The norm stands behind the sum, as in BERT.
        """
        dims, found, residual = self._dims(), c.Change(), c.Residual()
        first, keep = self._projected(dims, before, x)
        second, also = self._projected(dims, after, x2)
        given, norms = self._norm(norm)
        residual.size = ctypes.sizeof(residual)
        residual.norm = None if given is None else ctypes.addressof(given)
        residual.rms, residual.behind = rms, behind
        tokens = dims["tokens"]
        space = self._space(tokens, tokens, True)
        call("projected_block_change", self._layer, residual, first, second, tokens, space, found)
        del keep, also, norms
        return record(found)

    def _projected(self, dims: Dims, run: tuple[Any, Any, Any], x: Any = None) -> tuple[Any, Any]:
        layer, made = self._layer, c.Projected()
        dims.sizes["projected"] = layer.heads * layer.head_width
        dims.sizes["valued"] = layer.heads * layer.value_width
        arrays = [_maybe(dims, "x", x, "tokens width")]
        letters = ("tokens projected", "tokens projected", "tokens valued")
        arrays += [dims(name, a, shape) for name, a, shape in zip("qkv", run, letters, strict=True)]
        for name, a in zip("xqkv", arrays, strict=True):
            setattr(made, name, None if a is None else a.ctypes.data)
        return made, arrays

    def _input(self, x: Any, context: Any) -> Any:
        given = c.AttentionInput(queries=len(x), keys=len(x if context is None else context))
        given.x, given.context = (None if a is None else a.ctypes.data for a in (x, context))
        return given

    def _block(self, norm: Any, alpha: float) -> Any:
        block = c.ResidualBlock(layer=ctypes.addressof(self._layer), alpha=number("alpha", alpha))
        block.norm = None if norm is None else ctypes.addressof(norm)
        return block

    def _dims(self) -> Dims:
        dims = Dims()
        dims.sizes["width"] = self.width
        return dims

    def _norm(self, norm: tuple[Any, Any, float] | None) -> tuple[Any, Any]:
        if norm is None:
            return None, None
        if not isinstance(norm, (tuple, list)) or len(norm) != 3:
            raise TypeError(f"norm is {shown(norm)}, wanted (gamma, beta, epsilon)")
        dims, given = self._dims(), c.Norm()
        gamma, beta = _maybe(dims, "gamma", norm[0], "width"), _maybe(dims, "beta", norm[1], "width")
        given.gamma, given.beta = (None if x is None else x.ctypes.data for x in (gamma, beta))
        given.epsilon = number("norm[2]", norm[2])
        return given, (gamma, beta)


def identity_core(coupling: Any, x: Any, alpha: float = 1.0) -> Any:
    """(1 - alpha) X + alpha P X of tokens (tokens, width). [CETA-28]"""
    dims = Dims()
    P, x = dims("coupling", coupling, "tokens tokens"), dims("x", x, "tokens width")
    y = np.empty_like(x)
    call("identity_core", P, x, *x.shape, alpha, y)
    return y


def spectral_norm(a: Any) -> float:
    """||A||_2 of (rows, columns), from above."""
    a = Dims()("a", a, "rows columns")
    space = np.empty(2 * min(a.shape) ** 2)
    norm = plain("spectral_norm", a.ctypes.data, *a.shape, a.shape[1], space.ctypes.data)
    return float(norm)
