# What Debian wants of the files that are about to be packed: pages are compressed, zsh's completions lie in its own
# folder, and there are a copyright file and a changelog.
file(GLOB_RECURSE binaries ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*/usr/bin/runnel)
foreach(binary ${binaries})
  string(REGEX REPLACE "/bin/runnel$" "" usr ${binary})
  if(EXISTS ${usr}/share/zsh/site-functions)
    file(MAKE_DIRECTORY ${usr}/share/zsh/vendor-completions)
    file(RENAME ${usr}/share/zsh/site-functions/_runnel ${usr}/share/zsh/vendor-completions/_runnel)
    file(REMOVE_RECURSE ${usr}/share/zsh/site-functions)
  endif()
  file(COPY ${CPACK_RUNNEL_SOURCE_DIR}/deb/copyright ${CPACK_RUNNEL_SOURCE_DIR}/deb/changelog
       DESTINATION ${usr}/share/doc/runnel FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  file(GLOB texts ${usr}/share/man/man1/*.1 ${usr}/share/doc/runnel/changelog)
  execute_process(COMMAND gzip -9nf ${texts} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
