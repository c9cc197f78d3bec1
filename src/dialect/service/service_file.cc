#include "dialect/service/service_file.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "dialect/valohai/valohai_fields.h"

namespace divvy::dialect {
namespace {

constexpr std::size_t kMostServiceText = 1 << 20;

ServiceEntry ReadServiceEntry(Problems& problems, const YAML::Node& node) {
  Fields fields(problems, node, "a service", {});
  ServiceEntry entry;
  entry.line = LineOf(node);
  entry.name = fields.Required("name");
  const auto command = fields.Get("command");
  if (!command) {
    fields.Complain((entry.name.empty() ? "" : "'" + entry.name + "' ") + "needs the key 'command'");
  } else if (command->IsSequence()) {
    entry.command = fields.Texts("command");
  } else if (const auto words = ShellSplit(fields.Text("command"))) {
    entry.command = *words;
  } else {
    fields.Complain(*command, "command has an open quote");
  }
  for (const auto& [key, value] : fields.values()) {
    if (key == "name" || key == "command") continue;
    for (const std::string& text : fields.Texts(key)) {
      if (text == "true") entry.options.push_back("--" + key);
      else if (text != "false") entry.options.push_back("--" + key + "=" + text);
    }
  }
  return entry;
}

}  // namespace

Result<std::vector<ServiceEntry>> ReadServiceFile(std::string_view text, std::string_view path) {
  const std::string file(path);
  if (text.size() > kMostServiceText) return InvalidArgument(file + ": the file is larger than 1 MiB");
  Problems problems;
  std::vector<ServiceEntry> entries;
  try {
    const YAML::Node root = YAML::Load(std::string(text));
    static constexpr std::array<std::string_view, 1> kServiceKeys = {"services"};
    Fields fields(problems, root, "the file", kServiceKeys);
    const auto list = fields.Get("services");
    if (!list || !list->IsSequence()) fields.Complain("needs the key 'services', a list");
    else
      for (const YAML::Node& node : *list) entries.push_back(ReadServiceEntry(problems, node));
  } catch (const YAML::Exception& wrong) {
    return InvalidArgument(file + ":" + std::to_string(wrong.mark.line + 1) + ": " + OneLine(wrong.msg));
  }
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto same = std::ranges::count(entries, entries[i].name, &ServiceEntry::name);
    if (same > 1)
      problems.push_back(
          {entries[i].line, false, "service '" + entries[i].name + "' is there twice; give each service its own name"});
  }
  if (problems.empty()) return entries;
  const auto first = std::ranges::min_element(problems, {}, &ValohaiProblem::line);
  return InvalidArgument(file + ":" + std::to_string(first->line) + ": " + OneLine(first->text));
}

}  // namespace divvy::dialect
