#include "daemon/requests/submission_keys.h"

#include <algorithm>

#include "base/text.h"
#include "driver/submission_rows.h"

namespace divvy {

Status SubmissionKeys::Check(std::string_view key) {
  constexpr std::size_t kLongest = 100;
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  if (!key.empty() && key.size() <= kLongest && std::ranges::all_of(key, is_plain)) return {};
  return InvalidArgument("'" + std::string(key.substr(0, kLongest)) +
                         "' is not a key: write 1 to 100 letters, digits, '.', '_' and '-'");
}

// The row's text: user id, number of elements, time in nanoseconds since 1970, key.
bool SubmissionKeys::LoadSetting(std::string_view key, std::string_view text) {
  const auto job = JobOfSubmissionRow(key);
  if (!job) return false;
  const auto words = Split(text, ' ');
  const auto uid = words.size() == 4 ? ParseInteger(words[0]) : std::nullopt;
  const auto count = uid ? ParseInteger(words[1]) : std::nullopt;
  const auto at = count ? ParseInteger(words[2]) : std::nullopt;
  if (at) Insert(*uid, std::string(words[3]), {{*job, *count}, Time(Duration(*at))});
  return true;
}

void SubmissionKeys::Insert(std::int64_t uid, const std::string& key, const Kept& kept) {
  OfUser& user = users_[uid];
  user.keys.insert_or_assign(key, kept);
  user.by_age.emplace(kept.at, key);
}

std::optional<SubmissionKeys::Submission> SubmissionKeys::Find(std::int64_t uid, const std::string& key,
                                                               Time now) const {
  const auto user = users_.find(uid);
  if (user == users_.end()) return std::nullopt;
  const auto kept = user->second.keys.find(key);
  if (kept == user->second.keys.end() || kept->second.at < now - kKept) return std::nullopt;
  return kept->second.submission;
}

std::vector<SubmissionKeys::Setting> SubmissionKeys::Add(std::int64_t uid, const std::string& key,
                                                         const Submission& submission, Time now) {
  std::vector<Setting> rows;
  OfUser& user = users_[uid];
  while (!user.by_age.empty() && (user.by_age.begin()->first < now - kKept || user.by_age.size() >= kMostOfUser)) {
    const auto oldest = user.by_age.begin();
    if (const auto kept = user.keys.find(oldest->second); kept != user.keys.end() && kept->second.at == oldest->first) {
      rows.emplace_back(SubmissionRow(kept->second.submission.job), "");
      user.keys.erase(kept);
    }
    user.by_age.erase(oldest);
  }
  Insert(uid, key, {submission, now});
  rows.emplace_back(SubmissionRow(submission.job), std::to_string(uid) + " " + std::to_string(submission.count) + " " +
                                                       std::to_string(now.time_since_epoch().count()) + " " + key);
  return rows;
}

void SubmissionKeys::Drop(std::int64_t uid, const std::string& key) {
  const auto user = users_.find(uid);
  if (user != users_.end()) user->second.keys.erase(key);
}

}  // namespace divvy
