"""The handler of `/api/models`, and two routes of the web app.

`/api/web/model` tests a chat model, and uses it until a restart. `/api/web/models` lists the models of
a service to test.

The key is used for the calls and never stored. The page shows the settings that keep the model
after a restart.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from memorist.admin.audited_writer import AuditedAction, record_action
from memorist.admin.offered_models import ModelNames
from memorist.admin.principal import Principal
from memorist.admin.stored_responses import StoredResponse
from memorist.api import problem
from memorist.api.responses import json_response
from memorist.api.route import ApiRoute
from memorist.api.schemas import STRICT, Text, shape
from memorist.base.errors import Invalid, MemoristError, Overloaded
from memorist.base.settings import Settings
from memorist.base.verbs import Endpoint
from memorist.memory import Memory, Scope
from memorist.models import model as models
from memorist.models.model import NO_KEY, Model, Models
from memorist.server.http.authentication import RequestAuthenticator
from memorist.server.http.routing import api_route
from memorist.server.http.verb_handler import Call, VerbHandler

_TEST_SECONDS = 30.0
_TEST_TOKENS = 64
_LIST_SECONDS = 60.0
"""The time for which the list of models is cached."""
_MAX_SHOWN = 200


class ServiceRequestBody(BaseModel):
    """The service whose models to list."""

    model_config = STRICT
    model: str = Field(
        "",
        max_length=200,
        description="A model of the service, with its provider where it is not OpenAI-compatible.",
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


class ModelRequestBody(ServiceRequestBody):
    """The model to test."""

    model: Text = Field(
        max_length=200,
        description="The name of the model, with its provider where it is not OpenAI-compatible.",
        examples=["llama3.2"],
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


class ModelList:
    """The models of the server's own service, read by one caller at a time and cached for a minute.

    A failure is cached too, so that callers can neither flood the service nor queue up for it.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._lock = threading.Lock()
        self._until = 0.0
        self._main: Model | None = None
        self._result: ModelNames | MemoristError = ModelNames([])

    def get(self) -> ModelNames:
        """Return the names."""
        if not self._is_fresh():
            self._refresh()
        result = self._result
        if isinstance(result, MemoristError):
            raise result
        return result

    def _is_fresh(self) -> bool:
        is_same_model = self._main is self._memory.services.models.main
        return is_same_model and time.monotonic() < self._until

    def _refresh(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise Overloaded(problem="the models are being listed for another caller", seconds=2)
        try:
            main = self._memory.services.models.main
            self._result = self._read()
            self._main = main
            self._until = time.monotonic() + _LIST_SECONDS
        finally:
            self._lock.release()

    def _read(self) -> ModelNames | MemoristError:
        try:
            return self._memory.models.list()
        except MemoristError as error:
            return error


class ModelsHandler(VerbHandler):
    """Responds with the cached names of the models."""

    def __init__(
        self, authenticator: RequestAuthenticator, endpoint: Endpoint, method: Callable[..., Any]
    ) -> None:
        super().__init__(authenticator, endpoint, method)
        self._list = ModelList(authenticator.memory)

    def call_verb(self, call: Call, verb: Callable[[Scope], Any] | None = None) -> StoredResponse:
        """Return the names."""
        return self.render(self._list.get())


def routes(authenticator: RequestAuthenticator) -> list[ApiRoute]:
    """Return the routes of the web app."""

    async def list_service(request: Request, body: ServiceRequestBody) -> Response:
        """List the models of a service, to choose one to test."""
        await authenticator.authorize_operator(request)
        return json_response(await run_in_threadpool(_list_service, authenticator, body))

    async def test(request: Request, body: ModelRequestBody) -> Response:
        """Call a chat model once, and use it until the server restarts if `use` is set."""
        principal = await authenticator.authorize_operator(request)
        request_id = problem.request_id(request)
        return json_response(
            await run_in_threadpool(_test, authenticator, body, principal, request_id)
        )

    web_route = partial(
        api_route,
        authenticator=authenticator,
        method="POST",
        tag="web",
        permission="admin",
        error_statuses=(),
    )
    return [
        web_route(
            path="/api/web/model",
            name="web_model",
            handler=test,
            body=ModelRequestBody,
            result=shape(ModelTest),
        ),
        web_route(
            path="/api/web/models",
            name="web_models",
            handler=list_service,
            body=ServiceRequestBody,
            result=shape(ModelNames),
        ),
    ]


def _list_service(authenticator: RequestAuthenticator, body: ServiceRequestBody) -> ModelNames:
    try:
        settings = _with_service(authenticator.memory.settings, body)
        seconds = min(settings.model_seconds, _TEST_SECONDS)
        return ModelNames(list(models.list_models(replace(settings, model_seconds=seconds))))
    except MemoristError as error:
        return ModelNames([], str(error))


def _with_service(settings: Settings, body: ServiceRequestBody) -> Settings:
    """Return the settings with the model, address and key of a request."""
    base_url = body.base_url.strip()
    api_key = body.api_key.strip()
    if base_url and not api_key:
        # The key in the provider's environment variable is not meant for the caller's address.
        api_key = NO_KEY
    return replace(settings, model=body.model, base_url=base_url, api_key=api_key)


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
    try:
        settings = _with_service(services.settings, body)
        tested = _main_model(settings)
        completion = tested.complete(
            "", "Reply with the single word: ready", max_tokens=_TEST_TOKENS
        )
    except MemoristError as error:
        return ModelTest(body.model, False, False, "", str(error), None)
    if body.use:
        # From now on, all chats of the server go to this model.
        action = AuditedAction("model_use", request_id, f"model {body.model}")
        record_action(services, principal, action)
        # A longer limit than the test's: answers take their time.
        services.models.replace_main(settings)
    return ModelTest(
        body.model, True, body.use, completion.text[:_MAX_SHOWN], "", completion.latency_ms
    )


def _main_model(settings: Settings) -> Model:
    seconds = min(settings.model_seconds, _TEST_SECONDS)
    model = Models(replace(settings, model_seconds=seconds)).main
    if model is None:
        raise Invalid(field="model", problem="must name a model")
    return model
