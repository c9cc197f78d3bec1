// Small files that are their owner's alone: keys, and what only the machines of one job are to know of each other.
#pragma once

#include <string>

#include "base/result.h"

namespace divvy {

/// Fails with kNotFound where there is none, with kPermissionDenied where it cannot be opened, belongs to somebody else
/// than us, or others may read it, and with kCorruptData on what is no plain file or has more than `most` bytes.
Result<std::string> ReadSecret(const std::string& path, std::size_t most);

/// As a whole or not at all, with mode 0600. `is_durable`: it is on the disk when this returns.
Status WriteSecret(const std::string& path, const std::string& text, bool is_durable);

}  // namespace divvy
