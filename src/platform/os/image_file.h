// Files that are replaced in one step, and the libraries that the program carries in itself and writes out for others
// to load: stand-ins for the driver's (emulate/), and what jobs with a share of a GPU preload (interpose/).
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/result.h"

namespace divvy {

/// All of a file; "" where it cannot be read.
std::string ReadImage(const std::string& path);

/// In one step: who has the old file open keeps it, who opens the path finds the old or the new one. `mode` is past the
/// umask: jobs of others read it. `purpose`: who needs it, for the error.
Status ReplaceFile(const std::string& path, std::string_view bytes, mode_t mode, std::string_view purpose);

/// A library that is carried from `begin` to `end`; one that is there already and the same is left alone.
Status WriteImage(const std::string& path, const char* begin, const char* end, std::string_view purpose);

}  // namespace divvy
