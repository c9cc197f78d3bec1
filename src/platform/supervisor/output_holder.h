// The outputs of a foreground job whose pipes an agent reads. The supervisor holds the read ends as well, so that the
// job does not die of SIGPIPE when its agent dies. While the agent lives, only the agent reads, and tells us which
// output has no reader any more. When it is gone, its unread data and all later output of the job go to the job's log.
#pragma once

#include <poll.h>

#include <array>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "platform/os/foreign_descriptor.h"
#include "platform/os/unique_fd.h"

namespace divvy {

class HeldOutputs {
 public:
  /// The byte that an agent sends over `life` when output 1 or 2 has no reader any more.
  static constexpr char LetGoWord(std::size_t output) { return static_cast<char>('0' + output); }

  /// Takes over the outputs of a foreground job. `output`, `error`: the read ends of the job's pipes, which an agent
  /// reads as well. `life`: a socket whose other end the agent has. It is closed when the agent ends; before that the
  /// agent sends LetGoWord() over it. `open_log`: called at most once, when the agent is gone. If it fails, the outputs
  /// have no reader any more.
  void Hold(ForeignDescriptor output, ForeignDescriptor error, ForeignDescriptor life,
            std::function<Result<Descriptor>()> open_log);

  // Used in the supervisor's loop like the functions of Pty.
  void Watch(std::vector<pollfd>& polled) const;
  void OnPolled(std::span<const pollfd> polled);
  /// The job is over: writes the remaining output for the log.
  void Finish();

 private:
  void Hear();
  void BeginLog();
  /// Copies available data of one output to the log. Returns false if no data is available now.
  bool Copy(ForeignDescriptor& output);

  std::array<ForeignDescriptor, 2> outputs_;
  ForeignDescriptor life_;
  Descriptor log_;  // Open once the agent is gone.
  std::function<Result<Descriptor>()> open_log_;
};

}  // namespace divvy
