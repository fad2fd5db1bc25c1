"""From a `TranslationRequest` to translations: admission, the translator, the service's life. Knows no wire format."""
