"""The models that the configured model service offers."""

from __future__ import annotations

from dataclasses import dataclass

from memorist.admin.admin_kind import AdminKind
from memorist.base.errors import NoModel
from memorist.base.verbs import verb


@dataclass(frozen=True)
class ModelNames:
    """The models that a service offers. `error` says why there are none."""

    models: list[str]
    error: str = ""


class OfferedModels(AdminKind):
    """The models that the configured model service offers."""

    name = "models"

    @verb(
        "GET /models",
        effect="read",
        open_to_all=True,
        is_slow=True,
        example="memorist models --set base_url=http://localhost:11434/v1",
    )
    def list(self) -> ModelNames:
        """Return the names of the models that the model service of the settings offers."""
        try:
            return ModelNames([*self._services.models.list()])
        except NoModel as error:  # there is no service to ask
            return ModelNames([], str(error))
