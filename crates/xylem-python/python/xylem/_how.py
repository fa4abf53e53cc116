"""Defaults from the environment, as the command reads them, for arguments that are ``None``."""

import os


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "").lower() not in ("", "0", "f", "false", "n", "no", "off")


def lan_may_be_asked(asked: bool | None) -> bool:
    """Whether to look and announce on the LAN."""
    return not _is_set("XYLEM_NO_LAN") if asked is None else asked


def router_may_be_asked(asked: bool | None) -> bool:
    """Whether to ask the router to forward the port."""
    return not _is_set("XYLEM_NO_MAP") if asked is None else asked


def the_store(named: str | os.PathLike[str] | None) -> str | os.PathLike[str] | None:
    """The store of the argument or of the environment; ``None``: the default one."""
    return os.environ.get("XYLEM_STORE") or None if named is None else named
