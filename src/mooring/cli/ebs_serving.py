"""Serves `ebs.csi.aws.com` by the options of `mooring ebs-driver`: puts the parts together."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from random import SystemRandom
from typing import TYPE_CHECKING

import click
import structlog

from mooring import __version__
from mooring.cli.output import fail
from mooring.ebs import options as ebs_options
from mooring.ebs.options import Options

if TYPE_CHECKING:
    from mooring.csi.driver.services import Driver
    from mooring.ebs.controller_service.controller import EbsController

log = structlog.get_logger(component="ebs")


async def serve(options: Options) -> None:
    """Serves for ever. Raises EndpointError, EbsError, ConfigError, click.UsageError."""
    from mooring.csi.driver.dispatch import Dispatcher
    from mooring.csi.driver.log import log_call
    from mooring.csi.driver.server import serving
    from mooring.csi.metrics import plugin_metrics
    from mooring.kube import metrics

    async with contextlib.AsyncExitStack() as stack:
        served = await assemble(options, stack)
        observers = [log_call, plugin_metrics(metrics.REGISTRY).observer(served.name)]
        dispatcher = Dispatcher(served, options.allow_path, observers)
        if options.http_endpoint:
            host, port = ebs_options.parse_host_port(options.http_endpoint)
            port = await stack.enter_async_context(metrics.serving(host, port, tls_of(options)))
            log.info("metrics are served", host=host, port=port)
        addresses = await stack.enter_async_context(serving(dispatcher, options.endpoint))
        click.echo(f"{served.name} ({options.mode}) listens at {', '.join(addresses)}")
        await asyncio.Event().wait()


async def assemble(options: Options, stack: contextlib.AsyncExitStack) -> Driver:
    """The driver that the options ask for; what must be closed in the end is left to `stack`. Raises
    EbsError."""
    from mooring.ebs.driver import ebs_driver as driver
    from mooring.ebs.driver import make_node, metadata_of
    from mooring.mounts.host import HostMounts

    node = make_node(options, HostMounts(), metadata_of(options)) if options.has_node else None
    if not options.has_controller:
        return driver(__version__, None, node)
    return driver(__version__, await make_controller(options, stack), node)


async def make_controller(options: Options, stack: contextlib.AsyncExitStack) -> EbsController:
    """The controller service: it calls EC2, in a region that is known before the first call, and counts its
    calls."""
    from mooring.ebs.controller_service import controller
    from mooring.ebs.controller_service.detaches import PendingDetaches
    from mooring.ebs.controller_service.metrics import MeteredApi, SlowDetaches, request_metrics
    from mooring.ebs.driver import region_of
    from mooring.ebs.ec2.aws import aws_api
    from mooring.kube.metrics import REGISTRY

    region = await region_of(options)
    api = aws_api(region, options.ec2_endpoint, options.user_agent_extra, options.aws_sdk_debug_log)
    stack.callback(api.close)
    metered, detaches = MeteredApi(api, request_metrics(REGISTRY)), PendingDetaches()
    slow = SlowDetaches(detaches)
    REGISTRY.register(slow)
    stack.callback(REGISTRY.unregister, slow)
    try:
        return controller.make_controller(options, metered, random=SystemRandom().random, detaches=detaches)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def tls_of(options: Options) -> ssl.SSLContext | None:
    """For the metrics; None: they are not encrypted. Ends the process if the files cannot be used."""
    if not options.metrics_cert_file:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(options.metrics_cert_file, options.metrics_key_file)
    except OSError as error:
        fail(f"--metrics-cert-file and --metrics-key-file cannot be used: {error}")
    return context
