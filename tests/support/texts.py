"""Hypothesis strategies for texts that are hard on tokenizers."""

from hypothesis import strategies as st

_PIECES = [
    *["the", "lorry", "go", "going", "north", "gate", "Answer", "Answer:", "believable", "zebra"],
    *["word", "s", "ing", "8841", "12", "$", ".", ",", "?", "!", "'s", "(", "店员说", "可以", "。"],
    *[" ", " ", " ", "  ", "\n", "\n\n", "\t", "\r\n", "\u00a0", "\u2028", "\u3000", "\x1c"],
    *["👍", "👩\u200d🚀", "e\u0301", "\u0301", "é", "\u200b", "한", "\u1112\u1161", "İ", "ß", "ﬁ"],
    *["{?}", "{{", "<|im_start|>", "<0x41>", "▁", "x" * 40, "可" * 50, " " * 40],
]


def texts(max_pieces: int = 12) -> st.SearchStrategy[str]:
    """Words, runs of white space, other scripts, emoji, combining marks and arbitrary characters."""
    piece = st.one_of(st.sampled_from(_PIECES), st.text(max_size=3))
    return st.lists(piece, max_size=max_pieces).map("".join)


def options(max_size: int = 4) -> st.SearchStrategy[list[str]]:
    """Distinct non-empty options; some are prefixes of others, some only white space."""
    listed = [
        " go",
        " going",
        " go ahead",
        "go",
        "s",
        "ing",
        "\n",
        " ",
        "Yes",
        " yes",
        " No",
        "可以",
    ]
    option = st.one_of(st.sampled_from(listed), texts(2).filter(bool))
    return st.lists(option, min_size=1, max_size=max_size, unique=True)
