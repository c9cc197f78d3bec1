// The JSON forms of the small value types of base and model. Other such types specialise JsonForm next to their own
// description.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/id.h"
#include "base/index_ranges.h"
#include "base/time.h"
#include "base/units.h"
#include "model/gpus/gpu.h"
#include "wire/json/json_type.h"

namespace divvy {

template <typename Tag, typename Rep>
struct JsonForm<Id<Tag, Rep>> {
  using Json = Rep;
  static constexpr std::string_view kMeaning = "id";
  static Json Encode(Id<Tag, Rep> id) { return id.value(); }
  static Result<Id<Tag, Rep>> Decode(Json json) { return Id<Tag, Rep>(json); }
};

template <>
struct JsonForm<Bytes> {
  using Json = std::int64_t;
  static constexpr std::string_view kMeaning = "bytes";
  static Json Encode(Bytes bytes) { return bytes.count(); }
  static Result<Bytes> Decode(Json json) { return Bytes(json); }
};

/// Number of GPUs: 0.5 is half a GPU.
template <>
struct JsonForm<GpuShare> {
  using Json = double;
  static constexpr std::string_view kMeaning = "GPUs, in steps of 0.0001";
  static Json Encode(GpuShare share) { return share.ten_thousandths() / 10'000.0; }
  static Result<GpuShare> Decode(Json json);
};

/// Seconds since 1970, to the microsecond. null is kNoTime. kNever is written as a time past 2262, and all such times
/// read as kNever.
template <>
struct JsonForm<Time> {
  using Json = std::optional<double>;
  static constexpr std::string_view kMeaning = "seconds since 1970";
  static Json Encode(Time time) { return time == kNoTime ? Json() : Json(ToSeconds(time)); }
  static Result<Time> Decode(Json json);
};

/// Seconds. Values beyond 292 years become the longest duration.
template <>
struct JsonForm<Duration> {
  using Json = double;
  static constexpr std::string_view kMeaning = "seconds";
  static Json Encode(Duration duration) { return ToSeconds(duration); }
  static Result<Duration> Decode(Json json);
};

template <>
struct JsonForm<GpuSet> {
  using Json = std::vector<int>;
  static constexpr std::string_view kMeaning = "GPU indices, ascending";
  static Json Encode(GpuSet set) { return set.ToVector(); }
  static Result<GpuSet> Decode(const Json& json);
};

template <>
struct JsonForm<IndexRanges> {
  using Json = std::string;
  static constexpr std::string_view kMeaning = "numbers and ranges, as 0-4,7";
  static Json Encode(const IndexRanges& ranges) { return ranges.ToString(); }
  static Result<IndexRanges> Decode(const Json& json);
};

}  // namespace divvy
