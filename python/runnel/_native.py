"""The C interface, by ctypes: structs as runnel.h has them, and the functions of the library.

Private. tests/e2e/python.sh compares every struct with the header. The library is called by its
``_sized`` functions, so a newer library works with this file.
"""

from __future__ import annotations

import ctypes
import operator
import os
import reprlib
from ctypes import (CFUNCTYPE, POINTER, Structure, byref, c_bool, c_char, c_char_p, c_double, c_float, c_int,
                    c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p)
from pathlib import Path
from typing import Any, Dict, List, Tuple

from .errors import ArgumentError, ArgumentTypeError, error_for

LIBRARY_NAME = "librunnel.so.0"

RN_DEVICE_NAME = 64
RN_STEP_SIZES = 14
RN_MAX_DRAFT = 31
RN_DRAFTER_ROOM = 8
RN_CAUSE_ROOM = 24
RN_OPS_ROOM = 8

TOKENIZE_BOS, TOKENIZE_SPECIAL, TOKENIZE_GUARDED = 1, 2, 4
SHAPES = ("json_schema", "json_object", "regex", "grammar", "choices", "structure")
PROGRESS = CFUNCTYPE(None, c_void_p, c_uint64, c_uint64)


def _fields(*groups: Any) -> List[Any]:
    """Members of a struct, in order: (type, "names of this type") for each run of equal types."""
    return [(name, kind) for kind, names in groups for name in names.split()]


class Error(Structure):
    _fields_ = [("status", c_int), ("message", c_char * 512)]


class ModelInfo(Structure):
    _fields_ = _fields(
        (c_char_p, "path name architecture container format"),
        (c_int, "n_ctx_train n_vocab n_embd n_layer n_head n_head_kv"),
        (c_uint64, "n_params file_bytes weight_bytes"),
        (c_float, "temperature top_p min_p repeat_penalty"),
        (c_int, "top_k"),
        (c_char_p, "block_path pooling"),
        (c_int, "normalizes"),
    )


class Chat(Structure):
    _fields_ = _fields(
        (c_char_p, "messages tools variables"),
        (c_bool, "add_generation_prompt continue_final guard"),
        (c_int64, "now"),
    )


class EngineOptions(Structure):
    _fields_ = _fields(
        (c_char_p, "backend"),
        (c_int, "device"),
        (c_char_p, "isa kv_type state_type"),
        (c_int, "n_threads"),
        (c_bool, "no_pin"),
        (c_int, "n_ctx max_seqs max_waiting batch_tokens logit_rows"),
        (c_uint64, "kv_bytes"),
        (c_uint32, "kv_pages"),
        (c_double, "itl_ms"),
        (c_bool, "no_prefix_cache"),
        (c_char_p, "page_store"),
        (c_uint64, "page_store_bytes page_store_memory"),
        (c_void_p, "store_note store_note_ctx"),
        (c_char_p, "speculate"),
        (c_void_p, "draft"),
        (c_char_p, "draft_backend"),
        (c_int, "draft_device"),
        (c_void_p, "draft_fn draft_ctx"),
        (c_int, "draft_max draft_min"),
        (c_bool, "self_check"),
        (c_void_p, "progress progress_ctx"),
    )


class MemoryPlan(Structure):
    _fields_ = _fields(
        (c_uint64, "total available weight_bytes step_bytes free_bytes kv_bytes kv_tokens kv_token_bytes"
         " kv_context_bytes n_contexts"),
        (c_int, "n_ctx"),
        (c_char_p, "kv_type"),
        (c_char * RN_DEVICE_NAME, "device"),
        (c_uint64, "state_bytes"),
        (c_int, "state_interval"),
        (c_uint64, "draft_weight_bytes draft_step_bytes draft_kv_bytes mtp_kv_bytes"),
    )


class LogitBias(Structure):
    _fields_ = _fields(
        (c_int32, "token"),
        (c_float, "bias"),
    )


class Sampling(Structure):
    _fields_ = _fields(
        (POINTER(LogitBias), "logit_bias"),
        (c_size_t, "n_logit_bias"),
        (c_float, "repetition_penalty"),
        (c_int, "repeat_last_n"),
        (c_float, "presence_penalty frequency_penalty dry_multiplier dry_base"),
        (c_int, "dry_allowed_length dry_penalty_last_n"),
        (POINTER(c_char_p), "dry_sequence_breakers"),
        (c_size_t, "n_dry_sequence_breakers"),
        (c_float, "temperature top_n_sigma"),
        (c_int, "top_k"),
        (c_float, "typical_p top_p min_p xtc_probability xtc_threshold"),
        (c_bool, "has_seed"),
        (c_uint64, "seed"),
        (c_uint64 * 8, "room"),
    )


class Reasoning(Structure):
    _fields_ = _fields(
        (c_bool, "has_budget"),
        (c_int, "budget"),
        (c_char_p, "open close last"),
        (POINTER(c_char_p), "answer"),
        (c_uint64 * 1, "room"),
    )


class Constraint(Structure):
    _fields_ = _fields(
        (c_void_p, "ctx mask advance rollback"),
    )


class Logprob(Structure):
    _fields_ = _fields(
        (c_int32, "token"),
        (c_float, "logprob"),
    )


class Request(Structure):
    _fields_ = _fields(
        (POINTER(c_int32), "prompt"),
        (c_size_t, "n_prompt"),
        (c_int, "n"),
        (c_void_p, "data"),
        (Sampling, "sampling"),
        (c_int, "max_tokens"),
        (c_bool, "prompt_only"),
        (c_int, "min_tokens"),
        (POINTER(c_char_p), "stop"),
        (c_size_t, "n_stop"),
        (POINTER(c_int32), "stop_tokens"),
        (c_size_t, "n_stop_tokens"),
        (c_bool, "include_stop ignore_eos"),
        (POINTER(c_char_p), "bad_words"),
        (c_size_t, "n_bad_words"),
        (Reasoning, "reasoning"),
        (c_bool, "special_text logprobs"),
        (c_int, "top_logprobs"),
        (c_bool, "prompt_logprobs"),
        (c_int, "top_prompt_logprobs draft_max"),
        (c_void_p, "shape"),
        (Constraint, "constraint"),
        (c_int, "priority"),
        (c_char_p, "user"),
        (c_double, "timeout_ms"),
        (c_char_p, "cache_salt"),
        (c_int, "pooling"),
        (c_bool, "normalize"),
        (c_void_p, "on_logits on_logits_ctx"),
        (c_double, "ttft_ms tpot_ms cache_share"),
        (c_int, "indent_min"),
        (c_double, "line_ms_max"),
        (c_bool, "prompt_progress"),
    )


class Timings(Structure):
    _fields_ = _fields(
        (c_int, "prompt_tokens output_tokens cached_tokens stored_tokens preemptions"),
        (c_double, "queue_ms prompt_ms ttft_ms decode_ms gap_ms_max"),
        (c_uint64, "decode_bytes decode_steps"),
        (c_int, "draft_tokens accepted_tokens draft_steps"),
        (c_double, "undrafted_ms"),
    )


class Event(Structure):
    _fields_ = _fields(
        (c_uint64, "request"),
        (c_void_p, "data"),
        (c_int, "choice"),
        (c_int32, "token"),
        (c_void_p, "text"),
        (c_size_t, "text_len"),
        (c_int, "finish"),
        (c_bool, "last"),
        (c_int, "status"),
        (c_char_p, "reason stop"),
        (c_int32, "stop_token"),
        (c_uint64, "seed time_ns"),
        (c_double, "gap_ms"),
        (c_int, "cause"),
        (c_bool, "drafted"),
        (POINTER(Logprob), "logprob"),
        (c_int, "n_logprobs"),
        (POINTER(Logprob), "prompt_logprob"),
        (POINTER(c_int32), "prompt_rank"),
        (c_int, "n_prompt_logprobs"),
        (POINTER(Timings), "timings"),
        (c_void_p, "account"),
        (POINTER(c_float), "embedding"),
        (c_bool, "progress"),
        (c_int, "prompt_done prompt_cached"),
        (c_double, "prompt_ms"),
    )


class EngineInfo(Structure):
    _fields_ = _fields(
        (c_char_p, "backend isa kv_type device"),
        (c_int, "n_threads n_ctx max_seqs batch_tokens max_waiting"),
        (c_double, "itl_ms"),
        (c_uint64, "kv_token_bytes kv_bytes state_bytes"),
        (c_int, "state_interval"),
        (c_uint64, "weight_bytes cache_bytes"),
        (c_char_p, "slow_formats drafters"),
        (c_int, "draft_max"),
        (c_char_p, "note"),
    )


class DraftStats(Structure):
    _fields_ = _fields(
        (c_uint64, "drafts tokens accepted"),
    )


class EngineStats(Structure):
    _fields_ = _fields(
        (c_uint64, "steps step_tokens"),
        (c_uint64 * RN_STEP_SIZES, "steps_of"),
        (c_uint64, "submitted stopped lengthy cancelled failed preemptions"),
        (c_int, "running waiting"),
        (c_uint64, "prompt_tokens cached_tokens computed_tokens output_tokens lookups hits evictions"
         " state_evictions"),
        (c_uint32, "pages_total pages_held pages_shared pages_cached states_total states_held states_cached"),
        (c_uint64, "kv_held_bytes kv_cached_bytes state_held_bytes state_cached_bytes"),
        (c_double, "step_ms"),
        (c_uint64, "schedule_ns draft_ns batch_ns run_ns sample_ns publish_ns idle_ns late_steps"
         " weight_bytes kv_bytes"),
        (DraftStats * RN_DRAFTER_ROOM, "draft"),
        (c_uint64 * RN_MAX_DRAFT, "accepted_at"),
        (c_uint64, "stream_ns undrafted_ns"),
        (c_uint64 * RN_CAUSE_ROOM, "cause_ns first_ns"),
        (c_uint64 * RN_OPS_ROOM, "ops_ns ops_bytes"),
        (c_double * RN_OPS_ROOM, "ops_flops"),
    )


# ---------------------------------------------------------------- values of the program

_INTEGERS = (c_int, c_int32, c_int64, c_uint32, c_uint64, c_size_t)


def wrong_type(name: str, expected: str, value: Any) -> ArgumentTypeError:
    """The error for a value of another type."""
    return ArgumentTypeError(f"{name}: expected {expected}, got {reprlib.repr(value)}")


def encoded(name: str, text: Any) -> bytes:
    """The bytes of a str."""
    if not isinstance(text, str):
        raise wrong_type(name, "a str", text)
    return text.encode("utf-8", "surrogatepass")


def _without_nul(name: str, value: Any, data: bytes) -> bytes:
    if b"\0" in data:
        raise ArgumentError(f"{name}: {reprlib.repr(value)} has a NUL character")
    return data


def c_text(name: str, text: Any) -> bytes:
    """The same for a string that ends at its first NUL."""
    return _without_nul(name, text, encoded(name, text))


def c_path(name: str, path: Any) -> bytes:
    """The bytes of a path."""
    try:
        return _without_nul(name, path, os.fsencode(path))
    except TypeError:
        raise wrong_type(name, "a str or a path", path) from None
    except UnicodeEncodeError:
        raise ArgumentError(f"{name}: {reprlib.repr(path)} is no path") from None


def integer(name: str, value: Any) -> int:
    """A whole number of any type that is one."""
    try:
        return operator.index(value)
    except TypeError:
        raise wrong_type(name, "a whole number", value) from None


def number(name: str, value: Any) -> float:
    """A number of any type that is one."""
    try:
        if not isinstance(value, (str, bytes, bytearray)):
            return float(value)
    except (TypeError, ValueError):
        pass
    except OverflowError:
        raise ArgumentError(f"{name}: {reprlib.repr(value)} is out of range") from None
    raise wrong_type(name, "a number", value)


def assign(struct: Structure, name: str, value: Any) -> None:
    """Sets a member. A value of another type, or one that the member cannot hold, is refused by name."""
    kind = dict(struct._fields_)[name]
    if kind is c_bool:
        if not isinstance(value, int):
            raise wrong_type(name, "True or False", value)
        setattr(struct, name, bool(value))
    elif kind is c_char_p:
        setattr(struct, name, c_path(name, value) if name == "page_store" else c_text(name, value))
    elif kind in _INTEGERS:
        whole = integer(name, value)
        setattr(struct, name, whole)
        if getattr(struct, name) != whole:
            raise ArgumentError(f"{name}: {reprlib.repr(value)} is out of range")
    else:
        setattr(struct, name, number(name, value))


def listed(name: str, expected: str, values: Any) -> List[Any]:
    """The items of something that has some."""
    try:
        return list(values)
    except TypeError:
        raise wrong_type(name, expected, values) from None


def token_id(token: Any) -> int:
    """An id for the library; one that no vocabulary has is -1."""
    value = integer("token", token)
    return value if c_int32(value).value == value else -1


def id_array(name: str, ids: Any) -> Tuple[Any, int]:
    """Token ids as an array, and their number. ctypes would cut an id to 32 bits without a word."""
    if isinstance(ids, (str, bytes, bytearray)):
        raise wrong_type(name, "token ids", ids)
    try:
        tokens = [operator.index(token) for token in ids]
    except TypeError:
        raise wrong_type(name, "token ids", ids) from None
    array = (c_int32 * max(1, len(tokens)))(*tokens)
    for at, token in enumerate(tokens):
        if array[at] != token:
            raise ArgumentError(f"token {at} is {token}, which is out of range")
    return array, len(tokens)


def as_dict(value: Structure) -> Dict[str, Any]:
    """The members of a struct as plain values; strings are str, arrays are lists."""
    return {name: _plain(getattr(value, name)) for name, _ in value._fields_ if name != "room"}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Structure):
        return as_dict(value)
    if isinstance(value, ctypes.Array):
        return [_plain(item) for item in value]
    return value


# Result and arguments of each function; "err" stands for the error that ends the arguments of calls that can fail.
_P, _S = c_void_p, c_size_t
_FUNCTIONS: Dict[str, Tuple[Any, ...]] = {
    "rn_version": (c_char_p,),
    "rn_status_text": (c_char_p, c_int),
    "rn_model_open": (c_int, c_char_p, POINTER(_P), "err"),
    "rn_model_open_vocab": (c_int, c_char_p, POINTER(_P), "err"),
    "rn_model_attach": (c_int, _P, c_char_p, "err"),
    "rn_model_is_block": (c_bool, c_char_p),
    "rn_model_close": (None, _P),
    "rn_model_get_info": (POINTER(ModelInfo), _P),
    "rn_model_check_files": (c_int, _P, "err"),
    "rn_model_pooling": (c_int, _P, c_char_p, POINTER(c_int), "err"),
    "rn_model_chat_template": (c_char_p, _P),
    "rn_tokenize": (c_int, _P, c_char_p, _S, c_int, POINTER(POINTER(c_int32)), POINTER(_S), "err"),
    "rn_detokenize": (c_int, _P, POINTER(c_int32), _S, c_bool, POINTER(_P), POINTER(_S), "err"),
    "rn_token_bytes": (_P, _P, c_int32, POINTER(_S)),
    "rn_token_bos": (c_int32, _P),
    "rn_token_eos": (c_int32, _P),
    "rn_token_eot": (c_int32, _P),
    "rn_token_pad": (c_int32, _P),
    "rn_token_fim": (c_int32, _P, c_int),
    "rn_token_is_special": (c_bool, _P, c_int32),
    "rn_token_is_end": (c_bool, _P, c_int32),
    "rn_free": (None, _P),
    "rn_chat_template_create": (c_int, _P, c_char_p, POINTER(_P), "err"),
    "rn_chat_template_destroy": (None, _P),
    "rn_chat_render_sized": (c_int, _P, POINTER(Chat), _S, POINTER(_P), POINTER(_S), "err"),
    "rn_shape_compile": (c_int, _P, c_int, c_char_p, _S, POINTER(_P), "err"),
    "rn_shape_release": (None, _P),
    "rn_sampling_defaults": (Sampling, _P),
    "rn_engine_plan_memory_sized": (c_int, _P, POINTER(EngineOptions), _S, POINTER(MemoryPlan), _S, "err"),
    "rn_engine_create_sized": (c_int, _P, POINTER(EngineOptions), _S, POINTER(_P), "err"),
    "rn_engine_destroy": (None, _P),
    "rn_engine_submit_sized": (c_int, _P, POINTER(Request), _S, POINTER(c_uint64), "err"),
    "rn_engine_cancel": (None, _P, c_uint64),
    "rn_engine_pause": (None, _P, c_uint64, c_bool),
    "rn_engine_start": (c_int, _P, "err"),
    "rn_engine_wait_sized": (c_int, _P, POINTER(Event), _S, c_int, c_int),
    "rn_engine_stop": (None, _P, c_bool),
    "rn_engine_get_info_sized": (None, _P, POINTER(EngineInfo), _S),
    "rn_engine_get_stats_sized": (None, _P, POINTER(EngineStats), _S),
    "rn_engine_forget_prefixes": (None, _P),
    "rn_cause_name": (c_char_p, c_int),
    "rn_finish_text": (c_char_p, c_int),
}


def _places() -> List[str]:
    """Where the library may be, the best place first: $RUNNEL_LIBRARY alone where it is set."""
    chosen = os.environ.get("RUNNEL_LIBRARY")
    if chosen:
        return [chosen]
    # PREFIX/lib/python3/dist-packages/runnel/_native.py belongs to PREFIX/lib/librunnel.so.0
    beside = [parent / LIBRARY_NAME for parent in Path(__file__).resolve().parents if parent.name == "lib"]
    return [str(path) for path in beside if path.exists()] + [LIBRARY_NAME]


def library_path() -> str:
    """The file of the library, as it was given to the system's linker."""
    return _library._name


def _load() -> ctypes.CDLL:
    failures = []
    for place in _places():
        try:
            library = ctypes.CDLL(place)
            library.rn_version
        except (OSError, AttributeError) as error:
            failures.append(str(error) if place in str(error) else f"{place}: {error}")
            continue
        return library
    raise ImportError("runnel: the library was not found (RUNNEL_LIBRARY names its file): " + "; ".join(failures))


class Library:
    """The functions without their prefix: ``lib.model_close(handle)``. Failures are exceptions."""

    def __init__(self, library: ctypes.CDLL) -> None:
        for name, (result, *arguments) in _FUNCTIONS.items():
            try:
                function = library[name]
            except AttributeError:
                raise ImportError(f"runnel: {library._name} is too old: it has no {name}") from None
            function.restype = result
            fails = bool(arguments) and arguments[-1] == "err"
            function.argtypes = [*arguments[:-1], POINTER(Error)] if fails else arguments
            setattr(self, name[3:], self._checked(function) if fails else function)

    @staticmethod
    def _checked(function: Any) -> Any:
        def call(*arguments: Any) -> None:
            error = Error()
            status = function(*arguments, byref(error))
            if status:
                raise error_for(status, error.message.decode("utf-8", "replace"))

        return call

    def __getattr__(self, name: str) -> Any:  # set by __init__; here for type checkers
        raise AttributeError(name)

    def take_text(self, text: c_void_p, length: c_size_t) -> bytes:
        """A text that the library gave away."""
        try:
            return ctypes.string_at(text, length.value)
        finally:
            self.free(text)


_library = _load()
lib = Library(_library)
