"""What is done before a wheel or an sdist is packed: the web app is built into the package."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class SiteHook(BuildHookInterface[Any]):
    """Builds the web app; without Node.js the package is made without it, and says so. No package has an older one."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build it, but not for an installation that only points at this folder."""
        if version == "editable":
            return
        spec = importlib.util.spec_from_file_location(
            "build_site", Path(self.root) / "scripts" / "build_site.py"
        )
        assert spec
        assert spec.loader
        site = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(site)
        try:
            self.app.display_info(site.build())
        except site.Missing as missing:
            if site.SITE.exists():
                raise RuntimeError(
                    f"{site.SITE} is not what web/ is, and must be built again or removed: {missing}"
                ) from None
            self.app.display_warning(f"THE WEB APP IS NOT IN THIS PACKAGE: {missing}")
