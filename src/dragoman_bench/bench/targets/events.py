"""Server-sent events (HTML standard, section 9.2): from a byte stream to the data of each event.

Only `data` fields matter here. Knows nothing of what the data means.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator


async def event_data(lines: AsyncIterable[bytes]) -> AsyncIterator[str]:
    """The data of each event as soon as its blank line has come; an event cut off by the stream's end is dropped."""
    data: list[str] = []
    async for raw in lines:
        line = raw.rstrip(b"\r\n")
        if not line and data:
            yield "\n".join(data)
            data.clear()
        elif line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" ").decode("utf-8", "replace"))
