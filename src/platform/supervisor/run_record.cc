#include "platform/supervisor/run_record.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/text.h"
#include "model/job_record.h"
#include "platform/isolation/job_cgroup.h"
#include "platform/isolation/job_mounts.h"
#include "platform/os/process_tree.h"
#include "platform/os/unique_fd.h"
#include "platform/records/gang_files.h"
#include "platform/records/step_list_file.h"

namespace divvy {
namespace {

std::string FormatIdentity(const ProcessIdentity& process) {
  return std::to_string(process.pid) + " " + std::to_string(process.start_ticks);
}

ProcessIdentity ParseIdentity(std::string_view text) {
  const auto words = SplitWords(text);
  if (words.size() != 2) return {};
  return {.pid = ParseInteger(words[0]).value_or(0),
          .start_ticks = static_cast<std::uint64_t>(ParseInteger(words[1]).value_or(0))};
}

bool IsLocked(int fd) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  return ::fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

std::string ReadAll(int fd) {
  std::string text;
  char block[4096];
  ssize_t size = 0;
  while ((size = ::read(fd, block, sizeof block)) > 0) text.append(block, static_cast<std::size_t>(size));
  return text;
}

std::optional<RunRecord> ReadRecord(int directory, JobId job) {
  const Descriptor file(::openat(directory, ToString(job).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file.is_open()) return std::nullopt;
  // Only the daemon's own user or root creates records here. Any other file could give its author a job's identity.
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      (status.st_uid != ::geteuid() && status.st_uid != 0) || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return std::nullopt;
  }
  // The lock is read first: if it is free, nothing is written any more, so the content read after it is final.
  const bool is_alive = IsLocked(file.get());
  const std::string text = ReadAll(file.get());
  RunRecord record = ReadRecordFields(RecordFields(text));
  if (record.job.is_set() && record.job != job) return std::nullopt;
  record.job = job;
  record.is_supervisor_alive = is_alive;
  return record;
}

}  // namespace

RunState StateOf(const RunRecord& record) {
  if (record.exit) return RunState::kEnded;
  if (record.is_supervisor_alive) return RunState::kWatched;
  if (record.process.pid == 0) return RunState::kNeverStarted;
  if (IsAlive(record.guard)) return RunState::kWatched;
  return IsAlive(record.process) ? RunState::kOrphaned : RunState::kVanished;
}

Result<std::vector<RunRecord>> ScanRunDirectory(const std::string& run_directory) {
  DIR* directory = ::opendir(run_directory.c_str());
  if (directory == nullptr) {
    return Internal("cannot read the run directory '" + run_directory + "': " + std::strerror(errno));
  }
  std::vector<RunRecord> records;
  while (const dirent* entry = ::readdir(directory)) {
    const auto id = ParseInteger(entry->d_name);
    if (!id || *id <= 0) continue;
    auto record = ReadRecord(::dirfd(directory), JobId(static_cast<std::uint64_t>(*id)));
    if (record) records.push_back(*std::move(record));
  }
  ::closedir(directory);
  std::sort(records.begin(), records.end(), [](const RunRecord& a, const RunRecord& b) { return a.job < b.job; });
  return records;
}

Result<RunRecord> ReadRunRecord(const std::string& run_directory, JobId job) {
  const Descriptor directory(::open(run_directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory.is_open()) {
    return Internal("cannot read the run directory '" + run_directory + "': " + std::strerror(errno));
  }
  if (auto record = ReadRecord(directory.get(), job)) return *std::move(record);
  return NotFound("job " + ToString(job) + " has no run record");
}

std::string GpusFile(const std::string& run_directory, JobId job) {
  return run_directory + "/" + ToString(job) + ".gpus";
}

std::optional<GpuSet> ReadGpusFile(const std::string& run_directory, JobId job) {
  const Descriptor file(::open(GpusFile(run_directory, job).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file.is_open()) return std::nullopt;
  const std::string text = ReadAll(file.get());
  GpuSet gpus;
  for (const std::string_view word : Split(Trim(text), ',')) {
    const auto gpu = ParseInteger(word);
    if (!gpu || *gpu < 0 || *gpu >= GpuSet::kCapacity) return std::nullopt;
    gpus.Insert(static_cast<GpuIndex>(*gpu));
  }
  return gpus;
}

Status WriteGpusFile(const std::string& run_directory, JobId job, GpuSet gpus) {
  const std::string path = GpusFile(run_directory, job);
  const std::string fresh = path + ".new";
  const std::string text = GpuListText(gpus) + "\n";
  // The job's user must be able to read it.
  const Descriptor file(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (file.is_open()) ::fchmod(file.get(), 0644);
  const bool is_written =
      file.is_open() && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (is_written && ::rename(fresh.c_str(), path.c_str()) == 0) return {};
  const int error = errno;
  ::unlink(fresh.c_str());
  return Internal("cannot write '" + path + "': " + std::strerror(error));
}

void RemoveRunRecord(const std::string& run_directory, const RunRecord& record) {
  const std::string prefix = run_directory + "/";
  // The record itself is removed last: without it, the leftovers of a crashed supervisor could not be found.
  if (!record.script.empty() && record.script.find('/') == std::string::npos) {
    ::unlink((prefix + record.script).c_str());
  }
  if (!record.cgroup.empty()) JobCgroup::Open(record.cgroup).Remove();
  if (!record.own_tmp.empty()) SetAsideOwnTmp(record.own_tmp);
  ::unlink(GpusFile(run_directory, record.job).c_str());
  RemoveStepList(run_directory, record.uid, record.job.value());
  RemoveAllocationFiles(StepListPath(run_directory, record.uid, record.job.value()));
  ::unlink((prefix + ToString(record.job)).c_str());
}

void AddWatch(const RunRecord& record, RecordWriter& out) {
  out.Add("job", static_cast<std::int64_t>(record.job.value()));
  out.Add("attempt", record.attempt);
  out.Add("supervisor", FormatIdentity(record.supervisor));
  out.Add("guard", record.guard.pid != 0 ? FormatIdentity(record.guard) : "");
  out.Add("control", record.control);
  out.Add("secret", record.secret);
  if (record.commander >= 0) out.Add("commander", record.commander);
  out.Add("uid", record.uid);
  out.Add("gid", record.gid);
  if (!record.script.empty()) out.Add("script", record.script);
  if (!record.cgroup.empty()) out.Add("cgroup", record.cgroup);
  if (!record.own_tmp.empty()) out.Add("own_tmp", record.own_tmp);
  if (record.lease.is_set()) out.Add("lease", record.lease.boot_id + " " + record.lease.file);
  if (record.is_part) out.Add("part", 1);
}

void AddProcess(const RunRecord& record, RecordWriter& out) {
  if (record.process.pid != 0) out.Add("process", FormatIdentity(record.process));
  if (record.port != 0) out.Add("port", record.port);
  if (record.has_gone) out.Add("gone", 1);
  out.Add("started", record.started.time_since_epoch().count());
}

void AddExit(const RunRecord& record, RecordWriter& out) {
  const Exit& exit = *record.exit;
  out.Add("code", exit.code);
  out.Add("signal", exit.signal);
  if (exit.was_oom_killed) out.Add("oom", 1);
  if (exit.hit_time_limit) out.Add("time_limit", 1);
  if (!exit.is_known) out.Add("unknown", 1);
  if (!exit.failure.empty()) out.Add("failure", exit.failure);
  out.Add("cpu", exit.cpu_time.count());
  out.Add("memory_peak", exit.memory_peak.count());
  if (record.was_cut_off) out.Add("cut_off", 1);
  if (record.refused_devices > 0) out.Add("refused_devices", record.refused_devices);
  out.Add("ended", record.ended.time_since_epoch().count());
  out.Add("complete", 1);
}

RunRecord ReadRecordFields(const RecordFields& fields) {
  RunRecord record;
  record.job = JobId(static_cast<std::uint64_t>(std::max<std::int64_t>(0, fields.Number("job"))));
  record.attempt = static_cast<std::uint32_t>(fields.Number("attempt"));
  record.supervisor = ParseIdentity(fields.Text("supervisor"));
  record.guard = ParseIdentity(fields.Text("guard"));
  record.process = ParseIdentity(fields.Text("process"));
  record.control = fields.Text("control");
  record.secret = fields.Text("secret");
  record.commander = fields.Text("commander").empty() ? -1 : fields.Number("commander");
  record.uid = fields.Text("uid").empty() ? -1 : fields.Number("uid");
  record.gid = fields.Text("gid").empty() ? -1 : fields.Number("gid");
  record.script = fields.Text("script");
  record.cgroup = fields.Text("cgroup");
  record.own_tmp = fields.Text("own_tmp");
  const std::string_view lease = fields.Text("lease");
  if (const std::size_t blank = lease.find(' '); blank != std::string_view::npos)
    record.lease = {.file = std::string(lease.substr(blank + 1)), .boot_id = std::string(lease.substr(0, blank))};
  record.about = fields.Text("about");
  record.started = Time(Duration(fields.Number("started")));
  record.is_part = fields.Number("part") == 1;
  record.port = static_cast<std::uint16_t>(fields.Number("port"));
  record.has_gone = fields.Number("gone") == 1;
  record.delay = fields.Text("delay");
  // The exit is valid only with its last line: after a power loss the disk may hold a part of a write.
  if (fields.Number("complete") != 1) return record;
  Exit exit;
  exit.code = static_cast<int>(fields.Number("code"));
  exit.signal = static_cast<int>(fields.Number("signal"));
  exit.was_oom_killed = fields.Number("oom") == 1;
  exit.hit_time_limit = fields.Number("time_limit") == 1;
  exit.is_known = fields.Number("unknown") != 1;
  exit.failure = fields.Text("failure");
  exit.cpu_time = Duration(fields.Number("cpu"));
  exit.memory_peak = Bytes(fields.Number("memory_peak"));
  record.exit = std::move(exit);
  record.ended = Time(Duration(fields.Number("ended")));
  record.was_cut_off = fields.Number("cut_off") == 1;
  record.refused_devices = fields.Number("refused_devices");
  return record;
}

}  // namespace divvy
