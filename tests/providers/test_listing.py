"""What endpoints tell of their models."""

import pytest

from app.providers.base import FoundModel
from app.providers.listing import is_llama_cpp, models_in, window_in


def only(**entry) -> FoundModel:
    models = models_in({"object": "list", "data": [{"id": "m", **entry}]})
    assert models is not None
    return models[0]


@pytest.mark.parametrize(
    "entry",
    [
        {"meta": {"n_ctx": 8192, "n_ctx_train": 131072}},
        {"meta": {"n_ctx_train": 8192}},
        {"max_model_len": 8192},
        {"context_length": 200_000, "top_provider": {"context_length": 8192}},
        {"context_length": 8192, "top_provider": {"context_length": None}},
        {"context_window": 8192},
        {"max_context_length": 131072, "loaded_context_length": 8192},
        {"max_context_length": 8192},
        {"inputTokenLimit": 8192},
    ],
)
def test_the_context_length_has_many_names(entry):
    assert only(**entry).context_length == 8192


@pytest.mark.parametrize("odd", [0, -1, True, "8192", None, 8192.5, {}])
def test_what_is_no_length_is_not_taken(odd):
    assert only(context_length=odd, meta=odd).context_length is None


def test_what_is_not_told_is_none():
    assert only(object="model", created=1, owned_by="openai") == FoundModel("m")


def test_names_and_outputs_are_read():
    model = only(name="The Model", top_provider={"max_completion_tokens": 4096})
    assert (model.name, model.max_output) == ("The Model", 4096)
    assert only(name="m").name is None


def test_capabilities_are_read_where_they_are_told():
    router = {
        "architecture": {"input_modalities": ["text", "image", "file"], "output_modalities": ["text"]},
        "supported_parameters": ["tools", "temperature", "reasoning"],
    }
    assert only(**router).capabilities == ("vision", "tools", "reasoning", "documents")
    assert only(
        capabilities={"completion_chat": True, "function_calling": True, "vision": False}
    ).capabilities == ("tools",)
    assert only(type="vlm", capabilities=["tool_use"]).capabilities == ("vision", "tools")
    assert only(capabilities=["completion", "multimodal"]).capabilities == ("vision",)


@pytest.mark.parametrize(
    "entry",
    [
        {"type": "embeddings"},
        {"type": "image"},
        {"architecture": {"output_modalities": ["image"]}},
        {"capabilities": {"completion_chat": False}},
    ],
)
def test_models_that_say_they_do_not_chat_are_left_out(entry):
    assert models_in({"data": [{"id": "m", **entry}]}) == []


def test_lists_come_in_several_forms_and_every_model_once():
    wanted = [FoundModel("a"), FoundModel("b")]
    entries = [{"id": "a"}, {"id": "b"}, {"id": "a"}, {"id": 3}, None, {}]
    for listing in ({"data": entries}, {"models": [{"name": "a"}, {"model": "b"}]}, entries, ["a", "b"]):
        assert models_in(listing) == wanted


@pytest.mark.parametrize("listing", [None, "x", 3, {}, {"data": None}, {"error": {"message": "no"}}])
def test_what_is_no_list_is_none(listing):
    assert models_in(listing) is None


def test_llama_cpp_is_asked_again_where_it_tells_the_trained_window_alone():
    trained = {"data": [{"id": "m", "owned_by": "llamacpp", "meta": {"n_ctx_train": 8192}}]}
    loaded = {"data": [{"id": "m", "owned_by": "llamacpp", "meta": {"n_ctx": 2048}}]}
    assert is_llama_cpp(trained)
    assert not is_llama_cpp(loaded)
    assert not is_llama_cpp({"data": [{"id": "m", "owned_by": "vllm"}]})
    assert not is_llama_cpp(["a"])
    assert window_in({"default_generation_settings": {"n_ctx": 2048}, "n_ctx": 4096}) == 2048
    assert window_in("nothing") is None


def listed(body: dict[str, object]) -> list[FoundModel]:
    found = models_in(body)
    assert found is not None
    return found


def test_a_hostile_list_is_cut_to_what_can_be_kept():
    (model,) = listed(
        {
            "data": [
                {"id": "m", "name": "n" * 999, "context_length": 10**30, "max_output_tokens": 9},
                {"id": "x" * 999},
            ]
        }
    )
    assert (len(model.name or ""), model.context_length, model.max_output) == (120, None, 9)
    assert len(listed({"data": [{"id": str(number)} for number in range(9_000)]})) == 5_000
