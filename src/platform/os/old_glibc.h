// Included first in the libraries that run inside users' programs (CMake: -include). They must load in any container
// whose image has glibc 2.17 (2014) or later, whatever glibc this machine has.
//
// Functions that glibc 2.32 to 2.34 moved into libc.so.6 kept their old versions there. In an older glibc they are in
// libpthread.so.0 and libdl.so.2, so such a library names these two as well (DIVVY_OLD_GLIBC in CMake); newer systems
// ship empty versions of both. fstat and stat were not symbols before 2.33. scripts/check-glibc checks which versions a
// built library requires.
#pragma once

#if defined(__x86_64__)
#define DIVVY_GLIBC_FIRST "GLIBC_2.2.5"
#define DIVVY_GLIBC_ROBUST "GLIBC_2.12"
#elif defined(__aarch64__)
#define DIVVY_GLIBC_FIRST "GLIBC_2.17"
#define DIVVY_GLIBC_ROBUST "GLIBC_2.17"
#endif

#ifdef DIVVY_GLIBC_FIRST
#define DIVVY_GLIBC(name, version) __asm__(".symver " #name "," #name "@" version)
DIVVY_GLIBC(dladdr, DIVVY_GLIBC_FIRST);
DIVVY_GLIBC(dlclose, DIVVY_GLIBC_FIRST);
DIVVY_GLIBC(dlerror, DIVVY_GLIBC_FIRST);
DIVVY_GLIBC(dlopen, DIVVY_GLIBC_FIRST);
DIVVY_GLIBC(dlvsym, DIVVY_GLIBC_FIRST);
DIVVY_GLIBC(pthread_create, DIVVY_GLIBC_FIRST);
DIVVY_GLIBC(pthread_detach, DIVVY_GLIBC_FIRST);
DIVVY_GLIBC(pthread_join, DIVVY_GLIBC_FIRST);
DIVVY_GLIBC(pthread_sigmask, DIVVY_GLIBC_FIRST);
DIVVY_GLIBC(pthread_mutexattr_init, DIVVY_GLIBC_FIRST);
DIVVY_GLIBC(pthread_mutexattr_destroy, DIVVY_GLIBC_FIRST);
DIVVY_GLIBC(pthread_mutexattr_setpshared, DIVVY_GLIBC_FIRST);
DIVVY_GLIBC(pthread_mutexattr_setrobust, DIVVY_GLIBC_ROBUST);
DIVVY_GLIBC(pthread_mutex_consistent, DIVVY_GLIBC_ROBUST);
#undef DIVVY_GLIBC
#endif

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace divvy::old_glibc {

// These call the kernel directly. On both architectures libc's struct stat has the kernel's layout.
inline int Fstat(int fd, struct stat* about) { return static_cast<int>(::syscall(SYS_fstat, fd, about)); }
inline int Stat(const char* path, struct stat* about) {
  return static_cast<int>(::syscall(SYS_newfstatat, AT_FDCWD, path, about, 0));
}
inline int MakeMemoryFile(const char* name, unsigned flags) {
  return static_cast<int>(::syscall(SYS_memfd_create, name, flags));
}

}  // namespace divvy::old_glibc
