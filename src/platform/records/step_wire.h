// Messages between a process that starts a step inside a job and the job's step process: frames on a stream socket,
// with file descriptors for some messages. Both ends are the same executable of the same user on the same node, and
// each checks the other's credentials. Sizes are limited nevertheless.
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

#include "platform/os/unique_fd.h"

namespace divvy {

enum class StepWord : std::uint32_t {
  // Sent to the step process.
  // Start a step: EncodeStepCall() and the caller's three streams. A caller on another node sends no streams; `value`
  // is then 1 if they are a terminal of its own (platform/steps/step_client.h).
  kCall = 1,
  kSignal,     // value: the signal, for all tasks of the caller's step.
  kInterrupt,  // value: how many Ctrl-C came in a row, from 1.
  kStop,    // Send signal `body` to step `value`, also of another caller. SIGTERM and similar are followed by SIGKILL.
  kInput,   // body: from the caller's standard input, at most as much as was requested; empty: its end.
  kWindow,  // value: size of the caller's terminal, rows * 65536 + columns. From callers on other nodes.
  // Sent by the step process.
  kSay,       // body: text for the caller's standard error.
  kStreams,   // body: one line per descriptor; "1 3: " is standard output with label "3: ".
  kTerminal,  // One descriptor: the master side of the step's terminal.
  // Sent for steps on several nodes.
  // body: output of tasks on other nodes; value 1, 2: for the caller's own stream; 3, 4: for the file of kFiles.
  kOutput,
  kFiles,      // value: 1, 2 or 3 (both): outputs that go to a file; one descriptor for each.
  kWantInput,  // value: how many more bytes of input are requested.
  kExit,       // value: the step's exit code. The last message.
  // Sent to the step process.
  kLimit,  // Set the time limit of step `value`, also of another caller. body: seconds from its start; 0: none.
};

struct StepFrame {
  StepWord word = StepWord::kSay;
  int value = 0;
  std::string body;
  std::vector<Descriptor> descriptors;  // Empty unless the message carries descriptors.
};

constexpr int PackWindow(int rows, int columns) { return (rows & 0x7fff) << 16 | (columns & 0xffff); }

/// Encodes one frame, for a non-blocking socket.
std::string EncodeStepFrame(StepWord word, int value, std::string_view body);
/// Sends one frame, with the descriptors `fds`. Blocks until all is sent; returns false if the peer no longer reads.
bool SendStepFrame(int socket, StepWord word, int value, std::string_view body = {}, std::span<const int> fds = {});

/// Assembles frames from received bytes.
class StepFrameReader {
 public:
  enum class Outcome { kSome, kNothing, kClosed };
  /// Reads the bytes that have arrived, without blocking. kClosed: the end of the stream, an error, or an invalid
  /// frame.
  Outcome Fill(int socket);
  std::optional<StepFrame> Next();

 private:
  std::string buffer_;
  std::vector<Descriptor> descriptors_;
};

/// For a call from another node of the job: which part of which step to run here.
struct StepPart {
  std::uint32_t step = 0;  // The step's number on the node where it was called.
  std::string layout;      // LayoutText() (model/steps/task_layout.h).
};

/// A received call. The tasks get the caller's limits, umask and cores.
struct StepCall {
  std::vector<std::string> words;        // From argv[0] on.
  std::vector<std::string> environment;  // NAME=value.
  std::string directory;
  mode_t umask = 022;
  std::array<rlimit, RLIM_NLIMITS> limits = {};
  std::vector<int> cores;                  // Cores that the caller may run on.
  std::array<Descriptor, 3> streams = {};  // Standard input, output, error.
  std::string bytes;                       // The encoded call itself, for other nodes.
  std::optional<StepPart> part;            // Unset if it was called on this node.
};

/// Encodes the call for a step: the command line `words`, the environment, and this process's directory, limits and
/// cores. Uses only the kernel and the heap, because it runs before the rest of the program is initialised.
std::string EncodeStepCall(std::span<const char* const> words, const char* const* environment);
std::optional<StepCall> DecodeStepCall(StepFrame frame);

struct StepAddress {
  std::array<char, 128> storage = {};
  std::size_t size = 0;
  Descriptor folder;
};
/// Returns a socket address for `path`. If the path is too long, the address uses an open descriptor of the folder,
/// kept in `folder`. Returns nullopt if the folder does not exist.
std::optional<StepAddress> MakeStepAddress(const std::string& path);

}  // namespace divvy
