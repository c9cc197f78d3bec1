#include "model/steps/gang_file.h"

#include <algorithm>

#include "base/text.h"

namespace divvy {
namespace {

constexpr std::string_view kFirstLine = "divvy-gang 1";
constexpr std::size_t kGangTasksMost = 1'000'000;

Error Wrong(std::size_t line, const std::string& what) {
  return CorruptData("line " + std::to_string(line) + " of the list of the job's nodes: " + what);
}

std::string_view WithoutDomain(std::string_view name) { return name.substr(0, name.find('.')); }

std::optional<std::uint64_t> Number(std::string_view text, std::uint64_t most) {
  const auto number = ParseInteger(text);
  if (!number || *number < 0 || static_cast<std::uint64_t>(*number) > most) return std::nullopt;
  return static_cast<std::uint64_t>(*number);
}

bool IsName(std::string_view text) {
  return text.size() <= 255 && std::ranges::none_of(text, [](unsigned char c) { return c <= ' ' || c == 0x7f; });
}

std::optional<std::vector<ComponentAllocation>> ReadParts(std::string_view text) {
  std::vector<ComponentAllocation> parts;
  for (const std::string_view one : Split(text, ';')) {
    const std::vector<std::string_view> fields = Split(one, ':');
    if (fields.size() != 3) return std::nullopt;
    const auto component = Number(fields[0], 255);
    const auto gpus = ReadGpuIndices(fields[1]);
    const auto tasks = Number(fields[2], kGangTasksMost);
    if (!component || !gpus || !tasks) return std::nullopt;
    if (!parts.empty() && static_cast<std::uint64_t>(parts.back().component) >= *component) return std::nullopt;
    parts.push_back({static_cast<int>(*component), *gpus, static_cast<int>(*tasks)});
  }
  return parts;
}

Result<GangMember> ReadMember(std::string_view text, std::size_t rank, std::size_t line) {
  const std::vector<std::string_view> fields = Split(text, '\t');
  if (fields.size() != 6 && fields.size() != 7) return Wrong(line, "a node has six or seven fields");
  if (Number(fields[0], kMostNodes) != rank) return Wrong(line, "node " + std::to_string(rank) + " is expected");
  GangMember member;
  if (!IsName(fields[1]) || !IsName(fields[2]) || fields[2].empty()) return Wrong(line, "invalid node name");
  member.node = fields[1];
  member.address.host = fields[2];
  const auto port = Number(fields[3], 65'535);
  if (!port) return Wrong(line, "invalid port");
  member.address.port = static_cast<std::uint16_t>(*port);
  const auto gpus = ReadGpuIndices(fields[4]);
  if (!gpus) return Wrong(line, "invalid GPU list");
  member.gpus = *gpus;
  const auto tasks = Number(fields[5], kGangTasksMost);
  if (!tasks) return Wrong(line, "invalid number of tasks");
  member.tasks = static_cast<int>(*tasks);
  if (fields.size() == 6) return member;
  auto parts = ReadParts(fields[6]);
  if (!parts) return Wrong(line, "invalid component parts");
  member.parts = *std::move(parts);
  return member;
}

}  // namespace

std::string GpuIndicesText(GpuSet gpus) {
  std::vector<std::string> words;
  for (const int gpu : gpus.ToVector()) words.push_back(std::to_string(gpu));
  return Join(words, ",");
}

std::optional<GpuSet> ReadGpuIndices(std::string_view text) {
  GpuSet gpus;
  if (text.empty()) return gpus;
  for (const std::string_view word : Split(text, ',')) {
    const auto gpu = Number(word, GpuSet::kCapacity - 1);
    if (!gpu) return std::nullopt;
    gpus.Insert(static_cast<GpuIndex>(*gpu));
  }
  return gpus;
}

std::size_t GangFile::components() const {
  std::size_t count = 1;
  for (const GangMember& member : members) {
    for (const ComponentAllocation& part : member.parts)
      count = std::max(count, static_cast<std::size_t>(part.component) + 1);
  }
  return count;
}

std::optional<std::size_t> GangFile::Find(std::string_view machine) const {
  for (const bool is_whole : {true, false}) {
    for (std::size_t rank = 0; rank < members.size(); ++rank) {
      for (const std::string_view name :
           {std::string_view(members[rank].node), std::string_view(members[rank].address.host)}) {
        if (name.empty() || machine.empty()) continue;
        const bool is_address = !is_whole &&
                                name.find_first_not_of("0123456789.:abcdefABCDEF") == std::string_view::npos &&
                                name.find_first_of(".:") != std::string_view::npos;
        if (is_whole ? name == machine : !is_address && WithoutDomain(name) == WithoutDomain(machine)) return rank;
      }
    }
  }
  return std::nullopt;
}

std::string GangFileText(const GangFile& gang) {
  std::string text(kFirstLine);
  text += "\njob " + std::to_string(gang.job) + " " + std::to_string(gang.attempt);
  text += "\nseat " + std::to_string(gang.own) + "\n";
  for (std::size_t rank = 0; rank < gang.members.size(); ++rank) {
    const GangMember& member = gang.members[rank];
    std::vector<std::string> parts;
    for (const ComponentAllocation& part : member.parts)
      parts.push_back(std::to_string(part.component) + ":" + GpuIndicesText(part.gpus) + ":" +
                      std::to_string(part.tasks));
    text += std::to_string(rank) + "\t" + member.node + "\t" + member.address.host + "\t" +
            std::to_string(member.address.port) + "\t" + GpuIndicesText(member.gpus) + "\t" +
            std::to_string(member.tasks) + (parts.empty() ? "" : "\t" + Join(parts, ";")) + "\n";
  }
  return text;
}

Result<GangFile> ReadGangText(std::string_view text) {
  std::vector<std::string_view> lines = Split(text, '\n');
  if (lines.front() != kFirstLine) return Wrong(1, "the file must start with '" + std::string(kFirstLine) + "'");
  // The last line must end with a line feed, so a truncated file is rejected.
  if (!lines.back().empty() || lines.size() < 5) return Wrong(lines.size(), "the rest is missing");
  lines.pop_back();
  GangFile gang;
  const auto job = SplitWords(lines[1]);
  const auto id = job.size() == 3 && job[0] == "job" ? Number(job[1], INT64_MAX) : std::nullopt;
  const auto attempt = id ? Number(job[2], UINT32_MAX) : std::nullopt;
  if (!attempt) return Wrong(2, "'job ID ATTEMPT' is expected");
  gang.job = *id;
  gang.attempt = static_cast<std::uint32_t>(*attempt);
  if (lines.size() - 3 > kMostNodes) return Wrong(lines.size(), "too many nodes");
  for (std::size_t line = 3; line < lines.size(); ++line) {
    DIVVY_TRY(GangMember member, ReadMember(lines[line], line - 3, line + 1));
    gang.members.push_back(std::move(member));
  }
  const auto own = SplitWords(lines[2]);
  const auto place = own.size() == 2 && own[0] == "seat" ? Number(own[1], gang.members.size() - 1) : std::nullopt;
  if (!place) return Wrong(3, "'seat RANK' of one of the nodes is expected");
  gang.own = *place;
  return gang;
}

}  // namespace divvy
