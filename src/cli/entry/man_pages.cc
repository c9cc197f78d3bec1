// Man pages in man(7) macros, from the same tables as --help.
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "base/text.h"
#include "cli/client/commands.h"
#include "cli/client/words.h"
#include "version.h"

namespace divvy::cli {
namespace {

// Required by mandoc's style checker.
constexpr std::size_t kLongestLine = 80;

/// Escapes text so that roff prints it unchanged: keeps backslashes and hyphens, and no line is taken for a request.
std::string Escaped(std::string_view text) {
  std::string out;
  if (!text.empty() && (text.front() == '.' || text.front() == '\'')) out += "\\&";
  for (char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

/// One argument of a macro.
std::string Argument(std::string_view text) {
  std::string out = "\"";
  for (char c : Escaped(text)) {
    out += c;
    if (c == '"') out += '"';  // roff needs a quote inside quotes doubled.
  }
  return out + "\"";
}

/// Starts each sentence on a new line, as roff needs for its spacing.
std::string Paragraph(std::string_view text) {
  std::string out;
  std::string sentence;
  for (std::string_view word : SplitWords(text)) {
    sentence += (sentence.empty() ? "" : " ") + Escaped(word);
    const bool ends_sentence =
        word.size() > 2 && (word.back() == '.' || word.back() == '?') && word.find('.') == word.size() - 1;
    if (!ends_sentence) continue;
    out += WrapText(sentence, "", kLongestLine);
    sentence.clear();
  }
  if (!sentence.empty()) out += WrapText(sentence, "", kLongestLine);
  return out;
}

/// Reproducible builds set the date (reproducible-builds.org).
std::string PageDate() {
  std::time_t seconds = std::time(nullptr);
  if (const char* epoch = std::getenv("SOURCE_DATE_EPOCH")) {
    if (const auto given = ParseInteger(epoch)) seconds = static_cast<std::time_t>(*given);
  }
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

std::string PageHead(std::string_view page, std::string_view summary) {
  std::string title(page);
  for (char& c : title) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return ".\\\" Written by divvy internal-man.\n.TH " + title + " 1 " + PageDate() + " \"divvy " +
         std::string(kVersion) + "\"\n.SH NAME\n" + std::string(page) + " \\- " + Escaped(summary) + "\n";
}

std::string OptionEntry(const dialect::Option& option) {
  std::string out = ".TP\n";
  if (option.letter != 0) out += std::string("\\fB\\-") + option.letter + "\\fR, ";
  out += "\\fB\\-\\-" + Escaped(option.name) + "\\fR";
  const std::string value = "\\fI" + Escaped(option.value_name) + "\\fR";
  if (option.takes == dialect::Takes::kValue) out += " " + value;
  if (option.takes == dialect::Takes::kOptionalValue) out += "[=" + value + "]";
  return out + "\n" + Paragraph(Capitalised(option.help) + ".");
}

std::string ExampleEntry(const Example& example) {
  std::string out = ".TP\n.B " + Argument(example.command) + "\n";
  return out + (example.meaning.empty() ? "\\&\n" : Paragraph(Capitalised(example.meaning) + "."));
}

std::string CommandPage(const Command& command) {
  std::string out = PageHead("divvy-" + std::string(command.name), command.summary);
  out += ".SH SYNOPSIS\n" + Escaped(command.usage) + "\n";
  out += ".SH DESCRIPTION\n" +
         Paragraph(command.about.empty() ? std::string(command.summary) + "." : std::string(command.about));
  const std::vector<OptionSection> sections = OptionSections(command);
  if (!sections.empty()) out += ".SH OPTIONS\n";
  for (const OptionSection& section : sections) {
    if (!section.heading.empty()) out += ".SS " + Argument(section.heading) + "\n";
    for (const dialect::Option& option : section.options) out += OptionEntry(option);
  }
  out += ".SH EXIT STATUS\n";
  if (command.name == "run") {
    out += Paragraph("The exit code of the job, or 128 plus the signal number if a signal ended it. If no job ran:");
  }
  out += Paragraph(
      "0 on success, 2 for an invalid request, 3 if an object does not exist, 4 if permission is denied, 5 if no "
      "daemon answers, 1 for any other error.");
  if (!command.examples.empty()) out += ".SH EXAMPLES\n";
  for (const Example& example : command.examples) out += ExampleEntry(example);
  return out + ".SH SEE ALSO\n.BR divvy (1)\n";
}

std::string MainPage() {
  std::string out = PageHead("divvy", "schedule GPU jobs on one server or many");
  out += ".SH SYNOPSIS\n.B divvy\n.I COMMAND\n[OPTIONS]\n.SH DESCRIPTION\n";
  out += Paragraph(
      "One program is the command line, the daemon and the supervisor of each job. divvy up starts the daemon; divvy "
      "submit and divvy run submit jobs.");
  std::string_view group;
  for (const Command& command : Commands()) {
    if (command.is_hidden) continue;
    if (command.group != group) {
      group = command.group;
      std::string title(group);
      for (char& c : title) {
        if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
      }
      out += ".SH " + Argument(title) + "\n";
    }
    out += ".TP\n.BR divvy\\-" + Escaped(command.name) + " (1)\n" + Paragraph(std::string(command.summary) + ".");
  }
  out += ".SH ENVIRONMENT\n.TP\n.B DIVVY_HOME\n" +
         Paragraph(
             "Directory of a private daemon: socket, database, logs and configuration. Clients use the daemon of this "
             "directory.") +
         ".TP\n.B NO_COLOR\n" + Paragraph("Disables colour, even on a terminal.");
  out += ".SH FILES\n.TP\n.I /etc/divvy/divvy.toml\n" + Paragraph("Configuration of the machine's daemon (optional).") +
         ".TP\n.I /run/divvy/divvy.sock\n" + Paragraph("Socket of the machine's daemon.") + ".TP\n.I /var/lib/divvy\n" +
         Paragraph("Database and job output of the machine's daemon.") +
         ".TP\n.IR $XDG_CONFIG_HOME/divvy \", \" $XDG_STATE_HOME/divvy \", \" $XDG_RUNTIME_DIR/divvy\n" +
         Paragraph("The same for a user's private daemon.");
  return out;
}

Status WriteFile(const std::string& path, const std::string& text) {
  std::FILE* file = std::fopen(path.c_str(), "we");
  if (file == nullptr) return FailedPrecondition("cannot write '" + path + "': " + std::strerror(errno));
  const bool is_written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool is_closed = std::fclose(file) == 0;
  if (!is_written || !is_closed) return FailedPrecondition("cannot write '" + path + "': " + std::strerror(errno));
  return {};
}

}  // namespace

int ManMain(const Words& words) {
  if (words.size() != 1) return Fail(InvalidArgument("usage: divvy internal-man DIR"));
  const std::string& directory = words.front();
  if (::mkdir(directory.c_str(), 0755) != 0 && errno != EEXIST) {
    return Fail(FailedPrecondition("cannot create the directory '" + directory + "': " + std::strerror(errno)));
  }
  if (const Status written = WriteFile(directory + "/divvy.1", MainPage()); !written) return Fail(written.error());
  for (const Command& command : Commands()) {
    if (command.is_hidden) continue;
    const Status written = WriteFile(directory + "/divvy-" + std::string(command.name) + ".1", CommandPage(command));
    if (!written) return Fail(written.error());
  }
  return 0;
}

}  // namespace divvy::cli
