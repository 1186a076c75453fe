"""The structs, constants and calls of the C headers, written by scripts/make_python_structs.py.

Do not edit. A call is its result and its arguments, one letter each: n nothing, a Array, t Text, b bool,
i int, u unsigned, l int64, z size_t, d double, s text, p pointer, o options of the analysis; then the names
of the arguments that are numbers.
"""

import ctypes

from ._structs import Array

TENSOR_RANK = 8
TENSOR_NAME = 1024
TEXT_BROKEN = 1114112
EDIT_SCALE = 0
EDIT_REPLACE = 1
EDIT_ADD = 2
EDIT_MEAN = 3
PIECE_NORMAL = 1
PIECE_UNKNOWN = 2
PIECE_CONTROL = 3
PIECE_USER = 4
PIECE_UNUSED = 5
PIECE_BYTE = 6
ACCENTS_AS_CASE = 0
ACCENTS_KEPT = 1
ACCENTS_STRIPPED = 2
ENCODE_NO_SPECIAL = 1
ENCODE_PLAIN = 2
DECODE_NO_SPECIAL = 1
DECODE_INNER = 2


class Tensor(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("stored", ctypes.c_char_p),
        ("bits", ctypes.c_uint),
        ("rank", ctypes.c_int),
        ("shape", ctypes.c_int64 * 8),
        ("count", ctypes.c_int64),
        ("offset", ctypes.c_int64),
        ("bytes", ctypes.c_int64),
        ("place", ctypes.c_int64),
    )


class TensorLimits(ctypes.Structure):
    _fields_ = (
        ("header_bytes", ctypes.c_int64),
        ("tensors", ctypes.c_int64),
        ("cancel", ctypes.c_void_p),
        ("deadline_ns", ctypes.c_int64),
    )


class ModelOptions(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("hub_cache", ctypes.c_char_p),
        ("tensors", TensorLimits),
    )


class ModelFacts(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("architecture", ctypes.c_char_p),
        ("format", ctypes.c_char_p),
        ("path", ctypes.c_char_p),
        ("dtype", ctypes.c_char_p),
        ("head", ctypes.c_char_p),
        ("layers", ctypes.c_int64),
        ("heads", ctypes.c_int64),
        ("kv_heads", ctypes.c_int64),
        ("width", ctypes.c_int64),
        ("head_width", ctypes.c_int64),
        ("inner", ctypes.c_int64),
        ("vocabulary", ctypes.c_int64),
        ("positions", ctypes.c_int64),
        ("parameters", ctypes.c_int64),
        ("causal", ctypes.c_int),
        ("norm_epsilon", ctypes.c_double),
        ("rope_base", ctypes.c_double),
        ("image", ctypes.c_int64 * 3),
    )


class ModelAttention(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("scale", ctypes.c_double),
        ("rms", ctypes.c_int),
        ("post_norm", ctypes.c_int),
        ("query", ctypes.c_void_p),
        ("key", ctypes.c_void_p),
        ("value", ctypes.c_void_p),
        ("output", ctypes.c_void_p),
        ("output_bias", ctypes.c_void_p),
        ("norm_weight", ctypes.c_void_p),
        ("norm_bias", ctypes.c_void_p),
        ("head_norms", ctypes.c_int),
        ("output_norm", ctypes.c_int),
        ("window", ctypes.c_int64),
        ("query_norm_weight", ctypes.c_void_p),
        ("key_norm_weight", ctypes.c_void_p),
        ("output_norm_weight", ctypes.c_void_p),
    )


class SessionOptions(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("batch", ctypes.c_int64),
        ("tokens", ctypes.c_int64),
        ("cache", ctypes.c_int64),
        ("methods", ctypes.c_void_p),
        ("method_count", ctypes.c_int64),
        ("temperature", ctypes.c_double),
        ("tolerance", ctypes.c_double),
        ("rounds", ctypes.c_int64),
        ("max_rounds", ctypes.c_int64),
        ("window", ctypes.c_void_p),
        ("sink", ctypes.c_void_p),
        ("threads", ctypes.c_int),
        ("cpu", ctypes.c_char_p),
        ("cancel", ctypes.c_void_p),
        ("allow_nonfinite", ctypes.c_int),
        ("deadline_ns", ctypes.c_int64),
    )


class Capture(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("rank", ctypes.c_int),
        ("shape", ctypes.c_int64 * 4),
        ("data", ctypes.c_void_p),
        ("first_row", ctypes.c_int64),
        ("rows", ctypes.c_int64),
        ("columns", ctypes.c_int64),
        ("layer", ctypes.c_int64),
        ("sequence", ctypes.c_int64),
        ("head", ctypes.c_int64),
        ("token", ctypes.c_int64),
    )


class Range(ctypes.Structure):
    _fields_ = (
        ("first", ctypes.c_int64),
        ("count", ctypes.c_int64),
    )


class Edit(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("point", ctypes.c_char_p),
        ("kind", ctypes.c_int),
        ("sequences", Range),
        ("tokens", Range),
        ("heads", Range),
        ("columns", Range),
        ("factor", ctypes.c_double),
        ("values", Array),
    )


class ModelRun(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("ids", ctypes.c_void_p),
        ("batch", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("lengths", ctypes.c_void_p),
        ("types", ctypes.c_void_p),
        ("first", ctypes.c_int64),
        ("states", ctypes.c_void_p),
        ("wanted", ctypes.c_void_p),
        ("capture", ctypes.c_void_p),
        ("user", ctypes.c_void_p),
        ("exit_threshold", ctypes.c_double),
        ("exit_transitions", ctypes.c_int64),
        ("layers", ctypes.c_void_p),
        ("residual", ctypes.c_void_p),
        ("start_layer", ctypes.c_int64),
        ("exit_targets", ctypes.c_void_p),
        ("block_rows", ctypes.c_int64),
        ("wanted_head", ctypes.c_void_p),
        ("edits", ctypes.c_void_p),
        ("edit_count", ctypes.c_int64),
        ("pixels", ctypes.c_void_p),
    )


class CapturePoint(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char * 96),
        ("layer", ctypes.c_int64),
        ("rank", ctypes.c_int),
        ("shape", ctypes.c_int64 * 4),
    )


class TokenOptions(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("flags", ctypes.c_uint),
        ("cancel", ctypes.c_void_p),
        ("deadline_ns", ctypes.c_int64),
    )


class Text(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_char_p),
        ("size", ctypes.c_size_t),
    )


class TokenizerParts(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("source", ctypes.c_char_p),
        ("model", ctypes.c_char_p),
        ("cut", ctypes.c_char_p),
        ("pieces", ctypes.c_void_p),
        ("piece_count", ctypes.c_int64),
        ("kinds", ctypes.c_void_p),
        ("merges", ctypes.c_void_p),
        ("merge_count", ctypes.c_int64),
        ("begin", Text),
        ("end", Text),
        ("unknown", Text),
        ("keep_case", ctypes.c_int),
        ("keep_whole_word", ctypes.c_int),
        ("scores", ctypes.c_void_p),
        ("accents", ctypes.c_int),
        ("space_in_front", ctypes.c_int),
        ("space_once", ctypes.c_int),
        ("charsmap", Text),
        ("space_behind", ctypes.c_int),
    )


STRUCTS: dict[str, type[ctypes.Structure]] = {
    "ota_tensor": Tensor,
    "ota_tensor_limits": TensorLimits,
    "ota_model_options": ModelOptions,
    "ota_model_facts": ModelFacts,
    "ota_model_attention": ModelAttention,
    "ota_session_options": SessionOptions,
    "ota_capture": Capture,
    "ota_range": Range,
    "ota_edit": Edit,
    "ota_model_run": ModelRun,
    "ota_capture_point": CapturePoint,
    "ota_token_options": TokenOptions,
    "ota_text": Text,
    "ota_tokenizer_parts": TokenizerParts,
}

CALLS = {
    "ota_name_is_valid": "bsz size",
    "ota_text_clean": "ns",
    "ota_text_step": "zszp size",
    "ota_safetensors_open": "ipilspp descriptor size",
    "ota_tensors_free": "np",
    "ota_tensors_count": "lp",
    "ota_tensors_at": "ppl index",
    "ota_tensors_metadata": "ipspp",
    "ota_model_blas": "s",
    "ota_model_open": "ipspp",
    "ota_model_free": "np",
    "ota_model_describe": "ippp",
    "ota_model_tensor": "ppl index",
    "ota_model_file": "spl index",
    "ota_model_attention_of": "iplpp layer",
    "ota_model_check_finite": "ipp",
    "ota_model_tokenizer": "ippp",
    "ota_model_tokenizer_with": "ipppp",
    "ota_session_create": "ipppp",
    "ota_session_free": "np",
    "ota_session_set_deadline": "npl deadline_ns",
    "ota_session_bytes": "zp",
    "ota_session_warning": "sp",
    "ota_session_run": "ippp",
    "ota_session_logits": "ipplipp rows normalise",
    "ota_session_probe_inputs": "ipplp rows",
    "ota_session_probe": "npplp rows",
    "ota_model_probe_rows": "ipllpp first count",
    "ota_session_executor": "pp",
    "ota_model_point": "iplllp index batch count",
    "ota_tokenizer_open": "ipsp",
    "ota_tokenizer_open_with": "ipspp",
    "ota_tokenizer_free": "np",
    "ota_tokenizer_create": "ippp",
    "ota_tokenizer_create_with": "ipppp",
    "ota_tokenizer_encode": "ipsluplpp text_size capacity",
    "ota_tokenizer_encode_with": "ipslpplpp text_size capacity",
    "ota_tokenizer_decode": "ippluslpp count capacity",
    "ota_tokenizer_decode_with": "ipplpslpp count capacity",
    "ota_tokenizer_model": "sp",
    "ota_tokenizer_count": "lp",
    "ota_tokenizer_piece": "tpl id",
    "ota_tokenizer_id": "lpt",
    "ota_tokenizer_is_special": "ipl id",
    "ota_tokenizer_frame": "lpipl after capacity",
}
