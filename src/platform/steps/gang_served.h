// A step's part that another machine of the job has asked for: the connection to it, and the streams of the tasks here.
//
// What a task writes is read while there is room on the connection (kUnsentMost), so that nothing grows without bounds
// and nothing is lost; a task's end is told after all that it wrote. What somebody else who has a task's streams still
// writes later is not waited for.
#pragma once

#include <poll.h>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "platform/os/launch_descriptor.h"
#include "platform/steps/gang_link.h"

namespace divvy {

class ServedPart {
 public:
  static constexpr std::size_t kUnsentMost = std::size_t{1} << 20;

  explicit ServedPart(std::unique_ptr<GangLink> link) : link_(std::move(link)) {}

  GangLink& link() { return *link_; }
  const GangLink& link() const { return *link_; }

  /// Makes the pipes of rank `rank` for the streams in `is_wanted`; the task's ends, -1 where there is none. They are
  /// the caller's to close, when the task has them. Fails when there are no descriptors left.
  std::optional<std::array<int, 3>> MakePipes(std::size_t rank, const std::array<bool, 3>& is_wanted);
  /// `signal` 0: it ended by itself; -1: it could not be started.
  void OnTaskEnded(std::size_t rank, int signal, int code);
  /// All tasks have been started, or could not be: the last end is the part's.
  void OnAllStarted() { are_all_started_ = true; }
  void OnInput(std::size_t rank, std::string_view bytes);
  /// Reads what tasks have written, writes what they are to read, says which have ended.
  void Pump();
  /// All is said, and all that was said is sent.
  bool is_over() const { return said_over_ && link_->unsent() == 0; }

  void AddPolls(std::vector<pollfd>& polls) const;

 private:
  struct Output {
    Descriptor pipe;
    char target = '1';
  };
  struct Task {
    std::array<Output, 2> outputs;
    Descriptor input;  // Closed: it reads none from us.
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
  std::map<std::size_t, Task> tasks_;  // By rank; those whose end has not been told.
  bool are_all_started_ = false;
  bool said_over_ = false;
};

}  // namespace divvy
