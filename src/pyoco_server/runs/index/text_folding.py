"""Texts as searches compare them: without differences of case, width or composition."""

from unicodedata import normalize


def folded(text: str) -> str:
    """The form that both sides of a comparison are brought to: NFKC and case folding."""
    # Most texts are ASCII, where that is the same and takes a fraction of the time.
    if text.isascii():
        return text.lower()
    return normalize("NFKC", normalize("NFKC", text).casefold())
