"""Replaces what looks like personal data in a text, by its form and by the words before it.

No model is asked: a name is known where a phrase introduces it, and stays elsewhere. Knows no screen.
"""

import re
from collections.abc import Callable
from typing import Final

_WORD = r"[^\W\d_][\w'’-]*"
_CAPITAL: Final = r"(?=[^\W\d_])(?-i:[A-ZÀ-ÖØ-ÞА-ЯĄĆĘŁŃÓŚŹŻÇĞİÖŞÜ])[\w'’-]*"
_PARTICLE = r"(?:van|von|de|da|di|del|der|den|la|le|al|bin|ten|zu|dos|du|el)"
_NAME: Final = rf"{_CAPITAL}(?:[ ](?:{_PARTICLE}[ ]){{0,2}}{_CAPITAL}){{0,2}}"

_CUES: Final = (
    r"my name is|my name's|name is|i am called|i'm called|this is|"
    r"ich hei(?:ß|ss)e|mein name ist|je m['’]appelle|mon nom est|me llamo|mi nombre es|"
    r"mi chiamo|il mio nome è|o meu nome é|meu nome é|me chamo|chamo-me|ik heet|mijn naam is|"
    r"jag heter|mitt namn är|jeg hedder|jeg heter|nazywam się|mam na imię|benim adım|adım|"
    r"меня зовут|моё имя|мое имя"
)
# Whether a word behind "my name is" is no name, written small.
_NO_NAMES: Final = [
    "not",
    "on",
    "in",
    "at",
    "still",
    "wrong",
    "missing",
    "misspelled",
    "misspelt",
    "spelled",
    "spelt",
    "listed",
    "there",
    "here",
    "printed",
    "shown",
    "gone",
    "different",
    "written",
    "incorrect",
    "right",
    "correct",
    "only",
    "also",
    "never",
    "always",
    "the",
    "a",
    "an",
    "falsch",
    "nicht",
    "fehlt",
    "mal",
    "écrit",
    "mal",
    "escrito",
]

_NAMED: Final = re.compile(rf"\b((?:{_CUES}):?\s+)({_NAME})", re.IGNORECASE)
_THIS_IS: Final = re.compile(r"this is\s*$|name is\s*$", re.IGNORECASE)
_SMALL: Final = re.compile(
    rf"\b(my name is |my name's |ich hei(?:ß|ss)e |je m['’]appelle |me llamo |mi chiamo )({_WORD}(?: {_WORD})?)(?=\s*(?:[,.;!?]|$|and |und |et |y ))",
    re.IGNORECASE,
)
_CJK: Final = re.compile(
    r"(我叫|我的名字是|私の名前は|제 이름은 ?)(?![了你他她不过我])([\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{1,6}?)(?=[\s,，。.、です입]|$)"
)
_TITLED: Final = re.compile(
    rf"\b((?:Mr|Mrs|Ms|Mx|Dr|Prof|Herrn?|Frau|Mme|Mlle|Madame|Monsieur|Sra?|Señora?|Sig|Signora?|Dhr|Mevr)\b\.? ?)({_NAME})"
)
_SIGNED: Final = re.compile(
    r"((?:^|[\n.!?,] ?)(?:(?:kind|best|warm|many)?[ ]?regards|best wishes|yours sincerely|sincerely(?: yours)?|"
    r"yours truly|cheers|mit freundlichen grü(?:ß|ss)en|(?:viele|liebe|beste|freundliche) grü(?:ß|ss)e|lg|mfg|cordialement|"
    r"bien à vous|saludos(?: cordiales)?|atentamente|cordiali saluti|atenciosamente|met vriendelijke groet|"
    r"med vänlig hälsning|pozdrawiam)[,.]?\s+)"
    rf"({_NAME})(?=[ ]*(?:\n|$))",
    re.IGNORECASE,
)

_EMAIL: Final = re.compile(r"(?<![\w.+%-])[\w.+%-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")
_SPELT: Final = re.compile(
    r"(?<![\w.+-])[\w.+-]{1,64} ?[(\[]? ?(?:at|ät) ?[)\]]? ?[\w-]{1,63} ?[(\[]? ?(?:dot|punkt) ?[)\]]? ?[a-z]{2,6}\b",
    re.IGNORECASE,
)
_LINK: Final = re.compile(r"\b(?:https?://|www\.)[^\s<>\"]+", re.IGNORECASE)
_IBAN: Final = re.compile(r"\b([A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]){11,30})(?![A-Z0-9])", re.IGNORECASE)
_CARD: Final = re.compile(r"(?<![\w.,+-])\d(?:[ -]?\d){12,18}(?![\w])")
_IP: Final = re.compile(
    r"(?<![\w.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\w.]*\d)"
)
_SOCIAL: Final = re.compile(r"(?<![\w-])\d{3}-\d{2}-\d{4}(?![\w-])")
_DATE: Final = (
    r"(?:\d{1,4}[./-]\d{1,2}[./-]\d{1,4}|\d{1,2}\.? \w{3,9} \d{4}|\w{3,9} \d{1,2},? \d{4})"
)
_BORN: Final = re.compile(
    rf"\b((?:born(?: on)?|date of birth|birth ?date|d\.?o\.?b\.?|geboren(?: am)?|geburtsdatum|né(?:e)? le|"
    rf"nacid[oa] el|fecha de nacimiento|nat[oa] il)(?: is| ist|:)? +)({_DATE})",
    re.IGNORECASE,
)
_PHONE: Final = re.compile(
    # International or with the area's 0; in groups of 3, 3 and 4; of 3 and 4 with a hyphen.
    r"(?<![\w.,/:+#-])(?:\+|00)\d{1,3}(?:[ ./-]?\(?\d{1,5}\)?){2,6}(?![\w])"
    r"|(?<![\w.,/:+#-])\(?0\d{1,5}\)?[ ./-]{0,2}\d{2,}(?:[ ./-]?\d{2,}){0,4}(?![\w])"
    r"|(?<![\w.,/:+#-])\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4}(?![\w])"
    r"|(?<![\w.,/:+#-])\d{3}-\d{4}(?![\w-])"
)
_CALLED: Final = re.compile(
    r"\b((?:phone|tel(?:efon|éfono|ephone|\.)?|mobile|cell|handy|whatsapp|call me (?:at|on|under)|reach me (?:at|on)|"
    r"my number(?: is)?|meine nummer(?: ist)?|numéro|número|numero|rufnummer)(?: ?(?:is|ist|no\.?|number|nr\.?))?[:#]? *)"
    r"(\+?\(?\d(?:[ ()./-]?\d){5,14})(?![\w])",
    re.IGNORECASE,
)
_STREET: Final = re.compile(
    rf"(?<![\w.,])\d{{1,5}}[a-z]? (?:{_CAPITAL} ){{1,3}}(?-i:Street|St\.?|Road|Rd\.?|Avenue|Ave\.?|Lane|Ln\.?|Drive|Boulevard|Blvd\.?|Court|Terrace|Close|Way)\b"
    r"|\b(?-i:[A-ZÄÖÜ])[\wäöüß-]*(?:straße|strasse|str\.|weg|gasse|platz|allee|damm|laan|straat) ?\d{1,4} ?[a-z]?\b"
    rf"|(?<![\w.,])\d{{1,4}},? (?:bis |ter )?(?:rue|avenue|boulevard|chemin|impasse|allée) (?:(?:de|du|des|la|le|les|l['’]|d['’]) ?){{0,3}}{_CAPITAL}(?: {_CAPITAL})?"
    rf"|\b(?:calle|avenida|plaza|via|viale|piazza|rua) (?:(?:de|del|la|las|los|da|do|dei|della) ){{0,3}}{_CAPITAL}(?: {_CAPITAL}){{0,2}},? \d{{1,4}}\b",
    re.IGNORECASE,
)
_HANDLE: Final = re.compile(r"(?<![\w@./])@[A-Za-z_]\w{1,}")
_ORDER: Final = re.compile(
    r"\b((?:order|invoice|ticket|case|booking|customer|contract|tracking|reference|ref|policy|account|purchase order|po|"
    r"bestellung|bestellnummer|rechnung|kundennummer|vertrag|auftrag|sendung|commande|facture|dossier|pedido|factura|ordine|fattura|encomenda)"
    r"(?: ?(?:no\.?|nr\.?|number|num\.?|id|n°|nº|code|nummer|is))*[ :#.]*)"
    r"((?=[A-Z0-9/-]*\d)[A-Z0-9][A-Z0-9/-]{2,24})\b"
    r"|(?<![\w&#])(#)(\d{3,})\b",
    re.IGNORECASE,
)


def masked(text: str, *, orders: bool = False) -> str:
    """The text with what looks like personal data replaced by a word in brackets.

    Replaced are addresses of mail and web, accounts, cards, telephone numbers, handles, streets with
    a number, IP addresses, dates of birth, and names that a phrase introduces, in several languages.
    Names anywhere else stay: they cannot be told from other words without a model.

    Args:
        orders: also numbers of orders, invoices, customers and the like.
    """
    text = _EMAIL.sub("[email]", text)
    text = _SPELT.sub("[email]", text)
    text = _LINK.sub("[link]", text)
    text = _IBAN.sub(_account, text)
    text = _CARD.sub(_checked(_is_card, "[card]"), text)
    text = _SOCIAL.sub("[id]", text)
    text = _IP.sub(_checked(_is_address, "[ip]"), text)
    text = _BORN.sub(r"\1[date]", text)
    if orders:
        text = _ORDER.sub(lambda found: (found[1] or found[3]) + "[number]", text)
    text = _CALLED.sub(r"\1[phone]", text)
    text = _PHONE.sub(_checked(_is_phone, "[phone]"), text)
    text = _STREET.sub("[address]", text)
    text = _HANDLE.sub("[handle]", text)
    text = _NAMED.sub(_named, text)
    text = _SMALL.sub(_small, text)
    text = _CJK.sub(r"\1[name]", text)
    text = _TITLED.sub(r"\1[name]", text)
    return _SIGNED.sub(r"\1[name]", text)


def _checked(is_one: Callable[[str], bool], word: str) -> Callable[[re.Match[str]], str]:
    return lambda found: word if is_one(found[0]) else found[0]


def _named(found: re.Match[str]) -> str:
    if _THIS_IS.search(found[1]) and found[1].casefold().startswith("this is"):
        # "This is Anna speaking", but not "This is Great" or "This is Monday's parcel".
        behind = found.string[found.end() :]
        if not re.match(r"\s*(?:speaking|here\b|calling|from\b)", behind, re.IGNORECASE):
            return found[0]
    return f"{found[1]}[name]"


def _small(found: re.Match[str]) -> str:
    first = found[2].split()[0].casefold()
    return found[0] if first in _NO_NAMES else f"{found[1]}[name]"


def _digits(text: str) -> str:
    return re.sub(r"\D", "", text)


def _account(found: re.Match[str]) -> str:
    """The longest beginning that is an account by its check digits; words behind it stay."""
    text = found[0]
    for end in range(len(text), 14, -1):
        behind = text[end : end + 1]
        if (not behind or not behind.isalnum()) and _is_account(text[:end]):
            return f"[account]{text[end:]}"
    return text


def _is_account(text: str) -> bool:
    bare = re.sub(r"[ -]", "", text).upper()
    if not 15 <= len(bare) <= 34:
        return False
    turned = bare[4:] + bare[:4]
    return int("".join(str(int(one, 36)) for one in turned)) % 97 == 1


def _is_card(text: str) -> bool:
    """By the check digit that such a number carries."""
    total = 0
    for place, digit in enumerate(reversed(_digits(text))):
        value = int(digit) * (2 if place % 2 else 1)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def _is_address(text: str) -> bool:
    # 1.2.3.4 is a version more often than not.
    return len(_digits(text)) >= 6


def _is_phone(text: str) -> bool:
    """Neither a date nor a time, and of as many digits as telephone numbers have."""
    if re.fullmatch(r"\(?0?\d[./-]\d{1,2}[./-]\d{2,4}|\d{4}[./-]\d{1,2}[./-]\d{1,2}", text):
        return False
    return 7 <= len(_digits(text)) <= 15
