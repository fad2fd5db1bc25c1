"""The shapes of DeepL's API, for our OpenAPI description: bodies that routes read themselves, and their answers."""

from __future__ import annotations

from dragoman.api.openapi import FILE, FLAG, INTEGER, TEXT, TEXTS, Schema, array, choice, example, object_of

_TIME: Schema = {**TEXT, "format": "date-time"}

# ---- answers

ERROR = object_of({"message": TEXT, "detail": TEXT}, "detail")
TRANSLATIONS = object_of(
    {
        "translations": array(
            object_of(
                {
                    "detected_source_language": {
                        **TEXT,
                        "description": "In upper case; `source_lang` where it was given.",
                    },
                    "text": TEXT,
                    "billed_characters": {**INTEGER, "description": "Characters of the source."},
                    "model_type_used": {**TEXT, "description": "Where `model_type` was given."},
                    "tag_handling_version": {**choice("v1", "v2"), "description": "Where `tag_handling` was given."},
                },
                "model_type_used",
                "tag_handling_version",
            )
        )
    }
)
USAGE = object_of(
    {
        "character_count": {**INTEGER, "description": "Of this month, in UTC."},
        "character_limit": INTEGER,
        "api_key_character_count": INTEGER,
        "api_key_character_limit": INTEGER,
        "start_time": _TIME,
        "end_time": _TIME,
        "document_count": {**INTEGER, "description": "Documents of the key that wait or are translated now."},
        "document_limit": INTEGER,
    },
    "document_count",
    "document_limit",
)
DOCUMENT_HANDLE = object_of({"document_id": TEXT, "document_key": TEXT})
DOCUMENT_STATUS = object_of(
    {
        "document_id": TEXT,
        "status": choice("queued", "translating", "done", "error"),
        "seconds_remaining": {**INTEGER, "description": "From the measured rate."},
        "billed_characters": {**INTEGER, "description": "Of the texts that were translated."},
        "error_message": TEXT,
        "message": TEXT,
    },
    "seconds_remaining",
    "billed_characters",
    "error_message",
    "message",
)
LANGUAGES = array(
    object_of(
        {"language": TEXT, "name": TEXT, "supports_formality": {**FLAG, "description": "Of targets alone."}},
        "supports_formality",
    )
)
_STATUS = choice("stable", "beta", "early_access")
RESOURCE_LANGUAGES = array(
    object_of(
        {
            "lang": TEXT,
            "name": TEXT,
            "usable_as_source": FLAG,
            "usable_as_target": FLAG,
            "status": _STATUS,
            "features": {"type": "object", "additionalProperties": object_of({"status": _STATUS})},
        }
    )
)
_NEEDS = ("needs_source_support", "needs_target_support")
RESOURCES = array(
    object_of({"name": TEXT, "features": array(object_of({"name": TEXT, **dict.fromkeys(_NEEDS, FLAG)}, *_NEEDS))})
)
_PAIR = {"source_lang": TEXT, "target_lang": TEXT}
PAIRS = object_of({"supported_languages": array(object_of(_PAIR))})
DICTIONARY = object_of({**_PAIR, "entry_count": INTEGER})
ENTRIES = object_of({"dictionaries": array(object_of({**_PAIR, "entries": TEXT, "entries_format": choice("tsv")}))})
_GLOSSARY = {"glossary_id": TEXT, "name": TEXT, "creation_time": _TIME}
GLOSSARY = object_of({**_GLOSSARY, "ready": FLAG, **_PAIR, "entry_count": INTEGER})
GLOSSARIES = object_of({"glossaries": array(GLOSSARY)})
MULTILINGUAL = object_of({**_GLOSSARY, "dictionaries": array(DICTIONARY)})
MULTILINGUALS = object_of({"glossaries": array(MULTILINGUAL)})
MEMORY = object_of(
    {
        "translation_memory_id": TEXT,
        "name": TEXT,
        "source_language": {**TEXT, "description": "Of most of its entries; empty where it has none."},
        "target_languages": TEXTS,
        "segment_count": INTEGER,
        "creation_time": _TIME,
        "updated_time": _TIME,
    }
)
MEMORIES = object_of({"translation_memories": array(MEMORY), "total_count": INTEGER})
_TIMES = {"creation_time": _TIME, "updated_time": _TIME}
MEMORY_SEGMENTS = object_of(
    {
        "segments": array(
            object_of(
                {
                    "source_segment_id": TEXT,
                    "source_text": TEXT,
                    "targets": array(
                        object_of({"target_segment_id": TEXT, "target_language": TEXT, "target_text": TEXT, **_TIMES})
                    ),
                    **_TIMES,
                }
            )
        ),
        "segment_count": INTEGER,
        "next_page_cursor": TEXT,
    },
    "next_page_cursor",
)
MEMORY_IMPORT = object_of({"job_id": TEXT, "upload_url": TEXT, "expires_at": _TIME})
_EXPORTED = object_of({"translation_memory_id": TEXT})
MEMORY_EXPORT = object_of({"job_id": TEXT, "parameters": _EXPORTED})
_RESULT = {
    "status": choice("awaiting_input", "processing", "completed", "failed"),
    "status_metadata": object_of({"required_action": TEXT}),
    "download_url": TEXT,
    "expires_at": _TIME,
    "error": object_of({"message": TEXT}),
    "translation_memory_id": TEXT,
    "skipped_segment_count": INTEGER,
}
MEMORY_JOB = object_of(
    {
        "job_id": TEXT,
        "product": choice("translation_memory"),
        "operation": choice("import", "export"),
        **_TIMES,
        "parameters": {"type": "object"},
        "source_file": object_of({"content_type": TEXT, "content_length": INTEGER}),
        "results": array(object_of(_RESULT, *(name for name in _RESULT if name != "status"))),
    },
    "source_file",
)

# ---- bodies

TRANSLATE: dict[str, Schema] = {
    "text": {**TEXTS, "minItems": 1, "example": ["Where is the train station?"]},
    "target_lang": example(TEXT, "JA"),
    "source_lang": TEXT,
    "context": TEXT,
    "consecutive": {**FLAG, "description": "This server's own: the texts follow each other."},
    "split_sentences": choice("0", "1", "nonewlines"),
    "preserve_formatting": FLAG,
    "formality": choice("default", "more", "less", "prefer_more", "prefer_less"),
    "glossary_id": TEXT,
    "glossary_ids": {**TEXTS, "maxItems": 5},
    "tag_handling": choice("xml", "html"),
    "tag_handling_version": choice("v1", "v2"),
    "outline_detection": FLAG,
    "splitting_tags": TEXTS,
    "non_splitting_tags": TEXTS,
    "ignore_tags": TEXTS,
    "model_type": choice("quality_optimized", "latency_optimized", "prefer_quality_optimized"),
    "custom_instructions": {"type": "array", "items": {**TEXT, "maxLength": 300}, "maxItems": 10},
    "show_billed_characters": FLAG,
    "translation_memory_id": TEXT,
    "translation_memory_threshold": {
        **INTEGER,
        "minimum": 0,
        "maximum": 100,
        "description": "Matches are always exact.",
    },
}
DOCUMENT: dict[str, Schema] = {
    "file": FILE,
    "target_lang": example(TEXT, "JA"),
    "source_lang": TEXT,
    "filename": {**TEXT, "description": "In place of the file's own name."},
    "output_format": {**TEXT, "description": "Extension of the result; absent: the file's."},
    "formality": TRANSLATE["formality"],
    "glossary_id": TEXT,
    "glossary_ids": TRANSLATE["glossary_ids"],
    "translation_memory_id": TEXT,
    "translation_memory_threshold": TRANSLATE["translation_memory_threshold"],
}
DOCUMENT_KEY: dict[str, Schema] = {"document_key": TEXT}
REPLACE: dict[str, Schema] = {
    **_PAIR,
    "entries": example(TEXT, "server\tServer\nqueue\tWarteschlange"),
    "entries_format": choice("tsv", "csv"),
}
CREATE: dict[str, Schema] = {"name": TEXT, **REPLACE}
CREATE_MULTILINGUAL: dict[str, Schema] = {
    "name": TEXT,
    "dictionaries": array({"type": "object", "properties": REPLACE, "required": list(REPLACE)}),
}
