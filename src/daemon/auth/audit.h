// Who did what, and what came of it: one line for each request that asks for a change, as JSON, in a file of the
// daemon's own. The file is kept at a bounded size; what is older lies beside it as FILE.1. Each line carries a hash of
// itself and of the line before (platform/net/audit_chain.h); `divvy audit verify` finds one that is no longer as
// written.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "model/job.h"

namespace divvy {

class Audit {
 public:
  static constexpr std::uint64_t kMostBytes = 64u << 20;

  /// Writes nowhere.
  Audit() = default;
  /// Appends to `path`, readable for its owner alone.
  static Result<Audit> Open(std::string path, std::uint64_t most_bytes = kMostBytes);
  Audit(Audit&& other) noexcept;
  Audit& operator=(Audit&& other) noexcept;
  ~Audit();

  struct Entry {
    Time at = kNoTime;
    std::string_view user;
    std::int64_t uid = -1;
    std::string_view address;  // Empty: on this machine.
    std::string_view method;
    std::string_view path;
    std::string_view asked;  // Bodies; what of them may be secret is left out, and only their beginnings are kept.
    int status = 0;
    std::string_view answered;
  };
  /// Lost where the disk is full: what was asked goes before what is written about it.
  void Write(const Entry& entry);

 private:
  void TurnOver();

  std::string path_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
  std::uint64_t most_bytes_ = kMostBytes;
  std::string chain_;  // The hash of the last line.
};

}  // namespace divvy
