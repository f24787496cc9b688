# Fails when an object file that was compiled for an instruction set defines a symbol outside that set's
# namespace: the linker may keep such a symbol for the whole program, and a processor without the
# instructions would crash in it.
#
#   cmake -DNM=nm -DISA=avx2 -DOBJECTS=a.o,b.o -P isa_symbols_test.cmake
string(REPLACE "," ";" OBJECTS "${OBJECTS}")
string(LENGTH "${ISA}" length)
set(namespace "7chimere7kernels3cpu${length}${ISA}")
set(checked 0)
foreach(object IN LISTS OBJECTS)
  execute_process(COMMAND ${NM} --defined-only --extern-only ${object}
    OUTPUT_VARIABLE lines COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[0-9a-f]+ [A-Za-z] [^\n]+" symbols "${lines}")
  foreach(symbol IN LISTS symbols)
    math(EXPR checked "${checked} + 1")
    # The personality routine's address is data that every C++ object with clean-up code holds.
    if(NOT symbol MATCHES "${namespace}" AND NOT symbol MATCHES "DW.ref.__gxx_personality_v0")
      message(SEND_ERROR "${object} defines ${symbol}; move it into namespace cpu::${ISA}, force it inline or do "
        "without it")
    endif()
  endforeach()
endforeach()
if(checked EQUAL 0)
  message(FATAL_ERROR "no symbols found in ${OBJECTS}")
endif()
message(STATUS "${checked} symbols of ${ISA} checked")
