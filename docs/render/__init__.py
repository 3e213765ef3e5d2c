# SPDX-License-Identifier: Apache-2.0
"""Renders the pages of the documentation that follow from facts: the references, the coverage tables, the deviations."""
