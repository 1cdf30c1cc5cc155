"""Decisions: may this run pass?"""
