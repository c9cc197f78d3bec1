#include "wire/messages/spec_json.h"

#include <algorithm>
#include <array>

#include "wire/json/json.h"
#include "wire/messages/messages_describe.h"

namespace divvy {
namespace {

// All fields of a specification except the capture, in the same order.
constexpr auto kFieldsWithoutCapture = [] {
  constexpr auto kAllFields = kJsonType<JobSpec>.fields;
  std::array<JsonField, kAllFields.size() - 1> fields{};
  std::copy_if(kAllFields.begin(), kAllFields.end(), fields.begin(),
               [](const JsonField& field) { return field.name != "capture"; });
  return fields;
}();

constexpr JsonType kSpecWithoutCapture = [] {
  JsonType type = kJsonType<JobSpec>;
  type.fields = kFieldsWithoutCapture;
  return type;
}();

}  // namespace

std::string SpecToJson(const JobSpec& spec, bool with_capture) {
  std::string out;
  AppendJson(out, with_capture ? kJsonType<JobSpec> : kSpecWithoutCapture, &spec, Fields::kChanged);
  return out;
}

Result<JobSpec> SpecFromJson(std::string_view text) { return FromJson<JobSpec>(text); }

std::string CaptureToJson(const Capture& capture) { return ToJson(capture, Fields::kChanged); }

Result<Capture> CaptureFromJson(std::string_view text) { return FromJson<Capture>(text); }

}  // namespace divvy
