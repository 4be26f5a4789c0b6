"""Interfaces for using elmokit in programs written for other libraries."""
