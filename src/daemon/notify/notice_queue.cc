#include "daemon/notify/notice_queue.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/text.h"
#include "driver/notify_rows.h"
#include "wire/messages/codec.h"

namespace divvy {
namespace {

constexpr int kMostDoublings = 20;
constexpr std::size_t kLongestFailure = 300;

/// The amount that one delivery takes from a receiver's allowance, which grows with time, up to the deliveries of one
/// minute.
constexpr double kWhole = 1;
constexpr std::string_view kMail = "mail/";

/// Returns "1000" for "user/1000/phone" and "mail/1000/a@b", and "admin" for "admin/ops".
std::string OwnerOf(std::string_view to) {
  const auto first = to.find('/');
  const std::string_view kind = to.substr(0, first);
  if (kind == "admin" || first == std::string_view::npos) return std::string(kind);
  return std::string(to.substr(first + 1, to.find('/', first + 1) - first - 1));
}

/// Mail is rate-limited per owner, not per address.
std::string AllowanceKey(const std::string& to) {
  return to.starts_with(kMail) ? std::string(kMail) + OwnerOf(to) : to;
}

}  // namespace

NoticeQueue::Setting NoticeQueue::RowOf(const wire::QueuedNotice& notice) {
  const std::string job = notice.notice.job ? ToString(notice.notice.job->id) : "0";
  return {std::string(kNoticeRow) + job + "." + notice.notice.id, wire::EncodeChanged(notice)};
}

NoticeQueue::Setting NoticeQueue::RowOf(const std::string& to, const Line& line) {
  return {std::string(kDeliveriesRow) + to, wire::EncodeChanged(line.kept)};
}

bool NoticeQueue::LoadSetting(std::string_view key, std::string_view text) {
  if (key.starts_with(kNoticeRow)) {
    if (auto notice = wire::Decode<wire::QueuedNotice>(text)) Add(*std::move(notice));
    return true;
  }
  if (!key.starts_with(kDeliveriesRow)) return false;
  if (auto kept = wire::Decode<wire::KeptDeliveries>(text))
    lines_[std::string(key.substr(kDeliveriesRow.size()))].kept = *std::move(kept);
  return true;
}

bool NoticeQueue::TakesFor(const std::string& to) {
  const auto line = lines_.find(to);
  const auto owned = waiting_of_.find(OwnerOf(to));
  const bool has_room = owned == waiting_of_.end() || owned->second < limits_.most_of_an_owner;
  if (has_room && (line == lines_.end() || line->second.waiting.size() < limits_.most_of_one)) return true;
  if (line != lines_.end()) ++line->second.kept.lost;
  return false;
}

void NoticeQueue::Add(wire::QueuedNotice notice) {
  Line& line = lines_[notice.to];
  // Rows arrive in the order of their keys; notices are kept in the order of their times.
  auto at = line.waiting.end();
  const auto first = line.waiting.begin() + (line.is_under_way ? 1 : 0);
  while (at != first && std::prev(at)->notice.time > notice.notice.time) --at;
  ++waiting_of_[OwnerOf(notice.to)];
  line.waiting.insert(at, std::move(notice));
  ++size_;
}

double NoticeQueue::AllowanceOf(const std::string& to, Time now) const {
  const double most = limits_.most_per_minute;
  const auto found = allowances_.find(AllowanceKey(to));
  if (found == allowances_.end()) return most;
  return std::min(most, found->second.left + ToSeconds(std::max(now - found->second.at, Duration(0))) * most / 60);
}

Time NoticeQueue::DueOf(const std::string& to, const Line& line, Time now) const {
  if (line.waiting.empty() || line.is_under_way) return kNever;
  const double lacks = kWhole - AllowanceOf(to, now);
  const double seconds = lacks > 0 ? lacks * 60 / limits_.most_per_minute : 0;
  return std::max(line.not_before, now + std::chrono::nanoseconds(std::llround(std::ceil(seconds * 1000) * 1e6)));
}

std::vector<wire::QueuedNotice> NoticeQueue::Take(Time now) {
  std::vector<wire::QueuedNotice> due;
  for (auto& [to, line] : lines_) {
    if (under_way_ >= limits_.most_at_once) break;
    if (DueOf(to, line, now) > now) continue;
    allowances_[AllowanceKey(to)] = {AllowanceOf(to, now) - kWhole, now};
    line.is_under_way = true;
    ++under_way_;
    due.push_back(line.waiting.front());
  }
  return due;
}

Time NoticeQueue::NextDue(Time now) const {
  Time next = kNever;
  if (under_way_ >= limits_.most_at_once) return next;
  for (const auto& [to, line] : lines_) next = std::min(next, DueOf(to, line, now));
  return next;
}

// Varies by up to a fifth, so that deliveries that failed together are not retried together.
Duration NoticeQueue::RetryAfter(const Line& line, const std::string& id, double wanted_s) const {
  const double doubled = std::ldexp(ToSeconds(limits_.retry_after), std::min(line.failures - 1, kMostDoublings));
  const auto draw = static_cast<double>(std::hash<std::string>()(id + std::to_string(line.failures)) % 1000) / 1000;
  const double seconds = std::min(doubled * (0.8 + 0.4 * draw), ToSeconds(kLongestRetry));
  return std::chrono::nanoseconds(std::llround(std::max(seconds, wanted_s) * 1e9));
}

std::vector<NoticeQueue::Setting> NoticeQueue::OnResult(const std::string& to, const std::string& id,
                                                        const wire::DeliveryResult& result, Time now) {
  const auto found = lines_.find(to);
  if (found == lines_.end() || !found->second.is_under_way || found->second.waiting.front().notice.id != id) return {};
  Line& line = found->second;
  line.is_under_way = false;
  --under_way_;
  if (result.is_done) {
    line.failures = 0;
    line.not_before = kNoTime;
    ++line.kept.sent;
    line.kept.last_success = ToSeconds(now);
    line.kept.failure.clear();
  } else {
    line.kept.last_failure = ToSeconds(now);
    line.kept.failure = result.message.substr(0, kLongestFailure);
    const bool is_too_old = now - TimeFromSeconds(line.waiting.front().notice.time) >= limits_.give_up_after;
    if (result.may_try_again && !is_too_old) {
      ++line.failures;
      line.not_before = now + RetryAfter(line, id, result.try_after_s);
      return {RowOf(to, line)};
    }
    ++line.kept.lost;
  }
  std::vector<Setting> rows = {{RowOf(line.waiting.front()).first, ""}, RowOf(to, line)};
  line.waiting.pop_front();
  --size_;
  --waiting_of_[OwnerOf(to)];
  ForgetMails(to, rows);
  return rows;
}

void NoticeQueue::ForgetMails(const std::string& to, std::vector<Setting>& rows) {
  if (!to.starts_with(kMail)) return;
  const std::string prefix = AllowanceKey(to) + "/";
  const auto last = [](const Line& line) { return std::max(line.kept.last_success, line.kept.last_failure); };
  std::size_t idle = 0;
  auto oldest = lines_.end();
  for (auto line = lines_.lower_bound(prefix); line != lines_.end() && line->first.starts_with(prefix); ++line) {
    if (!line->second.waiting.empty()) continue;
    ++idle;
    if (oldest == lines_.end() || last(line->second) < last(oldest->second)) oldest = line;
  }
  if (idle <= kMostMails) return;
  rows.emplace_back(std::string(kDeliveriesRow) + oldest->first, "");
  lines_.erase(oldest);
}

std::vector<NoticeQueue::Setting> NoticeQueue::Drop(const std::string& to) {
  std::vector<Setting> rows;
  const auto found = lines_.find(to);
  if (found == lines_.end()) return rows;
  for (const wire::QueuedNotice& notice : found->second.waiting) rows.emplace_back(RowOf(notice).first, "");
  rows.emplace_back(std::string(kDeliveriesRow) + to, "");
  size_ -= found->second.waiting.size();
  waiting_of_[OwnerOf(to)] -= found->second.waiting.size();
  if (found->second.is_under_way) --under_way_;
  lines_.erase(found);
  return rows;
}

NoticeQueue::Counts NoticeQueue::Of(const std::string& to) const {
  const auto found = lines_.find(to);
  if (found == lines_.end()) return {};
  const Line& line = found->second;
  Counts counts{line.kept, line.waiting.size(), kNever};
  if (!line.waiting.empty()) counts.next_try = std::max(line.not_before, kNoTime);
  return counts;
}

std::vector<std::string> NoticeQueue::Receivers() const {
  std::vector<std::string> names;
  for (const auto& [to, line] : lines_) names.push_back(to);
  return names;
}

}  // namespace divvy
