// A part of a step that another node of the job has called: the connection to that node, and the streams of the tasks
// here.
//
// A task's output is read only while the connection has room (kUnsentMost), so memory is bounded and no output is lost.
// A task's end is reported after all its output. Later output of other processes that have a task's streams is not
// waited for.
#pragma once

#include <poll.h>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "platform/os/unique_fd.h"
#include "platform/steps/gang_link.h"

namespace divvy {

class ServedPart {
 public:
  static constexpr std::size_t kUnsentMost = std::size_t{1} << 20;

  explicit ServedPart(std::unique_ptr<GangLink> link) : link_(std::move(link)) {}

  GangLink& link() { return *link_; }
  const GangLink& link() const { return *link_; }

  /// Creates the pipes of rank `rank` for the streams in `is_wanted`. Returns the task's ends, and -1 for streams that
  /// are not wanted; the caller closes them when the task has them. Fails if there are no descriptors left.
  std::optional<std::array<int, 3>> MakePipes(std::size_t rank, const std::array<bool, 3>& is_wanted);
  /// Records the end of a task. `signal` is the signal that ended it; 0: it ended by itself; -1: it could not be
  /// started.
  void OnTaskEnded(std::size_t rank, int signal, int code);
  /// Call when each task has started or failed to start. From then on the part ends when its last task ends.
  void OnAllStarted() { are_all_started_ = true; }
  void OnInput(std::size_t rank, std::string_view bytes);
  /// Reads the tasks' output, writes their input, and reports which tasks have ended.
  void Pump();
  /// True if this part of the step is over, and everything was sent to the node that called the step.
  bool is_over() const { return said_over_ && link_->unsent() == 0; }

  void AddPolls(std::vector<pollfd>& polls) const;

 private:
  struct Output {
    Descriptor pipe;
    char target = '1';
  };
  struct Task {
    std::array<Output, 2> outputs;
    Descriptor input;  // Closed: it reads no input from us.
    std::string unread;
    bool input_ends = false;
    struct End {
      int signal = 0;
      int code = 0;
    };
    std::optional<End> end;
  };
  bool has_room() const { return !link_->is_lost() && link_->unsent() < kUnsentMost; }
  void PumpOutput(std::size_t rank, Output& output, bool has_ended);
  void PumpInput(Task& task);

  std::unique_ptr<GangLink> link_;
  std::map<std::size_t, Task> tasks_;  // By rank; only tasks whose end was not reported yet.
  bool are_all_started_ = false;
  bool said_over_ = false;
};

}  // namespace divvy
