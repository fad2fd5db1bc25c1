"""Files that are translated: readers of formats, which find the text, and the writer that puts translations in its place.

Pure functions of bytes that run in a worker process (`worker.py`), never in the caller's: files are hostile until read. This
package imports `markup`, `errors` and `languages` alone.
"""
