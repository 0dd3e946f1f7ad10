"""Turns of an external agent: assemble its context, then store its turn with the report."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, create_model
from starlette.applications import Starlette
from starlette.responses import Response

from retain.api.endpoints import SCOPE_ENDPOINTS
from retain.api.invoke import invoke
from retain.api.responses import rendered, response
from retain.api.schemas import DEFERRED, STRICT, Used, build_request_model, method_of
from retain.context.assemble import Context
from retain.context.report import Item, Report
from retain.kinds import KINDS
from retain.kinds.turns import Turn
from retain.memory import Scope
from retain.server.handler import Call, Handler
from retain.server.request_authenticator import RequestAuthenticator
from retain.server.routes import add_endpoint
from retain.server.thread_pool import in_thread

_Left = tuple[str, str, int, str]


class ReportShape(BaseModel):
    """Items in a context and items left out; each has its layer, source, tokens and reason."""

    model_config = ConfigDict(extra="forbid", title="Report", defer_build=True)
    budget: Annotated[int, Field(ge=0)]
    tokens: Annotated[int, Field(ge=0)]
    items: list[_Left]
    left_out: list[_Left]
    shares: dict[str, int]


class ContextAnswer(BaseModel):
    """The context for a model, and the report that explains it."""

    model_config = DEFERRED
    messages: list[dict[str, Any]] = Field(
        description="The messages in the format of OpenAI-compatible services."
    )
    report: ReportShape = Field(
        description="Send it with the turn, so that `GET /api/turns/{id}` can explain it."
    )
    text: str | None = Field(
        None, description="The whole context as plain text, if the request set `text`."
    )
    whole: dict[str, Any] | None = Field(
        None, description="All fields of the library's Context, if the request set `whole`."
    )


def add(app: Starlette, authenticator: RequestAuthenticator) -> None:
    """Add the routes for the context and for saving a turn."""
    endpoints = {endpoint.verb: endpoint for endpoint in SCOPE_ENDPOINTS}
    kinds: dict[str, type] = {kind.name: kind for kind in KINDS}

    context = endpoints["context"]
    context_model = build_request_model(context, method_of(context, kinds), (), in_query=False)
    wanted = create_model(
        "ContextRequest",
        __base__=context_model,
        text=(bool, Field(False, description="Also return the context as plain text.")),
        whole=(bool, Field(False, description="Also return all fields of the library's Context.")),
    )
    assembling = add_endpoint(app, authenticator, context, wanted, ContextAnswer)
    assembling.respond = partial(_context, assembling)

    save = endpoints["save_turn"]
    method = method_of(save, kinds)
    turn_model = build_request_model(save, method, ("usage", "context"), in_query=False)
    request_model = create_model(
        "TurnRequest",
        __config__=STRICT,
        **{name: (info.annotation, info) for name, info in turn_model.model_fields.items()},  # type: ignore[call-overload]
        usage=(
            Used | None,
            Field(None, description="The model call: its model, tokens, cost and latency."),
        ),
        report=(
            Annotated[ReportShape, Field(strict=False)] | None,
            Field(None, description="The report that `POST /api/context` returned."),
        ),
    )
    handler = add_endpoint(app, authenticator, save, request_model, Turn)

    async def keep(call: Call) -> Response:
        report: ReportShape | None = call.arguments.pop("report", None)
        context = None if report is None else Context([], _report(report), {})

        def verb(scope: Scope) -> Turn:
            return scope.save_turn(**call.arguments, context=context)

        return response(await in_thread(handler.call_verb, call, verb))

    handler.respond = keep


def _report(shape: ReportShape) -> Report:
    items = [Item(*item) for item in shape.items]
    left_out = [Item(*item) for item in shape.left_out]
    return Report(shape.budget, shape.tokens, items, left_out, shape.shares)


async def _context(handler: Handler, call: Call) -> Response:
    text = call.arguments.pop("text", False)
    whole = call.arguments.pop("whole", False)

    def assembled() -> Any:
        context = invoke(handler.endpoint, call.scope, call.arguments)
        answer: dict[str, Any] = {"messages": context.messages, "report": context.report.as_json()}
        if text:
            answer["text"] = context.text()
        if whole:
            answer["whole"] = context.as_json()
        return rendered(answer)

    return response(await handler.in_thread(assembled))
