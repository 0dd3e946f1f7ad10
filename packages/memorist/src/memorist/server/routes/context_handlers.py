"""Turns of an external agent: assemble its context, then store its turn with the report."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, create_model
from starlette.responses import Response

from memorist.admin.stored_responses import StoredResponse
from memorist.api.invoke import invoke
from memorist.api.responses import rendered, response
from memorist.api.schemas import DEFERRED, STRICT
from memorist.context.assemble import Context
from memorist.context.report import Report, ReportItem
from memorist.server.http.verb_handler import Call, VerbHandler

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


class ContextHandler(VerbHandler):
    """Returns the messages of a context, and more if the request asks for it."""

    result = ContextAnswer

    def build_request_model(self) -> type[BaseModel]:
        """Return the parameters of the verb and what else to return."""
        return create_model(
            "ContextRequest",
            __base__=super().build_request_model(),
            text=(bool, Field(False, description="Also return the context as plain text.")),
            whole=(
                bool,
                Field(False, description="Also return all fields of the library's Context."),
            ),
        )

    async def respond(self, call: Call) -> Response:
        """Assemble the context in a thread."""
        text = call.arguments.pop("text", False)
        whole = call.arguments.pop("whole", False)

        def assemble() -> StoredResponse:
            context = invoke(self.endpoint, call.scope, call.arguments, call.principal)
            result = {"messages": context.messages, "report": context.report.as_json()}
            if text:
                result["text"] = context.text()
            if whole:
                result["whole"] = context.as_json()
            return rendered(result)

        return response(await self.in_thread(assemble))


class SaveTurnHandler(VerbHandler):
    """Stores a turn with the report of its context, in place of the context itself."""

    def build_request_model(self) -> type[BaseModel]:
        """Return the parameters of the verb, with a report in place of the context."""
        model = super().build_request_model()
        fields: dict[str, Any] = {
            name: (info.annotation, info) for name, info in model.model_fields.items()
        }
        fields["report"] = (
            Annotated[ReportShape, Field(strict=False)] | None,
            Field(None, description="The report that `POST /api/context` returned."),
        )
        return create_model("TurnRequest", __config__=STRICT, **fields)

    async def respond(self, call: Call) -> Response:
        """Save the turn in a thread, with its report as the context that the verb takes."""
        report: ReportShape | None = call.arguments.pop("report", None)
        if report is not None:
            call.arguments["context"] = Context([], _report(report), {})
        return await super().respond(call)


def _report(shape: ReportShape) -> Report:
    items = [ReportItem(*item) for item in shape.items]
    left_out = [ReportItem(*item) for item in shape.left_out]
    return Report(shape.budget, shape.tokens, items, left_out, shape.shares)
