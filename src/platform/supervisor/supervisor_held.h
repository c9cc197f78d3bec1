// The outputs of a foreground job whose pipes an agent reads: held as well by its supervisor, so that a job does not
// die of SIGPIPE with its agent. While the agent lives, it alone reads, and says which of them nobody reads any more;
// when it is gone, what it had not read and what the job writes from then on goes to the job's log.
#pragma once

#include <poll.h>

#include <array>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "platform/os/foreign_descriptor.h"
#include "platform/os/launch_descriptor.h"

namespace divvy {

class HeldOutputs {
 public:
  /// What an agent says over `life` of output 1 or 2 that nobody reads any more.
  static constexpr char LetGoWord(std::size_t output) { return static_cast<char>('0' + output); }

  /// `outputs`: the ends that are read. `life`: closed at its other end with the agent, which speaks over it before.
  /// `open_log`: called when it has gone, at most once; where that fails nobody reads the outputs any more.
  void Hold(ForeignDescriptor output, ForeignDescriptor error, ForeignDescriptor life,
            std::function<Result<Descriptor>()> open_log);

  // As Pty's, in the supervisor's loop.
  void Watch(std::vector<pollfd>& polled) const;
  void OnPolled(std::span<const pollfd> polled);
  /// The job is over: what lies there for the log is written.
  void Finish();

 private:
  void Hear();
  void BeginLog();
  /// False when there is nothing now.
  bool Copy(ForeignDescriptor& output);

  std::array<ForeignDescriptor, 2> outputs_;
  ForeignDescriptor life_;
  Descriptor log_;  // Open: the agent is gone.
  std::function<Result<Descriptor>()> open_log_;
};

}  // namespace divvy
