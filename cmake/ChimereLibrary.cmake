# libchimere (docs/library.md): the shared library with a C interface. Its objects are position-independent and keep their
# symbols to themselves, so that all modules are compiled that way once it is asked for.
option(CHIMERE_LIBRARY "Build libchimere, the shared library with a C interface" OFF)
if(CHIMERE_LIBRARY)
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
  set(CMAKE_CXX_VISIBILITY_PRESET hidden)
  set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
endif()
# Grows when a program that was built with an older header could no longer run.
set(CHIMERE_LIBRARY_SOVERSION 1)
