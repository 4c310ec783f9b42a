"""Gives volumes the attributes (VolumeAttributesClass) that their claims ask for."""
