"""Build hook for wheels and source distributions: builds the web app into the package."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class SiteHook(BuildHookInterface[Any]):
    """Build the web app into the package. Without Node.js, warn and build the package without it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the web app, except for an editable installation."""
        if version == "editable":
            return
        script = Path(self.root).parent.parent / "scripts" / "build_site.py"
        if not script.is_file():  # a source distribution, which contains the built web app
            if not (Path(self.root) / "src/memorist/server/site/index.html").is_file():
                self.app.display_warning("THE WEB APP IS NOT IN THIS PACKAGE")
            return
        spec = importlib.util.spec_from_file_location("build_site", script)
        assert spec
        assert spec.loader
        site = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(site)
        try:
            self.app.display_info(site.build())
        except site.Missing as missing:
            if site.SITE.exists():
                raise RuntimeError(
                    f"{site.SITE} is older than web/; build it again or remove it: {missing}"
                ) from None
            self.app.display_warning(f"THE WEB APP IS NOT IN THIS PACKAGE: {missing}")
