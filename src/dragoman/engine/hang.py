"""Decides whether an engine hangs: it has sequences, and has made no step for longer than any of its steps can take.

Knows nothing of vLLM: the adapter reports how many steps were made, and how long prompts took. An engine that is idle, or has
not completed a first sequence yet (its start, the warm-up), does not hang.
"""

from __future__ import annotations

from dataclasses import dataclass

LOOK_S = 1.0
"""How often to look."""
LEAST_S = 30.0
OF_LONGEST = 5.0
"""The time without a step, by default: so many times the longest step, seen or to be expected, and at least `LEAST_S`."""


@dataclass(slots=True)
class HangWatch:
    """`max_tokens`: of one step. `timeout_s`: the time without a step, in place of the default."""

    max_tokens: int
    timeout_s: float | None = None
    _longest_s: float = 0.0
    _prefill_s_per_token: float | None = None
    _steps: int | None = None
    _still_s: float = 0.0

    @property
    def limit_s(self) -> float:
        """The time without a step from which on the engine hangs.

        A full step of prompts may be far longer than any seen so far. It takes, for each token, at most what the best
        prefill has taken: the more tokens a step has, the less time each of them takes.
        """
        full_step_s = (self._prefill_s_per_token or 0.0) * self.max_tokens
        return self.timeout_s or max(LEAST_S, OF_LONGEST * max(self._longest_s, full_step_s))

    def prefilled(self, tokens: int, duration_s: float) -> None:
        """So many tokens of a prompt, without those from the prefix cache, took so long before the first output."""
        per_token_s = duration_s / max(tokens, 1)
        best_s = self._prefill_s_per_token
        self._prefill_s_per_token = per_token_s if best_s is None else min(best_s, per_token_s)

    def restart(self) -> None:
        """Another engine of the same kind runs now."""
        self._steps, self._still_s = None, 0.0

    def look(self, elapsed_s: float, steps: int, *, has_sequences: bool) -> float | None:
        """How long the engine has made no step, in seconds, where it hangs. `elapsed_s`: since the last call, `LOOK_S` ago;
        `steps`: that the engine has made.

        Of a longer time only twice as much counts: this process did not run either, so it is the machine that stood still.
        """
        if has_sequences and steps == self._steps:
            self._still_s += min(elapsed_s, 2 * LOOK_S)
        else:
            self._longest_s = max(self._longest_s, self._still_s)
            self._still_s = 0.0
        self._steps = steps
        return self._still_s if self._prefill_s_per_token is not None and self._still_s >= self.limit_s else None
