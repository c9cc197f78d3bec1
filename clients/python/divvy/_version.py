"""The version of the package. It is that of divvy itself (src/version.h)."""

VERSION = "0.1.0"
