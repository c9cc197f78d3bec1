// The audit log: one JSON line for each request that asks for a change, with its user and its result. The file is kept
// at a bounded size: a full file becomes FILE.1, FILE.1 becomes FILE.2, and so on to FILE.8. Each line carries a hash
// of itself and of the line before (platform/net/audit_chain.h). `divvy audit verify` reports lines that were altered.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "model/job.h"

namespace divvy {

class Audit {
 public:
  static constexpr std::uint64_t kMostBytes = 64u << 20;
  /// How many refused requests of a user are written per hour. Further ones are counted, and a later line has their
  /// number. So requests that change nothing cannot push older lines out of the log. Callers that are not known count
  /// as one user, and those at the page's login as another one.
  static constexpr std::uint64_t kMostRefusals = 1000;

  /// An audit log that writes nothing.
  Audit() = default;
  /// Appends to `path`, which only its owner can read.
  static Result<Audit> Open(std::string path, std::uint64_t most_bytes = kMostBytes);
  Audit(Audit&& other) noexcept;
  Audit& operator=(Audit&& other) noexcept;
  ~Audit();

  struct Entry {
    Time at = kNoTime;
    std::string_view user;
    std::int64_t uid = -1;
    std::string_view address;  // Empty for a caller on this machine.
    std::string_view method;
    std::string_view path;
    std::string_view asked;  // The request body, truncated, without parts that may be secret.
    int status = 0;
    std::string_view answered;
  };
  /// Drops the entry if the disk is full: carrying out the request has priority over logging it.
  void Write(const Entry& entry);

 private:
  /// The refused requests of a user in the hour that began at `since`.
  struct Refusals {
    Time since = kNoTime;
    std::uint64_t count = 0;
    std::uint64_t left_out = 0;  // Not written, and not in the number of a line yet.
    std::string user;
    std::int64_t uid = -1;
  };

  /// Counts a refused request. Returns false if its user had more than kMostRefusals within the hour, so that it must
  /// not be written.
  bool CountRefusal(const Entry& entry);
  /// Writes how many refusals were left out in hours that are over. Checks that once an hour.
  void EndRefusals(Time now);
  void WriteLeftOut(Refusals& refused, Time now);
  /// Writes a line with this JSON object.
  void Append(const std::string& object);
  void TurnOver();

  std::string path_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
  std::uint64_t most_bytes_ = kMostBytes;
  std::string chain_;                          // The hash of the last line.
  std::map<std::int64_t, Refusals> refusals_;  // By KeyOf.
  Time looked_at_refusals_ = kNoTime;
};

}  // namespace divvy
