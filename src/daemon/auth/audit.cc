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
  return *this;
}

Audit::~Audit() {
  if (fd_ >= 0) ::close(fd_);
}

bool Audit::CountRefusal(const Entry& entry) {
  constexpr Duration kSpan = std::chrono::hours(1);
  constexpr std::size_t kMostUsers = 10'000;
  if (refusals_.size() >= kMostUsers) refusals_.clear();
  Refusals& refused = refusals_[entry.uid];
  if (refused.since == kNoTime || entry.at < refused.since || entry.at - refused.since >= kSpan)
    refused = {.since = entry.at, .count = 0};
  return ++refused.count <= kMostRefusals;
}

void Audit::Write(const Entry& entry) {
  if (fd_ < 0 || (entry.status >= 400 && !CountRefusal(entry))) return;
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
  line = ChainedLine(line, chain_);
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

void Audit::TurnOver() {
  for (int age = kOldAuditLogs; age > 1; --age) {
    // A log that does not exist yet is not moved.
    static_cast<void>(
        ::rename((path_ + "." + std::to_string(age - 1)).c_str(), (path_ + "." + std::to_string(age)).c_str()));
  }
  // If the file is missing, an earlier attempt has renamed it and then failed to create the new one.
  const bool is_aside = ::rename(path_.c_str(), (path_ + ".1").c_str()) == 0 || errno == ENOENT;
  const int fresh = is_aside ? ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
  if (fresh < 0) return;  // The old file continues to grow: too long is better than lost.
  ::close(std::exchange(fd_, fresh));
  size_ = 0;
}

}  // namespace divvy
