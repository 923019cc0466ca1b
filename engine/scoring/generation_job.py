"""A prompt behind which the model writes, as a job like those of works: a trunk and one slot."""

from collections.abc import Callable

import numpy as np

from spinf_serve.engine.extraction.writing import Writing
from spinf_serve.engine.scoring.compile import Opening, build_forest
from spinf_serve.engine.scoring.job import Job, next_key
from spinf_serve.engine.scoring.question_set import Compiler
from spinf_serve.engine.text.tokenizer import Tokenizer
from spinf_serve.engine.tree.packing import new_tree
from spinf_serve.engine.tree.plan import no_ints
from spinf_serve.engine.work import Counts, Generate, Limits, Work
from spinf_serve.packs.errors import Refused
from spinf_serve.packs.question import Prompt, Slot
from spinf_serve.packs.template import SlotKind


def generation_job(
    wanted: Generate,
    compiler: Compiler,
    tokenizer: Tokenizer,
    limits: Limits,
    context_tokens: int,
    on_text: Callable[[str], None],
) -> Job:
    """A work without a content: a prompt, behind which the model writes.

    Args:
        on_text: gets the text piece by piece, on the engine's thread.

    Raises:
        Refused: with the param `prompt`.
    """
    tokens = wanted.prompt
    if isinstance(tokens, str):
        bos = () if tokenizer.bos_id is None else (tokenizer.bos_id,)
        try:
            tokens = (*bos, *tokenizer.encode(tokens))
        except Refused as refused:
            raise refused.within("prompt") from None
    _check_prompt(tokens, wanted.max_tokens, tokenizer, limits, context_tokens)
    writing = Writing(compiler.vocabulary, wanted.stop, wanted.max_tokens, wanted.sampling, on_text)
    [ask] = writing.asks()
    opening = Opening(tokens[-1:], ask.columns, ask.top, wanted.max_tokens)
    forest = build_forest([], [], [opening])
    tree = new_tree(
        next_key(), np.array(tokens[:-1], np.int32), no_ints(), forest.trie, forest.reads
    )
    slot = Slot(
        id="text",
        prompts=(Prompt(""),),
        kind=SlotKind.TEXT,
        max_tokens=wanted.max_tokens,
        sampling=wanted.sampling,
    )
    counts = Counts(
        content_tokens=len(tokens), query_tokens=0, packed_tokens=tree.packed_tokens, floors={}
    )
    nothing = compiler.question_set(())
    work = Work("", (), slots=(slot,))
    return Job(work, nothing, forest, tree, counts, True, slots=(writing,))


def _check_prompt(
    tokens: tuple[int, ...],
    max_tokens: int,
    tokenizer: Tokenizer,
    limits: Limits,
    context_tokens: int,
) -> None:
    if not tokens:
        raise Refused(
            "invalid_field", "this model has no start token, so a prompt needs a text", "prompt"
        )
    unknown = next((token for token in tokens if not 0 <= token < tokenizer.vocab_size), None)
    if unknown is not None:
        raise Refused(
            "invalid_field",
            f"the prompt has the token {unknown}; the model's are 0 to {tokenizer.vocab_size - 1}",
            "prompt",
        )
    if len(tokens) > limits.max_content_tokens:
        raise Refused(
            "content_too_long",
            f"the prompt has {len(tokens)} tokens; the limit is {limits.max_content_tokens} "
            "(max_content_tokens)",
            "prompt",
        )
    if len(tokens) + max_tokens > context_tokens:
        raise Refused(
            "content_too_long",
            f"the prompt and max_tokens are {len(tokens) + max_tokens} tokens together; the model "
            f"reads at most {context_tokens}",
            "prompt",
        )
