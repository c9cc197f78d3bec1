// Words between whoever starts a step inside a job and the job's step process: frames on a stream socket, with file
// descriptors where a word carries them. Both ends are the same executable of the same user on the same machine, and
// each looks at the other's credentials; sizes are bounded all the same.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "platform/os/launch_descriptor.h"

namespace divvy {

enum class StepWord : std::uint32_t {
  // To the step process.
  kCall = 1,   // Start a step: EncodeStepCall(), with the caller's three streams; from another machine without, and
               // then `value` is 1 where they are a terminal of its own (platform/steps/step_client.h).
  kSignal,     // value: to all tasks of my step.
  kInterrupt,  // value: which Ctrl-C in a row this is, from 1.
  kStop,    // Signal `body` to the step `value`, which may be another's; SIGKILL some time after SIGTERM and its kind.
  kInput,   // body: from the caller's standard input, as much as was asked for; empty: its end.
  kWindow,  // value: the size of the caller's terminal, rows times 65536 and columns. Of callers on other machines.
  // From it.
  kSay,       // body: for the caller's standard error.
  kStreams,   // body: "1 3: " is standard output with label "3: ", one a line; as many descriptors.
  kTerminal,  // One descriptor: the master side of the step's terminal.
  // Of steps over several machines.
  kOutput,     // body: what tasks elsewhere wrote; value 1, 2: the caller's own stream; 3, 4: that of kFiles.
  kFiles,      // value: 1, 2 or both together: outputs that go to a file; as many descriptors.
  kWantInput,  // value: so many bytes more.
  kExit,       // value: the step's exit code. The last word.
};

struct StepFrame {
  StepWord word = StepWord::kSay;
  int value = 0;
  std::string body;
  std::vector<Descriptor> descriptors;  // Of words that carry some.
};

constexpr int PackWindow(int rows, int columns) { return (rows & 0x7fff) << 16 | (columns & 0xffff); }

/// One frame as bytes, for a socket that must not be waited for.
std::string EncodeStepFrame(StepWord word, int value, std::string_view body);
/// Waits until all is sent; false when nobody reads any more.
bool SendStepFrame(int socket, StepWord word, int value, std::string_view body = {}, std::span<const int> fds = {});

/// Puts frames together from what arrives.
class StepFrameReader {
 public:
  enum class Outcome { kSome, kNothing, kClosed };
  /// One read, which never waits. kClosed at the end, on an error, and on what is no frame of ours.
  Outcome Fill(int socket);
  std::optional<StepFrame> Next();

 private:
  std::string buffer_;
  std::vector<Descriptor> descriptors_;
};

/// For a call from another machine of the job: which part of which step is to run here.
struct StepPart {
  std::uint32_t step = 0;  // The step's number where it was called.
  std::string layout;      // LayoutText() of model/steps/task_layout.h.
};

/// A call as it arrives. The caller's limits, mask and cores are the tasks'.
struct StepCall {
  std::vector<std::string> words;        // From argv[0] on.
  std::vector<std::string> environment;  // NAME=value.
  std::string directory;
  mode_t umask = 022;
  std::array<rlimit, RLIM_NLIMITS> limits = {};
  std::vector<int> cores;                  // That the caller may run on.
  std::array<Descriptor, 3> streams = {};  // Standard input, output, error.
  std::string bytes;                       // EncodeStepCall() itself, for other machines.
  std::optional<StepPart> part;            // Nothing: it was called on this machine.
};

/// This process's surroundings with these words; uses nothing but the kernel and the heap, for it runs before all else.
std::string EncodeStepCall(std::span<const char* const> words, const char* const* environment);
std::optional<StepCall> DecodeStepCall(StepFrame frame);

/// A socket's address for `path`; paths too long for one go through an open descriptor of the folder, kept in `folder`.
/// Nothing when there is no such folder.
struct StepAddress {
  std::array<char, 128> storage = {};
  std::size_t size = 0;
  Descriptor folder;
};
std::optional<StepAddress> MakeStepAddress(const std::string& path);

}  // namespace divvy
