"""An operator as its users write them: it doubles a number, and takes its leave when the object is
deleted."""

from __future__ import annotations

import kopf


@kopf.on.startup()
def quiet(settings, **_):
    settings.posting.enabled = True


@kopf.on.create("test.mooring.dev", "v1", "numbers")
@kopf.on.update("test.mooring.dev", "v1", "numbers", field="spec.number")
def double(spec, patch, **_):
    patch.status["doubled"] = spec["number"] * 2


@kopf.on.delete("test.mooring.dev", "v1", "numbers")
def farewell(name, logger, **_):
    logger.info("farewell to %s", name)
