"""Several replicas behind one address: what an app asks of the others, and how their answers become one.

Each replica is a whole server with an engine of its own. A request that an operator sends to the common address reaches any
of them, so that one asks all and adds up. Which replicas there are and how they are reached is the deployment's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel

from dragoman.wire import Combined, MetricsTarget, Stats


class Replicas(Protocol):
    """All replicas that serve one address, the asked one included.

    A replica that does not answer in time is reported as such (`unreachable_stats`), never left out: sums without it would
    look like a smaller load.
    """

    async def stats(self) -> list[Stats]:
        """Each replica's own `GET /v1/stats`, with its name in `replica`."""
        ...

    async def targets(self) -> list[MetricsTarget]:
        """Where each replica's own `/metrics` are; the label `replica` is its name."""
        ...

    async def reload(self) -> None:
        """Have each read keys, limits and usage now. Raises `Unavailable`, with the names, where one was not reached;
        the others have read them by then."""
        ...


def unreachable_stats(replica: str) -> Stats:
    """What is reported of a replica that did not answer."""
    return Stats(state="unreachable", replica=replica)


_STATES = ("serving", "restarting", "starting", "draining", "unreachable")  # what a caller finds comes first
Model = TypeVar("Model", bound=BaseModel)


def sum_stats(replicas: Sequence[Stats]) -> Stats:
    """All replicas as one server, as `Stats` says, with each of them under `replicas`. At least one is given."""
    ordered = sorted(replicas, key=lambda one: one.replica)
    known = [one for one in ordered if one.state != "unreachable"] or ordered
    longest_first = sorted(known, key=lambda one: -one.uptime_s)
    summed = _combine(longest_first)
    return summed.model_copy(
        update={
            "state": min((one.state for one in ordered), key=_STATES.index),
            "replica": "",
            "version": _joined(one.version for one in known),
            "device": _joined(one.device for one in known),
            "engine": summed.engine.model_copy(update={"kv_cache_usage": _cache_usage(known)}),
            "recorder": summed.recorder.model_copy(update={"state": _recorder_state(known)}),
            "replicas": ordered,
        }
    )


def _combine(models: Sequence[Model]) -> Model:
    """The first, with each field that says how it is `Combined`, here and in the models within."""
    first = models[0]
    combined: dict[str, Any] = {}
    for name, field in type(first).model_fields.items():
        values = [getattr(one, name) for one in models]
        how = next((one for one in field.metadata if isinstance(one, Combined)), None)
        if how is not None:
            known = [value for value in values if value is not None]
            combined[name] = how.by(known) if known else None
        elif isinstance(values[0], BaseModel):
            combined[name] = _combine(values)
    return first.model_copy(update=combined)


def _joined(values: Iterable[str]) -> str:
    """`0.4.0`, or while replicas differ, as in a rolling update, `0.4.0, 0.5.0`."""
    return ", ".join(sorted(set(values)))


def _cache_usage(replicas: Sequence[Stats]) -> float:
    """The share in use of all caches together; where an engine does not report its size, each counts the same."""
    engines = [one.engine for one in replicas]
    sizes = [one.kv_cache_tokens or 0 for one in engines]
    weights = sizes if all(sizes) else [1] * len(engines)
    return sum(one.kv_cache_usage * weight for one, weight in zip(engines, weights, strict=True)) / sum(weights)


def _recorder_state(replicas: Sequence[Stats]) -> str:
    """Failing where one is; on where one is."""
    states = {one.recorder.state for one in replicas}
    return next(state for state in ("failing", "on", "off") if state in states)
