#include "daemon/auth/audit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <utility>

#include "platform/net/audit_chain.h"
#include "wire/json/json.h"
#include "wire/messages/codec.h"
#include "wire/messages/messages.h"

namespace divvy {
namespace {

constexpr std::size_t kKeptOfBody = 400;
constexpr std::size_t kKeptOfPath = 100;

constexpr std::string_view kLeftOut = "...";
constexpr Duration kRefusalsSpan = std::chrono::hours(1);

/// Returns the key under which refusals of this caller count: its uid, or a negative number if it is not known.
std::int64_t KeyOf(const Audit::Entry& entry) {
  if (entry.uid >= 0) return entry.uid;
  return entry.path == "/ui/login" ? -2 : -1;
}

/// Returns true if the request has changed nothing. After 504, the change may still be made.
bool IsRefused(int status) { return status >= 400 && status != 504; }

/// Returns the changed jobs and fields. Commands, scripts and environments are only marked as changed.
std::string ChangeWithoutSecrets(std::string_view body) {
  auto update = wire::Decode<wire::JobUpdate>(body);
  if (!update) return "";
  if (update->command) update->command = {std::string(kLeftOut)};
  if (update->arguments) update->arguments = {std::string(kLeftOut)};
  if (update->script) update->script = kLeftOut;
  if (update->environment) {
    for (std::string& entry : *update->environment)
      entry = entry.substr(0, entry.find('=') + 1) + std::string(kLeftOut);
  }
  return wire::EncodeChanged(*update);
}

/// A service is created or changed, with its command, environment and secrets.
bool DefinesService(std::string_view path) {
  constexpr std::string_view kServices = "/v1/services";
  if (!path.starts_with(kServices)) return false;
  path.remove_prefix(kServices.size());
  return path.find('/', 1) == std::string_view::npos;
}

/// The part of a request body that may be logged: a submission, and the definition of a service, contain a command and
/// an environment.
std::string AskedOpenly(std::string_view path, std::string_view body) {
  if (path == "/v1/jobs" || DefinesService(path)) return "";
  return path == "/v1/jobs/update" ? ChangeWithoutSecrets(body) : std::string(body);
}

struct LogEnd {
  std::string last;          // The last complete line, without its line break; empty if there is none.
  std::uint64_t broken = 0;  // The number of bytes behind it, left by a line that a power cut truncated.
};
LogEnd EndOf(const std::string& path) {
  constexpr std::streamoff kLongest = 16 << 10;
  std::ifstream file(path, std::ios::ate);
  const std::streamoff size = file.tellg();
  file.seekg(std::max<std::streamoff>(0, size - kLongest));
  LogEnd end;
  for (std::string line; std::getline(file, line);) {
    if (file.eof()) end.broken = line.size();
    else end.last = std::move(line);
  }
  return end;
}

// Returns true if an answer on this path contains tokens, or the secrets of webhooks.
bool IsAnsweredInSecret(std::string_view path) {
  return path == "/v1/tokens" || path == "/v1/notify" || DefinesService(path);
}

}  // namespace

Result<Audit> Audit::Open(std::string path, std::uint64_t most_bytes) {
  Audit audit;
  audit.fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  struct stat about {};
  if (audit.fd_ < 0 || ::fstat(audit.fd_, &about) != 0) {
    return PermissionDenied("opening " + path + ": " + std::strerror(errno));
  }
  audit.path_ = std::move(path);
  audit.size_ = static_cast<std::uint64_t>(about.st_size);
  audit.most_bytes_ = most_bytes;
  LogEnd end = EndOf(audit.path_);
  if (end.broken > 0 && ::ftruncate(audit.fd_, static_cast<off_t>(audit.size_ - end.broken)) == 0)
    audit.size_ -= end.broken;
  if (audit.size_ == 0) end = EndOf(audit.path_ + ".1");
  audit.chain_ = ChainOf(end.last).value_or("");
  return audit;
}

Audit::Audit(Audit&& other) noexcept { *this = std::move(other); }

Audit& Audit::operator=(Audit&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(size_, other.size_);
  std::swap(most_bytes_, other.most_bytes_);
  std::swap(chain_, other.chain_);
  std::swap(refusals_, other.refusals_);
  std::swap(looked_at_refusals_, other.looked_at_refusals_);
  return *this;
}

Audit::~Audit() {
  if (fd_ >= 0) ::close(fd_);
}

bool Audit::CountRefusal(const Entry& entry) {
  Refusals& refused = refusals_[KeyOf(entry)];
  if (refused.since == kNoTime || entry.at < refused.since || entry.at - refused.since >= kRefusalsSpan) {
    refused.since = entry.at;
    refused.count = 0;
    refused.user = entry.user;
    refused.uid = entry.uid;
  }
  if (++refused.count <= kMostRefusals) return true;
  ++refused.left_out;
  return false;
}

void Audit::EndRefusals(Time now) {
  constexpr std::size_t kMostUsers = 10'000;
  const auto is_over = [now](Time since) { return since == kNoTime || now < since || now - since >= kRefusalsSpan; };
  const bool is_full = refusals_.size() >= kMostUsers;
  if (!is_full && !is_over(looked_at_refusals_)) return;
  looked_at_refusals_ = now;
  for (auto at = refusals_.begin(); at != refusals_.end();) {
    const bool stays = !is_full && !is_over(at->second.since);
    if (!stays) WriteLeftOut(at->second, now);
    at = stays ? std::next(at) : refusals_.erase(at);
  }
}

void Audit::WriteLeftOut(Refusals& refused, Time now) {
  if (refused.left_out == 0) return;
  std::string line;
  JsonWriter writer(line);
  writer.BeginObject();
  writer.Key("time");
  writer.Number(ToSeconds(now));
  writer.Key("user");
  writer.String(refused.user);
  writer.Key("uid");
  writer.Int(refused.uid);
  writer.Key("refusals_left_out");
  writer.Int(static_cast<std::int64_t>(std::exchange(refused.left_out, 0)));
  writer.EndObject();
  Append(line);
}

void Audit::Write(const Entry& entry) {
  if (fd_ < 0) return;
  EndRefusals(entry.at);
  if (IsRefused(entry.status) && !CountRefusal(entry)) return;
  if (const auto known = refusals_.find(KeyOf(entry)); known != refusals_.end()) WriteLeftOut(known->second, entry.at);
  std::string line;
  JsonWriter writer(line);
  writer.BeginObject();
  writer.Key("time");
  writer.Number(ToSeconds(entry.at));
  writer.Key("user");
  writer.String(entry.user);
  writer.Key("uid");
  writer.Int(entry.uid);
  if (!entry.address.empty()) {
    writer.Key("from");
    writer.String(entry.address);
  }
  writer.Key("asked");
  writer.String(std::string(entry.method.substr(0, kKeptOfPath)) + " " +
                std::string(entry.path.substr(0, kKeptOfPath)));
  if (const std::string asked = AskedOpenly(entry.path, entry.asked); !asked.empty()) {
    writer.Key("with");
    writer.String(asked.substr(0, kKeptOfBody));
  }
  writer.Key("status");
  writer.Int(entry.status);
  if (!entry.answered.empty() && !(IsAnsweredInSecret(entry.path) && entry.status < 300)) {
    writer.Key("answer");
    writer.String(entry.answered.substr(0, kKeptOfBody));
  }
  writer.EndObject();
  Append(line);
}

void Audit::Append(const std::string& object) {
  std::string line = ChainedLine(object, chain_);
  std::string chain = ChainOf(line).value_or("");
  line.push_back('\n');
  if (size_ + line.size() > most_bytes_) TurnOver();
  const ssize_t written = ::write(fd_, line.data(), line.size());
  // If only a part of the line was written, as on a full disk, that part is removed again.
  if (written < static_cast<ssize_t>(line.size())) {
    static_cast<void>(!::ftruncate(fd_, static_cast<off_t>(size_)));
    return;
  }
  size_ += line.size();
  chain_ = std::move(chain);
}

// If a step fails, the old file continues to grow: too long is better than lost. A later call continues at that step.
void Audit::TurnOver() {
  const auto old = [this](int age) { return path_ + "." + std::to_string(age); };
  const std::string fresh_path = path_ + ".new";
  const int fresh = ::open(fresh_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
  if (fresh < 0) return;
  const bool is_done = [&] {
    // If the file is already gone, an earlier attempt has moved it.
    if (::access(path_.c_str(), F_OK) == 0) {
      int free = 1;
      while (free < kOldAuditLogs && ::access(old(free).c_str(), F_OK) == 0) ++free;
      for (int age = free; age > 1; --age) {
        if (::rename(old(age - 1).c_str(), old(age).c_str()) != 0) return false;
      }
      if (::rename(path_.c_str(), old(1).c_str()) != 0) return false;
    }
    return ::rename(fresh_path.c_str(), path_.c_str()) == 0;
  }();
  if (!is_done) {
    ::close(fresh);
    return;
  }
  ::close(std::exchange(fd_, fresh));
  size_ = 0;
}

}  // namespace divvy
