// Replaces files atomically, and writes out the libraries embedded in this executable for other programs to load:
// stand-ins for the driver's libraries (emulate/), and the library that jobs with a GPU fraction preload (interpose/).
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/result.h"

namespace divvy {

/// Returns the whole content of a file, or "" if it cannot be read.
std::string ReadImage(const std::string& path);

/// Replaces a file atomically. A process that has the old file open keeps it; a process that opens the path gets either
/// the old or the new one. `mode` ignores the umask, because jobs of other users read the file. `purpose` says in the
/// error what needs the file.
Status ReplaceFile(const std::string& path, std::string_view bytes, mode_t mode, std::string_view purpose);

/// Writes a library that is embedded in this program, from `begin` to `end`, into the file `path`. Leaves an identical
/// file untouched. `purpose` says in the error what needs the file.
Status WriteImage(const std::string& path, const char* begin, const char* end, std::string_view purpose);

}  // namespace divvy
