# One static library per layer. A layer sees the headers of src/ but links only what it names in
# DEPENDS, so that an arrow that points up does not link (docs/architecture.md).
find_package(Threads REQUIRED)

add_library(tutti_options INTERFACE)
target_compile_options(tutti_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -fno-strict-aliasing)
target_compile_features(tutti_options INTERFACE cxx_std_20)
# clang 14 and 15 have coroutines but do not announce them in the way libstdc++ asks for.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 17)
  target_compile_definitions(tutti_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:__cpp_impl_coroutine=201902L>)
endif()
target_include_directories(tutti_options INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
  $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated>)
target_compile_definitions(tutti_options INTERFACE TUTTI_VERSION="${PROJECT_VERSION}")
target_link_libraries(tutti_options INTERFACE Threads::Threads ${CMAKE_DL_LIBS})
if(TUTTI_SANITIZE)
  target_compile_options(tutti_options INTERFACE -fsanitize=${TUTTI_SANITIZE} -fno-omit-frame-pointer -g)
  target_link_options(tutti_options INTERFACE -fsanitize=${TUTTI_SANITIZE})
endif()

# tutti_layer(name SOURCES ... DEPENDS layers and libraries ...)
function(tutti_layer name)
  cmake_parse_arguments(LAYER "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(tutti_${name} STATIC ${LAYER_SOURCES})
  target_link_libraries(tutti_${name} PUBLIC tutti_options ${LAYER_DEPENDS})
endfunction()

# What others load or start: brings its own C++ library, because a program may have another one and a machine none,
# and only what is used of it, so that it runs on systems older than the one it was built on.
function(tutti_self_contained target)
  target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src/base/find_object.c)
  target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc -Wl,--gc-sections)
endfunction()

# What a shared library shows to others is what `map` (a version script) lists. Templates of the C++ library keep default
# visibility whatever the compiler is told, and so do static libraries: both would meet those of the program.
function(tutti_exports target map)
  target_link_options(${target} PRIVATE -Wl,--version-script=${map})
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${map})
endfunction()
