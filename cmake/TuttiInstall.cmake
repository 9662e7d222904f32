# What a site's `cmake --install` brings besides the libraries and headers, which their own folders
# install: files by which others find them. All of them find the prefix by themselves, so that --prefix
# and moved trees work.
include(CMakePackageConfigHelpers)

# pkg-config
file(RELATIVE_PATH TUTTI_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(${CMAKE_CURRENT_LIST_DIR}/tutti.pc.in ${PROJECT_BINARY_DIR}/tutti.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tutti.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# find_package(tutti): the target tutti::tutti, and where the preload lies.
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/tutti)
set(TUTTI_PRELOAD ${CMAKE_INSTALL_LIBDIR}/tutti/libtutti-preload.so)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/tutti-config.cmake.in ${PROJECT_BINARY_DIR}/tutti-config.cmake
  INSTALL_DESTINATION ${package} PATH_VARS TUTTI_PRELOAD)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tutti-config-version.cmake COMPATIBILITY SameMinorVersion)
install(EXPORT tutti_targets NAMESPACE tutti:: FILE tutti-targets.cmake DESTINATION ${package})
install(FILES ${PROJECT_BINARY_DIR}/tutti-config.cmake ${PROJECT_BINARY_DIR}/tutti-config-version.cmake
        DESTINATION ${package})

# Module files, for Lmod (Lua) and for environment-modules (Tcl): module use PREFIX/share/modulefiles
foreach(suffix "" .lua)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/modulefile${suffix}.in ${PROJECT_BINARY_DIR}/modulefile${suffix} @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/modulefile${suffix} DESTINATION ${CMAKE_INSTALL_DATADIR}/modulefiles/tutti
          RENAME ${PROJECT_VERSION}${suffix})
endforeach()
