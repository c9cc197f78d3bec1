// Feeds arbitrary text to the JSON reader, and to the decoders of requests, of what a provider's program prints and of
// services. They must not crash, and accepted values must survive a round trip.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "wire/json/json.h"
#include "wire/messages/codec.h"
#include "wire/messages/messages_describe.h"
#include "wire/messages/messages_nodes.h"
#include "wire/messages/messages_teams.h"
#include "wire/messages/provider_messages.h"
#include "wire/messages/submit_messages.h"
#include "wire/messages/sweep_messages.h"
#include "wire/services/service_messages.h"

namespace {

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "json_fuzz: %s\n", what);
  std::abort();
}

/// Writing, reading and writing again must give the same text. The first reading may have rounded a time or a fraction.
template <typename T>
void CheckReading(std::string_view text, divvy::Unknown unknown) {
  divvy::JsonLimits limits{.bytes = 1 << 20, .depth = 32, .values = 100'000};
  auto value = divvy::FromJson<T>(text, unknown, limits);
  if (!value) {
    Require(!value.error().message.empty(), "an error without words");
    return;
  }
  std::string all = divvy::ToJson(*value);
  auto again = divvy::FromJson<T>(all, divvy::Unknown::kRefuse);
  Require(again.has_value(), "cannot read what it wrote");
  Require(divvy::ToJson(*again) == all, "writing, reading and writing again differs");
  std::string changed = divvy::ToJson(*value, divvy::Fields::kChanged);
  auto from_changed = divvy::FromJson<T>(changed, divvy::Unknown::kRefuse);
  Require(from_changed && divvy::ToJson(*from_changed) == all, "the changed fields alone differ");
}

/// Fields with the name of the last release are read, too. Both names are written, and the note names both.
template <typename Message>
void CheckMessage(std::string_view text) {
  std::vector<std::string> notes;
  const auto message = divvy::wire::Decode<Message>(text, &notes);
  if (!message) return Require(!message.error().message.empty(), "an error without words");
  for (const std::string& note : notes) Require(note.find('\n') == std::string::npos, "a note of several lines");
  const std::string all = divvy::wire::Encode(*message);
  notes.clear();
  const auto again = divvy::wire::Decode<Message>(all, &notes);
  Require(again.has_value() && notes.empty(), "cannot read the message that it wrote");
  Require(divvy::wire::Encode(*again) == all, "a message changes when it is read again");
  const auto from_changed = divvy::wire::Decode<Message>(divvy::wire::EncodeChanged(*message));
  Require(from_changed && divvy::wire::Encode(*from_changed) == all, "the changed fields of a message differ");
}

void CheckMessages(std::string_view text) {
  namespace wire = divvy::wire;
  CheckMessage<wire::ProviderCreated>(text);
  CheckMessage<wire::ProviderList>(text);
  CheckMessage<wire::ProviderRequest>(text);
  CheckMessage<wire::ServiceDefinition>(text);
  CheckMessage<wire::KeptService>(text);
  CheckMessage<wire::ServiceScale>(text);
  CheckMessage<wire::SweepTell>(text);
  CheckMessage<wire::SubmitRequest>(text);
  CheckMessage<wire::JobUpdate>(text);
  CheckMessage<wire::PortionRequest>(text);
  CheckMessage<wire::NodeRequest>(text);
  CheckMessage<divvy::TeamChange>(text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(bytes), size);
  CheckReading<divvy::JobSpec>(text, divvy::Unknown::kIgnore);
  CheckReading<divvy::JobSpec>(text, divvy::Unknown::kRefuse);
  CheckReading<divvy::wire::JobDetail>(text, divvy::Unknown::kIgnore);
  CheckReading<std::string>(text, divvy::Unknown::kIgnore);
  CheckReading<double>(text, divvy::Unknown::kIgnore);
  CheckMessages(text);
  return 0;
}
