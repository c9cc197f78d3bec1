// Description files: [gpu] sections of key = value, and a matrix of links.
#include <cstdio>
#include <utility>

#include "base/text.h"
#include "platform/emulation/emulation.h"
#include "platform/emulation/emulation_draft.h"

namespace divvy {
namespace {

struct Section {
  std::size_t count = 1;
  std::string model;
  std::string name;
  std::optional<Bytes> memory;
  std::string uuid;
  std::string pci;
  std::optional<int> numa;
  std::optional<int> compute;
  std::string mig;
  int line = 0;
};

constexpr std::string_view kKeys[] = {"model", "name", "count", "memory", "uuid", "pci", "numa", "compute", "mig"};

Result<int> ParseIntegerIn(std::string_view value, std::string_view key, int least, int most) {
  const auto number = ParseInteger(value);
  if (number && *number >= least && *number <= most) return static_cast<int>(*number);
  return InvalidArgument(std::string(key) + " = " + std::string(value) + " is not a whole number from " +
                         std::to_string(least) + " to " + std::to_string(most));
}

Result<std::string> ParsePciAddress(std::string_view value) {
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned device = 0;
  unsigned function = 0;
  char end = '\0';
  const std::string text(value);
  const int found = std::sscanf(text.c_str(), "%8x:%2x:%2x.%1x%c", &domain, &bus, &device, &function, &end);
  if (found != 4 || device > 31 || function > 7) {
    return InvalidArgument("pci = " + text + " is not a PCI address: expected a form such as 00000000:17:00.0");
  }
  char out[32];
  std::snprintf(out, sizeof(out), "%08X:%02X:%02X.%X", domain, bus, device, function);
  return std::string(out);
}

Status SetKey(Section& section, std::string_view key, std::string_view value) {
  if (value.empty()) return InvalidArgument("key \"" + std::string(key) + "\" has no value");
  if (key == "model") {
    section.model = value;
  } else if (key == "name") {
    if (value.size() > 95) return InvalidArgument("a name can have at most 95 characters");
    section.name = value;
  } else if (key == "uuid") {
    if (!value.starts_with("GPU-") || value.size() > 80 || value.find(' ') != std::string_view::npos) {
      return InvalidArgument("uuid = " + std::string(value) + " does not start with GPU-");
    }
    section.uuid = value;
  } else if (key == "count") {
    DIVVY_TRY(const int count, ParseIntegerIn(value, key, 1, GpuSet::kCapacity));
    section.count = static_cast<std::size_t>(count);
  } else if (key == "numa") {
    DIVVY_TRY(section.numa, ParseIntegerIn(value, key, 0, 1023));
  } else if (key == "memory") {
    section.memory = ParseEmulatedMemory(value);
    if (!section.memory || section.memory->count() <= 0) {
      return InvalidArgument("memory = " + std::string(value) +
                             " is not a size: expected a size such as 80GB or 81559MiB");
    }
  } else if (key == "pci") {
    DIVVY_TRY(section.pci, ParsePciAddress(value));
  } else if (key == "compute") {
    const auto parts = Split(value, '.');
    const auto major = ParseInteger(parts[0]);
    const auto minor = parts.size() == 2 ? ParseInteger(parts[1]) : std::nullopt;
    if (!major || !minor || *major < 1 || *major > 99 || *minor < 0 || *minor > 9) {
      return InvalidArgument("compute = " + std::string(value) +
                             " is not a compute capability: expected a number such as 9.0");
    }
    section.compute = static_cast<int>(10 * *major + *minor);
  } else if (key == "mig") {
    if (value != "on" && value != "off" && value != "no") {
      return InvalidArgument("mig = " + std::string(value) + " is not on, off (capable of it) or no (not capable)");
    }
    section.mig = value;
  } else {
    return InvalidArgument("key \"" + std::string(key) + "\" is not known" + DidYouMean(Nearest(key, kKeys)));
  }
  return {};
}

Result<GpuDraft> DraftOf(const Section& section) {
  if (section.model.empty()) return InvalidArgument("the [gpu] section has no model");
  if (section.count > 1 && (!section.uuid.empty() || !section.pci.empty())) {
    return InvalidArgument("uuid and pci apply to one GPU: use one [gpu] section for each GPU instead of count");
  }
  DIVVY_TRY(GpuDraft draft, DraftGpu(section.model, section.memory));
  if (!section.name.empty()) draft.facts.model = section.name;
  draft.facts.uuid = section.uuid;
  draft.facts.pci_address = section.pci;
  if (section.numa) draft.facts.numa_node = *section.numa;
  if (section.compute) draft.facts.compute_capability = *section.compute;
  if (!section.mig.empty()) draft.facts.is_mig_capable = section.mig != "no";
  draft.facts.is_mig_enabled = section.mig == "on";
  return draft;
}

bool IsLink(std::string_view word) {
  for (std::string_view way : {"X", "PIX", "PXB", "PHB", "NODE", "SYS"}) {
    if (word == way) return true;
  }
  const auto count = word.starts_with("NV") ? ParseInteger(word.substr(2)) : std::nullopt;
  return count && *count >= 1 && *count <= 18;
}

Status ApplyLinks(const std::vector<std::pair<int, std::vector<std::string>>>& rows, std::vector<GpuFacts>& gpus) {
  const auto fail = [](int line, const std::string& what) {
    return InvalidArgument("line " + std::to_string(line) + ": " + what);
  };
  if (rows.size() != gpus.size()) {
    return fail(rows.back().first, "[links] has " + Plural(static_cast<std::int64_t>(rows.size()), "row") + " for " +
                                       Plural(static_cast<std::int64_t>(gpus.size()), "GPU"));
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& [line, row] = rows[i];
    if (row.size() != gpus.size()) {
      return fail(line, "the row of GPU " + std::to_string(i) + " has " + std::to_string(row.size()) + " links for " +
                            Plural(static_cast<std::int64_t>(gpus.size()), "GPU"));
    }
    for (std::size_t j = 0; j < row.size(); ++j) {
      const std::string pair = "the link of GPUs " + std::to_string(i) + " and " + std::to_string(j);
      if (!IsLink(row[j])) return fail(line, pair + " is not X, NV1 to NV18, PIX, PXB, PHB, NODE or SYS: " + row[j]);
      if ((row[j] == "X") != (i == j)) return fail(line, "X is only for a GPU itself: " + pair);
      if (j < i && rows[j].second[i] != row[j]) {
        return fail(line, pair + " is " + row[j] + " here and " + rows[j].second[i] + " in the other direction");
      }
    }
    gpus[i].links = row;
  }
  return {};
}

class FileReader {
 public:
  Result<std::vector<GpuFacts>> Read(std::string_view text) {
    for (std::string_view line : Split(text, '\n')) {
      ++line_;
      line = Trim(line.substr(0, line.find('#')));
      if (line.ends_with('\r')) line = Trim(line.substr(0, line.size() - 1));
      if (line.empty()) continue;
      if (const Status status = ReadLine(line); !status) return At(line_, status.error());
    }
    std::vector<GpuDraft> drafts;
    for (const Section& section : sections_) {
      const Result<GpuDraft> draft = DraftOf(section);
      if (!draft) return At(section.line, draft.error());
      drafts.insert(drafts.end(), section.count, *draft);
      if (const Status status = CheckGpuCount(drafts.size()); !status) return At(section.line, status.error());
    }
    DIVVY_TRY(std::vector<GpuFacts> gpus, FinishDrafts(drafts));
    if (!links_.empty()) DIVVY_CHECK(ApplyLinks(links_, gpus));
    return gpus;
  }

 private:
  static Error At(int line, Error error) {
    error.message = "line " + std::to_string(line) + ": " + error.message;
    return error;
  }

  Status ReadLine(std::string_view line) {
    if (line.front() == '[') {
      in_links_ = line == "[links]";
      if (!in_links_ && line != "[gpu]") {
        return InvalidArgument("section " + std::string(line) + " is not [gpu] or [links]");
      }
      if (!in_links_) sections_.push_back(Section{.line = line_});
      return {};
    }
    if (in_links_) {
      ReadRow(line);
      return {};
    }
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) {
      return InvalidArgument("\"" + std::string(line) + "\" is neither a section nor key = value");
    }
    if (sections_.empty()) return InvalidArgument("expected a [gpu] line before the first key");
    return SetKey(sections_.back(), Trim(line.substr(0, equals)), Trim(line.substr(equals + 1)));
  }

  // Reads a row of the matrix. The output of `nvidia-smi topo -m` may be pasted: its heading and row names are skipped.
  void ReadRow(std::string_view line) {
    std::vector<std::string> row;
    for (std::string_view word : SplitWords(line)) {
      if (!word.starts_with("GPU")) row.emplace_back(word);
    }
    if (!row.empty()) links_.emplace_back(line_, std::move(row));
  }

  std::vector<Section> sections_;
  std::vector<std::pair<int, std::vector<std::string>>> links_;
  int line_ = 0;
  bool in_links_ = false;
};

}  // namespace

Result<std::vector<GpuFacts>> ParseDescriptionFile(std::string_view text) { return FileReader().Read(text); }

}  // namespace divvy
