// Shared by the two forms of a GPU description: turns model names into GPUs with unique ids and wiring.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "model/gpus/gpu.h"
#include "platform/emulation/emulation_models.h"

namespace divvy {

inline constexpr std::string_view kDescriptionExample = "expected a description such as 8xH100-80GB";

/// One GPU of a description before the server is wired.
struct GpuDraft {
  GpuFacts facts;
  const GpuModel* model = nullptr;  // Null: not a known one.
};

/// Makes a draft from a model name as users write it: "H100-80GB", "nvidia a100 40gb", "T4". `given_memory`: the memory
/// that a description file states. For an unknown model, either the name or the file must state it. Errors name the
/// nearest known model.
Result<GpuDraft> DraftGpu(std::string_view model_text, std::optional<Bytes> given_memory);

/// Fills in everything that was not given: indices, UUIDs, addresses, wiring. Fails if there are no drafts, or if two
/// GPUs are identical.
Result<std::vector<GpuFacts>> FinishDrafts(const std::vector<GpuDraft>& drafts);

/// Fails if there are more GPUs than one node may have.
Status CheckGpuCount(std::size_t count);

/// Returns "; did you mean `nearest`?", or "" if `nearest` is empty.
std::string DidYouMean(std::string_view nearest);

/// Parses the text of a description file. Errors name the line.
Result<std::vector<GpuFacts>> ParseDescriptionFile(std::string_view text);

}  // namespace divvy
