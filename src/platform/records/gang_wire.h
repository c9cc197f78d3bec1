// Words between the step processes of one job on different machines, about one step's part on one of them: frames over
// a connection of its own (platform/steps/gang_link.h), encrypted, with both ends known to have the job's key. Whoever
// has it may run programs as the job's user; sizes are bounded all the same.
//
//   caller's machine                         another machine of the step
//   kCall: the words, which part of it  -->  plans it, waits for GPUs of its own
//                                       <--  kWaits (told once, when it must), kGranted; or kRefused
//   kGo, when all machines have granted -->  starts its tasks
//   kSignal, kInput, kPing              -->
//                                       <--  kMap, kSay, kOutput, kTaken, kEnded (each task), at last kOver
//   kDone, when all have ended          -->  its list says the same of the step as the caller's
//
// The connection is the part's life: when it is cut, tasks that still run get SIGTERM, and SIGKILL 5 s later. Output
// that nobody takes at the caller's is not read from the connection; then the other machine reads no more of its
// tasks' output than it has room for, and a task waits that writes more. Nothing is left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace divvy {

enum class GangWord : std::uint32_t {
  kCall = 1,  // EncodePartCall().
  kGo,        // body: the step's line in the caller's list (model/steps/step_list.h).
  kSignal,    // value: to all tasks of the part.
  kInput,     // For rank `value`'s standard input; empty: its end. No more than was said to be taken, see kInputRoom.
  kPing,      // Every kPingEvery. Who hears none for kSilenceMost takes the caller's machine for lost.
  kDone,      // value: the exit code of the whole step.
  kGranted = 32,  // body: "0,3", the GPUs that it has there, for the list of steps.
  kWaits,
  kRefused,  // body: why, for the caller; value: the step's exit code.
  kSay,      // body: for the caller's standard error.
  kOutput,   // value: a rank; body: '1' or '2', and what it wrote there.
  kTaken,    // value: so many bytes of input have gone to the task.
  kEnded,    // value: a rank; body: "SIGNAL CODE", as RunningStep::NoteEnd has them.
  kOver,     // The last word: all tasks have ended, and all that they wrote is before it.
  kMap,  // body: StepMapText() (model/steps/step_list.h) of its tasks, which start now. Once, also where it is empty.
};

struct GangFrame {
  GangWord word = GangWord::kPing;
  int value = 0;
  std::string body;
};

constexpr std::size_t kGangBodyMost = std::size_t{9} << 20;  // Of a call; a step's words may have 8 MiB.
constexpr std::size_t kGangPiece = 32'768;                   // Of output and input.
constexpr std::size_t kInputRoom = 65'536;                   // So much input may be on its way.

std::string EncodeGangFrame(GangWord word, int value, std::string_view body);

/// Puts frames together from what arrives.
class GangFrameReader {
 public:
  void Feed(std::string_view bytes) { buffer_.append(bytes); }
  /// Nothing: more bytes are needed, or is_bad().
  std::optional<GangFrame> Next();
  /// What came is no frame of ours, or one that is too large.
  bool is_bad() const { return is_bad_; }
  std::size_t size() const { return buffer_.size() - used_; }

 private:
  std::string buffer_;
  std::size_t used_ = 0;
  bool is_bad_ = false;
};

/// Which part of which step.
struct PartCall {
  std::string version;     // Of divvy: both ends have the same words for everything.
  std::uint32_t step = 0;  // Its number where it was called.
  std::string layout;      // LayoutText() of all machines of the step (model/steps/task_layout.h).
  std::string_view call;   // EncodeStepCall() of the caller (platform/records/step_wire.h).
};
std::string EncodePartCall(const PartCall& part);
/// Into `body`, which has to live as long.
std::optional<PartCall> DecodePartCall(std::string_view body);

}  // namespace divvy
