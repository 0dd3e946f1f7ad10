"""The settings for a real model."""

from __future__ import annotations

import os

import pytest

from memorist.base.settings import Settings


@pytest.fixture
def settings() -> Settings:
    url = os.environ.get("TEST_LLM_URL")
    if not url:
        pytest.fail("there is no real model to ask: run these tests with `make test-llm`")
    return Settings(
        model="qwen2.5-coder:1.5b",
        base_url=url,
        model_seconds=600,
        summary_keep_last=4,
        summary_enabled=True,
    )
