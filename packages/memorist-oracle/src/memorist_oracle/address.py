"""The address of an Oracle Database: `oracle://USER:PASSWORD@HOST:PORT/SERVICE?OPTION=VALUE`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from memorist.base.errors import SettingsError

DEFAULT_PORT = 1521
CONNECT_SECONDS = 5.0
OPTIONS = ("config_dir", "protocol", "ssl_server_dn_match", "wallet_location", "wallet_password")
SCHEMA = "schema"
"""An option of imports."""
BOOLEANS = {"true": True, "false": False}
PROTOCOLS = ("tcp", "tcps")
EXPERIMENTAL = "Oracle Database is experimental"
FORMAT = "oracle://USER:PASSWORD@HOST:PORT/SERVICE, with %xx for special characters"


@dataclass(frozen=True)
class Address:
    """The address of a database, with the user who connects."""

    parameters: dict[str, Any]  # of `oracledb.connect`
    schema: str | None = None  # the schema whose tables are meant, if it is not the user's own

    @property
    def user(self) -> str:
        """The user that connects."""
        return str(self.parameters["user"])

    @property
    def host(self) -> str:
        """The host, or the name in `tnsnames.ora`."""
        return str(self.parameters.get("host") or self.parameters["dsn"])

    @property
    def name(self) -> str:
        """The address without its user and password."""
        if "dsn" in self.parameters:
            return f"oracle://{self.host}"
        return f"oracle://{self.host}:{self.parameters['port']}/{self.parameters['service_name']}"


def read_address(url: str, setting: str, *, for_import: bool = False) -> Address:
    """Parse an address; no error repeats the password.

    Without a service, the host is the name of an entry in `tnsnames.ora` in the folder `config_dir`.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
    except ValueError:
        raise _error(setting, f"cannot be read; write {FORMAT}") from None
    if not (parts.hostname and parts.username and parts.password) or parts.fragment:
        raise _error(setting, f"cannot be read; write {FORMAT}")
    known = (*OPTIONS, SCHEMA) if for_import else OPTIONS
    unknown = sorted(set(options) - set(known))
    if unknown:
        problem = f"has an unknown option {unknown[0]!r}; the options are {', '.join(known)}"
        raise _error(setting, problem)
    protocol = options.pop("protocol", "tcp")
    if protocol not in PROTOCOLS:
        problem = f"has the protocol {protocol!r}; it must be tcp, or tcps for TLS"
        raise _error(setting, problem)
    schema = options.pop(SCHEMA, None)
    parameters: dict[str, Any] = {
        "user": unquote(parts.username),
        "password": unquote(parts.password),
        "tcp_connect_timeout": CONNECT_SECONDS,
        **{name: BOOLEANS.get(value.lower(), value) for name, value in options.items()},
    }
    service = unquote(parts.path.strip("/"))
    if service:
        parameters |= {
            "host": parts.hostname,
            "port": port or DEFAULT_PORT,
            "service_name": service,
            "protocol": protocol,
        }
    elif "config_dir" in options and port is None:
        parameters["dsn"] = parts.hostname
    else:
        problem = (
            f"names no service: write {FORMAT}; or a name in tnsnames.ora with ?config_dir=FOLDER"
        )
        raise _error(setting, problem)
    return Address(parameters, schema.upper() if schema else None)


def _error(setting: str, problem: str) -> SettingsError:
    return SettingsError(where=setting, problem=f"{problem} ({EXPERIMENTAL})")
