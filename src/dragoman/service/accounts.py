"""Accounts: which key may translate what, how fast and how much, and how much each has used."""

from __future__ import annotations

from datetime import UTC, datetime

from dragoman.types import ANONYMOUS, Account, AccountUsage, TranslationRequest


class Accounts:
    """The accounts of a server that needs no keys: each call is `ANONYMOUS`'s."""

    async def authenticate(self, key: str | None) -> Account:
        """The account of a key. Raises `Unauthenticated` where one is needed and None given, `InvalidKey`."""
        return ANONYMOUS

    def check(self, request: TranslationRequest) -> None:
        """Before admission. Raises `Forbidden`, `QuotaExceeded` or `RateLimited` for what the request's account may not."""

    def charge(self, request: TranslationRequest) -> None:
        """Count the request's characters to its account, once for a request id."""

    def usage(self, account: Account) -> AccountUsage:
        """What the account has used this month."""
        start = datetime.now(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        end = start.replace(year=start.year + start.month // 12, month=start.month % 12 + 1)
        return AccountUsage(0, account.characters_per_month, start, end)
