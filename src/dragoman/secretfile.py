"""Secrets in variables of the environment, or in files that a variable names: `NAME`, or `NAME_FILE`.

Files are what Docker, Kubernetes and systemd mount secrets as: other processes of the user cannot read them in /proc.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dragoman.errors import ConfigError

FILE_SUFFIX = "_FILE"
MAX_BYTES = 65_536
"""A longer file is no secret but a mistake."""


def read_secret(environment: Mapping[str, str], variable: str) -> str | None:
    """Return the value of a variable, or the text of the file that `variable_FILE` names, without its last end of line.

    None: neither is set. Raises `ConfigError`, which never has the secret, if both are set or the file cannot be used.
    """
    file_variable = f"{variable}{FILE_SUFFIX}"
    path = environment.get(file_variable)
    if path is None:
        return environment.get(variable)
    if variable in environment:
        raise ConfigError(f"{variable} and {file_variable} are both set: unset one of them")
    if not path:
        raise ConfigError(f"{file_variable} is empty: it must name a file")
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{file_variable}={path}: the file is no UTF-8 text") from None
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise ConfigError(f"{file_variable}={path}: the file cannot be read: {reason}") from None
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{file_variable}={path}: the file has more than {MAX_BYTES} bytes")
    secret = text.removesuffix("\n").removesuffix("\r")
    if not secret:
        raise ConfigError(f"{file_variable}={path}: the file is empty")
    return secret
