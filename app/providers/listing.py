"""Reads what an endpoint lists under `GET /models`, with all that some tell beside the name.

Known: OpenAI, llama.cpp (`meta`), vLLM (`max_model_len`), Ollama, LM Studio (`/api/v0`), OpenRouter, Groq
(`context_window`), Mistral (`max_context_length`, `capabilities`), Together (a bare list), Gemini, LiteLLM.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from app.core.text import storable
from app.providers.base import FoundModel

# What holds now comes before what the model could do: llama.cpp and LM Studio load less than was trained.
_CONTEXT = (
    ("loaded_context_length",),
    ("meta", "n_ctx"),
    ("max_model_len",),
    ("top_provider", "context_length"),
    ("context_length",),
    ("context_window",),
    ("max_context_length",),
    ("max_input_tokens",),
    ("inputTokenLimit",),
    ("meta", "n_ctx_train"),
)
_OUTPUT = (
    ("top_provider", "max_completion_tokens"),
    ("max_completion_tokens",),
    ("max_output_tokens",),
    ("outputTokenLimit",),
)
# No list that is one goes beyond these; they keep rubbish out of the database.
_MOST_TOKENS = 100_000_000
_MOST_MODELS = 5_000
_LONGEST_ID = 300
_LONGEST_NAME = 120
# Kinds of model that some endpoints list beside those that chat.
_NO_CHAT = {
    "embedding",
    "embeddings",
    "image",
    "audio",
    "video",
    "rerank",
    "moderation",
    "transcribe",
    "transcription",
}


def models_in(listing: Any) -> list[FoundModel] | None:
    """The models of a listing that can chat, in its order and each once; None if it is no listing."""
    if isinstance(listing, Mapping):
        listing = listing.get("data", listing.get("models"))
    if not isinstance(listing, list):
        return None
    models = (model for entry in listing if (model := _model(entry)) is not None)
    return list({model.wire_name: model for model in islice(models, _MOST_MODELS)}.values())


def is_llama_cpp(listing: Any) -> bool:
    """Whether this is llama.cpp's list and tells the trained window alone."""
    entries = listing.get("data") if isinstance(listing, Mapping) else None
    return isinstance(entries, list) and any(
        isinstance(entry, Mapping)
        and entry.get("owned_by") == "llamacpp"
        and "n_ctx" not in _inside(entry, "meta")
        for entry in entries
    )


def window_in(props: Any) -> int | None:
    """The context length in llama.cpp's `/props`, of one slot."""
    return (
        _first(props, (("default_generation_settings", "n_ctx"), ("n_ctx",)))
        if isinstance(props, Mapping)
        else None
    )


def _model(entry: Any) -> FoundModel | None:
    if isinstance(entry, str):
        entry = {"id": entry}
    if not isinstance(entry, Mapping):
        return None
    id = entry.get("id") or entry.get("model") or entry.get("name")
    if not isinstance(id, str) or len(id) > _LONGEST_ID or not _chats(entry):
        return None
    name = entry.get("name") or entry.get("display_name") or entry.get("displayName")
    return FoundModel(
        wire_name=storable(id),
        name=storable(name)[:_LONGEST_NAME] if isinstance(name, str) and name != id else None,
        context_length=_first(entry, _CONTEXT),
        max_output=_first(entry, _OUTPUT),
        capabilities=tuple(_capabilities(entry)),
    )


def _chats(entry: Mapping[str, Any]) -> bool:
    """False only where the entry says so itself; names are not guessed from."""
    if str(entry.get("type", "")).lower() in _NO_CHAT:
        return False
    outputs = _inside(entry, "architecture").get("output_modalities")
    if isinstance(outputs, list) and outputs and "text" not in outputs:
        return False
    return _inside(entry, "capabilities").get("completion_chat") is not False


def _capabilities(entry: Mapping[str, Any]) -> Iterator[str]:
    inputs = _words(_inside(entry, "architecture").get("input_modalities"))
    options = _words(entry.get("supported_parameters")) | _words(entry.get("capabilities"))
    flags = {name for name, has in _inside(entry, "capabilities").items() if has is True}
    if "image" in inputs or entry.get("type") == "vlm" or (options | flags) & {"vision", "multimodal"}:
        yield "vision"
    if (options | flags) & {"tools", "tool_use", "function_calling"}:
        yield "tools"
    if (options | flags) & {"reasoning", "thinking"}:
        yield "reasoning"
    if "file" in inputs:
        yield "documents"


def _words(value: Any) -> set[str]:
    return {word for word in value if isinstance(word, str)} if isinstance(value, list) else set()


def _inside(entry: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = entry.get(name)
    return value if isinstance(value, Mapping) else {}


def _first(entry: Mapping[str, Any], paths: tuple[tuple[str, ...], ...]) -> int | None:
    """The first number of tokens at one of `paths`: whole, positive, and no more than any model could have."""
    for *outer, name in paths:
        value = (_inside(entry, outer[0]) if outer else entry).get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MOST_TOKENS:
            return value
    return None
