// A file that may still grow, read in pieces: a job's log.
#pragma once

#include <cstdint>
#include <string>

#include "platform/users/open_as.h"

namespace divvy {

struct LogPiece {
  std::string text;       // "" for nothing new.
  std::int64_t next = 0;  // Where the next one begins, in bytes.
  int error = 0;          // Why the file could not be read (errno).
  std::string trouble;    // The same in words, where somebody else read it.
  std::int64_t size = 0;  // Of the file then, in bytes.
};

inline constexpr std::size_t kLogPieceBytes = std::size_t{1} << 20;

/// From byte `at`; -1: from before the last `last` lines that are there now, all where that is -1 as well. What was
/// dropped of the head (platform/os/log_limit.h) is passed over: then `text` ends at `next` and begins behind `at`.
/// With `reader`'s rights; where those are set, only a regular file is read. `most`: bytes of a piece.
LogPiece ReadLog(const std::string& path, std::int64_t at, std::int64_t last, const FileOwner& reader = {},
                 std::size_t most = kLogPieceBytes);
/// The same of a file that is open. `is_users`: it was opened with a user's rights.
LogPiece ReadOpenLog(const Descriptor& file, std::int64_t at, std::int64_t last, bool is_users,
                     std::size_t most = kLogPieceBytes);

}  // namespace divvy
