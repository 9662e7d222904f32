# The libraries that tutti is built with (docs/dependencies.md says why each). All that are missing are
# named at once, with the package that has them. One that is older than what is tested may do, so that is
# a warning.

# tutti_library(NAME Highway VARIABLE TUTTI_HIGHWAY HEADER hwy/highway.h DEBIAN libhwy-dev
#   TESTED 1.0 VERSION header macro... [LIBRARY names...])
# sets TUTTI_HIGHWAY_INCLUDE, and TUTTI_HIGHWAY_LIBRARY where there is one to link. VERSION: the header, and the macros
# that have the version as numbers or as one string.
function(tutti_library)
  cmake_parse_arguments(ARG "" "NAME;VARIABLE;HEADER;DEBIAN;TESTED" "VERSION;LIBRARY" ${ARGN})
  find_path(${ARG_VARIABLE}_INCLUDE ${ARG_HEADER})
  set(missing "")
  if(NOT ${ARG_VARIABLE}_INCLUDE)
    list(APPEND missing "the header ${ARG_HEADER}")
  endif()
  if(ARG_LIBRARY)
    find_library(${ARG_VARIABLE}_LIBRARY NAMES ${ARG_LIBRARY})
    if(NOT ${ARG_VARIABLE}_LIBRARY)
      list(GET ARG_LIBRARY -1 shared)
      list(APPEND missing "the library ${shared}")
    endif()
  endif()
  if(missing)
    list(JOIN missing " and " missing)
    set_property(GLOBAL APPEND_STRING PROPERTY TUTTI_MISSING
                 "  ${ARG_NAME} ${ARG_TESTED}: ${missing} (set ${ARG_VARIABLE}_INCLUDE where it lies elsewhere)\n")
    set_property(GLOBAL APPEND PROPERTY TUTTI_MISSING_PACKAGES ${ARG_DEBIAN})
    return()
  endif()
  tutti_check_version(${ARG_NAME} "${${ARG_VARIABLE}_INCLUDE}" ${ARG_TESTED} ${ARG_VERSION})
endfunction()

function(tutti_check_version name include tested header)
  set(numbers "")
  foreach(macro IN LISTS ARGN)
    file(STRINGS ${include}/${header} line REGEX "define[ \t]+${macro}[ \t]" LIMIT_COUNT 1)
    if(line MATCHES "${macro}[ \t]+\"?([0-9][0-9.]*)")
      list(APPEND numbers ${CMAKE_MATCH_1})
    endif()
  endforeach()
  list(JOIN numbers "." version)
  if(version STREQUAL "")
    message(STATUS "${name}: of unknown version, in ${include}")
  elseif(version VERSION_LESS tested)
    message(WARNING "${name} ${version} in ${include} is older than what tutti is tested with (${tested}); "
                    "if it does not compile, install a newer one")
  else()
    message(STATUS "${name}: ${version}, in ${include}")
  endif()
endfunction()

function(tutti_stop_where_libraries_are_missing)
  get_property(missing GLOBAL PROPERTY TUTTI_MISSING)
  get_property(packages GLOBAL PROPERTY TUTTI_MISSING_PACKAGES)
  if(missing)
    list(JOIN packages " " packages)
    message(FATAL_ERROR "tutti needs libraries that are not here:\n${missing}"
                        "On Debian and Ubuntu: apt-get install ${packages}\ndocs/install.md lists all that it needs.")
  endif()
endfunction()

tutti_library(NAME Highway VARIABLE TUTTI_HIGHWAY HEADER hwy/highway.h DEBIAN libhwy-dev
  TESTED 1.0 VERSION hwy/highway.h HWY_MAJOR HWY_MINOR)
tutti_library(NAME toml++ VARIABLE TUTTI_TOMLPP HEADER toml++/toml.h DEBIAN libtomlplusplus-dev
  TESTED 3.0 VERSION toml++/impl/version.h TOML_LIB_MAJOR TOML_LIB_MINOR)
tutti_library(NAME libfabric VARIABLE TUTTI_LIBFABRIC HEADER rdma/fi_rma.h DEBIAN libfabric-dev
  TESTED 1.17 VERSION rdma/fabric.h FI_MAJOR_VERSION FI_MINOR_VERSION)
# The static libraries where there are any: a plugin in somebody else's process should bring what it needs.
tutti_library(NAME libsodium VARIABLE TUTTI_SODIUM HEADER sodium.h DEBIAN libsodium-dev
  TESTED 1.0.18 VERSION sodium/version.h SODIUM_VERSION_STRING LIBRARY libsodium.a sodium)
tutti_library(NAME zlib VARIABLE TUTTI_ZLIB HEADER zlib.h DEBIAN zlib1g-dev
  TESTED 1.2 VERSION zlib.h ZLIB_VERSION LIBRARY libz.a z)
tutti_stop_where_libraries_are_missing()

# Optional: the network over verbs.
set(TUTTI_VERBS AUTO CACHE STRING "The network over RDMA devices: ON, OFF, or AUTO for where rdma-core is")
set_property(CACHE TUTTI_VERBS PROPERTY STRINGS AUTO ON OFF)
find_path(TUTTI_VERBS_INCLUDE rdma/rdma_cma.h)
find_library(TUTTI_IBVERBS_LIBRARY ibverbs)
find_library(TUTTI_RDMACM_LIBRARY rdmacm)
set(TUTTI_HAS_VERBS OFF)
if(TUTTI_VERBS STREQUAL "AUTO" OR TUTTI_VERBS)
  if(TUTTI_VERBS_INCLUDE AND TUTTI_IBVERBS_LIBRARY AND TUTTI_RDMACM_LIBRARY)
    set(TUTTI_HAS_VERBS ON)
    message(STATUS "verbs: ${TUTTI_RDMACM_LIBRARY}; the network over RDMA devices is built")
  elseif(TUTTI_VERBS STREQUAL "AUTO")
    message(STATUS "verbs: not found, so the network over RDMA devices is not built (Debian: librdmacm-dev, libibverbs-dev)")
  else()
    message(FATAL_ERROR "TUTTI_VERBS=${TUTTI_VERBS}, but rdma-core is not here: install its headers and libraries (Debian: "
                        "librdmacm-dev, libibverbs-dev), or build without (TUTTI_VERBS=OFF)")
  endif()
endif()
