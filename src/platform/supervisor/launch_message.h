// The encoding of a launch between the daemon and its launcher. The launcher and the supervisors have rights that the
// daemon may not have, so they do not trust these bytes: every size is checked against the bytes received and against a
// limit.
//
// A frame is a LaunchFrameHeader and a body. The descriptors of its streams are sent with the frame's first byte.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "platform/os/foreign_descriptor.h"
#include "platform/supervisor/launch_request.h"
#include "platform/users/user_right.h"

namespace divvy {

inline constexpr std::uint32_t kLaunchForm = 0xD1FF0003;    // Changes with the layout of a frame.
inline constexpr std::uint32_t kMostLaunchBody = 64 << 20;  // Bytes. Launch() refuses larger requests.
inline constexpr std::uint32_t kMostLaunchStreams = 6;

/// Flag in a returned sequence number: the launch was refused because the right to run jobs as that user is missing.
inline constexpr std::uint64_t kRefusedLaunch = std::uint64_t{1} << 63;

/// The header of a frame. It is the only part that the launcher reads; the supervisor decodes the body.
struct LaunchFrameHeader {
  std::uint32_t form = kLaunchForm;
  std::uint32_t body_size = 0;
  // Numbers the launches of one daemon; returned if the supervisor that had the launch dies.
  std::uint64_t sequence = 0;
  std::int64_t uid = 0;  // Must equal the request's uid, as `gid` must; otherwise the supervisor starts nothing.
  std::int64_t gid = 0;
  std::uint32_t is_part = 0;  // 1 if the request has LaunchAllocation set.
  std::uint32_t stream_count = 0;
  UserRight right = {};          // Used if the launcher serves a daemon that is not root.
  std::uint32_t is_removal = 0;  // 1: not a launch, but a request to remove the run record of `job`.
  std::uint32_t attempt = 0;     // A record of a later attempt is kept.
  std::uint64_t job = 0;
};

/// Overwrites memory that held a job's environment and script: later forks, some of which run as another user, inherit
/// this process's memory.
void Wipe(std::string& bytes);

/// Calls `visit` with each descriptor of the request, in the order in which they are sent.
template <typename Request, typename Visitor>
void VisitDescriptors(Request& request, Visitor visit) {
  for (auto* list : {&request.streams, &request.held}) {
    for (auto& descriptor : *list) {
      if (descriptor >= 0) visit(descriptor);
    }
  }
}

/// Encodes a launch as one frame. The frame says only which of the job's descriptors are set; the descriptors
/// themselves are sent along with it.
std::string EncodeLaunch(const LaunchRequest& request);

/// Decodes the body of a frame to a launch. `streams`: the frame's descriptors in the order of VisitDescriptors(). The
/// request refers to them by number and does not own them. kInvalidArgument: the body is malformed.
Result<LaunchRequest> DecodeLaunch(std::string_view body, const std::vector<ForeignDescriptor>& streams);

struct LaunchFrame {
  std::string bytes;  // Header and body.
  std::vector<ForeignDescriptor> streams;

  LaunchFrameHeader header() const;
  std::string_view body() const { return std::string_view(bytes).substr(sizeof(LaunchFrameHeader)); }
};

/// Sends as much of `bytes` as possible, and the descriptors `streams` with the first byte. Like sendmsg(): returns -1
/// with errno on failure.
ssize_t SendFramePart(int socket, std::string_view bytes, const std::vector<ForeignDescriptor>& streams, int flags);
/// Sends the whole frame, blocking if needed. Returns false if the peer no longer reads.
bool SendFrame(int socket, const LaunchFrame& frame);

/// Reads frames from a stream socket.
class LaunchFrameReader {
 public:
  explicit LaunchFrameReader(int socket) : socket_(socket) {}
  /// Blocks until bytes arrive and reads what is available. Returns false if the peer closed the connection or sent an
  /// invalid frame.
  bool ReadMore();
  /// Returns the next complete frame, if there is one, and wipes its bytes from the buffer. Returns none after invalid
  /// bytes.
  std::optional<LaunchFrame> Next();
  /// Overwrites the bytes that were received and that Next() has not returned, so that a fork does not inherit them.
  void Forget();

 private:
  int socket_;
  std::string buffer_;
  std::size_t filled_ = 0;                 // How many bytes of the buffer were read.
  std::size_t taken_ = 0;                  // How many of them were returned.
  std::deque<ForeignDescriptor> streams_;  // Descriptors of frames not yet returned, in order.
  bool is_broken_ = false;                 // Invalid bytes were received.
};

}  // namespace divvy
