#include "platform/supervisor/node_allocation_start.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/text.h"
#include "platform/os/unique_fd.h"
#include "platform/supervisor/run_record.h"

namespace divvy {
namespace {

constexpr std::size_t kReportMost = 4096;

std::string StagedPath(const std::string& steps) { return steps + ".going"; }
std::string GoPath(const std::string& steps) { return steps + ".go"; }

}  // namespace

JobProgram NodeAllocationProgram(const LaunchAllocation& seat, const std::string& steps, int stop_signal,
                                 JobProgram program) {
  JobProgram own;
  const auto within = std::chrono::duration_cast<std::chrono::milliseconds>(seat.go_within).count();
  own.argv = {seat.starter,           "internal-seat",    steps, std::to_string(seat.seat), std::to_string(stop_signal),
              std::to_string(within), program.shown_name, "--"};
  own.argv.insert(own.argv.end(), program.argv.begin(), program.argv.end());
  own.candidates = {seat.starter};
  own.shown_name = seat.starter;
  return own;
}

std::optional<AllocationReport> ReadAllocationReport(const std::string& steps) {
  // The file belongs to the user, so reading it never blocks and stops at the maximum size of a report.
  const std::string path = steps + ".seat";
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  struct stat about = {};
  if (!file.is_open() || ::fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode)) return std::nullopt;
  std::array<char, kReportMost> text;
  const ssize_t size = ::read(file.get(), text.data(), text.size());
  if (size <= 0) return std::nullopt;
  const RecordFields fields(std::string_view(text.data(), static_cast<std::size_t>(size)));
  AllocationReport report;
  report.port = static_cast<std::uint16_t>(std::clamp<std::int64_t>(fields.Number("port"), 0, 65'535));
  report.failure = fields.Text("failure");
  if (report.port == 0 && report.failure.empty()) return std::nullopt;
  return report;
}

Status StageGo(const std::string& steps, std::string_view gang, std::int64_t uid, std::int64_t gid) {
  const std::string path = StagedPath(steps);
  const auto failed = [&] { return Internal("cannot write '" + path + "': " + std::strerror(errno)); };
  ::unlink(path.c_str());
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.is_open()) return failed();
  if (::geteuid() == 0 && ::fchown(file.get(), static_cast<uid_t>(uid), static_cast<gid_t>(gid)) != 0) return failed();
  if (::write(file.get(), gang.data(), gang.size()) != static_cast<ssize_t>(gang.size())) return failed();
  return {};
}

bool SayGo(const std::string& steps) {
  if (::access(GoPath(steps).c_str(), F_OK) == 0) return true;
  return ::rename(StagedPath(steps).c_str(), GoPath(steps).c_str()) == 0;
}

std::optional<Time> WentAt(const std::string& steps) {
  struct stat about = {};
  if (::lstat(GoPath(steps).c_str(), &about) != 0) return std::nullopt;
  return Time(std::chrono::seconds(about.st_mtim.tv_sec) + std::chrono::nanoseconds(about.st_mtim.tv_nsec));
}

void RemoveAllocationFiles(const std::string& steps) {
  for (const char* end : {".seat", ".going", ".go"}) ::unlink((steps + end).c_str());
}

}  // namespace divvy
