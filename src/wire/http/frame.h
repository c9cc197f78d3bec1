// Frames: how messages between controller and agent lie on a byte stream. No sockets here.
//
//   size (4 bytes, big endian; of what follows) | kind (1 byte) | flags (1 byte) | payload
//
// A payload of kCompressFrom bytes or more is compressed (zlib) where that makes it shorter; each frame by itself, so
// that a thousand connections keep no dictionaries. What a frame may be, and may unpack to, is bounded: whoever sends
// more has the connection closed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace divvy {

inline constexpr std::size_t kCompressFrom = 256;
/// A submission is 32 MiB at most (wire/http/http.h), and as an order it takes its record along.
inline constexpr std::size_t kFrameBytes = std::size_t{40} << 20;

/// A number per kind, for ever: both ends may be of different versions.
enum class FrameKind : std::uint8_t {
  kHello = 1,      // The agent's first.
  kWelcome = 2,    // The controller's answer, or
  kRefused = 3,    // why not; then the connection ends.
  kMessage = 4,    // Numbered; comes exactly once and in order, also across connections (wire/http/link.h).
  kAck = 5,        // All messages up to this number have come.
  kHeartbeat = 6,  // Number of the beat; answered with the same number.
  kBeatAnswer = 7,
  kGlance = 8,    // Worth something only while it is new: the GPUs now. Not sent again.
  kAsk = 9,       // The controller asks for something that changes nothing. Lost with the connection, like its
  kAnswer = 10,   // answer, which has the same number.
  kSamples = 11,  // What the agent's machine used in the last seconds (samples/block.h); lost with the connection.
  kWatch = 12,    // "1": somebody looks, so samples are to come each second; "0": nobody does any more.
};

struct Frame {
  FrameKind kind = FrameKind::kMessage;
  std::string payload;
};

void AppendFrame(std::string& out, FrameKind kind, std::string_view payload);

/// Takes frames out of bytes that come in pieces of any size.
class FrameReader {
 public:
  explicit FrameReader(std::size_t most_bytes = kFrameBytes) : most_bytes_(most_bytes) {}

  void Feed(std::string_view bytes);
  /// Until somebody is known, they may not make us keep much.
  void SetLimit(std::size_t most_bytes) { most_bytes_ = most_bytes; }
  /// The next frame, or nothing when more bytes are needed. Fails for ever with kInvalidArgument on what is no frame
  /// and kLimitExceeded on one that is too large, with a line that names the size.
  Result<std::optional<Frame>> Next();

 private:
  std::size_t most_bytes_;
  std::string buffer_;
  std::size_t used_ = 0;
  std::optional<Error> error_;
};

/// Numbers inside payloads: 8 bytes, big endian.
void AppendNumber(std::string& out, std::uint64_t number);
/// Takes it off the front; nothing when there are too few bytes.
std::optional<std::uint64_t> TakeNumber(std::string_view& from);

}  // namespace divvy
