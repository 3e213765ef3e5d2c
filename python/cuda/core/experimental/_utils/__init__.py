"""The older name of cuda.core._utils."""
