"""What `/v1/glossaries` and `/v1/memories` have in common: how a collection is shown, and whose it must be to be changed."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from dragoman.api import openapi, schemas
from dragoman.errors import Forbidden, InvalidRequest
from dragoman.storage.collections import SERVER

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
    changeable: Annotated[bool, Field(description="Whether the calling key may change and delete it.")] = False
    shareable: Annotated[bool, Field(description="Whether the calling key may share it, or take it for itself.")] = (
        False
    )

    @classmethod
    def of(cls, store: Collections, stored: StoredCollection, account: Account) -> Self:
        """How a caller sees it."""
        shown = cls.model_validate(stored, from_attributes=True)
        shown.changeable = _may_change(stored, account)
        shown.shareable = _is_sharer(account) and stored.name not in store.unshared
        return shown


class ChangeBody(schemas.RequestBody):
    """What is changed of a collection; what is not given stays."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "manuals"}]})

    name: Annotated[str | None, Field(description="Unique among those of its owner.")] = None
    shared: Annotated[
        bool | None,
        Field(description="For keys with the role `operator`: whether all keys use it, or this key alone."),
    ] = None


def _may_change(stored: StoredCollection, account: Account) -> bool:
    return stored.account_id == account.id or account.role == "operator"


def _is_sharer(account: Account) -> bool:
    """Whether a key may share: an operator's, that is not itself the owner of what is shared."""
    return account.role == "operator" and account.id != SERVER


async def changeable(store: Collections, account: Account, reference: str) -> StoredCollection:
    """Return a collection that a caller may change: its own, or, with an operator's key, one that the server shares.

    Changes are made as the owner, `account_id`. Raises the kind's error for an unknown one, and `Forbidden`.
    """
    stored = await store.get(account.id, reference)
    if not _may_change(stored, account):
        raise Forbidden(
            f"the server shares this {store.kind} with all keys: an operator changes it, or gives it to a key with "
            f"`dragoman {store.plural} give`"
        )
    return stored


async def change(store: Collections, account: Account, reference: str, body: ChangeBody) -> StoredCollection:
    """Rename a collection, share it, or take a shared one for the calling key; return it.

    Raises what `changeable` does, `Forbidden` for a key that may not share, `InvalidRequest` where nothing is to be changed,
    and what `Collections.give` and `rename` raise.
    """
    if body.name is None and body.shared is None:
        raise InvalidRequest("what is to be changed is missing: name or shared", param="name")
    stored = await changeable(store, account, reference)
    if body.shared is None or body.shared == stored.is_shared:
        return stored if body.name is None else await store.rename(stored.account_id, stored.id, body.name)
    if not _is_sharer(account):
        raise Forbidden(f"a {store.kind} is shared with an operator's key, or with `dragoman {store.plural} share`")
    return await store.give(stored.account_id, stored.id, SERVER if body.shared else account.id, body.name)


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
