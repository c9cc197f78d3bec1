// What the two forms of a GPU description share: from the name of a model to GPUs that are wired and told apart.
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

inline constexpr std::string_view kDescriptionExample = "write it as in 8xH100-80GB";

/// One GPU of a description before the server is wired.
struct GpuDraft {
  GpuFacts facts;
  const GpuModel* model = nullptr;  // Null: not a known one.
};

/// `model_text` as people write it: "H100-80GB", "nvidia a100 40gb", "T4". `given_memory` is what a description file
/// says besides; a model that is not known needs either. Refuses with the nearest known model.
Result<GpuDraft> DraftGpu(std::string_view model_text, std::optional<Bytes> given_memory);

/// Everything that was not said: indices, UUIDs, addresses, wiring. Refuses none at all, and two that are the same.
Result<std::vector<GpuFacts>> FinishDrafts(const std::vector<GpuDraft>& drafts);

/// Refuses more GPUs than one machine may have.
Status CheckGpuCount(std::size_t count);

/// "; did you mean `nearest`?", or nothing where nothing is near.
std::string DidYouMean(std::string_view nearest);

/// The text of a description file. Refuses with its line.
Result<std::vector<GpuFacts>> ParseDescriptionFile(std::string_view text);

}  // namespace divvy
