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

/// Which piece of a file to read.
struct LogRange {
  std::int64_t at = -1;    // The byte to start at. -1: before the last `last` lines that exist now.
  std::int64_t last = -1;  // Used if `at` is -1; -1: the start of the file.
  std::size_t most = kLogPieceBytes;
  // For a reader of what is new. If more than `most` bytes follow `at`, reads the last `most` bytes of the file. A file
  // that is shorter than `at` was truncated, and is read from its start.
  bool newest = false;
};

/// Reads a piece. Skips a head that was removed (platform/os/log_limit.h): then `text` ends at `next` but begins after
/// `at`. Reads with `reader`'s rights; if `reader` is set, only a regular file is read.
LogPiece ReadLog(const std::string& path, const LogRange& range, const FileOwner& reader = {});
/// Does the same for an open file. `is_users`: it was opened with a user's rights.
LogPiece ReadOpenLog(const Descriptor& file, const LogRange& range, bool is_users);

}  // namespace divvy
