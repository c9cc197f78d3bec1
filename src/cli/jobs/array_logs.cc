// The logs of an array: those of its elements, each under a heading, like tail with several files.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "base/text.h"
#include "cli/client/command.h"
#include "cli/client/job_text.h"
#include "cli/jobs/log_file.h"
#include "model/job_record.h"

namespace divvy::cli {
namespace {

constexpr auto kShortestPause = std::chrono::milliseconds(100);
constexpr std::size_t kMostNamed = 3;  // At most this many elements of one shared file are named.

/// A log file that one element of the array writes, or several elements that share it.
struct Part {
  std::vector<std::string> elements;  // "5_0", "5_1 lr=1e-3".
  LogFile file;
  std::string held;  // The beginning of an incomplete line.
  std::size_t running = 0;
  bool was_read = false;  // Read to its end, after its last element had ended.
  bool is_elsewhere = false;
};

class ArrayLogs {
 public:
  ArrayLogs(Api& api, const wire::JobDetail& array, const LogFlags& flags) : api_(api), id_(array.id), flags_(flags) {}

  int Print() {
    if (const Status listed = List(); !listed) return Fail(listed.error());
    if (parts_.empty()) return Fail(NothingYet());
    if (flags_.is_path) {
      for (const Part* part : order_) std::printf("%s\n", part->file.path().c_str());
      return 0;
    }
    int code = 0;
    for (Part* part : order_) {
      Begin(*part);
      while (true) {
        const std::string text = part->file.Next();
        if (text.empty()) break;
        SayDropped(*part);
        Write(text);
      }
      if (part->file.error() == 0) continue;
      std::fflush(stdout);
      code = Fail(NotFound(part->file.trouble()));
    }
    std::fflush(stdout);
    return code;
  }

  int Follow() {
    while (true) {
      // Query the state before reading the files, so that everything written before the end is read.
      const auto array = api_.Job(ToString(id_));
      const auto state = array ? JobStateFromName(array->state) : std::nullopt;
      const auto begin = std::chrono::steady_clock::now();
      const Status listed = array ? List() : Status(array.error());
      if (!listed && listed.error().code != ErrorCode::kUnreachable) return Fail(listed.error());
      for (Part* part : order_) PrintNew(*part);
      std::fflush(stdout);
      if (listed && state && IsFinal(*state)) return Unread();
      if (!listed) {
        if (auto again = Api::Connect()) api_ = *std::move(again);
      }
      // Poll large arrays less often.
      Pause(std::max<Duration>(kShortestPause, 5 * (std::chrono::steady_clock::now() - begin)));
    }
  }

 private:
  /// Reports files on unreachable nodes. Returns the exit code.
  int Unread() {
    int code = 0;
    for (const Part* part : order_) {
      if (part->is_elsewhere && part->file.error() != 0) code = Fail(Unreachable(part->file.trouble()));
    }
    return code;
  }

  Error NothingYet() const {
    const std::string id = ToString(id_);
    return FailedPrecondition("no element of array " + id + " has started, so there is no log yet (divvy why " + id +
                              ")");
  }

  static void Pause(Duration length) {
    const timespec pause{static_cast<std::time_t>(length / std::chrono::seconds(1)),
                         static_cast<long>((length % std::chrono::seconds(1)).count())};
    ::nanosleep(&pause, nullptr);
  }

  /// Adds the elements that have started since the last call.
  Status List() {
    wire::JobSelector select;
    select.user = "all";
    select.array = id_;
    select.includes_final = true;
    DIVVY_TRY(std::vector<wire::JobView> jobs, api_.Jobs(select));
    std::ranges::sort(jobs, {}, [](const wire::JobView& job) { return job.array_index.value_or(0); });
    for (auto& [path, part] : parts_) part.running = 0;
    for (const wire::JobView& job : jobs) {
      if (!job.start_time) continue;
      auto known = path_of_.find(job.id);
      if (known == path_of_.end()) {
        DIVVY_TRY(const wire::JobDetail detail, api_.Job(ToString(job.id)));
        const std::string path = LogPath(detail, flags_);
        if (path.empty())
          return PermissionDenied("job " + job.display_id + " belongs to " + job.user +
                                  ", and only that user may see where its output is");
        known = path_of_.emplace(job.id, path).first;
        Add(detail, path);
      }
      const auto state = JobStateFromName(job.state);
      if (!state || !IsFinal(*state)) ++parts_.at(known->second).running;
    }
    return {};
  }

  void Add(const wire::JobDetail& detail, const std::string& path) {
    std::string name = detail.display_id;
    for (const auto& [parameter, value] : detail.parameters) name += " " + parameter + "=" + value;
    const auto [at, is_new] =
        parts_.try_emplace(path, Part{{}, OpenLogFile(api_, detail, flags_), "", 0, false, false});
    if (is_new) order_.push_back(&at->second);
    at->second.is_elsewhere = IsElsewhere(detail);
    at->second.elements.push_back(std::move(name));
    at->second.was_read = false;
  }

  void Begin(const Part& part) {
    if (&part == shown_) return;
    std::string names;
    for (std::size_t i = 0; i < std::min(part.elements.size(), kMostNamed); ++i)
      names += (i > 0 ? ", " : "") + part.elements[i];
    if (part.elements.size() > kMostNamed)
      names += " and " + std::to_string(part.elements.size() - kMostNamed) + " more";
    if (shown_ != nullptr) Write(ended_line_ ? "\n" : "\n\n");
    Write(Paint(Colour::kBold, "==> " + names + " <==") + "\n");
    shown_ = &part;
  }

  static void SayDropped(const Part& part) {
    if (part.file.dropped() > 0) std::fflush(stdout);
    NoteDropped(part.file, part.elements.front());
  }

  void Write(std::string_view text) {
    if (text.empty()) return;
    std::fwrite(text.data(), 1, text.size(), stdout);
    ended_line_ = text.back() == '\n';
  }

  /// Prints whole lines, so that those of different elements do not mix. Prints an incomplete line once no element can
  /// continue it.
  void PrintNew(Part& part) {
    if (part.was_read) return;
    const bool is_final = part.running == 0;
    while (true) {
      const std::string text = part.file.Next();
      if (text.empty()) break;
      SayDropped(part);
      part.held += text;
      const auto end = part.held.rfind('\n');
      if (end == std::string::npos) continue;
      Begin(part);
      Write(std::string_view(part.held).substr(0, end + 1));
      part.held.erase(0, end + 1);
    }
    if (!is_final) return;
    part.was_read = true;
    if (part.held.empty()) return;
    Begin(part);
    Write(part.held);
    part.held.clear();
  }

  Api& api_;
  JobId id_;
  LogFlags flags_;
  std::map<std::string, Part> parts_;  // By path.
  std::vector<Part*> order_;           // In the order of discovery: by index, later ones at the end.
  std::map<JobId, std::string> path_of_;
  const Part* shown_ = nullptr;
  bool ended_line_ = true;
};

}  // namespace

int PrintArrayLogs(Api& api, const wire::JobDetail& array, const LogFlags& flags) {
  ArrayLogs logs(api, array, flags);
  return flags.follows && !flags.is_path ? logs.Follow() : logs.Print();
}

}  // namespace divvy::cli
