"""The same questions asked of transformers on the same weights: what a decision engine is compared with.

Two ways: every prompt alone, and one cached prefix with all questions as a batch behind it. Both
read the last position only (no logits of other rows), use sdpa attention, and run in this process.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from spinf_serve.engine.loading.open import OpenedModel
from spinf_serve.engine.models.spec import ModelSpec, Rope
from spinf_serve.engine.text.tokenizer import Tokenizer
from spinf_serve.engine.work import Work
from spinf_serve.packs.errors import Unusable


class TransformersReference:
    """A transformers model that holds the weights of an opened checkpoint."""

    def __init__(self, opened: OpenedModel, dtype: torch.dtype) -> None:
        self._tokenizer = opened.tokenizer
        self._model: Any = _loaded(opened, dtype)

    @torch.inference_mode()
    def one_by_one(self, work: Work) -> torch.Tensor:
        """[Q, O] log-probabilities of single-token options, one forward per prompt."""
        content = _start(self._tokenizer) + self._tokenizer.encode(work.content)
        rows = []
        for text, options in _prompts(work):
            ids = torch.tensor([content + self._tokenizer.encode(text)])
            logits = self._model(input_ids=ids, use_cache=False, logits_to_keep=1).logits[0, -1]
            rows.append(torch.log_softmax(logits.float(), -1)[self._option_ids(options)])
        return torch.stack(rows)

    @torch.inference_mode()
    def cached_prefix(self, work: Work) -> torch.Tensor:
        """[Q, O] log-probabilities: the content read once, the questions as one padded batch."""
        content = _start(self._tokenizer) + self._tokenizer.encode(work.content)
        asked = list(_prompts(work))
        branches = [self._tokenizer.encode(text) for text, _ in asked]
        lengths = torch.tensor([len(branch) for branch in branches])
        longest = int(lengths.max())
        ids = torch.tensor([branch + [0] * (longest - len(branch)) for branch in branches])
        real = torch.arange(longest) < lengths[:, None]
        mask = torch.cat((torch.ones(len(asked), len(content), dtype=torch.bool), real), 1)

        decoder = self._model.get_decoder()
        cache = decoder(input_ids=torch.tensor([content]), use_cache=True).past_key_values
        cache.batch_repeat_interleave(len(asked))
        hidden = decoder(
            input_ids=ids, attention_mask=mask.long(), past_key_values=cache, use_cache=True
        ).last_hidden_state
        last = hidden[torch.arange(len(asked)), lengths - 1]
        logprobs = torch.log_softmax(self._model.get_output_embeddings()(last).float(), -1)
        columns = torch.tensor([self._option_ids(options) for _, options in asked])
        return logprobs.gather(1, columns)

    def _option_ids(self, options: Sequence[str]) -> list[int]:
        ids = [self._tokenizer.encode(option) for option in options]
        if any(len(tokens) != 1 for tokens in ids):
            raise Unusable("the comparison needs options of one token each")
        return [tokens[0] for tokens in ids]


def _prompts(work: Work) -> Iterator[tuple[str, tuple[str, ...]]]:
    for question in work.questions:
        for prompt in question.prompts:
            yield prompt.text, question.options


def _start(tokenizer: Tokenizer) -> list[int]:
    return [] if tokenizer.bos_id is None else [tokenizer.bos_id]


def _loaded(opened: OpenedModel, dtype: torch.dtype) -> Any:
    try:
        from transformers import LlamaConfig, LlamaForCausalLM
    except ImportError as missing:
        raise Unusable(
            "the comparison needs transformers: install it with pip install -e '.[test]'"
        ) from missing
    spec = opened.spec
    if spec.family != "llama":
        raise Unusable(f"the comparison is written for the llama family, not for {spec.family}")
    config = LlamaConfig(
        vocab_size=spec.vocab,
        hidden_size=spec.hidden,
        intermediate_size=spec.intermediate,
        num_hidden_layers=len(spec.layers),
        num_attention_heads=spec.heads,
        num_key_value_heads=spec.layers[0].kv_heads,
        head_dim=spec.layers[0].head_dim,
        rms_norm_eps=spec.norm_eps,
        max_position_embeddings=spec.context,
        rope_parameters=_rope_parameters(spec),
        tie_word_embeddings=spec.tied,
    )
    model: Any = LlamaForCausalLM._from_config(config, attn_implementation="sdpa", dtype=dtype)
    model.eval()
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if not (spec.tied and name == "lm_head.weight"):
                opened.checkpoint.read_into(name, tensor)
    model.tie_weights()
    return model


def _rope_parameters(spec: ModelSpec) -> dict[str, object]:
    rope: Rope = spec.layers[0].rope
    parameters: dict[str, object] = {"rope_type": rope.kind, "rope_theta": rope.theta}
    if rope.kind != "default":
        parameters["factor"] = rope.factor
    if rope.kind == "llama3":
        parameters["low_freq_factor"] = rope.low_freq_factor
        parameters["high_freq_factor"] = rope.high_freq_factor
        parameters["original_max_position_embeddings"] = rope.original_context
    return parameters
