"""The background jobs of a tenant as a kind."""

from __future__ import annotations

from memorist.admin.admin_kind import AdminKind
from memorist.base.verbs import verb
from memorist.jobs.job import JobResults


class Jobs(AdminKind):
    """The background jobs of a tenant."""

    name = "jobs"

    @verb(
        "POST /jobs/run",
        effect="change",
        calls_model="main",
        routine=True,
        example="memorist jobs --tenant acme",
    )
    def run(self) -> JobResults:
        """Run the due jobs of the tenant once: vectors, summaries, facts, webhooks and others.

        A job that fails does not stop the others. A server runs them by itself.
        """
        from memorist.jobs.runner import JobRunner  # slow to import

        return JobRunner(self._services).run([self._existing_tenant()])
