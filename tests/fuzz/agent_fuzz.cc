// Feeds arbitrary bytes to the code that reads data from an agent, a controller or another node of a job: frames and
// their payloads, pieces of streams, messages between step processes, and lists that a job's user writes. The readers
// must not crash and must respect their limits. Frames must not depend on how the bytes were split.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "model/steps/gang_file.h"
#include "model/steps/step_list.h"
#include "model/steps/task_layout.h"
#include "platform/records/gang_wire.h"
#include "wire/http/channels.h"
#include "wire/http/frame.h"
#include "wire/http/link.h"
#include "wire/messages/agent_codec.h"
#include "wire/messages/agent_messages.h"

namespace {

constexpr std::size_t kMost = 65'536;

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "agent_fuzz: %s\n", what);
  std::abort();
}

/// Returns the frames in `bytes`, fed in pieces of `piece` bytes.
std::vector<divvy::Frame> FramesOf(std::string_view bytes, std::size_t piece) {
  divvy::FrameReader reader(kMost);
  std::vector<divvy::Frame> frames;
  while (!bytes.empty()) {
    const std::size_t size = std::min(piece, bytes.size());
    reader.Feed(bytes.substr(0, size));
    bytes.remove_prefix(size);
    for (;;) {
      auto next = reader.Next();
      if (!next) return frames;
      if (!*next) break;
      Require((*next)->payload.size() <= kMost, "a frame above the bound");
      frames.push_back(**std::move(next));
    }
  }
  return frames;
}

void ReadPayload(const std::string& payload) {
  static_cast<void>(divvy::wire::DecodeAgent<divvy::wire::AgentHello>(payload));
  static_cast<void>(divvy::wire::DecodeAgent<divvy::wire::AgentWelcome>(payload));
  static_cast<void>(divvy::wire::DecodeAgent<divvy::wire::AgentCommand>(payload));
  static_cast<void>(divvy::wire::DecodeAgent<divvy::wire::AgentReport>(payload));
  static_cast<void>(divvy::wire::DecodeAgent<divvy::wire::ChannelPurpose>(payload));
  static_cast<void>(divvy::wire::DecodeAsk(payload));
  static_cast<void>(divvy::wire::DecodeAnswer(payload));
}

void ReadFrames(std::string_view bytes) {
  const std::vector<divvy::Frame> whole = FramesOf(bytes, kMost), pieces = FramesOf(bytes, 3);
  Require(whole.size() == pieces.size(), "frames depend on where the bytes were cut");
  divvy::Link link;
  Require(static_cast<bool>(link.Attach(0)), "a fresh link takes no connection");
  for (std::size_t i = 0; i < whole.size(); ++i) {
    Require(whole[i].payload == pieces[i].payload, "a frame depends on where the bytes were cut");
    ReadPayload(whole[i].payload);
    const auto message = link.OnFrame(whole[i]);
    if (message && *message) ReadPayload(**message);
  }
}

/// Reads pieces of streams. Each piece follows a byte with its length.
void ReadChannels(std::string_view bytes, divvy::Channels::Side side) {
  std::size_t unread = 0, said = 0;
  divvy::Channels* own = nullptr;
  const auto accept = [&](std::uint64_t number, std::string_view) {
    divvy::Channels::Listener listener;
    listener.on_bytes = [&, number](std::string_view came) {
      unread += came.size();
      Require(came.size() <= divvy::Channels::kWindow, "a piece above the window");
      if (came.size() % 2 == 0) own->Consumed(number, came.size());
    };
    own->Accept(number, std::move(listener));
    own->Send(number, "answer");
  };
  divvy::Channels channels(
      side, [&](std::string message) { said += message.size(); }, accept);
  own = &channels;
  while (!bytes.empty()) {
    const std::size_t size = std::min<std::size_t>(static_cast<unsigned char>(bytes.front()), bytes.size() - 1);
    const std::string message = std::string(1, divvy::Channels::kMark) + std::string(bytes.substr(1, size));
    bytes.remove_prefix(1 + size);
    if (!channels.OnMessage(message)) break;
    Require(channels.size() <= divvy::Channels::kMost, "more streams than there may be");
  }
  channels.Clear("over");
}

void ReadSteps(std::string_view bytes) {
  divvy::GangFrameReader reader;
  reader.Feed(bytes);
  while (const auto frame = reader.Next()) {
    Require(frame->body.size() <= divvy::kGangBodyMost, "a body above the bound");
    static_cast<void>(divvy::DecodePartCall(frame->body));
  }
  static_cast<void>(divvy::DecodePartCall(bytes));
  static_cast<void>(divvy::ReadGangText(bytes));
  static_cast<void>(divvy::ReadLayout(bytes));
  const std::string kept = divvy::KeptSteps(divvy::ReadStepList(std::string(bytes)));
  Require(divvy::KeptSteps(divvy::ReadStepList(kept)) == kept, "what is kept of steps changes when it is read again");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  if (size > kMost) return 0;
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  ReadFrames(text);
  ReadPayload(std::string(text));
  ReadChannels(text, divvy::Channels::Side::kController);
  ReadChannels(text, divvy::Channels::Side::kAgent);
  ReadSteps(text);
  return 0;
}
