"""The structs, constants and calls of the C headers, written by scripts/make_python_structs.py.

Do not edit. A call is its result and its arguments, one letter each: n nothing, a Array, t Text, b bool,
i int, u unsigned, l int64, z size_t, d double, s text, p pointer, o options of the analysis; then the names
of the arguments that are numbers.
"""

import ctypes

VERSION_MAJOR = 0
VERSION_MINOR = 2
VERSION_PATCH = 0
NO_ROUNDS = -1
OK = 0
FIXED_ITERS = 1
PARTIAL = 2
NONFINITE_ROWS = 3
EINVAL = -1
ENOMEM = -2
EOVERFLOW = -3
EALIAS = -4
EALIGN = -5
NOT_CONVERGED = -6
INFEASIBLE = -7
TOL_UNREACHABLE = -8
NONFINITE = -9
NOT_DIFFERENTIABLE = -10
UNSUPPORTED = -11
CANCELLED = -12
TIMEOUT = -13
EFORMAT = -14
ELIMIT = -15
EIO = -16
EPATH = -17
ETRUNC = -18
EMISMATCH = -19
EDEVICE = -20
ECOMM = -21
EINTERNAL = -22
UNSOLVED = -1000
NO_TYPE = 0
F64 = 1
F32 = 2
BF16 = 3
F16 = 4
BOOL = 5
I64 = 6
TERM_DENSE = 1
TERM_ALIBI = 2
TERM_RELATIVE = 3
TERM_RELATIVE_INSIDE = 4
TERM_SOFTCAP = 5
TERM_SINK = 6
SUPPORT_CAUSAL = 1
SUPPORT_WINDOW = 2
SUPPORT_STRIDED = 3
SUPPORT_BLOCK = 4
SUPPORT_LENGTHS = 5
SUPPORT_BOOLEAN = 6
SUPPORT_ADDITIVE = 7
CORNER_UNSET = 0
TOP_LEFT = 1
BOTTOM_RIGHT = 2
SOFTMAX = 0
ENTMAX = 1
HARD = 2
CUSTOM = 3
COLUMNS_FREE = 0
COLUMNS_EXACT = 1
COLUMNS_RELAXED = 2
COLUMNS_CAPPED = 3
COLUMNS_ELASTIC = 4
COLUMNS_PREFIX = 5
COLUMNS_ONLINE = 6
COLUMNS_BOUNDED = 7
ROWS_HARD = 0
ROWS_RELAXED = 1
AXIS_ROWS = 0
AXIS_COLUMNS = 1
SIDE_ROWS = 0
SIDE_COLUMNS = 1
SHARES_IN_ORDER = 0
SHARES_ZIGZAG = 1
REDUCE_SUM = 0
REDUCE_MAX = 1
KEYS_AUTO = 0
KEYS_GATHERED = 1
KEYS_IN_RING = 2
CENTER_NONE = 0
CENTER_MEAN = 1
CENTER_MIDRANGE = 2
PRECISION_AUTO = 0
PRECISION_F32 = 1
PRECISION_F64 = 2
HAMMING_NEWTON = 0
HAMMING_SINKHORN = 1
GAUGE_HOWARD = 0
GAUGE_MIDRANGE = 1
GAUGE_LEAST_SQUARES = 2
GAUGE_FAST = 3
BIAS_INSIDE = 0
BIAS_OUTSIDE = 1
TOKEN_SPACE = 1
TOKEN_WORD_START = 2
TOKEN_LETTERS = 4
TOKEN_DIGITS = 8
TOKEN_PUNCTUATION = 16
TOKEN_SENTENCE_END = 32
NORMALIZE_DEEPSEEK = 0
NORMALIZE_SYMMETRIC = 1
ROUTE_SINKHORN = 0
ROUTE_TOPK = 1
ROUTE_BASE = 2
ROUTE_QUANTILE = 3
ROUTE_GIVEN = 4


class Error(ctypes.Structure):
    _fields_ = (
        ("field", ctypes.c_char * 64),
        ("message", ctypes.c_char * 512),
        ("hint", ctypes.c_char * 256),
    )


class Array(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("type", ctypes.c_int),
        ("size", ctypes.c_int64 * 4),
        ("stride", ctypes.c_int64 * 4),
    )


class Term(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_int),
        ("array", Array),
        ("value", ctypes.c_double),
    )


class Support(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_int),
        ("array", Array),
        ("left", ctypes.c_int64),
        ("right", ctypes.c_int64),
    )


class Custom(ctypes.Structure):
    _fields_ = (
        ("weight", ctypes.c_void_p),
        ("slope", ctypes.c_void_p),
        ("value", ctypes.c_void_p),
        ("user", ctypes.c_void_p),
    )


class Problem(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("queries", Array),
        ("keys", Array),
        ("scores", Array),
        ("cost", ctypes.c_int),
        ("scale", ctypes.c_double),
        ("temperature", ctypes.c_double),
        ("temperatures", Array),
        ("terms", ctypes.c_void_p),
        ("term_count", ctypes.c_int64),
        ("supports", ctypes.c_void_p),
        ("support_count", ctypes.c_int64),
        ("corner", ctypes.c_int),
        ("regulariser", ctypes.c_int),
        ("order", ctypes.c_double),
        ("rows", ctypes.c_int),
        ("row_strength", ctypes.c_double),
        ("columns", ctypes.c_int),
        ("strength", ctypes.c_double),
        ("cap", ctypes.c_double),
        ("lambda", ctypes.c_double),
        ("steps", ctypes.c_int64),
        ("lambdas", Array),
        ("row_mass", Array),
        ("column_mass", Array),
        ("axis", ctypes.c_int),
        ("start", ctypes.c_int),
        ("end", ctypes.c_int),
        ("custom", Custom),
        ("dropout", ctypes.c_double),
        ("dropout_seed", ctypes.c_uint64),
        ("dropout_offset", ctypes.c_uint64),
        ("lower", ctypes.c_double),
        ("upper", ctypes.c_double),
        ("entry_cap", ctypes.c_double),
        ("entry_caps", Array),
    )


class Communicator(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("rank", ctypes.c_int),
        ("ranks", ctypes.c_int),
        ("shares", ctypes.c_int),
        ("all_reduce", ctypes.c_void_p),
        ("all_gather", ctypes.c_void_p),
        ("user", ctypes.c_void_p),
        ("send_receive", ctypes.c_void_p),
        ("keys", ctypes.c_int),
        ("first_pieces", ctypes.c_void_p),
    )


class Executor(ctypes.Structure):
    _fields_ = (
        ("run", ctypes.c_void_p),
        ("user", ctypes.c_void_p),
        ("threads", ctypes.c_int),
    )


class Progress(ctypes.Structure):
    _fields_ = (
        ("heads_done", ctypes.c_int64),
        ("heads", ctypes.c_int64),
        ("round", ctypes.c_int64),
        ("residual", ctypes.c_double),
    )


class Options(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("tolerance", ctypes.c_double),
        ("max_rounds", ctypes.c_int64),
        ("rounds", ctypes.c_int64),
        ("anneal_start", ctypes.c_double),
        ("anneal_factor", ctypes.c_double),
        ("anneal_rounds", ctypes.c_int64),
        ("anneal_keep_scaling", ctypes.c_int),
        ("relaxation", ctypes.c_double),
        ("relaxation_auto", ctypes.c_int),
        ("center", ctypes.c_int),
        ("precision", ctypes.c_int),
        ("tolerance_scaling", ctypes.c_double),
        ("prune", ctypes.c_int),
        ("allow_partial", ctypes.c_int),
        ("strict", ctypes.c_int),
        ("solver", ctypes.c_char_p),
        ("threads", ctypes.c_int),
        ("executor", ctypes.c_void_p),
        ("cpu", ctypes.c_char_p),
        ("workspace_limit", ctypes.c_size_t),
        ("cancel", ctypes.c_void_p),
        ("deadline_ns", ctypes.c_int64),
        ("progress", ctypes.c_void_p),
        ("progress_user", ctypes.c_void_p),
        ("gradients", ctypes.c_int),
        ("backward", ctypes.c_int),
        ("backend", ctypes.c_char_p),
        ("communicator", ctypes.c_void_p),
    )


class HeadResult(ctypes.Structure):
    _fields_ = (
        ("status", ctypes.c_int),
        ("rounds", ctypes.c_int64),
        ("row_error", ctypes.c_double),
        ("column_error", ctypes.c_double),
    )


class Arrays(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("values", Array),
        ("out", Array),
        ("coupling", Array),
        ("row_potential", Array),
        ("column_potential", Array),
        ("lse", Array),
        ("receiver", Array),
        ("row_entropy", Array),
        ("row_support", Array),
        ("row_max", Array),
        ("sink", Array),
        ("start_potential", Array),
        ("remaining", Array),
        ("heads", ctypes.c_void_p),
    )


class Result(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("status", ctypes.c_int),
        ("rounds", ctypes.c_int64),
        ("row_error", ctypes.c_double),
        ("column_error", ctypes.c_double),
        ("empty_rows", ctypes.c_int64),
        ("nonfinite_rows", ctypes.c_int64),
        ("unusable_pairs", ctypes.c_int64),
        ("pruned_pairs", ctypes.c_int64),
        ("underflowed", ctypes.c_int64),
        ("promoted", ctypes.c_int),
        ("temperature_reached", ctypes.c_double),
        ("head", ctypes.c_int64),
        ("sentence", ctypes.c_char * 512),
        ("backward_residual", ctypes.c_double),
        ("solver", ctypes.c_char_p),
        ("messages", ctypes.c_int64),
        ("message_bytes", ctypes.c_int64),
        ("masked_share", ctypes.c_double),
    )


class Gradients(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("out_grad", Array),
        ("coupling_grad", Array),
        ("queries", Array),
        ("keys", Array),
        ("values", Array),
        ("scores", Array),
        ("matrix", Array),
        ("terms", ctypes.c_void_p),
        ("temperature", Array),
        ("order", Array),
        ("cap", Array),
        ("strength", Array),
        ("row_strength", Array),
        ("row_mass", Array),
        ("column_mass", Array),
        ("solved", ctypes.c_int),
        ("lower", Array),
        ("upper", Array),
    )


class Tangents(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("scores", Array),
        ("values", Array),
        ("coupling", Array),
        ("out", Array),
        ("queries", Array),
        ("keys", Array),
        ("matrix", Array),
        ("terms", ctypes.c_void_p),
        ("temperature", Array),
        ("order", Array),
        ("cap", Array),
        ("strength", Array),
        ("row_strength", Array),
        ("row_mass", Array),
        ("column_mass", Array),
        ("lower", Array),
        ("upper", Array),
    )


class Certificate(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("row_error", ctypes.c_double),
        ("column_error", ctypes.c_double),
        ("primal", ctypes.c_double),
        ("dual", ctypes.c_double),
        ("gap", ctypes.c_double),
        ("value", ctypes.c_double),
        ("entropy", ctypes.c_double),
        ("support", ctypes.c_double),
        ("receiver_max", ctypes.c_double),
        ("receiver_min", ctypes.c_double),
        ("delta", ctypes.c_double),
        ("minimum", ctypes.c_double),
        ("outside", ctypes.c_double),
        ("empty_rows", ctypes.c_int64),
        ("nonfinite_rows", ctypes.c_int64),
        ("cap_error", ctypes.c_double),
    )


class AnalysisOptions(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("cancel", ctypes.c_void_p),
        ("deadline_ns", ctypes.c_int64),
        ("progress", ctypes.c_void_p),
        ("progress_user", ctypes.c_void_p),
    )


class Matrix(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("type", ctypes.c_int),
        ("rows", ctypes.c_int64),
        ("columns", ctypes.c_int64),
    )


class HammingResult(ctypes.Structure):
    _fields_ = (
        ("status", ctypes.c_int),
        ("rounds", ctypes.c_int64),
        ("theta", ctypes.c_double),
        ("cost", ctypes.c_double),
        ("objective", ctypes.c_double),
        ("marginal_error", ctypes.c_double),
        ("tv", ctypes.c_double),
        ("divergence", ctypes.c_double),
    )


class HammingOptions(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("solver", ctypes.c_int),
        ("tolerance", ctypes.c_double),
        ("max_rounds", ctypes.c_int64),
        ("u", ctypes.c_void_p),
        ("v", ctypes.c_void_p),
        ("errors", ctypes.c_void_p),
    )


class GaugeMatrix(ctypes.Structure):
    _fields_ = (
        ("a", ctypes.c_void_p),
        ("b", ctypes.c_void_p),
        ("type", ctypes.c_int),
        ("rows", ctypes.c_int64),
        ("columns", ctypes.c_int64),
    )


class GaugeOptions(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("rule", ctypes.c_int),
        ("tolerance", ctypes.c_double),
        ("max_passes", ctypes.c_int64),
        ("executor", ctypes.c_void_p),
    )


class GaugeArrays(ctypes.Structure):
    _fields_ = (
        ("row_shift", ctypes.c_void_p),
        ("column_shift", ctypes.c_void_p),
        ("row_residual", ctypes.c_void_p),
        ("cycle_rows", ctypes.c_void_p),
        ("cycle_columns", ctypes.c_void_p),
    )


class GaugeResult(ctypes.Structure):
    _fields_ = (
        ("status", ctypes.c_int),
        ("residual", ctypes.c_double),
        ("residual_lower", ctypes.c_double),
        ("rms", ctypes.c_double),
        ("per_sqrt_columns", ctypes.c_double),
        ("per_normal_maximum", ctypes.c_double),
        ("passes", ctypes.c_int64),
        ("cycle_length", ctypes.c_int64),
    )


class GaugeChain(ctypes.Structure):
    _fields_ = (
        ("layers", ctypes.c_int64),
        ("rows", ctypes.c_int64),
        ("columns", ctypes.c_int64),
        ("start", ctypes.c_void_p),
        ("moves", ctypes.c_void_p),
        ("row_shift", ctypes.c_void_p),
        ("column_shift", ctypes.c_void_p),
    )


class Contraction(ctypes.Structure):
    _fields_ = (
        ("diameter", ctypes.c_double),
        ("rate", ctypes.c_double),
        ("entry_range", ctypes.c_double),
        ("entry_rate", ctypes.c_double),
    )


class ScalingRun(ctypes.Structure):
    _fields_ = (
        ("row_relaxation", ctypes.c_double),
        ("column_relaxation", ctypes.c_double),
        ("plain", ctypes.c_int64),
        ("tolerance", ctypes.c_double),
        ("most", ctypes.c_int64),
        ("errors", ctypes.c_void_p),
        ("changes", ctypes.c_void_p),
        ("f", ctypes.c_void_p),
        ("g", ctypes.c_void_p),
        ("rounds", ctypes.c_int64),
    )


class CouplingSpectrum(ctypes.Structure):
    _fields_ = (
        ("second", ctypes.c_double),
        ("least", ctypes.c_double),
        ("second_residual", ctypes.c_double),
        ("least_residual", ctypes.c_double),
        ("rounds", ctypes.c_int64),
    )


class Divergence(ctypes.Structure):
    _fields_ = (
        ("tv", ctypes.c_double),
        ("w1", ctypes.c_double),
        ("kl", ctypes.c_double),
        ("kl_reverse", ctypes.c_double),
        ("js", ctypes.c_double),
        ("entropy_before", ctypes.c_double),
        ("entropy_after", ctypes.c_double),
        ("entropy_change", ctypes.c_double),
        ("hellinger", ctypes.c_double),
        ("fisher_rao", ctypes.c_double),
    )


class Tail(ctypes.Structure):
    _fields_ = (
        ("index", ctypes.c_int64),
        ("mass", ctypes.c_double),
        ("log_mass", ctypes.c_double),
        ("margin", ctypes.c_double),
    )


class LogitChange(ctypes.Structure):
    _fields_ = (
        ("max_change", ctypes.c_double),
        ("range_half", ctypes.c_double),
        ("correlation", ctypes.c_double),
        ("effective_temperature", ctypes.c_double),
    )


class RankChange(ctypes.Structure):
    _fields_ = (
        ("counts", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("overlap", ctypes.c_void_p),
        ("spearman", ctypes.c_void_p),
    )


class StateChange(ctypes.Structure):
    _fields_ = (
        ("norm_change", ctypes.c_double),
        ("relative_l2", ctypes.c_double),
        ("cosine", ctypes.c_double),
        ("max_coordinate_change", ctypes.c_double),
    )


class Summary(ctypes.Structure):
    _fields_ = (
        ("minimum", ctypes.c_double),
        ("maximum", ctypes.c_double),
        ("mean", ctypes.c_double),
        ("deviation", ctypes.c_double),
        ("median", ctypes.c_double),
        ("p95", ctypes.c_double),
        ("p99", ctypes.c_double),
        ("variation", ctypes.c_double),
        ("skewness", ctypes.c_double),
        ("kurtosis", ctypes.c_double),
    )


class Fenchel(ctypes.Structure):
    _fields_ = (
        ("gap", ctypes.c_double),
        ("divergence", ctypes.c_double),
        ("level", ctypes.c_double),
        ("spread", ctypes.c_double),
    )


class ScorePair(ctypes.Structure):
    _fields_ = (
        ("scores", ctypes.c_void_p),
        ("perturbed", ctypes.c_void_p),
        ("rows", ctypes.c_int64),
        ("columns", ctypes.c_int64),
        ("temperature", ctypes.c_double),
    )


class ScoreBounds(ctypes.Structure):
    _fields_ = (
        ("sup", ctypes.c_double),
        ("range", ctypes.c_double),
        ("residual", ctypes.c_double),
        ("printed", ctypes.c_double),
        ("sharp", ctypes.c_double),
        ("family", ctypes.c_double),
        ("rows", ctypes.c_double),
        ("row", ctypes.c_double),
    )


class ScoreChange(ctypes.Structure):
    _fields_ = (
        ("l1", ctypes.c_double),
        ("row_l1", ctypes.c_double),
        ("energy", ctypes.c_double),
        ("jeffreys", ctypes.c_double),
    )


class OutputBounds(ctypes.Structure):
    _fields_ = (
        ("values_change", ctypes.c_double),
        ("values_norm", ctypes.c_double),
        ("diameter", ctypes.c_double),
        ("printed", ctypes.c_double),
        ("sharp", ctypes.c_double),
        ("rows", ctypes.c_double),
    )


class Mixing(ctypes.Structure):
    _fields_ = (
        ("coupling", ctypes.c_void_p),
        ("rows", ctypes.c_int64),
        ("keys", ctypes.c_int64),
        ("alpha", ctypes.c_double),
    )


class Receiver(ctypes.Structure):
    _fields_ = (
        ("total", ctypes.c_double),
        ("largest", ctypes.c_double),
        ("smallest", ctypes.c_double),
        ("imbalance", ctypes.c_double),
    )


class Permutations(ctypes.Structure):
    _fields_ = (
        ("capacity", ctypes.c_int64),
        ("weights", ctypes.c_void_p),
        ("columns", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("rest", ctypes.c_double),
    )


class Fit(ctypes.Structure):
    _fields_ = (
        ("method", ctypes.c_char * 192),
        ("regulariser", ctypes.c_int),
        ("order", ctypes.c_double),
        ("columns", ctypes.c_int),
        ("strength", ctypes.c_double),
        ("cap", ctypes.c_double),
        ("lambda", ctypes.c_double),
        ("steps", ctypes.c_int64),
        ("rows", ctypes.c_int),
        ("row_strength", ctypes.c_double),
        ("axis", ctypes.c_int),
        ("temperature", ctypes.c_double),
        ("temperature_known", ctypes.c_int),
        ("parameters", ctypes.c_int),
        ("residual", ctypes.c_double),
        ("distance", ctypes.c_double),
        ("explains", ctypes.c_int),
        ("own_row_mass", ctypes.c_int),
        ("own_column_mass", ctypes.c_int),
        ("scores_add", ctypes.c_int),
    )


class Lipschitz(ctypes.Structure):
    _fields_ = (
        ("l1", ctypes.c_double),
        ("printed", ctypes.c_double),
        ("sharp", ctypes.c_double),
    )


class Probe(ctypes.Structure):
    _fields_ = (
        ("norm", ctypes.c_double),
        ("diameter", ctypes.c_double),
        ("diameter_exact", ctypes.c_int),
    )


class Saturation(ctypes.Structure):
    _fields_ = (
        ("index", ctypes.c_int64),
        ("kept", ctypes.c_int),
        ("tail_before", ctypes.c_double),
        ("tail_after", ctypes.c_double),
        ("tv", ctypes.c_double),
        ("margin", ctypes.c_double),
        ("margin_loss", ctypes.c_double),
        ("bound", ctypes.c_double),
        ("tail_bound", ctypes.c_double),
        ("printed", ctypes.c_double),
    )


class SoftmaxLimits(ctypes.Structure):
    _fields_ = (
        ("max_least", ctypes.c_double),
        ("max_most", ctypes.c_double),
        ("min_least", ctypes.c_double),
        ("min_most", ctypes.c_double),
    )


class Uniformity(ctypes.Structure):
    _fields_ = (
        ("entropy", ctypes.c_double),
        ("entropy_bound", ctypes.c_double),
        ("tv", ctypes.c_double),
        ("by_least", ctypes.c_double),
        ("by_range", ctypes.c_double),
        ("by_least_sharp", ctypes.c_double),
        ("by_range_sharp", ctypes.c_double),
    )


class Change(ctypes.Structure):
    _fields_ = (
        ("measured", ctypes.c_double),
        ("printed", ctypes.c_double),
        ("sharp", ctypes.c_double),
        ("printed_ratio", ctypes.c_double),
        ("sharp_ratio", ctypes.c_double),
    )


class Norm(ctypes.Structure):
    _fields_ = (
        ("gamma", ctypes.c_void_p),
        ("beta", ctypes.c_void_p),
        ("epsilon", ctypes.c_double),
    )


class NormGradients(ctypes.Structure):
    _fields_ = (
        ("dy", ctypes.c_void_p),
        ("du", ctypes.c_void_p),
        ("dgamma", ctypes.c_void_p),
        ("dbeta", ctypes.c_void_p),
    )


class LayernormSpectrum(ctypes.Structure):
    _fields_ = (
        ("sigma", ctypes.c_double),
        ("parallel", ctypes.c_double),
        ("perpendicular", ctypes.c_double),
        ("perpendicular_count", ctypes.c_int64),
        ("printed", ctypes.c_double),
        ("exact", ctypes.c_double),
        ("global_printed", ctypes.c_double),
        ("global_exact", ctypes.c_double),
    )


class AbsolutePositions(ctypes.Structure):
    _fields_ = (
        ("tokens", ctypes.c_int64),
        ("width", ctypes.c_int64),
        ("head_width", ctypes.c_int64),
        ("x", ctypes.c_void_p),
        ("positions", ctypes.c_void_p),
        ("query_weights", ctypes.c_void_p),
        ("key_weights", ctypes.c_void_p),
        ("temperature", ctypes.c_double),
    )


class RelativePositions(ctypes.Structure):
    _fields_ = (
        ("queries", ctypes.c_int64),
        ("keys", ctypes.c_int64),
        ("head_width", ctypes.c_int64),
        ("q", ctypes.c_void_p),
        ("k", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("temperature", ctypes.c_double),
        ("place", ctypes.c_int),
    )


class HeadChain(ctypes.Structure):
    _fields_ = (
        ("queries", ctypes.c_int64),
        ("keys", ctypes.c_int64),
        ("width", ctypes.c_int64),
        ("values_width", ctypes.c_int64),
        ("scale", ctypes.c_double),
        ("q", ctypes.c_void_p),
        ("k", ctypes.c_void_p),
        ("v", ctypes.c_void_p),
        ("p", ctypes.c_void_p),
        ("dout", ctypes.c_void_p),
        ("dscores", ctypes.c_void_p),
        ("dp", ctypes.c_void_p),
        ("dq", ctypes.c_void_p),
        ("dk", ctypes.c_void_p),
        ("dv", ctypes.c_void_p),
    )


class AttentionLayer(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("width", ctypes.c_int64),
        ("heads", ctypes.c_int64),
        ("head_width", ctypes.c_int64),
        ("value_width", ctypes.c_int64),
        ("query_weights", ctypes.c_void_p),
        ("key_weights", ctypes.c_void_p),
        ("value_weights", ctypes.c_void_p),
        ("output_weights", ctypes.c_void_p),
        ("query_bias", ctypes.c_void_p),
        ("key_bias", ctypes.c_void_p),
        ("value_bias", ctypes.c_void_p),
        ("output_bias", ctypes.c_void_p),
        ("rotary_base", ctypes.c_double),
        ("method", ctypes.c_void_p),
        ("options", ctypes.c_void_p),
    )


class AttentionOutputs(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("out", ctypes.c_void_p),
        ("mixed", ctypes.c_void_p),
        ("parts", ctypes.c_void_p),
        ("coupling", ctypes.c_void_p),
        ("receiver", ctypes.c_void_p),
    )


class AttentionInput(ctypes.Structure):
    _fields_ = (
        ("queries", ctypes.c_int64),
        ("keys", ctypes.c_int64),
        ("x", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    )


class ResidualBlock(ctypes.Structure):
    _fields_ = (
        ("layer", ctypes.c_void_p),
        ("norm", ctypes.c_void_p),
        ("alpha", ctypes.c_double),
    )


class AttentionMeans(ctypes.Structure):
    _fields_ = (
        ("receiver_error", ctypes.c_double),
        ("value_change", ctypes.c_double),
        ("input_change", ctypes.c_double),
    )


class Projected(ctypes.Structure):
    _fields_ = (
        ("x", ctypes.c_void_p),
        ("q", ctypes.c_void_p),
        ("k", ctypes.c_void_p),
        ("v", ctypes.c_void_p),
        ("raw_q", ctypes.c_void_p),
        ("raw_k", ctypes.c_void_p),
    )


class Residual(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("norm", ctypes.c_void_p),
        ("rms", ctypes.c_int),
        ("behind", ctypes.c_int),
        ("query_norm", ctypes.c_void_p),
        ("key_norm", ctypes.c_void_p),
        ("output_norm", ctypes.c_void_p),
    )


class EvolveRow(ctypes.Structure):
    _fields_ = (
        ("logits", ctypes.c_void_p),
        ("vocabulary", ctypes.c_int64),
        ("index", ctypes.c_int64),
        ("max_logit", ctypes.c_double),
        ("log_sum_exp", ctypes.c_double),
        ("entropy", ctypes.c_double),
        ("max_probability", ctypes.c_double),
        ("tail", ctypes.c_double),
        ("deviation", ctypes.c_double),
        ("mean", ctypes.c_double),
        ("rank_squares", ctypes.c_double),
        ("rest", ctypes.c_double),
        ("masses", ctypes.c_void_p),
        ("ranks", ctypes.c_void_p),
        ("top", ctypes.c_void_p),
    )


class Transition(ctypes.Structure):
    _fields_ = (
        ("tv", ctypes.c_double),
        ("w1", ctypes.c_double),
        ("kl", ctypes.c_double),
        ("js", ctypes.c_double),
        ("entropy_change", ctypes.c_double),
        ("top1", ctypes.c_double),
        ("top5", ctypes.c_double),
        ("top10", ctypes.c_double),
        ("top100", ctypes.c_double),
        ("spearman", ctypes.c_double),
        ("max_logit_change", ctypes.c_double),
        ("logit_range_half", ctypes.c_double),
        ("logit_correlation", ctypes.c_double),
        ("effective_temperature", ctypes.c_double),
        ("sharp_ratio", ctypes.c_double),
        ("tail_before", ctypes.c_double),
        ("tail_after", ctypes.c_double),
        ("saturation_bound", ctypes.c_double),
        ("index_before", ctypes.c_int64),
        ("index_after", ctypes.c_int64),
    )


class Prediction(ctypes.Structure):
    _fields_ = (
        ("entropy", ctypes.c_double),
        ("max_probability", ctypes.c_double),
        ("tail", ctypes.c_double),
        ("log_sum_exp", ctypes.c_double),
        ("kl_to_final", ctypes.c_double),
        ("drift", ctypes.c_double),
        ("index", ctypes.c_int64),
        ("agrees", ctypes.c_int),
    )


class EvolveOthers(ctypes.Structure):
    _fields_ = (
        ("before", ctypes.c_void_p),
        ("first", ctypes.c_void_p),
        ("final", ctypes.c_void_p),
    )


class Evolution(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("states", ctypes.c_int64),
        ("positions", ctypes.c_int64),
        ("vocabulary", ctypes.c_int64),
        ("logits", ctypes.c_void_p),
        ("transitions", ctypes.c_void_p),
        ("predictions", ctypes.c_void_p),
        ("threads", ctypes.c_int),
        ("executor", ctypes.c_void_p),
    )


class StateCloud(ctypes.Structure):
    _fields_ = (
        ("mean_norm", ctypes.c_double),
        ("mean_cosine", ctypes.c_double),
        ("participation", ctypes.c_double),
    )


class Outlier(ctypes.Structure):
    _fields_ = (
        ("value", ctypes.c_double),
        ("ratio", ctypes.c_double),
        ("token", ctypes.c_int64),
        ("dimension", ctypes.c_int64),
    )


class Pattern(ctypes.Structure):
    _fields_ = (
        ("first_key_mass", ctypes.c_double),
        ("sink_rate", ctypes.c_double),
        ("receiver_max", ctypes.c_double),
        ("gini", ctypes.c_double),
        ("row_entropy", ctypes.c_double),
        ("max_weight", ctypes.c_double),
        ("support", ctypes.c_double),
        ("receiver", ctypes.c_int64),
        ("rows", ctypes.c_int64),
    )


class HeadView(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("weights", ctypes.c_void_p),
        ("type", ctypes.c_int),
        ("tokens", ctypes.c_int64),
        ("ids", ctypes.c_void_p),
        ("causal", ctypes.c_int),
        ("reach", ctypes.c_int64),
        ("local", ctypes.c_int64),
        ("value_norms", ctypes.c_void_p),
    )


class HeadScores(ctypes.Structure):
    _fields_ = (
        ("previous_token", ctypes.c_double),
        ("duplicate_token", ctypes.c_double),
        ("induction", ctypes.c_double),
        ("positional", ctypes.c_double),
        ("local", ctypes.c_double),
        ("sink", ctypes.c_double),
        ("nop_sink", ctypes.c_double),
        ("broadcast_sink", ctypes.c_double),
        ("previous_share", ctypes.c_double),
        ("duplicate_share", ctypes.c_double),
        ("induction_share", ctypes.c_double),
        ("distance", ctypes.c_double),
        ("value_ratio", ctypes.c_double),
        ("sink_key", ctypes.c_int64),
        ("offset", ctypes.c_int64),
        ("rows", ctypes.c_int64),
        ("duplicate_rows", ctypes.c_int64),
        ("induction_rows", ctypes.c_int64),
    )


class Figure(ctypes.Structure):
    _fields_ = (
        ("mean", ctypes.c_double),
        ("deviation", ctypes.c_double),
        ("median", ctypes.c_double),
        ("p5", ctypes.c_double),
        ("p95", ctypes.c_double),
        ("low", ctypes.c_double),
        ("high", ctypes.c_double),
        ("count", ctypes.c_int64),
        ("units", ctypes.c_int64),
    )


class MeasuredChanges(ctypes.Structure):
    _fields_ = (
        ("l1", ctypes.c_void_p),
        ("steps", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("norm", ctypes.c_double),
        ("allowance", ctypes.c_double),
    )


class Tightness(ctypes.Structure):
    _fields_ = (
        ("ratio", Figure),
        ("largest", ctypes.c_double),
        ("violations", ctypes.c_int64),
    )


class PowerLaw(ctypes.Structure):
    _fields_ = (
        ("exponent", ctypes.c_double),
        ("factor", ctypes.c_double),
        ("error", ctypes.c_double),
        ("explained", ctypes.c_double),
        ("count", ctypes.c_int64),
    )


class Trend(ctypes.Structure):
    _fields_ = (
        ("decreases", ctypes.c_int64),
        ("score", ctypes.c_int64),
        ("tau", ctypes.c_double),
        ("z", ctypes.c_double),
    )


class EventSummary(ctypes.Structure):
    _fields_ = (
        ("events", ctypes.c_int64),
        ("positions_hit", ctypes.c_int64),
        ("frequency", ctypes.c_double),
        ("position_frequency", ctypes.c_double),
        ("first_layer", ctypes.c_int64),
        ("last_layer", ctypes.c_int64),
        ("peak_layer", ctypes.c_int64),
        ("outer", ctypes.c_int64),
        ("runs", ctypes.c_int64),
        ("longest_run", ctypes.c_int64),
        ("mean_run", ctypes.c_double),
    )


class Assignments(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("count", ctypes.c_int64),
        ("rows", ctypes.c_int64),
        ("columns", ctypes.c_int64),
        ("costs", ctypes.c_void_p),
        ("type", ctypes.c_int),
        ("problem_stride", ctypes.c_int64),
        ("row_stride", ctypes.c_int64),
        ("column_stride", ctypes.c_int64),
        ("rows_of", ctypes.c_void_p),
        ("columns_of", ctypes.c_void_p),
        ("offsets", ctypes.c_void_p),
        ("maximize", ctypes.c_int),
        ("limited", ctypes.c_int),
        ("cost_limit", ctypes.c_double),
        ("cancel", ctypes.c_void_p),
        ("deadline_ns", ctypes.c_int64),
        ("column_of", ctypes.c_void_p),
        ("row_of", ctypes.c_void_p),
        ("pair_row", ctypes.c_void_p),
        ("pair_column", ctypes.c_void_p),
        ("pairs", ctypes.c_void_p),
        ("value", ctypes.c_void_p),
        ("row_potential", ctypes.c_void_p),
        ("column_potential", ctypes.c_void_p),
        ("bound", ctypes.c_void_p),
        ("status", ctypes.c_void_p),
    )


class RankedAssignments(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("rows", ctypes.c_int64),
        ("columns", ctypes.c_int64),
        ("costs", ctypes.c_void_p),
        ("type", ctypes.c_int),
        ("row_stride", ctypes.c_int64),
        ("column_stride", ctypes.c_int64),
        ("maximize", ctypes.c_int),
        ("wanted", ctypes.c_int64),
        ("cancel", ctypes.c_void_p),
        ("deadline_ns", ctypes.c_int64),
        ("pair_row", ctypes.c_void_p),
        ("pair_column", ctypes.c_void_p),
        ("value", ctypes.c_void_p),
        ("bound", ctypes.c_void_p),
        ("found", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("problem_stride", ctypes.c_int64),
        ("rows_of", ctypes.c_void_p),
        ("columns_of", ctypes.c_void_p),
        ("offsets", ctypes.c_void_p),
        ("limited", ctypes.c_int),
        ("cost_limit", ctypes.c_double),
        ("pairs", ctypes.c_void_p),
        ("status", ctypes.c_void_p),
        ("threads", ctypes.c_int),
        ("executor", ctypes.c_void_p),
    )


class Bottleneck(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("rows", ctypes.c_int64),
        ("columns", ctypes.c_int64),
        ("costs", ctypes.c_void_p),
        ("type", ctypes.c_int),
        ("row_stride", ctypes.c_int64),
        ("column_stride", ctypes.c_int64),
        ("maximize", ctypes.c_int),
        ("cancel", ctypes.c_void_p),
        ("deadline_ns", ctypes.c_int64),
        ("pair_row", ctypes.c_void_p),
        ("pair_column", ctypes.c_void_p),
        ("value", ctypes.c_void_p),
        ("bound", ctypes.c_void_p),
        ("row_marked", ctypes.c_void_p),
        ("column_marked", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("problem_stride", ctypes.c_int64),
        ("rows_of", ctypes.c_void_p),
        ("columns_of", ctypes.c_void_p),
        ("offsets", ctypes.c_void_p),
        ("limited", ctypes.c_int),
        ("cost_limit", ctypes.c_double),
        ("pairs", ctypes.c_void_p),
        ("pairs_bound", ctypes.c_void_p),
        ("row_covered", ctypes.c_void_p),
        ("column_covered", ctypes.c_void_p),
        ("status", ctypes.c_void_p),
        ("threads", ctypes.c_int),
        ("executor", ctypes.c_void_p),
    )


class Bounded(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("costs", Array),
        ("points", Array),
        ("centres", Array),
        ("take", ctypes.c_int64),
        ("lower", ctypes.c_void_p),
        ("upper", ctypes.c_void_p),
        ("start", ctypes.c_void_p),
        ("unproved", ctypes.c_int),
    )


class BoundedResult(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("chosen", ctypes.c_void_p),
        ("prices", ctypes.c_void_p),
        ("loads", ctypes.c_void_p),
        ("cost", ctypes.c_double),
        ("dual", ctypes.c_double),
        ("paths", ctypes.c_int64),
        ("fillings", ctypes.c_int64),
    )


class LateInteraction(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("queries", Array),
        ("documents", Array),
        ("query_lengths", ctypes.c_void_p),
        ("offsets", ctypes.c_void_p),
        ("document_lengths", ctypes.c_void_p),
        ("document_count", ctypes.c_int64),
        ("capacity", ctypes.c_int64),
        ("top", ctypes.c_int64),
        ("threads", ctypes.c_int),
        ("executor", ctypes.c_void_p),
        ("cpu", ctypes.c_char_p),
        ("chosen", ctypes.c_void_p),
        ("cancel", ctypes.c_void_p),
        ("deadline_ns", ctypes.c_int64),
    )


class Normalization(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("type", ctypes.c_int),
        ("order", ctypes.c_int),
        ("count", ctypes.c_int64),
        ("side", ctypes.c_int64),
        ("rounds", ctypes.c_int64),
        ("eps", ctypes.c_double),
        ("tolerance", ctypes.c_double),
        ("implicit", ctypes.c_int),
        ("threads", ctypes.c_int),
        ("executor", ctypes.c_void_p),
        ("cpu", ctypes.c_char_p),
        ("cancel", ctypes.c_void_p),
        ("deadline_ns", ctypes.c_int64),
    )


class Routing(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("logits", Array),
        ("take", ctypes.c_int64),
        ("start", ctypes.c_void_p),
        ("tolerance", ctypes.c_double),
        ("rounds", ctypes.c_int64),
        ("method", ctypes.c_int),
        ("lower", ctypes.c_void_p),
        ("upper", ctypes.c_void_p),
    )


class RoutingResult(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("chosen", ctypes.c_void_p),
        ("shares", ctypes.c_void_p),
        ("potentials", ctypes.c_void_p),
        ("loads", ctypes.c_void_p),
        ("value", ctypes.c_double),
        ("rounds", ctypes.c_int64),
        ("converged", ctypes.c_int),
        ("excess", ctypes.c_int64),
        ("bound", ctypes.c_void_p),
        ("kept", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
    )


STRUCTS: dict[str, type[ctypes.Structure]] = {
    "ota_error": Error,
    "ota_array": Array,
    "ota_term": Term,
    "ota_support": Support,
    "ota_custom": Custom,
    "ota_problem": Problem,
    "ota_communicator": Communicator,
    "ota_executor": Executor,
    "ota_progress": Progress,
    "ota_options": Options,
    "ota_head_result": HeadResult,
    "ota_arrays": Arrays,
    "ota_result": Result,
    "ota_gradients": Gradients,
    "ota_tangents": Tangents,
    "ota_certificate": Certificate,
    "ota_analysis_options": AnalysisOptions,
    "ota_matrix": Matrix,
    "ota_hamming_result": HammingResult,
    "ota_hamming_options": HammingOptions,
    "ota_gauge_matrix": GaugeMatrix,
    "ota_gauge_options": GaugeOptions,
    "ota_gauge_arrays": GaugeArrays,
    "ota_gauge_result": GaugeResult,
    "ota_gauge_chain": GaugeChain,
    "ota_contraction": Contraction,
    "ota_scaling_run": ScalingRun,
    "ota_coupling_spectrum": CouplingSpectrum,
    "ota_divergence": Divergence,
    "ota_tail": Tail,
    "ota_logit_change": LogitChange,
    "ota_rank_change": RankChange,
    "ota_state_change": StateChange,
    "ota_summary": Summary,
    "ota_fenchel": Fenchel,
    "ota_score_pair": ScorePair,
    "ota_score_bounds": ScoreBounds,
    "ota_score_change": ScoreChange,
    "ota_output_bounds": OutputBounds,
    "ota_mixing": Mixing,
    "ota_receiver": Receiver,
    "ota_permutations": Permutations,
    "ota_fit": Fit,
    "ota_lipschitz": Lipschitz,
    "ota_probe": Probe,
    "ota_saturation": Saturation,
    "ota_softmax_limits": SoftmaxLimits,
    "ota_uniformity": Uniformity,
    "ota_change": Change,
    "ota_norm": Norm,
    "ota_norm_gradients": NormGradients,
    "ota_layernorm_spectrum": LayernormSpectrum,
    "ota_absolute_positions": AbsolutePositions,
    "ota_relative_positions": RelativePositions,
    "ota_head_chain": HeadChain,
    "ota_attention_layer": AttentionLayer,
    "ota_attention_outputs": AttentionOutputs,
    "ota_attention_input": AttentionInput,
    "ota_residual_block": ResidualBlock,
    "ota_attention_means": AttentionMeans,
    "ota_projected": Projected,
    "ota_residual": Residual,
    "ota_evolve_row": EvolveRow,
    "ota_transition": Transition,
    "ota_prediction": Prediction,
    "ota_evolve_others": EvolveOthers,
    "ota_evolution": Evolution,
    "ota_state_cloud": StateCloud,
    "ota_outlier": Outlier,
    "ota_pattern": Pattern,
    "ota_head_view": HeadView,
    "ota_head_scores": HeadScores,
    "ota_figure": Figure,
    "ota_measured_changes": MeasuredChanges,
    "ota_tightness": Tightness,
    "ota_power_law": PowerLaw,
    "ota_trend": Trend,
    "ota_event_summary": EventSummary,
    "ota_assignments": Assignments,
    "ota_ranked_assignments": RankedAssignments,
    "ota_bottleneck": Bottleneck,
    "ota_bounded": Bounded,
    "ota_bounded_result": BoundedResult,
    "ota_late_interaction": LateInteraction,
    "ota_normalization": Normalization,
    "ota_routing": Routing,
    "ota_routing_result": RoutingResult,
}

CALLS = {
    "ota_status_word": "si status",
    "ota_status_text": "si status",
    "ota_version": "s",
    "ota_processors": "i",
    "ota_type_bytes": "zi type",
    "ota_array_of": "apillll type batch heads rows columns",
    "ota_method_parse": "isppp",
    "ota_method_name": "zpsz text_size",
    "ota_check": "ippp",
    "ota_plan_create": "ipplpp values_width",
    "ota_plan_measure": "iplppp values_width",
    "ota_plan_free": "np",
    "ota_plan_bytes": "zp",
    "ota_plan_describe": "zpsz text_size",
    "ota_plan_solver": "sp",
    "ota_plan_kernel": "sp",
    "ota_plan_threads": "ip",
    "ota_plan_rebind": "ippp",
    "ota_plan_set_deadline": "npl deadline_ns",
    "ota_forward": "ipppp",
    "ota_decode": "ipplpp key_count",
    "ota_decode_capacity": "ippllp first last",
    "ota_plan_scores": "ipllllpp batch head first key_count",
    "ota_attend": "ippppp",
    "ota_backward": "ippppp",
    "ota_jvp": "ippppp",
    "ota_certify": "ipppppp",
    "ota_rope": "ipldp first base",
    "ota_alibi_slopes": "nlp heads",
    "ota_solver_name": "si index",
    "ota_kernel_name": "si index",
    "ota_backend_name": "si index",
    "ota_hamming_matvec": "ndppl epsilon size",
    "ota_hamming": "ippldppop size epsilon",
    "ota_hamming_divergence": "ippldppop size epsilon",
    "ota_gauge": "ippppop",
    "ota_gauge_rest": "ippppop",
    "ota_gauge_four_cycle": "ippop",
    "ota_gauge_coherence": "ipppop",
    "ota_compose": "ipplllpop rows inner columns",
    "ota_log_ratios": "ipllpop rows columns",
    "ota_rank": "iplldppop rows columns tolerance",
    "ota_hilbert": "ipplpop size",
    "ota_hilbert_log": "ipplpop size",
    "ota_contraction_of": "ipllpop rows columns",
    "ota_hamming_diameter": "dd epsilon",
    "ota_iterations_conservative": "ddd log_sum_over_min delta",
    "ota_iterations_geometric": "dddd first rate delta",
    "ota_scaling": "ipppllpop rows columns",
    "ota_rate_measured": "iplpop count",
    "ota_coupling_spectrum_of": "iplllpop rows columns max_rounds",
    "ota_rate_one_sided": "dddd lambda second least",
    "ota_best_one_sided": "dddp second least",
    "ota_best_two_sided": "ddp second",
    "ota_divergence_of": "ipplpop size",
    "ota_divergence_of_logits": "ippildpop type size temperature",
    "ota_tail_of": "ipildpop type size temperature",
    "ota_logit_change_of": "ippilpop type size",
    "ota_rank_change_of": "ippilpop type size",
    "ota_state_change_of": "ippilpop type size",
    "ota_summary_of": "iplpop count",
    "ota_softmax_potential": "ipldppop size temperature",
    "ota_softmax_objective": "ippldpop size temperature",
    "ota_softmax_dual": "iplddpop size temperature lambda",
    "ota_fenchel_of": "ippldpop size temperature",
    "ota_advantage": "ippldppop size temperature",
    "ota_fisher_product": "ippldpop size temperature",
    "ota_fisher_matrix": "ipldppop size temperature",
    "ota_softmax_jacobian": "ipldpop size temperature",
    "ota_natural_gradient": "ippldpop size temperature",
    "ota_score_bounds_of": "ipdppop residual",
    "ota_score_change_of": "ippppop",
    "ota_output_bounds_of": "ipppllpop keys width",
    "ota_row_norm": "ippllpop rows width",
    "ota_hull_excess": "ipplllpop rows keys width",
    "ota_nonexpansion": "ippplpop width",
    "ota_receiver_of": "ipllppop rows keys",
    "ota_mean_shift": "ipplllpop rows keys width",
    "ota_birkhoff": "iplpop size",
    "ota_causality_leak": "ippldpp position move",
    "ota_identify": "ipppplpp capacity",
    "ota_lipschitz_of": "ippildpop type size temperature",
    "ota_jacobian_norm": "iplppop size",
    "ota_probe_of": "ipillpop type size width",
    "ota_drift_bound": "ipplppop layers",
    "ota_saturation_of": "ippildpop type size temperature",
    "ota_saturation_event": "ipdd tail tv",
    "ota_saturated_fraction": "ipddpop temperature tail",
    "ota_softmax_limits_of": "ilddpp size range temperature",
    "ota_two_level": "dlldd size high range temperature",
    "ota_uniformity_of": "ipildpop type size temperature",
    "ota_layernorm": "ipllpppop rows width",
    "ota_layernorm_backward": "ipllppop rows width",
    "ota_layernorm_jacobian": "ipldpop width epsilon",
    "ota_layernorm_geometry": "iplpppop width",
    "ota_layernorm_change": "ipplpppop width",
    "ota_rmsnorm": "ipllpppop rows width",
    "ota_rmsnorm_geometry": "iplppop width",
    "ota_rmsnorm_change": "ipplppop width",
    "ota_absolute_costs": "ippppop",
    "ota_relative_costs": "ippop",
    "ota_alibi_bias": "idlllipop slope queries keys offset causal",
    "ota_rope_matrix": "ilddpop width position base",
    "ota_context": "ippllpop keys values_width",
    "ota_head_chain_rule": "ipop",
    "ota_attention_workspace": "lpll queries keys",
    "ota_attention_forward": "ipppppp",
    "ota_attention_block": "ipplpppp tokens",
    "ota_identity_core": "ipplldpop tokens width alpha",
    "ota_attention_mean_change": "ipplppp tokens",
    "ota_attention_change_workspace": "lpll queries keys",
    "ota_attention_change": "ippppppp",
    "ota_block_change": "ippplppp tokens",
    "ota_projected_change": "ippplpppp tokens",
    "ota_projected_block_change": "ipppplppp tokens",
    "ota_spectral_norm": "dplllpo rows columns row_stride",
    "ota_evolve_row_bytes": "zl vocabulary",
    "ota_evolve_scratch_bytes": "zl vocabulary",
    "ota_evolve_row_of": "iplpppp vocabulary",
    "ota_evolve_transition": "ipppp",
    "ota_evolve_prediction": "ippppp",
    "ota_evolve_distance": "ipppp",
    "ota_evolve_step": "ipppppppp",
    "ota_evolve_bytes": "zli vocabulary threads",
    "ota_evolve": "ipop",
    "ota_state_cloud_of": "ipippop participation",
    "ota_outliers_of": "iplppop count",
    "ota_pattern_of": "ipdppop threshold",
    "ota_head_scores_of": "ippop",
    "ota_figure_of": "ipllllpop count unit resamples seed",
    "ota_tightness_of": "iplllppop unit resamples seed",
    "ota_depth_range": "iilpp index layers",
    "ota_scaling_exponent": "ddddd depth_from value_from depth_to value_to",
    "ota_power_law_of": "ipplpop count",
    "ota_trend_of": "iplpop count",
    "ota_transition_saturated": "ipdd tail tv",
    "ota_events_of": "ipllpppop transitions positions",
    "ota_phi_of": "ipplpop count",
    "ota_token_class": "isl length",
    "ota_assigner_create": "ippp",
    "ota_assigner_free": "np",
    "ota_assigner_bytes": "zp",
    "ota_assign": "ippp",
    "ota_assign_ranked": "ipp",
    "ota_assign_bottleneck": "ipp",
    "ota_assign_bounded": "ipppp",
    "ota_maxsim": "ipppp",
    "ota_maxsim_backward": "ippppp",
    "ota_normalize": "ipppp",
    "ota_normalize_backward": "ipppppp",
    "ota_route": "ipppp",
    "ota_router_create": "ippp",
    "ota_router_free": "np",
    "ota_router_route": "ipppp",
}

# Names in Gradients and in Tangents, shape, and how ranks share the gradient.
DERIVATIVES = (
    ("out_grad", "out", "out", "upstream"),
    ("coupling_grad", "coupling", "pairs", "upstream"),
    ("queries", "queries", "queries", "of_rows"),
    ("keys", "keys", "keys", "by_shares"),
    ("values", "values", "values", "by_shares"),
    ("scores", "scores", "pairs", "of_rows"),
    ("matrix", "matrix", "pairs", "of_rows"),
    ("terms", "terms", "terms", "by_term"),
    ("temperature", "temperature", "per_head", "summed"),
    ("order", "order", "number", "summed"),
    ("cap", "cap", "number", "summed"),
    ("strength", "strength", "number", "summed"),
    ("row_strength", "row_strength", "number", "summed"),
    ("row_mass", "row_mass", "of_queries", "of_rows"),
    ("column_mass", "column_mass", "of_keys", "summed"),
    ("lower", "lower", "number", "summed"),
    ("upper", "upper", "number", "summed"),
)
