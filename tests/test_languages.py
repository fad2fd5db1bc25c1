"""What clients get for a tag that is no language, and the names that metrics have."""

from __future__ import annotations

import pytest

from dragoman import languages
from dragoman.errors import UnsupportedLanguage


def test_a_client_gets_the_suggestion_with_the_servers_error() -> None:
    for call in (languages.normalise, languages.name, languages.script, lambda tag: languages.match(tag, ("en",))):
        with pytest.raises(UnsupportedLanguage, match='Did you mean "ja"') as refusal:
            call("jp")
        assert refusal.value.code == "unsupported_language" and refusal.value.status == 400
