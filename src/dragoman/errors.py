"""The error tree: every error that a caller can receive.

    DragomanError
    ├── InvalidRequest            400  invalid_request
    │   ├── UnsupportedLanguage   400  unsupported_language
    │   ├── EqualLanguages        400  equal_languages     (a document that is in its target language)
    │   ├── UndetectedLanguage    400  undetected_language (of a document, which may be named)
    │   ├── WrongMarks            400  wrong_marks         (of a person's translation of a segment)
    │   ├── UnknownPrompt         400  invalid_request     (a chat whose messages no template explains)
    │   │   └── NotATranslation   400  not_a_translation   (one that asks for something else)
    │   ├── EmptyText             400  empty_text
    │   ├── UntranslatableText    400  untranslatable_text
    │   ├── InvalidJson           400  invalid_json
    │   ├── UnsupportedFile       400  unsupported_file    (a format that is not read, or not written)
    │   ├── InvalidFile           400  invalid_file        (a file that is not what its extension says, or too large)
    │   ├── DocumentLost          400  document_lost       (its stored files are missing or damaged)
    │   ├── CrashingText          422  crashing_text       (it has crashed the engine, alone)
    │   ├── TooManyValues         422  invalid_request     (of a body's lists, objects or fields)
    │   ├── InvalidGlossary       422  invalid_request
    │   └── InvalidMemory         422  invalid_request
    ├── Unauthenticated           401  unauthenticated     (no key where one is needed)
    │   └── InvalidKey            401  invalid_key         (unknown, revoked or expired)
    ├── Forbidden                 403  forbidden           (a key that may not do this)
    │   └── QuotaExceeded         403  quota_exceeded      (the month's characters are used up)
    ├── RateLimited               429  rate_limited        (carries retry_after_s)
    ├── DeadlineExceeded          504  deadline_exceeded   (the deadline that the request itself named)
    ├── RequestTimeout            408  request_timeout     (headers or a body that do not arrive)
    ├── HeadersTooLarge           431  headers_too_large
    ├── UnknownHost               421  unknown_host        (a Host header that is not the server's)
    ├── UnknownGlossary           404  unknown_glossary
    ├── UnknownDocument           404  unknown_document
    ├── UnknownMemory             404  unknown_memory
    ├── GlossaryExists            409  glossary_exists
    ├── MemoryExists              409  memory_exists
    ├── TooManyTexts              413  too_many_texts
    ├── BodyTooLarge              413  body_too_large
    ├── QueueFull                 429  queue_full          (carries retry_after_s)
    ├── Unavailable               503  unavailable
    │   ├── Starting              503  starting
    │   ├── Draining              503  draining
    │   ├── EngineRestarting      503  restarting
    │   ├── EngineDead            503  engine_dead
    │   │   └── EngineHung        503  engine_dead         (it made no step, and was killed)
    │   ├── StorageUnavailable    503  storage_unavailable
    │   ├── DocumentNotReady      503  document_not_ready
    │   └── DiskFull              503  disk_full           (no space for a document)
    ├── EngineRejected            400  engine_rejected
    ├── EngineFailed              500  engine_failed
    └── ConfigError                    config_error        (CLI: one line, exit code 2)

Each class owns its HTTP status and its stable code; `api/errors.py` is the one place that turns them into responses, and
`cli/main.py` the one that turns them into exit codes. This module knows neither HTTP nor click.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from wholetext import errors as of_files


class DragomanError(Exception):
    """An error with a message for the caller: what was wrong, where, and what to do."""

    status = 500
    code = "internal_error"

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


def codes(root: type[DragomanError] = DragomanError) -> tuple[str, ...]:
    """Return every code that a caller can receive."""
    of_subclasses = (code for cls in root.__subclasses__() if cls is not ConfigError for code in codes(cls))
    return tuple(dict.fromkeys((root.code, *of_subclasses)))


class InvalidRequest(DragomanError):
    """The request cannot be served as it stands; `param` names the offending field."""

    status = 400
    code = "invalid_request"


class UnsupportedLanguage(InvalidRequest):
    """A language tag is unknown, or the model does not serve that language or direction."""

    code = "unsupported_language"


class EqualLanguages(InvalidRequest):
    """A document is in the language that it is to be translated into; the message is as DeepL's clients have it."""

    code = "equal_languages"

    def __init__(self) -> None:
        super().__init__("Source and target language are equal.", param="target")


class UndetectedLanguage(InvalidRequest):
    """A document's language is not certain, and was not given."""

    code = "undetected_language"


class WrongMarks(InvalidRequest):
    """A person's translation of a segment has not each mark of the source once, nested as there."""

    code = "wrong_marks"


class UnknownPrompt(InvalidRequest):
    """Messages of a chat whose request is not understood."""


class UnclearPrompt(UnknownPrompt):
    """Messages that surely ask for a translation into a known language, whose text or whose answer's form is not clear."""


class NotATranslation(UnknownPrompt):
    """Messages that ask a chat model for something else, such as a title of the chat."""

    code = "not_a_translation"


class EmptyText(InvalidRequest):
    """A text has no characters at all."""

    code = "empty_text"


class UntranslatableText(InvalidRequest):
    """A text that is not Unicode text, such as one with a lone surrogate."""

    code = "untranslatable_text"


class InvalidJson(InvalidRequest):
    """A body that is not JSON."""

    code = "invalid_json"


class UnsupportedFile(InvalidRequest):
    """A file of a format that is not read, or that cannot be written as asked."""

    code = "unsupported_file"


class InvalidFile(InvalidRequest):
    """A file that is not what its extension says, is damaged, or beyond a limit; the message has the place in it."""

    code = "invalid_file"


class DocumentLost(InvalidRequest):
    """What is stored of a document is missing or damaged: it can only be deleted, and sent again."""

    code = "document_lost"


class CrashingText(InvalidRequest):
    """A text that has crashed the engine when it ran alone. It is refused to the same key for an hour: not to be sent again."""

    status = 422
    code = "crashing_text"


class TooManyValues(InvalidRequest):
    """A body whose lists, objects or fields have more values than any request needs."""

    status = 422


class InvalidGlossary(InvalidRequest):
    """A glossary's name or entries are not what the server stores."""

    status = 422


class InvalidMemory(InvalidRequest):
    """A translation memory's name or entries are not what the server stores."""

    status = 422


class Unauthenticated(DragomanError):
    """The server needs a key, and the request has none."""

    status = 401
    code = "unauthenticated"


class InvalidKey(Unauthenticated):
    """The key is unknown, revoked or expired."""

    code = "invalid_key"


class Forbidden(DragomanError):
    """The key is valid, but may not do this."""

    status = 403
    code = "forbidden"


class QuotaExceeded(Forbidden):
    """The key has used up its characters of this month."""

    code = "quota_exceeded"


class RateLimited(DragomanError):
    """The key sends more requests a second than it may. `retry_after_s` says when the next is admitted."""

    status = 429
    code = "rate_limited"

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class DeadlineExceeded(DragomanError):
    """The deadline of the request passed before it was translated."""

    status = 504
    code = "deadline_exceeded"


class RequestTimeout(DragomanError):
    """The headers or the body did not arrive in time."""

    status = 408
    code = "request_timeout"


class HeadersTooLarge(DragomanError):
    """A request line and headers of more bytes, or more headers, than the server accepts."""

    status = 431
    code = "headers_too_large"


class UnknownHost(DragomanError):
    """The request's Host header is not a name of this server."""

    status = 421
    code = "unknown_host"


class UnknownGlossary(DragomanError):
    """No stored glossary has this id or name."""

    status = 404
    code = "unknown_glossary"


class UnknownDocument(DragomanError):
    """No document has this id, or it is another account's, or it has expired."""

    status = 404
    code = "unknown_document"


class UnknownMemory(DragomanError):
    """No translation memory of the key has this id or name."""

    status = 404
    code = "unknown_memory"


class GlossaryExists(DragomanError):
    """Another stored glossary has this name."""

    status = 409
    code = "glossary_exists"


class MemoryExists(DragomanError):
    """Another translation memory of the key has this name."""

    status = 409
    code = "memory_exists"


class TooManyTexts(DragomanError):
    """More texts in one call than the server accepts."""

    status = 413
    code = "too_many_texts"


class BodyTooLarge(DragomanError):
    """A body of more bytes, or a text of more characters, than the server accepts."""

    status = 413
    code = "body_too_large"


class QueueFull(DragomanError):
    """Admission refused: the queue is full. `retry_after_s` is computed from the measured rate."""

    status = 429
    code = "queue_full"

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Unavailable(DragomanError):
    """The server cannot take requests now."""

    status = 503
    code = "unavailable"


class Starting(Unavailable):
    """The engine has not answered its warm-up yet."""

    code = "starting"


class Draining(Unavailable):
    """The server finishes in-flight calls and admits no new ones."""

    code = "draining"


class EngineRestarting(Unavailable):
    """The engine has crashed and restarts. Returned by readiness probes; calls are admitted and wait."""

    code = "restarting"


class EngineDead(Unavailable):
    """The engine (or a worker process) has crashed; its sequences in flight did not finish."""

    code = "engine_dead"


class EngineHung(EngineDead):
    """The engine made no step while it had sequences; it is killed and restarted as after a crash."""


class StorageUnavailable(Unavailable):
    """The database does not answer; calls that need no stored data are still served."""

    code = "storage_unavailable"


class DocumentNotReady(Unavailable):
    """The document is still being translated. DeepL's clients try again on 503."""

    code = "document_not_ready"


class DiskFull(Unavailable):
    """There is no space on the disk for a document; it may be sent, or goes on, when there is."""

    code = "disk_full"


class EngineRejected(DragomanError):
    """The engine refused one sequence (too long for its window, an invalid parameter); it goes on serving others."""

    status = 400
    code = "engine_rejected"


class EngineFailed(DragomanError):
    """The engine failed on one sequence; it goes on serving others."""

    code = "engine_failed"


class ConfigError(DragomanError):
    """A setting or a flag is wrong, or a file that it names."""

    code = "config_error"


@contextmanager
def file_errors() -> Generator[None]:
    """Within: what `wholetext` finds wrong with a file is raised as the error that a client gets."""
    try:
        yield
    except of_files.WholetextError as error:
        kinds = (UnsupportedLanguage, UnsupportedFile, InvalidFile, DiskFull, Unavailable)
        kind = next(one for one in kinds if one.code == error.code)
        raise kind(error.message, param=error.param) from error
