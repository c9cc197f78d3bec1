// --constraint: its conditions on the GPU's model, which every node knows, and on the node.
//
// engine/feature_expression.h has the grammar. "[a|b]" holds for a single node if a or b does, and counts of nodes are
// added up. The result is a disjunction of conjunctions, in Request::gpu_type's form.
#include <algorithm>
#include <array>

#include "base/text.h"
#include "dialect/options/slurm_request.h"
#include "engine/feature_expression.h"

namespace divvy::dialect::slurm {
namespace {

/// GPU models that clusters use as names of features. The list is closed, because "a1" or "v2" may mean anything.
constexpr std::array<std::string_view, 57> kModels = {
    "k20",     "k40",     "k80",     "m4",      "m10",      "m40",     "m60",       "p4",      "p6",        "p40",
    "p100",    "v100",    "v100s",   "t4",      "t4g",      "t40",     "a2",        "a10",     "a10g",      "a16",
    "a30",     "a40",     "a100",    "a100x",   "a800",     "a2000",   "a4000",     "a4500",   "a5000",     "a5500",
    "a6000",   "l4",      "l20",     "l40",     "l40s",     "h20",     "h100",      "h200",    "h800",      "b100",
    "b200",    "b300",    "gb200",   "gb300",   "gh200",    "gtx1080", "gtx1080ti", "rtx2080", "rtx2080ti", "rtx3090",
    "rtx4090", "rtx5090", "rtx6000", "rtx8000", "rtxa6000", "titan",   "titanv"};

/// Features that hold for any server with a GPU.
constexpr std::array<std::string_view, 5> kAlwaysTrue = {"gpu", "gpus", "nvidia", "cuda", "nvgpu"};

struct Condition {
  bool is_true = false;                           // No condition.
  std::vector<std::vector<std::string>> options;  // One alternative must hold with all of its terms.
  std::int64_t gigabytes = 0;                     // Minimum memory of the GPU; 0: any.
};

Condition And(const Condition& a, const Condition& b) {
  Condition both = a.is_true ? b : a;
  both.gigabytes = std::max(a.gigabytes, b.gigabytes);
  if (a.is_true || b.is_true) return both;
  both.options.clear();
  for (const auto& left : a.options) {
    for (const auto& right : b.options) {
      auto terms = left;
      for (const std::string& term : right) {
        if (std::ranges::find(terms, term) == terms.end()) terms.push_back(term);
      }
      both.options.push_back(std::move(terms));
    }
  }
  return both;
}

Condition Or(Condition result, const Condition& next) {
  const std::int64_t gigabytes = std::min(result.gigabytes, next.gigabytes);
  if (result.is_true || next.is_true) {
    // An alternative without GPU conditions does not concern GPUs, so use the conditions of the other alternative.
    if (result.is_true) result = next;
  } else {
    result.options.insert(result.options.end(), next.options.begin(), next.options.end());
  }
  result.gigabytes = gigabytes;
  return result;
}

class Reader {
 public:
  Result<ConstraintOption> Read(const FeatureTerm& term) {
    DIVVY_TRY(const Condition all, Judge(term));
    std::vector<std::string> alternatives;
    for (const auto& option : all.options) alternatives.push_back(Join(option, "&"));
    if (!all.is_true) ask_.gpu_type = Join(alternatives, "|");
    ask_.gpu_memory_gigabytes = all.gigabytes;
    if (Counts(term) > 1) {
      // The expression has counts for several kinds of nodes, which one GPU type cannot express.
      ask_.gpu_type.clear();
      ask_.gpu_memory_gigabytes = 0;
      ask_.machines = TextOf(term);
    } else {
      ask_.machines = OfMachines(term);
    }
    return ask_;
  }

 private:
  static constexpr std::size_t kMostOptions = 256;

  static int Counts(const FeatureTerm& term) {
    int counts = term.nodes > 0 ? 1 : 0;
    for (const FeatureTerm& part : term.parts) counts += Counts(part);
    return counts;
  }

  /// The term without its own count.
  static std::string TextOf(const FeatureTerm& term) {
    std::string text = term.feature;
    for (std::size_t i = 0; i < term.parts.size(); ++i) {
      const FeatureTerm& part = term.parts[i];
      const bool needs_brackets = !part.parts.empty() && !part.is_bracketed;
      if (i > 0) text += term.kind == FeatureTerm::Kind::kOr ? '|' : '&';
      text += needs_brackets ? "(" + TextOf(part) + ")" : TextOf(part);
      if (part.nodes > 0) text += "*" + std::to_string(part.nodes);
    }
    return term.is_bracketed ? "[" + text + "]" : text;
  }

  /// True if part of the term concerns GPUs.
  static bool SpeaksOfGpus(const FeatureTerm& term) {
    if (term.kind != FeatureTerm::Kind::kFeature) return std::ranges::any_of(term.parts, SpeaksOfGpus);
    Reader reader;
    const Condition condition = reader.Judge(ToLower(term.feature));
    return reader.ask_.unknown.empty() || condition.gigabytes > 0;
  }

  static std::string OfMachines(const FeatureTerm& term) {
    if (!SpeaksOfGpus(term)) return TextOf(term);
    if (term.kind != FeatureTerm::Kind::kAnd || term.is_bracketed) return "";
    std::vector<std::string> texts;
    for (const FeatureTerm& part : term.parts) {
      const std::string text = OfMachines(part);
      if (text.empty()) continue;
      texts.push_back(part.kind == FeatureTerm::Kind::kOr && !part.is_bracketed ? "(" + text + ")" : text);
    }
    return Join(texts, "&");
  }

  Result<Condition> Judge(const FeatureTerm& term) {
    ask_.nodes += term.nodes;
    if (term.kind == FeatureTerm::Kind::kFeature) return Judge(ToLower(term.feature));
    DIVVY_TRY(Condition result, Judge(term.parts.front()));
    for (std::size_t i = 1; i < term.parts.size(); ++i) {
      DIVVY_TRY(const Condition next, Judge(term.parts[i]));
      result = term.kind == FeatureTerm::Kind::kOr ? Or(std::move(result), next) : And(result, next);
      if (result.options.size() > kMostOptions) return InvalidArgument("too many alternatives");
    }
    return result;
  }

  Condition Judge(const std::string& feature) {
    if (std::ranges::find(kAlwaysTrue, feature) != kAlwaysTrue.end())
      return {.is_true = true, .options = {}, .gigabytes = 0};
    if (const std::int64_t gigabytes = MemoryOf(feature); gigabytes > 0) {
      return {.is_true = true, .options = {}, .gigabytes = gigabytes};
    }
    const std::string terms = GpuTypeTerms(feature);
    bool is_model = std::ranges::find(kModels, feature) != kModels.end();
    std::vector<std::string> words;
    for (const std::string_view term : Split(terms, '&')) {
      words.emplace_back(term);
      is_model = is_model || std::ranges::find(kModels, term) != kModels.end();
    }
    if (!is_model) {
      ask_.unknown.push_back(feature);
      return {.is_true = true, .options = {}, .gigabytes = 0};
    }
    return {.is_true = false, .options = {words}, .gigabytes = 0};
  }

  /// "80gb", "hbm80g", "gpumem40g": the nominal size in powers of ten, so that 81559 MiB counts as 80 GB.
  static std::int64_t MemoryOf(std::string_view feature) {
    for (const std::string_view prefix : {"hbm", "gpu_mem_", "gpumem", "gpu_mem", "vram", "gpu"}) {
      if (feature.starts_with(prefix)) {
        feature.remove_prefix(prefix.size());
        break;
      }
    }
    if (feature.ends_with("gb")) {
      feature.remove_suffix(2);
    } else if (feature.ends_with('g')) {
      feature.remove_suffix(1);
    } else {
      return 0;
    }
    const auto number = ParseInteger(feature);
    return number && *number > 0 && *number <= 4096 ? *number : 0;
  }

  ConstraintOption ask_;
};

}  // namespace

Result<ConstraintOption> ParseConstraint(std::string_view text) {
  text = Trim(text);
  // Remove quotes that another layer has left: --constraint="\"a100\"".
  if (text.size() > 1 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front()) {
    text = text.substr(1, text.size() - 2);
  }
  if (text.empty()) return InvalidArgument("the constraint is empty; write --constraint=a100");
  DIVVY_TRY(const FeatureTerm term, ParseFeatures(text));
  return Reader().Read(term);
}

}  // namespace divvy::dialect::slurm
