// Small private files: keys, and secrets that only the nodes of one job share.
#pragma once

#include <string>

#include "base/result.h"

namespace divvy {

/// The users who may read the file besides its owner.
enum class Readers { kNobody, kAll };
/// Which files root accepts: those of any user, or only root's own. Other users always accept only their own.
enum class RootTakes { kAll, kOwn };

/// Reads a small private file, such as a key. Errors: kNotFound if there is no file. kPermissionDenied if it cannot be
/// opened, belongs to another user, or is readable by others. kCorruptData if it is not a regular file or has more than
/// `most` bytes. With kAll others may read it and it may belong to root, but only its owner may be able to write it.
Result<std::string> ReadSecret(const std::string& path, std::size_t most, Readers readers = Readers::kNobody,
                               RootTakes root_takes = RootTakes::kAll);

/// Writes the file atomically with mode 0600, or 0644 for kAll. `is_durable`: syncs it to disk before it is renamed
/// into place.
Status WriteSecret(const std::string& path, const std::string& text, bool is_durable,
                   Readers readers = Readers::kNobody);

}  // namespace divvy
