// The bytes of a launch between the daemon and its launcher. The launcher and the supervisors have rights that the
// daemon need not have, so they believe none of these bytes: every size is checked against what has come and against a
// bound.
//
// A frame is a LaunchFrameHeader and a body; the descriptors of its streams travel with the frame's first byte.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "platform/os/foreign_descriptor.h"
#include "platform/supervisor/launch.h"
#include "platform/users/user_right.h"

namespace divvy {

inline constexpr std::uint32_t kLaunchForm = 0xD1FF0002;    // Changes with the form of a frame.
inline constexpr std::uint32_t kMostLaunchBody = 64 << 20;  // Bytes. Launch() refuses what is larger.
inline constexpr std::uint32_t kMostLaunchStreams = 6;

/// In a sequence number that comes back: it was not passed on, for the right to run jobs as that user is missing.
inline constexpr std::uint64_t kRefusedLaunch = std::uint64_t{1} << 63;

/// All that the launcher itself reads: the rest is decoded where it is used.
struct LaunchFrameHeader {
  std::uint32_t form = kLaunchForm;
  std::uint32_t body_size = 0;
  std::uint64_t sequence = 0;  // Counts what one daemon launches; comes back if the supervisor dies that had it.
  std::int64_t uid = 0;        // The request's, as is `gid`; a supervisor starts nothing where they differ from those.
  std::int64_t gid = 0;
  std::uint32_t is_part = 0;  // Whether it has a seat: 1.
  std::uint32_t stream_count = 0;
  UserRight right = {};          // Where the launcher serves a daemon that is not root.
  std::uint32_t is_removal = 0;  // 1: no launch, but the end of a run record: of this job, unless a later attempt has
  std::uint32_t attempt = 0;     // it by now.
  std::uint64_t job = 0;
};

/// Overwrites what a job's environment and script were in: what is forked later, some of it another user's, has all
/// that this process has in memory.
void Wipe(std::string& bytes);

/// Calls `visit` with each descriptor that travels with the request, in their order on the way.
template <typename Request, typename Visitor>
void VisitDescriptors(Request& request, Visitor visit) {
  for (auto* list : {&request.streams, &request.held}) {
    for (auto& descriptor : *list) {
      if (descriptor >= 0) visit(descriptor);
    }
  }
}

/// The whole frame. Descriptors become flags only: which of them are set.
std::string EncodeLaunch(const LaunchRequest& request);

/// Reads a body. `streams`: the frame's descriptors, as VisitDescriptors() has them; the request names the same numbers
/// and does not own them. kInvalidArgument: that is no body of such a frame.
Result<LaunchRequest> DecodeLaunch(std::string_view body, const std::vector<ForeignDescriptor>& streams);

struct LaunchFrame {
  std::string bytes;  // Header and body.
  std::vector<ForeignDescriptor> streams;

  LaunchFrameHeader header() const;
  std::string_view body() const { return std::string_view(bytes).substr(sizeof(LaunchFrameHeader)); }
};

/// Sends what fits of `bytes`; the streams go with the first of them. As sendmsg(): -1 and errno on failure.
ssize_t SendFramePart(int socket, std::string_view bytes, const std::vector<ForeignDescriptor>& streams, int flags);
/// All of it, waiting for room. False: nobody reads any more.
bool SendFrame(int socket, const LaunchFrame& frame);

/// Takes frames off a stream socket.
class LaunchFrameReader {
 public:
  explicit LaunchFrameReader(int socket) : socket_(socket) {}
  /// Waits for bytes and takes what is there. False: the other end is closed, or sends what is no frame.
  bool ReadMore();
  /// The next complete frame, if there is one. There is none any more once bytes came that are no frame. The bytes of
  /// a frame that is given out are wiped.
  std::optional<LaunchFrame> Next();
  /// Wipes what has been read and not been given out: a fork has no use for it.
  void Forget();

 private:
  int socket_;
  std::string buffer_;
  std::size_t filled_ = 0;                 // Bytes of the buffer that were read,
  std::size_t taken_ = 0;                  // and how many of them were given out.
  std::deque<ForeignDescriptor> streams_;  // Of frames not yet given out, in order.
  bool is_broken_ = false;                 // Something came that is no frame.
};

}  // namespace divvy
