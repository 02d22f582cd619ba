"""Proposals, consents, waivers and approvals."""
