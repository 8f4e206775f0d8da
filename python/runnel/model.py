"""Models: their vocabulary, their chat template, shapes of texts."""

from __future__ import annotations

import ctypes
import os
import threading
import time
import weakref
from ctypes import byref, c_int32, c_size_t, c_void_p
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from . import _names as names
from . import _native as native
from ._native import lib
from .errors import ArgumentTypeError, ClosedError
from .settings import engine_options, json_text

Messages = Union[str, Sequence[Mapping[str, Any]]]  # a str: a user's message


class Model:
    """A model: a GGUF file, any part of a split one, or a Hugging Face folder.

    Immutable, so any thread may use it. ``with`` closes it at the end of the block. Its engines
    and shapes are to be closed before it; an open one keeps it alive.

    :param path: the file or folder, or the name of a model on this machine, as ``runnel run -m``
        takes it; the program ``runnel`` finds it.
    :param vocab_only: only the vocabulary is read. Such a model tokenizes and does not generate.
    """

    def __init__(self, path: Union[str, "os.PathLike[str]"], *, vocab_only: bool = False) -> None:
        handle = c_void_p()
        opened = lib.model_open_vocab if vocab_only else lib.model_open
        opened(names.path_of(path), byref(handle))
        self._handle: Optional[c_void_p] = handle
        self._users = 0  # engines, templates and shapes that are open; they may end on any thread,
        self._lock = threading.RLock()  # also where the thread that holds it collects garbage
        self._is_closing = False
        self._info = native.as_dict(lib.model_get_info(handle).contents)
        self._template: Optional[c_void_p] = None  # of its own, parsed when it is needed first

    def attach(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Adds a draft block that is in a file of its own, such as an assistant of Gemma 4.

        It is called before the model's first engine, whose drafter ``mtp`` uses the block. A model
        that drafts is given to an engine instead, as ``draft``.
        """
        lib.model_attach(self.handle, names.path_of(path))
        self._info = native.as_dict(lib.model_get_info(self.handle).contents)

    # --- life ---

    @property
    def handle(self) -> c_void_p:
        """The library's rn_model."""
        if self._handle is None or self._is_closing:
            raise ClosedError("the model is closed")
        return self._handle

    def close(self) -> None:
        """Frees the model, as soon as its engines and shapes are closed too. May be called again."""
        with self._lock:
            if self._template is not None:
                lib.chat_template_destroy(self._template)
                self._template = None
            self._is_closing = True
            self._release()

    def _acquire(self) -> None:
        with self._lock:
            self._users += 1

    def _leave(self) -> None:
        with self._lock:
            self._users -= 1
            self._release()

    def _release(self) -> None:
        if self._is_closing and self._users == 0 and self._handle is not None:
            lib.model_close(self._handle)
            self._handle = None

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()

    def __repr__(self) -> str:
        return f"<runnel.Model {self._info['name'] or self._info['path']!r}, {self._info['architecture']}>"

    @property
    def info(self) -> Dict[str, Any]:
        """Name, architecture, sizes, and the settings that its authors recommend (rn_model_info)."""
        return dict(self._info)

    # --- tokens ---

    def tokenize(self, text: str, *, bos: bool = False, special: bool = False) -> List[int]:
        """The ids of a text.

        :param bos: with the tokens that the model wants around a text.
        :param special: texts such as ``<|end|>`` become those tokens.
        """
        return self._tokenize(native.encoded("text", text), native.TOKENIZE_BOS * bool(bos)
                              | native.TOKENIZE_SPECIAL * bool(special))

    def _tokenize(self, data: bytes, flags: int) -> List[int]:
        ids, count = ctypes.POINTER(c_int32)(), c_size_t()
        lib.tokenize(self.handle, data, len(data), flags, byref(ids), byref(count))
        try:
            return ids[:count.value]
        finally:
            lib.free(ids)

    def detokenize(self, ids: Sequence[int], *, special: bool = False) -> str:
        """The text of ids; special tokens give theirs when asked for."""
        text, length = c_void_p(), c_size_t()
        array, count = native.id_array("ids", ids)
        lib.detokenize(self.handle, array, count, bool(special), byref(text), byref(length))
        return lib.take_text(text, length).decode("utf-8", "replace")

    def token_bytes(self, token: int) -> bytes:
        """The bytes of a token, which may be half a character; empty outside the vocabulary."""
        length = c_size_t()
        data = lib.token_bytes(self.handle, native.token_id(token), byref(length))
        return ctypes.string_at(data, length.value)

    def is_special(self, token: int) -> bool:
        """Whether a token is a control token, or the unknown one."""
        return bool(lib.token_is_special(self.handle, native.token_id(token)))

    def is_end(self, token: int) -> bool:
        """Whether a token ends a text."""
        return bool(lib.token_is_end(self.handle, native.token_id(token)))

    @property
    def bos(self) -> Optional[int]:
        """The token that starts a text."""
        return self._named(lib.token_bos)

    @property
    def eos(self) -> Optional[int]:
        """The token that ends a text."""
        return self._named(lib.token_eos)

    @property
    def eot(self) -> Optional[int]:
        """The token that ends a turn of a conversation."""
        return self._named(lib.token_eot)

    @property
    def pad(self) -> Optional[int]:
        """The token that fills rows."""
        return self._named(lib.token_pad)

    def _named(self, function: Any) -> Optional[int]:
        token = function(self.handle)
        return None if token < 0 else token

    # --- chat ---

    @property
    def chat_template(self) -> Optional[str]:
        """The source of the template that the model's files bring."""
        source = lib.model_chat_template(self.handle)
        return None if source is None else source.decode("utf-8", "replace")

    def render_chat(self, messages: Messages, *, tools: Optional[Sequence[Any]] = None,
                    variables: Optional[Mapping[str, Any]] = None, add_generation_prompt: bool = True,
                    continue_final: bool = False, template: Optional["ChatTemplate"] = None) -> str:
        """A conversation, or a user's message, as text, by the model's template or another one."""
        return self._render(messages, tools, variables, add_generation_prompt, continue_final, template,
                            False).decode("utf-8", "replace")

    def chat_tokens(self, messages: Messages, *, tools: Optional[Sequence[Any]] = None,
                    variables: Optional[Mapping[str, Any]] = None, add_generation_prompt: bool = True,
                    continue_final: bool = False, template: Optional["ChatTemplate"] = None) -> List[int]:
        """A conversation as ids. No text of a message can become a control token."""
        text = self._render(messages, tools, variables, add_generation_prompt, continue_final, template, True)
        return self._tokenize(text, native.TOKENIZE_BOS | native.TOKENIZE_SPECIAL | native.TOKENIZE_GUARDED)

    def _own_template(self) -> c_void_p:
        with self._lock:
            if self._template is None:
                template = c_void_p()
                lib.chat_template_create(self.handle, None, byref(template))
                self._template = template
            return self._template

    def _render(self, messages: Messages, tools: Optional[Sequence[Any]], variables: Optional[Mapping[str, Any]],
                add_generation_prompt: bool, continue_final: bool, template: Optional["ChatTemplate"],
                guard: bool) -> bytes:
        if template is not None and not isinstance(template, ChatTemplate):
            raise native.wrong_type("template", "a runnel.ChatTemplate", template)
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        parsed = template.handle if template is not None else self._own_template()
        chat = native.Chat(messages=json_text("messages", messages),
                           tools=json_text("tools", tools) if tools is not None else None,
                           variables=json_text("variables", variables) if variables is not None else None,
                           add_generation_prompt=bool(add_generation_prompt and not continue_final),
                           continue_final=bool(continue_final), guard=guard, now=int(time.time()))
        text, length = c_void_p(), c_size_t()
        lib.chat_render_sized(parsed, byref(chat), ctypes.sizeof(chat), byref(text), byref(length))
        return lib.take_text(text, length)

    # --- shapes and memory ---

    def shape(self, **source: Any) -> "Shape":
        """The shape of a text, by one of these keywords:

        - ``json_schema``: a JSON Schema, as a dict or as JSON;
        - ``json_object=True``: any JSON object;
        - ``regex``: the whole text matches it;
        - ``grammar``: GBNF or Lark;
        - ``choices``: the text is one of these strings;
        - ``structure``: a structural tag, as a dict or as JSON.

        ``docs/CONSTRAINTS.md`` says what each means. Any thread may use a shape, again and again.
        """
        return Shape(self, **source)

    def plan_memory(self, **options: Any) -> Dict[str, Any]:
        """How an engine with these options would divide memory now (rn_memory_plan)."""
        struct, plan = engine_options(options), native.MemoryPlan()
        lib.engine_plan_memory_sized(self.handle, byref(struct), ctypes.sizeof(struct), byref(plan),
                                     ctypes.sizeof(plan))
        return native.as_dict(plan)


class _Owned:
    """A handle that its model outlives."""

    _free: Any = None

    def __init__(self, model: Model) -> None:
        if not isinstance(model, Model):
            raise native.wrong_type("model", "a runnel.Model", model)
        self.model = model
        self._handle = c_void_p()
        self._finalizer: Any = None

    def _own(self) -> None:
        self.model._acquire()
        self._finalizer = weakref.finalize(self, _give_back, type(self)._free, self._handle, self.model)

    @property
    def handle(self) -> c_void_p:
        """The library's object."""
        if not self._finalizer or not self._finalizer.alive:
            raise ClosedError(f"the {type(self).__name__} is closed")
        return self._handle

    def close(self) -> None:
        """Frees it. May be called again."""
        if self._finalizer:
            self._finalizer()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _give_back(free: Any, handle: c_void_p, model: Model) -> None:
    free(handle)
    model._leave()


class ChatTemplate(_Owned):
    """A parsed chat template that replaces the model's own."""

    _free = lib.chat_template_destroy

    def __init__(self, model: Model, source: str) -> None:
        super().__init__(model)
        lib.chat_template_create(model.handle, native.c_text("source", source), byref(self._handle))
        self._own()


class Shape(_Owned):
    """The shape of a text: see :meth:`Model.shape`."""

    _free = lib.shape_release

    def __init__(self, model: Model, **source: Any) -> None:
        super().__init__(model)
        if len(source) != 1 or not set(source) <= set(native.SHAPES):
            raise ArgumentTypeError(f"shape: expected one of {', '.join(native.SHAPES)}, got {', '.join(source) or 'none'}")
        (name, value), = source.items()
        if name in ("regex", "grammar"):
            data = native.encoded(name, value)
        else:
            data = b"" if name == "json_object" else json_text(name, value)
        lib.shape_compile(model.handle, native.SHAPES.index(name), data, len(data), byref(self._handle))
        self._own()
