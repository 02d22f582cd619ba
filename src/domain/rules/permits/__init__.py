"""Rules for proposals, consents, waivers and approvals."""
