"""Removes passwords from messages about an address. Needs Python alone.

Every message that may name a database or a cluster goes through `hide_passwords`.
"""

import re
from urllib.parse import quote, quote_plus, unquote, unquote_plus

HIDDEN = "***"
SHORT = 3

# Up to the last @ of the word: a password that is not encoded correctly may contain an @ or a slash.
_IN_ADDRESS = re.compile(r"(?<=://)([^\s:/?#]*):([^\s]*)@")
# What follows a separator and is no option of its own belongs to the password, too. The equals sign may be encoded.
_AS_OPTION = re.compile(
    r"""(?ix) (pass(?:word|wd|phrase)?|pwd|secret|token) (\s*=\s*|%3D)
    ('[^']*'|"[^"]*"|(?:(?!%3B|%26)[^\s&;,'"])+ (?:[&;][^\s&;,='"]*(?=[\s&;,'"]|$))*)"""
)

# In an address that is known as such, spaces end nothing: SQLAlchemy takes them as they are.
_IN_LOCATION = re.compile(r"://[^:/?#]*:(.*)@", re.DOTALL)
_IN_QUERY = re.compile(r"(?i)(?:pass(?:word|wd|phrase)?|pwd|secret|token)=([^&;#]*)")


def hide_passwords(text: str, location: str = "") -> str:
    """`text` without the passwords of URLs and connection strings in it. Passwords of `location` are hidden everywhere:
    drivers also quote them alone, decoded or in another encoding.

    >>> hide_passwords("cannot reach postgresql://me:hunter2@host/name?sslpassword=a%20b&x=1")
    'cannot reach postgresql://me:***@host/name?sslpassword=***&x=1'
    >>> hide_passwords('no host "er2@host"', "postgresql://me:hunt@er2@host/name")
    'no host "***@host"'
    """
    for secret in sorted(_passwords_in(location), key=len, reverse=True):
        # A short password may be part of any word, so hiding it would garble the text.
        whole_word = rf"(?<!\w){re.escape(secret)}(?!\w)"
        text = text.replace(secret, HIDDEN) if len(secret) > SHORT else re.sub(whole_word, HIDDEN, text)
    text = _IN_ADDRESS.sub(rf"\1:{HIDDEN}@", text)
    return _AS_OPTION.sub(rf"\1\2{HIDDEN}", text)


def _passwords_in(location: str) -> set[str]:
    """All ways to write a password of an address, and the parts of it that a wrong split leaves."""
    found = [match[2] for match in _IN_ADDRESS.finditer(location)]
    found += [match[3].strip("'\"") for match in _AS_OPTION.finditer(location)]
    found += _IN_LOCATION.findall(location) + _IN_QUERY.findall(location.partition("?")[2])
    found += [part for secret in found for part in re.split(r"[@/:?#&]", secret) if len(part) > 1]
    decoded = {plain for secret in found for plain in (secret, unquote(secret), unquote_plus(secret))}
    ways = {way for plain in decoded for way in (plain, quote(plain, safe=""), quote_plus(plain), repr(plain)[1:-1])}
    return ways - {"", HIDDEN}
