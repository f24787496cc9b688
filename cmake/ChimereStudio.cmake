# Studio, the web page of the server: web/built becomes a source file of which the assembler includes the files' bytes.

# chimere_studio_source(OUTPUT): configures OUTPUT from src/serving/studio_files.cc.in.
function(chimere_studio_source output)
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/web/built/*)
  set(types .html "text/html\\; charset=utf-8" .js "text/javascript\\; charset=utf-8" .css "text/css\\; charset=utf-8"
            .svg "image/svg+xml" .woff2 "font/woff2")
  set(CHIMERE_STUDIO_ASSEMBLY "")
  set(CHIMERE_STUDIO_ROWS "")
  set(number 0)
  foreach(file IN LISTS files)
    get_filename_component(name ${file} NAME)
    string(REGEX REPLACE "\\.gz$" "" plain ${name})
    set(gzip false)
    if(NOT plain STREQUAL name)
      set(gzip true)
    endif()
    get_filename_component(extension ${plain} LAST_EXT)
    list(FIND types ${extension} at)
    if(at EQUAL -1)
      message(FATAL_ERROR "${file}: a file of Studio must be one of .html, .js, .css, .svg and .woff2.")
    endif()
    math(EXPR at "${at} + 1")
    list(GET types ${at} type)
    file(SHA256 ${file} digest)
    string(SUBSTRING ${digest} 0 16 tag)
    set(symbol chimere_studio_${number})
    string(APPEND CHIMERE_STUDIO_ASSEMBLY
      "__asm__(\".section .rodata\\n.global ${symbol}\\n${symbol}:\\n.incbin \\\"${file}\\\"\\n\"\n"
      "        \".global ${symbol}_end\\n${symbol}_end:\\n.byte 0\\n.text\\n\");\n"
      "extern \"C\" const char ${symbol}[];\nextern \"C\" const char ${symbol}_end[];\n")
    string(APPEND CHIMERE_STUDIO_ROWS
      "    {\"${plain}\", \"${type}\", ${gzip}, \"${tag}\", between(${symbol}, ${symbol}_end)},\n")
    math(EXPR number "${number} + 1")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  endforeach()
  configure_file(${CMAKE_SOURCE_DIR}/src/serving/studio_files.cc.in ${output} @ONLY)
  set_source_files_properties(${output} PROPERTIES OBJECT_DEPENDS "${files}")
endfunction()
