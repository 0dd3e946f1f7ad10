"""The capacity model: its form, and its check against a measurement that it was not fitted to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.capacity import FITTED_SIZES, GIB, MEASURED, Load, check, fit, size

LOAD = Load(1000, 1e7, {"append": 10.0, "window": 40.0, "search": 10.0, "context": 10.0})


def test_the_model_predicts_the_measurement_of_a_larger_tenant() -> None:
    shares = check(fit(MEASURED), MEASURED)
    assert len(shares) == 11
    for name, share in shares.items():
        assert 0.6 < share < 1.7, name


def test_the_model_returns_what_it_was_fitted_to() -> None:
    costs = fit(MEASURED)
    for messages in FITTED_SIZES:
        for name, cost in costs.operations.items():
            assert cost.at(messages) == pytest.approx(MEASURED.requests[messages][name])


def test_cores_follow_requests_and_disk_follows_messages() -> None:
    costs = fit(MEASURED)
    one = size(LOAD, costs)
    rates = {name: 2 * rate for name, rate in LOAD.per_second.items()}
    busier = size(replace(LOAD, per_second=rates), costs)
    assert busier.server_cores == pytest.approx(2 * one.server_cores)
    assert busier.database_cores == pytest.approx(2 * one.database_cores)
    assert busier.disk_gib == one.disk_gib == pytest.approx(2 * 1e7 * costs.bytes_per_message / GIB)
    assert size(replace(LOAD, messages=2e7), costs).disk_gib == pytest.approx(2 * one.disk_gib)


def test_jobs_cost_for_each_message_and_for_each_idle_tenant() -> None:
    costs = fit(MEASURED)
    idle = replace(LOAD, per_second={})
    one = size(idle, costs)
    assert one.server_cores == one.database_cores == 0
    assert size(replace(idle, tenants=2000), costs).job_cores == pytest.approx(2 * one.job_cores)
    assert size(replace(idle, round_seconds=120.0), costs).job_cores == pytest.approx(
        one.job_cores / 2
    )
    encoder, static = (
        size(replace(LOAD, embedder=name), costs).job_cores for name in ("encoder", "static")
    )
    assert encoder > static > one.job_cores
