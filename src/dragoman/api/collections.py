"""What `/v1/glossaries` and `/v1/memories` have in common: how a collection is shown, and whose it must be to be changed."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import AliasChoices, BaseModel, Field

from dragoman.api import openapi, schemas
from dragoman.errors import Forbidden

if TYPE_CHECKING:
    from dragoman.storage.collections import Collections, StoredCollection
    from dragoman.types import Account


class PairOut(BaseModel):
    """A pair of languages that a collection has entries for."""

    source: str
    target: str
    entry_count: int


class CollectionOut(BaseModel):
    """A collection without its entries."""

    id: str
    name: str
    version: Annotated[int, Field(description="One more after each change of its entries.")]
    created_at: datetime
    updated_at: datetime
    shared: Annotated[
        bool,
        Field(
            description="Whether it is the server's: all keys see and use it, and operators change it.",
            validation_alias=AliasChoices("shared", "is_shared"),
        ),
    ]

    @classmethod
    def of(cls, stored: StoredCollection) -> Self:
        return cls.model_validate(stored, from_attributes=True)


async def changeable(store: Collections, account: Account, reference: str) -> StoredCollection:
    """Return a collection that a caller may change: its own, or, with an operator's key, one that the server shares.

    Changes are made as the owner, `account_id`. Raises the kind's error for an unknown one, and `Forbidden`.
    """
    stored = await store.get(account.id, reference)
    if stored.account_id != account.id and account.role != "operator":
        raise Forbidden(
            f"the server shares this {store.kind} with all keys: an operator changes it, or gives it to a key with "
            f"`dragoman {store.plural} give`"
        )
    return stored


async def deletable(store: Collections, account: Account, reference: str) -> StoredCollection:
    """Return a collection that a caller may delete: by its name one's own alone, so that a repeated request, which
    finds one's own gone, does not delete the shared one of its name; a shared one by its id. Raises what `changeable` does."""
    stored = await changeable(store, account, reference)
    if stored.account_id != account.id and reference != stored.id:
        raise store.unknown(
            f"there is no {store.kind} {reference!r} of your own; the shared one of this name is deleted by its id, {stored.id}"
        )
    return stored


async def added_to(store: Collections, account: Account, reference: str) -> tuple[str, str]:
    """Return the owner and the reference that an import adds to: by a name one's own, which is made if there is none, also
    where a shared one has this name; a shared one by its id. Raises what `changeable` does for this."""
    with suppress(store.unknown):
        stored = await store.get(account.id, reference)
        if stored.account_id != account.id and reference == stored.id:
            stored = await changeable(store, account, reference)
            return stored.account_id, stored.id
    return account.id, reference


def errors(*statuses: int) -> openapi.Answers:
    """The errors that a route may answer with, for OpenAPI."""
    return openapi.failures(schemas.ErrorAnswer, 400, 401, *statuses)
