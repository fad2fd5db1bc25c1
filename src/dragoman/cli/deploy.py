"""`dragoman deploy`: writes the configuration for a Ray cluster of several hosts."""

from __future__ import annotations

from pathlib import Path

import click

from dragoman.cli.options import SettingsCommand, settings_options
from dragoman.errors import ConfigError
from dragoman.extras import missing_packages
from dragoman.settings import Loaded


@click.group("deploy")
def command() -> None:
    """Serve on several hosts: replicas behind one address on a Ray cluster."""


@command.command("config", cls=SettingsCommand)
@settings_options()
@click.option("--max-replicas", type=click.IntRange(min=1), help="Scale from --replicas up to so many.")
@click.option(
    "--target-in-flight",
    type=click.FloatRange(min=0, min_open=True),
    help="With --max-replicas: in-flight requests of one replica to scale for, such as 0.7 of those at which "
    "`dragoman tune` measured the highest throughput within your limits.",
)
@click.option(
    "--tuned",
    type=click.Path(path_type=Path),
    help="In place of --target-in-flight: the folder of a `dragoman tune`, or its tune.json. The target is 0.7 of the "
    "knee of its ladder.",
)
@click.option("--cpus", type=click.FloatRange(min=0), default=2, show_default=True, help="CPU cores of one replica.")
@click.option("--gpus", type=click.FloatRange(min=0), help="GPUs of one replica; default: engine.tensor_parallel_size.")
def config_command(
    loaded: Loaded,
    max_replicas: int | None,
    target_in_flight: float | None,
    tuned: Path | None,
    cpus: float,
    gpus: float | None,
) -> None:
    """Print serve.yaml for `serve deploy`, with the variables that each node needs before `ray start`."""
    if missing := missing_packages("ray"):
        raise ConfigError(
            f"dragoman deploy needs the extra 'ray' ({', '.join(missing)} not installed): pip install 'dragoman[ray]'"
        )
    from dragoman.deploy import config

    settings = loaded.settings
    replicas = settings.server.replicas
    if isinstance(replicas, str) and replicas != "auto":
        raise ConfigError(
            f"server.replicas = {replicas}: engines share a GPU only on one host (dragoman serve --replicas {replicas}), "
            "not on a Ray cluster; specify a number",
            param="server.replicas",
        )
    if not isinstance(replicas, int):
        raise ConfigError("specify --replicas: how many of them the cluster has GPUs for", param="server.replicas")
    if tuned is not None:
        if target_in_flight is not None:
            raise ConfigError("--target-in-flight and --tuned exclude each other")
        target_in_flight = config.tuned_target(tuned)
    if (max_replicas is None) != (target_in_flight is None):
        raise ConfigError("--max-replicas needs --tuned or --target-in-flight, and each of these needs it")
    scaling = None
    if max_replicas is not None and target_in_flight is not None:
        scaling = config.autoscaling(replicas, max_replicas, target_in_flight)
    deployment = config.Deployment(
        replicas=replicas,
        num_cpus=cpus,
        num_gpus=config.gpus_per_replica(settings) if gpus is None else gpus,
        several_hosts=True,
        autoscaling=scaling,
    )
    click.echo(config.serve_yaml(settings, deployment), nl=False)
