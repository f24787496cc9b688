# libchimere (docs/library.md): the shared library with a C interface.
option(CHIMERE_LIBRARY "Build libchimere, the shared library with a C interface" OFF)
# Grows when a program that was built with an older header could no longer run.
set(CHIMERE_LIBRARY_SOVERSION 1)
