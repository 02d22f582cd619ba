"""Values that every layer shares.

Contract, plan, observation, check, causes, secrets.
"""
