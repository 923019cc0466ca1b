"""Small GGUF files for tests: tokenizers learned from a few lines, weights of random blocks."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import gguf
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from tests.support.toy_tokenizers import TRAINING_LINES

NORMAL, CONTROL, USER_DEFINED, BYTE = 1, 3, 4, 6


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What a GGUF file says of its tokens. `merges` or `scores` is empty."""

    texts: tuple[str, ...]
    kinds: tuple[int, ...]
    merges: tuple[tuple[str, str], ...] = ()
    scores: tuple[float, ...] = ()


def learned_byte_level(
    splits: Sequence[pre_tokenizers.PreTokenizer], *, added: Iterable[str] = (), size: int = 480
) -> Vocabulary:
    """Two control tokens, then a byte-level vocabulary, then `added` as user-defined tokens."""
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.Sequence(list(splits))
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    learner.train_from_iterator(TRAINING_LINES, trainer)
    model = json.loads(learner.to_str())["model"]
    learned = sorted(model["vocab"], key=model["vocab"].get)
    added = tuple(added)
    return Vocabulary(
        texts=("<|endoftext|>", "<|im_start|>", *learned, *added),
        kinds=(CONTROL, CONTROL, *[NORMAL] * len(learned), *[USER_DEFINED] * len(added)),
        merges=tuple((left, right) for left, right in model["merges"]),
    )


def learned_sentence_pieces(pieces: Sequence[str], added: Sequence[str] = ()) -> Vocabulary:
    """Four control tokens, 256 bytes, `added`, then `pieces`, the first with the best score."""
    controls = ("<pad>", "<eos>", "<bos>", "<start_of_turn>")
    bytes_ = tuple(f"<0x{byte:02X}>" for byte in range(256))
    head = len(controls) + len(bytes_) + len(added)
    return Vocabulary(
        texts=(*controls, *bytes_, *added, *pieces),
        kinds=(
            *[CONTROL] * len(controls),
            *[BYTE] * len(bytes_),
            *[USER_DEFINED] * len(added),
            *[NORMAL] * len(pieces),
        ),
        scores=(*[-1000.0] * head, *(-float(place) for place in range(len(pieces)))),
    )


def add_tokenizer(
    writer: gguf.GGUFWriter, vocabulary: Vocabulary, *, pre: str, add_bos: bool | None = None
) -> None:
    """Write a vocabulary's keys; one with scores is a SentencePiece one."""
    writer.add_tokenizer_model("llama" if vocabulary.scores else "gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(list(vocabulary.texts))
    writer.add_token_types(list(vocabulary.kinds))
    if vocabulary.scores:
        writer.add_token_scores(list(vocabulary.scores))
        writer.add_add_space_prefix(False)
    else:
        writer.add_token_merges([f"{left} {right}" for left, right in vocabulary.merges])
    if add_bos is not None:
        writer.add_add_bos_token(add_bos)
    writer.add_bos_token_id(vocabulary.texts.index("<bos>") if vocabulary.scores else 1)


def write_tokenizer(path: Path, vocabulary: Vocabulary, **how) -> Path:
    """A GGUF file with a tokenizer and nothing else."""
    writer = gguf.GGUFWriter(path, "llama")
    add_tokenizer(writer, vocabulary, **how)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
