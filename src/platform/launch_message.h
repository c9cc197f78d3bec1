// The bytes of a launch between the daemon and its launcher. Both are the same executable, so the format has no version.
//
// A frame is a FrameHeader and a body; the descriptors of its streams travel with the frame's first byte.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "platform/launch.h"

namespace divvy {

/// All that the launcher itself reads; the supervisor decodes the rest, so that the launcher's heap stays as it is.
struct FrameHeader {
  std::uint32_t body_size = 0;
  std::uint32_t stream_count = 0;
  std::int64_t uid = -1;
  std::int64_t gid = -1;
};

/// The whole frame. request.streams become flags only: which of the three are set.
std::string EncodeLaunch(const LaunchRequest& request);

/// Reads a body. `streams`: the frame's descriptors in the order of request.streams.
LaunchRequest DecodeLaunch(std::string_view body, const std::vector<int>& streams);

}  // namespace divvy
