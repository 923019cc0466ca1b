"""What paths and spellings are, straight from the definition: whole texts, no shortcuts."""

from collections.abc import Sequence

from spinf_serve.engine.text.tokenizer import Tokenizer

TokenPath = tuple[int, ...]


def common(*lists: Sequence[int]) -> int:
    """Length of the longest beginning that all lists share."""
    count = 0
    for tokens in zip(*lists, strict=False):
        if len(set(tokens)) > 1:
            break
        count += 1
    return count


def paths_of(
    tokenizer: Tokenizer, text: str, options: list[str]
) -> tuple[TokenPath, list[TokenPath]]:
    """The path of a whole text and the tokens of each option behind it."""
    base = tokenizer.encode(text)
    joint = [tokenizer.encode(text + option) for option in options]
    kept = min(common(base, *joint), *(len(tokens) - 1 for tokens in joint))
    return tuple(base[:kept]), [tuple(tokens[kept:]) for tokens in joint]


def spellings_of(tokenizer: Tokenizer, text: str, options: list[str]) -> list[list[TokenPath]]:
    """The token paths of all spellings that count for each option, the option as given first."""
    base = tuple(tokenizer.encode(text))
    path, given_paths = paths_of(tokenizer, text, options)
    kept = len(path)
    used = set(given_paths)
    found = []
    for option, given_path in zip(options, given_paths, strict=True):
        mine = [given_path]
        bare = option.strip()
        # The other options have no say in which spellings count for this one.
        own = paths_of(tokenizer, text, [option])[0]
        for cased in (bare.lower(), bare[:1].upper() + bare[1:].lower(), bare.upper()):
            for spelling in (" " + cased, cased):
                alone = tuple(tokenizer.encode(spelling)) if bare else ()
                whole = tuple(tokenizer.encode(text + spelling))
                counts = len(alone) == 1 and whole == base + alone
                if bare and len(own) < len(base):
                    counts |= whole[: len(own)] == own and len(whole) == len(own) + 1
                if counts and whole[kept:] not in used:
                    used.add(whole[kept:])
                    mine.append(whole[kept:])
        found.append(mine)
    return found
