"""What the command reads from its environment, where a caller says nothing."""

import os


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "").lower() not in ("", "0", "f", "false", "n", "no", "off")


def lan_may_be_asked(asked: bool | None) -> bool:
    """Whether the LAN is asked, and told."""
    return not _is_set("XYLEM_NO_LAN") if asked is None else asked


def router_may_be_asked(asked: bool | None) -> bool:
    """Whether the router is asked to forward the port."""
    return not _is_set("XYLEM_NO_MAP") if asked is None else asked


def the_store(named: str | os.PathLike[str] | None) -> str | os.PathLike[str] | None:
    """The store that is named here or there; ``None``: the usual one."""
    return os.environ.get("XYLEM_STORE") or None if named is None else named
