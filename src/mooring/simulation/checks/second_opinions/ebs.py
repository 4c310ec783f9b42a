"""All opinions about the driver of EBS volumes."""

from __future__ import annotations

from mooring.simulation.checks.second_opinions import (
    ebs_attachments,
    ebs_descriptions,
    ebs_device_names,
    ebs_quotas,
    ebs_settling,
    ebs_volumes,
    ebs_waiting,
)

QUESTIONS = (
    *ebs_settling.QUESTIONS,
    *ebs_descriptions.QUESTIONS,
    *ebs_device_names.QUESTIONS,
    *ebs_attachments.QUESTIONS,
    *ebs_quotas.QUESTIONS,
    *ebs_volumes.QUESTIONS,
    *ebs_waiting.QUESTIONS,
)
