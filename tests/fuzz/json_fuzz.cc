// Feeds arbitrary text to the JSON reader. It must not crash, and accepted values must survive a round trip.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "wire/json/json.h"
#include "wire/messages/messages_describe.h"

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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(bytes), size);
  CheckReading<divvy::JobSpec>(text, divvy::Unknown::kIgnore);
  CheckReading<divvy::JobSpec>(text, divvy::Unknown::kRefuse);
  CheckReading<divvy::wire::JobDetail>(text, divvy::Unknown::kIgnore);
  CheckReading<std::string>(text, divvy::Unknown::kIgnore);
  CheckReading<double>(text, divvy::Unknown::kIgnore);
  return 0;
}
