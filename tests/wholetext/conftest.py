"""For these tests alone, without those of the server: no test depends on the machine's speed."""

from __future__ import annotations

import hypothesis

hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")
