// Feeds arbitrary bytes to the launcher and to a supervisor: launch frames, valid launch frames with changes, and
// commands. Both may have more privileges than the sender. So they must not crash, must respect their limits, and must
// decode accepted requests correctly.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "platform/supervisor/launch_message.h"
#include "platform/supervisor/run_record.h"
#include "platform/supervisor/supervisor_control.h"

namespace {

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "launch_fuzz: %s\n", what);
  std::abort();
}

divvy::LaunchRequest Known() {
  divvy::LaunchRequest request;
  request.job = divvy::JobId(17);
  request.argv = {"python", "train.py"};
  request.environment = {"A=1", "B="};
  request.limits = {{"nofile", -1}, {"core", 0}};
  request.directory = "/home/ada";
  request.uid = 1000;
  request.gang = {.starter = "/usr/bin/divvy", .index = 3, .key = "ab"};
  request.isolation.lock = divvy::DeviceLock::kProgram;
  return request;
}

/// Reads the bytes as a launcher does, in the pieces that the socket delivers.
void ReadFrames(std::string_view bytes) {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
  const divvy::Descriptor ours(ends[0]), theirs(ends[1]);
  const ssize_t sent = ::send(ours.get(), bytes.data(), std::min<std::size_t>(bytes.size(), 100'000), MSG_DONTWAIT);
  ::shutdown(ours.get(), SHUT_WR);
  divvy::LaunchFrameReader reader(theirs.get());
  std::size_t given = 0;
  do {
    while (auto frame = reader.Next()) {
      given += frame->bytes.size();
      Require(frame->header().body_size <= divvy::kMostLaunchBody, "a frame above the bound");
      Require(frame->streams.size() == frame->header().stream_count, "a frame without its descriptors");
      static_cast<void>(divvy::DecodeLaunch(frame->body(), frame->streams));
    }
  } while (reader.ReadMore());
  Require(given <= static_cast<std::size_t>(std::max<ssize_t>(sent, 0)), "more than was sent");
}

/// Changes a valid request as the bytes say. If it is still accepted, it must survive encoding and decoding.
void ChangeKnown(std::string_view bytes) {
  std::string frame = divvy::EncodeLaunch(Known());
  for (; bytes.size() >= 4; bytes.remove_prefix(4)) {
    const auto at =
        static_cast<std::size_t>(static_cast<unsigned char>(bytes[0])) * 256 + static_cast<unsigned char>(bytes[1]);
    const auto size = static_cast<std::size_t>(static_cast<unsigned char>(bytes[2]) % 8);
    if (size == 7)
      frame.resize(std::max(sizeof(divvy::LaunchFrameHeader), frame.size() - std::min(frame.size(), at % 64)));
    else
      for (std::size_t i = 0; i < size; ++i) frame[(at + i) % frame.size()] = bytes[3];
  }
  ReadFrames(frame);
  const std::string_view body = std::string_view(frame).substr(sizeof(divvy::LaunchFrameHeader));
  const auto request = divvy::DecodeLaunch(body, {});
  if (!request) return;
  const std::string again = divvy::EncodeLaunch(*request);
  Require(divvy::DecodeLaunch(std::string_view(again).substr(sizeof(divvy::LaunchFrameHeader)), {}).has_value(),
          "what was read is not what can be written");
}

void ReadCommand(std::string_view bytes) {
  const divvy::RecordFields fields(bytes);
  divvy::RunRecord record;
  record.job = divvy::JobId(17);
  record.secret = std::string(64, 'a');
  Require(!divvy::IsCommandFor(fields, record) || bytes.find(record.secret) != std::string_view::npos,
          "a command without the secret");
  static_cast<void>(divvy::ReadRecordFields(fields));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (bytes.empty()) return 0;
  switch (bytes.front() % 3) {
    case 0:
      ReadFrames(bytes.substr(1));
      break;
    case 1:
      ChangeKnown(bytes.substr(1));
      break;
    default:
      ReadCommand(bytes.substr(1));
  }
  return 0;
}
