"""JSON Web Tokens of one issuer, as an alternative to API keys.

The issuer's published key decides which algorithm a signature may use, never the token. HS256 is
verified only with `jwt_secret`, never with a published key. `none` is not supported, and no key is
taken from a token. Issuer, audience and times must be valid. Settings name the claims for tenant
and permissions, and the defaults of tokens without them. The subject (`sub`) is the user; only a
token with the permission `admin` may act for other users.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from memorist.admin.credentials import INVALID_CREDENTIAL, Authentication
from memorist.admin.principal import PERMISSIONS, Permission, Principal
from memorist.base import canonical, clock
from memorist.base.errors import Invalid, SettingsError, Unauthorized
from memorist.base.settings import Settings
from memorist.storage.database import EVERY_TENANT

if TYPE_CHECKING:
    from memorist.admin.issuer_keys import IssuerKeys

LEEWAY_SECONDS = 30
"""Allowed difference between the issuer's clock and this machine's."""
_SYMMETRIC = "HS256"
_TOKEN_TYPES = ("jwt", "at+jwt", "application/at+jwt")
_MIN_SECRET_BYTES = 32
_USER_CONTROLLED = ("user_metadata", "raw_user_meta_data")
"""Claims that a user of Supabase can change: they must not decide what the user may do."""
_DEFAULT_PERMISSIONS = ("read", "write", "delete")


class JwtAuthenticator:
    """Authenticates the tokens of one issuer."""

    def __init__(self, settings: Settings) -> None:
        self._issuer = settings.jwt_issuer
        self._audience = settings.jwt_audience
        _check_settings(settings)
        self._tenant_claim, self._default_tenant = _tenant_source(settings)
        self._permission_claims, self._default_permissions = _permission_source(settings)
        self._secret = settings.jwt_secret.encode()
        self._keys: IssuerKeys | None = None
        if settings.jwt_keys:
            from memorist.admin.issuer_keys import IssuerKeys  # only tokens need PyJWT

            self._keys = IssuerKeys(settings.jwt_keys)

    def authenticate(self, text: str) -> Authentication:
        """Return the principal of a token. Every invalid token gets the same error."""
        import jwt  # only a server that takes tokens needs it

        try:
            header = jwt.get_unverified_header(text)
            algorithm = header.get("alg")
            id = header.get("kid")
            if "crit" in header or str(header.get("typ") or "JWT").lower() not in _TOKEN_TYPES:
                raise Unauthorized(problem=INVALID_CREDENTIAL)
            claims = jwt.decode(
                text,
                self._find_key(id, algorithm),
                algorithms=[str(algorithm)],
                issuer=self._issuer,
                audience=self._audience,
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
            return self._authentication(claims)
        except (
            jwt.PyJWTError,
            KeyError,
            ValueError,
            TypeError,
            OverflowError,
            RecursionError,
            Invalid,
        ):
            raise Unauthorized(problem=INVALID_CREDENTIAL) from None

    def _find_key(self, id: Any, algorithm: Any) -> Any:
        """Return the key that verifies a token: the secret for HS256, else a public key."""
        if algorithm == _SYMMETRIC and self._secret:
            return self._secret
        if self._keys is None:
            raise Unauthorized(problem=INVALID_CREDENTIAL)
        return self._keys.find(id, algorithm)

    def _authentication(self, claims: Mapping[str, Any]) -> Authentication:
        tenant: Any = None
        if self._tenant_claim:
            tenant = _claim(claims, self._tenant_claim)
        if tenant is None and self._default_tenant:
            tenant = self._default_tenant
        tenant = canonical.key(tenant, "tenant")
        if tenant == EVERY_TENANT:
            raise Unauthorized(problem=INVALID_CREDENTIAL)
        subject = canonical.key(claims["sub"], "sub")
        agent = claims.get("agent")
        permissions = self._permissions(claims)
        principal = Principal(
            tenant,
            permissions,
            f"{subject} ({self._issuer})",
            None if "admin" in permissions else subject,
            None if agent is None else canonical.key(agent, "agent"),
            clock.limit(int(claims["exp"]) * clock.SECOND),
        )
        return Authentication(principal, float(claims["exp"]) + LEEWAY_SECONDS - time.time())

    def _permissions(self, claims: Mapping[str, Any]) -> frozenset[Permission]:
        """Return the permissions that claims name (`read` or `memorist:read`), else the defaults."""
        names: list[str] = []
        for path in self._permission_claims:
            value = _claim(claims, path)
            if isinstance(value, str):
                names += value.split()
            else:
                names += [name for name in value or () if isinstance(name, str)]
        allowed = {name.removeprefix("memorist:") for name in names}
        if not allowed & PERMISSIONS:
            allowed.update(self._default_permissions)
        return frozenset(permission for permission in PERMISSIONS if permission in allowed)


def jwt_authenticator(settings: Settings) -> JwtAuthenticator | None:
    """Return an authenticator for the issuer in the settings, or None if they name no issuer."""
    return JwtAuthenticator(settings) if settings.jwt_issuer else None


def _check_settings(settings: Settings) -> None:
    """Raise SettingsError if the settings about tokens are incomplete."""
    for name in ("jwt_audience", "jwt_tenant"):
        if not getattr(settings, name):
            raise SettingsError(where=name, problem="must be set if jwt_issuer is set")
    if not settings.jwt_keys and not settings.jwt_secret:
        raise SettingsError(
            where="jwt_keys", problem="or jwt_secret must be set if jwt_issuer is set"
        )
    if settings.jwt_secret and len(settings.jwt_secret.encode()) < _MIN_SECRET_BYTES:
        raise SettingsError(
            where="jwt_secret", problem=f"must have at least {_MIN_SECRET_BYTES} bytes"
        )


def _tenant_source(settings: Settings) -> tuple[str, str]:
    """Return the claim that names the tenant and the tenant of tokens without it."""
    where = "jwt_tenant"
    claim, separator, default = [part.strip() for part in settings.jwt_tenant.partition("=")]
    _check_claim(where, claim)
    if separator:
        try:
            canonical.key(default, where)
        except Invalid as error:
            problem = f"the tenant after `=` {error.problem}"
            raise SettingsError(where=where, problem=problem) from None
        if default == EVERY_TENANT:
            problem = f"the tenant after `=` cannot be {EVERY_TENANT!r}: name one tenant"
            raise SettingsError(where=where, problem=problem)
    return claim, default


def _permission_source(settings: Settings) -> tuple[Sequence[str], Sequence[str]]:
    """Return the claims that name permissions and the permissions of tokens that name none."""
    where = "jwt_permissions"
    names, _, defaults = settings.jwt_permissions.partition("=")
    claims = [name for part in names.split(",") if (name := part.strip())]
    for claim in claims:
        _check_claim(where, claim)
    permissions = [name for part in defaults.split(",") if (name := part.strip())]
    if unknown := set(permissions).difference(_DEFAULT_PERMISSIONS):
        allowed = ", ".join(_DEFAULT_PERMISSIONS)
        problem = f"the permissions after `=` must be among {allowed}, not {min(unknown)!r}"
        raise SettingsError(where=where, problem=problem)
    return claims, permissions


def _check_claim(where: str, path: str) -> None:
    if path.split(".", maxsplit=1)[0] in _USER_CONTROLLED:
        problem = f"cannot be {path}: users can change it. Use `app_metadata` instead"
        raise SettingsError(where=where, problem=problem)


def _claim(claims: Mapping[str, Any], path: str) -> Any:
    """Return the claim of this name, or the nested claim of a path with dots, or None.

    The name of a claim may contain dots, such as `https://example.org/tenant` in tokens of Auth0.
    """
    if path in claims:
        return claims[path]
    for name, inner in claims.items():
        if isinstance(inner, Mapping) and path.startswith(f"{name}."):
            return _claim(inner, path.removeprefix(f"{name}."))
    return None
