// Reads a file that may still grow, such as a job's log, in pieces.
#pragma once

#include <cstdint>
#include <string>

#include "platform/users/open_as_user.h"

namespace divvy {

struct LogPiece {
  std::string text;       // Empty if there is nothing new.
  std::int64_t next = 0;  // Byte offset at which the next piece begins.
  int error = 0;          // Why the file could not be read (errno).
  std::string trouble;    // The same as text, if another process read the file.
  std::int64_t size = 0;  // Size of the file at that time, in bytes.
};

inline constexpr std::size_t kLogPieceBytes = std::size_t{1} << 20;

/// Reads a piece of at most `most` bytes from byte `at` on. If `at` is -1, starts before the last `last` lines that
/// exist now, or at the start of the file if `last` is -1 too. Skips a head that was removed (platform/os/log_limit.h):
/// then `text` ends at `next` but begins after `at`. Reads with `reader`'s rights; if `reader` is set, only a regular
/// file is read.
LogPiece ReadLog(const std::string& path, std::int64_t at, std::int64_t last, const FileOwner& reader = {},
                 std::size_t most = kLogPieceBytes);
/// Does the same for an open file. `is_users`: it was opened with a user's rights.
LogPiece ReadOpenLog(const Descriptor& file, std::int64_t at, std::int64_t last, bool is_users,
                     std::size_t most = kLogPieceBytes);

}  // namespace divvy
