// Small files that are their owner's alone: keys, and what only the machines of one job are to know of each other.
#pragma once

#include <string>

#include "base/result.h"

namespace divvy {

/// Who else may read a file of ours.
enum class Readers { kNobody, kAll };
/// Whose files root takes: those of any user, or root's own alone. Others always take their own.
enum class RootTakes { kAll, kOwn };

/// Fails with kNotFound where there is none, with kPermissionDenied where it cannot be opened, belongs to somebody else
/// than us, or others may read it (where that is not for kAll), and with kCorruptData on what is no plain file or has
/// more than `most` bytes. For kAll it may be root's as well, and nobody else may write it.
Result<std::string> ReadSecret(const std::string& path, std::size_t most, Readers readers = Readers::kNobody,
                               RootTakes root_takes = RootTakes::kAll);

/// As a whole or not at all, with mode 0600 or, for kAll, 0644. `is_durable`: it is on the disk when this returns.
Status WriteSecret(const std::string& path, const std::string& text, bool is_durable,
                   Readers readers = Readers::kNobody);

}  // namespace divvy
