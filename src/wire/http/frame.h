// Frames: the format of messages between controller and agent on a byte stream. No sockets here.
//
//   size (4 bytes, big endian; of what follows) | kind (1 byte) | flags (1 byte) | payload
//
// A payload of kCompressFrom bytes or more is compressed (zlib) if that makes it shorter. Each frame is compressed
// separately, so a thousand connections keep no dictionaries. The size of a frame is limited, compressed and
// uncompressed. A peer that exceeds the limit is disconnected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace divvy {

inline constexpr std::size_t kCompressFrom = 256;
/// A submission has at most 32 MiB (wire/http/http.h). The message that launches the job on a node also has the job
/// record.
inline constexpr std::size_t kFrameBytes = std::size_t{40} << 20;

/// The numbers never change, because both ends may have different versions.
enum class FrameKind : std::uint8_t {
  kHello = 1,      // The agent's first frame.
  kWelcome = 2,    // The controller's answer if it accepts the agent.
  kRefused = 3,    // Why the controller refuses the agent. The connection then ends.
  kMessage = 4,    // A numbered message, delivered exactly once and in order, also across connections
                   // (wire/http/link.h).
  kAck = 5,        // All messages up to this number were received.
  kHeartbeat = 6,  // Has a number; the answer has the same number.
  kBeatAnswer = 7,
  kGlance = 8,    // Current state, such as the GPUs' now. Useless when old, so it is never sent again.
  kAsk = 9,       // A question of the controller that changes nothing. It is lost with the connection, and so is its
                  // answer.
  kAnswer = 10,   // The answer to kAsk, with the same number.
  kSamples = 11,  // Resource usage of the agent's node in the last seconds (samples/block.h). Lost with the connection.
  kWatch = 12,    // "1": send samples every second, because a user is watching. "0": stop that.
};

struct Frame {
  FrameKind kind = FrameKind::kMessage;
  std::string payload;
};

void AppendFrame(std::string& out, FrameKind kind, std::string_view payload);

/// Extracts frames from bytes that arrive in pieces of any size.
class FrameReader {
 public:
  explicit FrameReader(std::size_t most_bytes = kFrameBytes) : most_bytes_(most_bytes) {}

  void Feed(std::string_view bytes);
  /// Changes the size limit of frames: readers start with a lower one until the peer is authenticated.
  void SetLimit(std::size_t most_bytes) { most_bytes_ = most_bytes; }
  /// Returns the next frame, or nothing if more bytes are needed. Fails with kInvalidArgument on an invalid frame, and
  /// with kLimitExceeded, naming the size, on a frame that is too large. After an error every call fails.
  Result<std::optional<Frame>> Next();

 private:
  std::size_t most_bytes_;
  std::string buffer_;
  std::size_t used_ = 0;
  std::optional<Error> error_;
};

/// Appends a number to a payload: 8 bytes, big endian.
void AppendNumber(std::string& out, std::uint64_t number);
/// Removes a number (8 bytes, big endian) from the start of a payload and returns it. Returns std::nullopt if there are
/// too few bytes.
std::optional<std::uint64_t> TakeNumber(std::string_view& from);

}  // namespace divvy
