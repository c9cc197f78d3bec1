// Messages between the step processes of one job on different nodes, about one step's tasks on one of them. They are
// frames over one encrypted connection per step and node (platform/steps/gang_link.h), on which both ends have proved
// that they know the job's key. A holder of the key may run programs as the job's user; sizes are limited nevertheless.
//
//   caller's node                            another node of the step
//   kCall: the command, and which part  -->  plans the part, waits for its own GPUs
//                                       <--  kWaits (once, if it must wait), kGranted; or kRefused
//   kGo, when all nodes have granted    -->  starts its tasks
//   kSignal, kInput, kPing              -->
//                                       <--  kMap, kSay, kOutput, kTaken, kEnded (each task), finally kOver
//   kDone, when all have ended          -->  its step list then has the same result as the caller's
//
// The part lives as long as the connection: when it is cut, tasks that still run get SIGTERM, and SIGKILL 5 s later. If
// the caller does not consume output, it stops reading from the connection. The other node then stops reading its
// tasks' output once its buffer is full, and the tasks block when they write more. No output is lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace divvy {

enum class GangWord : std::uint32_t {
  kCall = 1,      // EncodePartCall().
  kGo,            // body: the step's line in the caller's list (model/steps/step_list.h).
  kSignal,        // value: the signal, for all tasks of the part.
  kInput,         // body: input for rank `value`; empty: end of input. At most kInputRoom bytes may be unacknowledged.
  kPing,          // Sent every kPingEvery. A node that receives none for kSilenceMost treats the caller's node as lost.
  kDone,          // value: the exit code of the whole step.
  kGranted = 32,  // body: "0,3", the GPUs that it got there, for the list of steps.
  kWaits,
  kRefused,  // body: the reason, for the caller; value: the step's exit code.
  kSay,      // body: text for the caller's standard error.
  kOutput,   // value: a rank; body: '1' or '2', then the output written to that stream.
  kTaken,    // value: how many bytes of input were passed to the task.
  kEnded,    // value: a rank; body: "SIGNAL CODE", as in RunningStep::NoteEnd.
  kOver,     // The last message: all tasks have ended, and all their output came before it.
  kMap,      // body: StepMapText() (model/steps/step_list.h) of the tasks that start now. Sent once, even if empty.
};

struct GangFrame {
  GangWord word = GangWord::kPing;
  int value = 0;
  std::string body;
};

// For a call; a step's arguments and environment may have 8 MiB.
constexpr std::size_t kGangBodyMost = std::size_t{9} << 20;
constexpr std::size_t kGangPiece = 32'768;  // Maximum piece of output or input.
constexpr std::size_t kInputRoom = 65'536;  // Maximum of unacknowledged input.

std::string EncodeGangFrame(GangWord word, int value, std::string_view body);

/// Assembles frames from received bytes.
class GangFrameReader {
 public:
  void Feed(std::string_view bytes) { buffer_.append(bytes); }
  /// Returns the next complete frame; nullopt if more bytes are needed, or if the bytes received so far are invalid
  /// (is_bad).
  std::optional<GangFrame> Next();
  /// True if the received bytes are not a valid frame, or the frame is too large.
  bool is_bad() const { return is_bad_; }
  std::size_t size() const { return buffer_.size() - used_; }

 private:
  std::string buffer_;
  std::size_t used_ = 0;
  bool is_bad_ = false;
};

/// Identifies a step, and the part of it that a node is to run.
struct PartCall {
  std::string version;     // divvy's version, so that both ends use the same messages.
  std::uint32_t step = 0;  // The step's number on the node where it was called.
  std::string layout;      // LayoutText() of all nodes of the step (model/steps/task_layout.h).
  std::string_view call;   // The caller's EncodeStepCall() (platform/records/step_wire.h).
};
std::string EncodePartCall(const PartCall& part);
/// Parses a node's request that another node runs its part of a step. The result refers to `body`, which must live as
/// long.
std::optional<PartCall> DecodePartCall(std::string_view body);

}  // namespace divvy
