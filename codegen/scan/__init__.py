"""The libclang side of codegen: everything that reads real headers. Nothing here runs at build time."""
