"""`/api/web/model`: the operator tests a chat model in the web app, and uses it until a restart.

The key is used for the calls and never stored. The page shows the settings that keep the model
after a restart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pydantic import BaseModel, Field
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from retain.api import problem
from retain.api.responses import answer
from retain.api.schemas import STRICT, Text, shape
from retain.auth import audit_log
from retain.auth.audited_writer import is_audited
from retain.auth.principal import Principal
from retain.base.errors import Invalid, RetainError
from retain.base.settings import Settings
from retain.memory import Memory
from retain.models.model import NO_KEY, Model, Models
from retain.server.api_route import ApiRoute
from retain.server.request_authenticator import RequestAuthenticator

_TEST_SECONDS = 30.0
_TEST_TOKENS = 64
_MAX_SHOWN = 200


class ModelRequestBody(BaseModel):
    """The model to test."""

    model_config = STRICT
    model: Text = Field(
        max_length=200,
        description="The name of the model, with its provider where it is not OpenAI-compatible.",
        examples=["llama3.2"],
    )
    base_url: str = Field(
        "",
        max_length=2000,
        description="The address of an OpenAI-compatible service.",
        examples=["http://localhost:11434/v1"],
    )
    api_key: str = Field(
        "", max_length=2000, description="The key of the service, if it needs one."
    )
    use: bool = Field(
        False, description="Answer chats with it from now on, until the server restarts."
    )


@dataclass(frozen=True)
class ModelTest:
    """The result of one call. `error` says what failed; `used` if the server now uses the model."""

    model: str
    ok: bool
    used: bool
    reply: str
    error: str
    latency_ms: float | None


def add(app: Starlette, authenticator: RequestAuthenticator) -> None:
    """Add the route to an app."""

    async def test(request: Request, body: ModelRequestBody) -> Response:
        """Call a chat model once, and use it until the server restarts if `use` is set."""
        principal = await authenticator.authorize_operator(request)
        request_id = problem.request_id(request)
        return answer(await run_in_threadpool(_test, authenticator, body, principal, request_id))

    app.state.routes.append(
        ApiRoute(
            authenticator=authenticator,
            method="POST",
            path="/api/web/model",
            name="web_model",
            tag="web",
            handler=test,
            permission="admin",
            body=ModelRequestBody,
            result=shape(ModelTest),
            error_statuses=(),
        )
    )


def _test(
    authenticator: RequestAuthenticator,
    body: ModelRequestBody,
    principal: Principal,
    request_id: str,
) -> ModelTest:
    services = authenticator.memory.services
    if body.use and services.settings.workers > 1:
        reason = (
            f"would change only one of {services.settings.workers} server processes; "
            "set `model`, `base_url` and `api_key` in the server's settings and restart it"
        )
        raise Invalid(field="use", problem=reason)
    base_url = body.base_url.strip()
    api_key = body.api_key.strip()
    if base_url and not api_key:
        # The key in the provider's environment variable is not meant for the caller's address.
        api_key = NO_KEY
    try:
        settings = replace(services.settings, model=body.model, base_url=base_url, api_key=api_key)
        tested = _main_model(settings)
        completion = tested.complete(
            "", "Reply with the single word: ready", max_tokens=_TEST_TOKENS
        )
    except RetainError as error:
        return ModelTest(body.model, False, False, "", str(error), None)
    if body.use:
        _audit_use(authenticator.memory, principal, body.model, request_id)
        # A longer limit than the test's: answers take their time.
        services.models.replace_main(settings)
    return ModelTest(
        body.model, True, body.use, completion.text[:_MAX_SHOWN], "", completion.latency_ms
    )


def _audit_use(memory: Memory, principal: Principal, model: str, request_id: str) -> None:
    """Add an audit row: from now on, all chats of the server go to this model."""
    if not is_audited(memory.settings, "model_use"):
        return
    memory.database.write(
        principal.tenant,
        lambda tx: audit_log.add(
            tx, principal.name, "model_use", f"model {model}", request_id=request_id
        ),
    )


def _main_model(settings: Settings) -> Model:
    seconds = min(settings.model_seconds, _TEST_SECONDS)
    model = Models(replace(settings, model_seconds=seconds)).main
    if model is None:
        raise Invalid(field="model", problem="must name a model")
    return model
