"""`/api/web/model`: the operator tests a chat model in the web app, and uses it until a restart.

The key is used for the calls and never stored. The page shows the settings that keep the model
after a restart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from retain.api.responses import answer
from retain.api.schemas import STRICT, Text, shape
from retain.base.errors import RetainError
from retain.base.settings import Settings
from retain.models.model import Model, Models
from retain.server.operator import operator
from retain.server.request_authenticator import RequestAuthenticator
from retain.server.routes import problems

_STATUSES = (400, 401, 403, 408, 413, 415, 421, 422, 429, 500, 503)
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


def add(app: FastAPI, authenticator: RequestAuthenticator) -> None:
    """Add the route to an app."""

    async def test(request: Request, said: ModelRequestBody) -> Response:
        """Call a chat model once, and use it until the server restarts if `use` is set."""
        await operator(authenticator, request)
        return answer(await run_in_threadpool(_test, authenticator, said))

    app.add_api_route(
        "/api/web/model",
        test,
        methods=["POST"],
        name="web_model",
        operation_id="web_model",
        tags=["web"],
        response_model=shape(ModelTest),
        responses=problems(*_STATUSES),
        openapi_extra={"x-retain-permission": "admin"},
    )


def _test(authenticator: RequestAuthenticator, said: ModelRequestBody) -> ModelTest:
    services = authenticator.memory.services
    try:
        settings = replace(
            services.settings,
            model=said.model,
            base_url=said.base_url.strip(),
            api_key=said.api_key.strip(),
        )
        tested = _main_model(settings)
        completion = tested.complete(
            "", "Reply with the single word: ready", max_tokens=_TEST_TOKENS
        )
    except RetainError as error:
        return ModelTest(said.model, False, False, "", str(error), None)
    if said.use:
        # A longer limit than the test's: answers take their time.
        models = Models(settings)
        services.models.main = models.main
        services.models.summary = services.models.summary or models.summary
    return ModelTest(
        said.model, True, said.use, completion.text[:_MAX_SHOWN], "", completion.latency_ms
    )


def _main_model(settings: Settings) -> Model:
    seconds = min(settings.model_seconds, _TEST_SECONDS)
    model = Models(replace(settings, model_seconds=seconds)).main
    assert model is not None, "the request names a model"
    return model
