# CPack adds scripts that call ldconfig to packages with shared objects; a trigger does that in Debian, and a plug-in does
# not need it. The packages are written again without these scripts.
foreach(package ${CPACK_PACKAGE_FILES})
  if(NOT package MATCHES "/(librunnel[0-9]+|runnel-cuda)_[^/]*\\.deb$")
    continue()
  endif()
  set(folder ${CPACK_TEMPORARY_DIRECTORY}/repacked)
  file(REMOVE_RECURSE ${folder})
  execute_process(COMMAND dpkg-deb -R ${package} ${folder} COMMAND_ERROR_IS_FATAL ANY)
  file(REMOVE ${folder}/DEBIAN/postinst ${folder}/DEBIAN/postrm)
  execute_process(COMMAND dpkg-deb -Z${CPACK_DEBIAN_COMPRESSION_TYPE} --root-owner-group -b ${folder} ${package}
                  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  file(REMOVE_RECURSE ${folder})
endforeach()
