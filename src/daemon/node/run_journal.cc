#include "daemon/node/run_journal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <utility>

#include "base/text.h"
#include "daemon/node/machine.h"
#include "wire/messages/agent_codec.h"
#include "wire/messages/agent_messages.h"

namespace divvy {
namespace {

/// Returns a copy of the record with only those fields that Controller::Replay reads.
JobRecord Essence(const JobRecord& record) {
  JobRecord kept;
  kept.id = record.id;
  kept.attempt = record.attempt;
  kept.submitted = record.submitted;
  kept.started = record.started;
  kept.state = record.state;
  kept.restarts = record.restarts;
  kept.retries_used = record.retries_used;
  kept.node = record.node;
  kept.gpus = record.gpus;
  kept.gang = record.gang;
  kept.was_let_go = record.was_let_go;
  kept.gpu_slice = record.gpu_slice;
  kept.pool = record.pool_of_run;
  kept.array_count = record.array_count;
  return kept;
}

std::string Line(const RunDescription& run) {
  return "run " + ToString(run.record.id) + " " + std::to_string(run.record.attempt) + " " + wire::EncodeAgent(run) +
         "\n";
}

std::string LaunchLine(const JobRecord& record) {
  RunDescription run;
  run.record = Essence(record);
  run.gpu_parts = record.gpu_parts.ten_thousandths();
  return Line(run);
}

std::string EndLine(const JobRecord& record, bool runs_again) {
  RunDescription run;
  run.record = Essence(record);
  run.record.gpus = GpuSet();
  run.record.gang.clear();
  run.exit = record.exit;
  if (run.exit) run.exit->steps.clear();
  run.ended = record.ended;
  run.reason = record.reason;
  run.runs_again = runs_again;
  return Line(run);
}

}  // namespace

Result<RunJournal> RunJournal::Open(const std::string& path, std::int64_t max_size) {
  RunJournal journal(path, max_size);
  DIVVY_CHECK(journal.OpenFile());
  return journal;
}

Status RunJournal::OpenFile() {
  file_.Reset(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  struct stat status = {};
  if (!file_.is_open() || ::fstat(file_.get(), &status) != 0)
    return FailedPrecondition("cannot open the run journal " + path_ + ": " + std::strerror(errno));
  size_ = status.st_size;
  // A daemon that was killed may have left a partial line; the next line starts on its own.
  if (size_ > 0 && ::write(file_.get(), "\n", 1) == 1) ++size_;
  return {};
}

Result<RunJournal::Kept> RunJournal::Read(const std::function<bool(JobId, std::uint32_t)>& wants,
                                          const std::function<void(const RunDescription&)>& take) {
  Kept kept;
  std::vector<RunDescription> runs;
  std::map<JobId, std::size_t> last;  // The last line of each job.
  for (const std::string& path : {path_ + ".1", path_}) {
    if (::access(path.c_str(), F_OK) != 0) continue;
    const auto text = ReadWhole(path);
    if (!text) return text.error();
    std::string_view rest = *text;
    for (std::size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
      const std::string_view line = rest.substr(0, end);
      rest.remove_prefix(end + 1);
      const std::size_t first = line.find(' ');
      if (first == std::string_view::npos) continue;
      const std::string_view kind = line.substr(0, first), value = line.substr(first + 1);
      if (kind == "run") {
        const std::size_t second = value.find(' '), third = value.find(' ', second + 1);
        if (second == std::string_view::npos || third == std::string_view::npos) continue;
        const auto job = ParseInteger(value.substr(0, second));
        const auto attempt = ParseInteger(value.substr(second + 1, third - second - 1));
        if (!job || !attempt || *job <= 0 || *attempt < 0) continue;
        if (!wants(JobId(static_cast<std::uint64_t>(*job)), static_cast<std::uint32_t>(*attempt))) continue;
        if (auto run = wire::DecodeAgent<RunDescription>(value.substr(third + 1))) {
          last[run->record.id] = runs.size();
          runs.push_back(*std::move(run));
        }
      } else if (const auto number = ParseInteger(value); number && *number > 0) {
        const auto counter = static_cast<std::uint64_t>(*number);
        if (kind == "next") kept.next_id = std::max(kept.next_id, counter);
        if (kind == "epoch") kept.epoch = std::max(kept.epoch, counter);
      }
    }
  }
  std::map<JobId, std::uint32_t> ended;  // The newest attempt that ends in a later line.
  std::vector<bool> is_superseded(runs.size());
  for (std::size_t i = runs.size(); i-- > 0;) {
    const JobRecord& record = runs[i].record;
    const auto at = ended.find(record.id);
    if (runs[i].runs_again || IsFinal(record.state)) ended.try_emplace(record.id, record.attempt);
    else is_superseded[i] = at != ended.end() && at->second >= record.attempt;
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (is_superseded[i]) continue;
    // The job had ended, and its owner has queued it again.
    if (IsFinal(runs[i].record.state) && last.at(runs[i].record.id) != i) runs[i].runs_again = true;
    take(runs[i]);
  }
  next_id_ = kept.next_id;
  epoch_ = kept.epoch;
  return kept;
}

Status RunJournal::ReserveIds(std::uint64_t next_id) {
  if (next_id <= next_id_) return {};
  DIVVY_CHECK(Append("next " + std::to_string(next_id) + "\n"));
  next_id_ = next_id;
  return {};
}

// Ends first: a run that is launched may use GPUs of one that ended in the same step.
Status RunJournal::Write(const Effects& effects) {
  std::string lines;
  for (const JobRecord& record : effects.batch.past_runs) lines += EndLine(record, true);
  for (const JobRecord& record : effects.finished) {
    if (record.array_count == 0) lines += EndLine(record, false);
  }
  for (const NodeCommand& command : effects.commands) {
    if (const auto* launch = std::get_if<LaunchCommand>(&command); launch != nullptr && launch->allocation_index == 0)
      lines += LaunchLine(launch->record);
    const auto* go = std::get_if<GoCommand>(&command);
    if (go == nullptr) continue;
    const auto gang = std::ranges::find(effects.batch.updates, go->job, &JobRecord::id);
    if (gang != effects.batch.updates.end() && gang->gang.front().node == go->node) lines += LaunchLine(*gang);
  }
  return lines.empty() ? Status() : Append(lines);
}

Status RunJournal::WriteEpoch(std::uint64_t epoch) {
  epoch_ = epoch;
  return Append("epoch " + std::to_string(epoch) + "\n");
}

Status RunJournal::Append(const std::string& lines) {
  if (size_ > max_size_) {
    ::rename(path_.c_str(), (path_ + ".1").c_str());
    DIVVY_CHECK(OpenFile());
    if (next_id_ > 0) DIVVY_CHECK(Append("next " + std::to_string(next_id_) + "\n"));
    if (epoch_ > 0) DIVVY_CHECK(Append("epoch " + std::to_string(epoch_) + "\n"));
  }
  const ssize_t written = ::write(file_.get(), lines.data(), lines.size());
  if (written > 0) size_ += written;
  if (written == static_cast<ssize_t>(lines.size())) return {};
  const std::string why = written < 0 ? std::strerror(errno) : "the disk is full";
  if (written > 0 && ::ftruncate(file_.get(), size_ -= written) != 0) static_cast<void>(OpenFile());
  return FailedPrecondition("cannot write the run journal " + path_ + ": " + why +
                            "; a backup restored now may miss runs started since it was made");
}

}  // namespace divvy
