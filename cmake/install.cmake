# The files and folders of `cmake --install`. Three components: `program`, `library` (what a program linked with
# libgpuyard runs with) and `development` (what one is built with).
include(CMakePackageConfigHelpers)

install(TARGETS gpuyard RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
# Never on the loader's path: only a program that loads it by name gets simulated GPUs. The program looks for
# it in ../lib/gpuyard/sim whatever the distribution calls its library folder, and libgpuyard beside
# itself or one folder up.
install(TARGETS sim_nvml LIBRARY DESTINATION lib/gpuyard/sim COMPONENT program)

install(TARGETS gpuyard_shared EXPORT gpuyard
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/gpuyard DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  COMPONENT development FILES_MATCHING PATTERN "*.h")

# find_package(gpuyard)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/gpuyard)
install(EXPORT gpuyard NAMESPACE gpuyard:: FILE gpuyardTargets.cmake DESTINATION ${package_dir}
  COMPONENT development)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/gpuyardConfig.cmake.in
  ${PROJECT_BINARY_DIR}/gpuyardConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/gpuyardConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/gpuyardConfig.cmake ${PROJECT_BINARY_DIR}/gpuyardConfigVersion.cmake
  DESTINATION ${package_dir} COMPONENT development)

# pkg-config gpuyard; the prefix is found from the file's own place, so that a tree can be moved.
file(RELATIVE_PATH prefix_from_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${PROJECT_SOURCE_DIR}/cmake/gpuyard.pc.in ${PROJECT_BINARY_DIR}/gpuyard.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/gpuyard.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
  COMPONENT development)
