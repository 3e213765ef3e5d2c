# SPDX-License-Identifier: Apache-2.0
"""The older name of cuda.core._utils."""
