// The keys of submissions (wire::SubmitRequest::key): a client that got no answer repeats its request with the same key
// and gets the job of the first one. A key is a row of the store, in the transaction of its job, so it outlives the
// controller. Used on the loop's thread only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "model/job.h"

namespace divvy {

class SubmissionKeys {
 public:
  using Setting = std::pair<std::string, std::string>;
  /// How long a key is known.
  static constexpr Duration kKept = std::chrono::hours(24);
  /// The limit on known keys per user; when it is reached, the oldest key is forgotten.
  static constexpr std::size_t kMostOfUser = 100'000;

  struct Submission {
    JobId job;
    std::int64_t count = 1;
  };

  /// Fails unless the key has 1 to 100 letters, digits, '.', '_' and '-'.
  static Status Check(std::string_view key);
  /// Loads a row of the store. Returns false if the row does not belong to this class.
  bool LoadSetting(std::string_view key, std::string_view text);
  /// Returns the submission that the user made with this key within kKept.
  std::optional<Submission> Find(std::int64_t uid, const std::string& key, Time now) const;
  /// Records a submission. Returns the rows to store: the new one, and empty ones for keys that are forgotten.
  std::vector<Setting> Add(std::int64_t uid, const std::string& key, const Submission& submission, Time now);
  /// Call when a submission that was recorded with Add could not be stored: forgets the key.
  void Drop(std::int64_t uid, const std::string& key);

 private:
  struct Kept {
    Submission submission;
    Time at = kNoTime;
  };
  struct OfUser {
    std::map<std::string, Kept> keys;
    std::multimap<Time, std::string> by_age;
  };
  void Insert(std::int64_t uid, const std::string& key, const Kept& kept);

  std::map<std::int64_t, OfUser> users_;
};

}  // namespace divvy
