// divvy top: GPUs, running jobs and the waiting list on one screen that updates itself, with keys for actions.
#include <poll.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "base/text.h"
#include "base/utf8.h"
#include "cli/client/api.h"
#include "cli/client/commands.h"
#include "cli/client/job_text.h"
#include "cli/client/process_text.h"
#include "cli/client/shown_answer.h"
#include "cli/reports/waste_text.h"
#include "cli/top/top_frame.h"
#include "cli/top/top_question.h"
#include "cli/top/top_screen.h"
#include "cli/top/top_view.h"
#include "wire/messages/page_messages.h"
#include "wire/messages/series_messages.h"

namespace divvy::cli {
namespace {

using dialect::Option;
using SteadyClock = std::chrono::steady_clock;

/// The largest number of jobs that are queried. Users do not scroll further, and each query costs the daemon time in
/// proportion to its length.
constexpr std::int64_t kMostJobs = 2000;
/// Each expected start costs the daemon a plan. On a small cluster, all starts on the screen are queried in one refresh
/// and are consistent. If each takes milliseconds, only a few are queried per refresh.
constexpr std::size_t kLeastStartsALook = 3;
constexpr auto kStartsTakeALook = std::chrono::milliseconds(30);
constexpr double kStartsStayS = 20;
/// How long --once waits at most for the expected starts.
constexpr auto kStartsTakeOnce = std::chrono::milliseconds(500);
constexpr int kSmallestColumns = 40;
constexpr std::size_t kUsualColumns = 80;

struct TopFlags {
  double interval_s = 1;
  bool is_once = false;
  std::string user;
};

std::vector<Option> OptionTable(TopFlags& flags) {
  std::vector<Option> table;
  table.push_back(Option::Value(
      "interval", 'd', "SECONDS", "Refresh interval (default: 1)", [&flags](std::string_view value) -> Status {
        const auto seconds = ParseNumber(value);
        if (!seconds || !(*seconds >= 0.1 && *seconds <= 3600))
          return InvalidArgument("--interval must be 0.1 to 3600 seconds, not '" + std::string(value) + "'");
        flags.interval_s = *seconds;
        return {};
      }));
  table.push_back(Option::Flag("once", "Print one screen and exit, for files and pipes", dialect::Sets(flags.is_once)));
  table.push_back(Option::Value("user", 'u', "NAME", "Only this user's jobs", dialect::Keeps(flags.user)));
  return table;
}

Status Look(Api& api, TopFacts& facts) {
  DIVVY_TRY(facts.status, api.Status());
  DIVVY_TRY(facts.gpus, api.Gpus());
  facts.slowdowns = SlowdownsOf(AskLatest(api));
  wire::JobSelector select;
  select.user = "all";
  select.limit = kMostJobs;
  DIVVY_TRY(facts.jobs, api.Jobs(select));
  facts.wasted.clear();
  for (const wire::WastefulJob& job : AskWaste(api).jobs) facts.wasted[job.display_id] = job.wasted_gpus;
  return {};
}

/// Loads earlier samples of the GPUs, one point per refresh. Adds nothing if no samples are taken.
void SeedHistory(Api& api, const TopFlags& flags, const TopFacts& facts, TopHistory& history) {
  const auto back =
      std::llround(std::ceil(static_cast<double>(TopHistory::kLooks - 1) * std::max(flags.interval_s, 1.0)));
  const auto json = api.Raw("GET",
                            "/v1/series?of=gpu&metrics=gpu_utilization,gpu_memory_used_bytes&since=-" +
                                std::to_string(back) + "&points=" + std::to_string(TopHistory::kLooks),
                            "");
  if (!json) return;
  if (const auto seen = DecodeShown<wire::SeriesAnswer>(*json)) history.Seed(*seen, facts.gpus);
}

/// Queries the starts of all waiting jobs at once. Repeats the query while the daemon reports that it is incomplete.
void LookAtStarts(Api& api, TopFacts& facts) {
  const auto until = SteadyClock::now() + kStartsTakeOnce;
  bool is_complete = false;
  while (!is_complete && SteadyClock::now() < until) {
    const auto json = api.Raw("GET", "/v1/starts?limit=" + std::to_string(kMostJobs), "");
    const auto answer = json ? DecodeShown<wire::StartsAnswer>(*json) : json.error();
    if (!answer) return;
    is_complete = answer->is_complete;
    std::map<JobId, double> starts;
    for (const wire::StartView& one : answer->starts) {
      if (one.start) starts.emplace(one.id, *one.start);
    }
    for (const wire::JobView& job : facts.jobs) {
      if (const auto start = starts.find(job.id); start != starts.end())
        facts.expected_starts[job.display_id] = start->second;
    }
  }
}

/// Waits for any key. Typed keys are not shown, and the next reader does not see them.
void AwaitKey() {
  std::fputs("\n-- any key: back --", stdout);
  std::fflush(stdout);
  termios before = {};
  const bool is_terminal = ::tcgetattr(STDIN_FILENO, &before) == 0;
  termios raw = before;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw.c_cc[VMIN] = 1;
  raw.c_cc[VTIME] = 0;
  if (is_terminal) ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  char key = 0;
  while (::read(STDIN_FILENO, &key, 1) < 0 && errno == EINTR) {
  }
  if (is_terminal) ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
}

/// Runs a divvy command, which uses the terminal until it ends.
void RunDivvy(const std::vector<std::string>& words, bool waits_for_key) {
  // Ctrl-C ends that command, not this screen.
  const auto before = std::signal(SIGINT, SIG_IGN);
  const pid_t pid = ::fork();
  if (pid == 0) {
    std::signal(SIGINT, SIG_DFL);
    std::vector<std::string> all = {"divvy"};
    all.insert(all.end(), words.begin(), words.end());
    std::vector<char*> argv;
    for (std::string& word : all) argv.push_back(word.data());
    argv.push_back(nullptr);
    ::execv("/proc/self/exe", argv.data());
    ::_exit(127);
  }
  int status = 0;
  while (pid > 0 && ::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  std::signal(SIGINT, before);
  if (pid < 0) return;
  const bool was_interrupted =
      (WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) || (WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGINT);
  if (waits_for_key && !was_interrupted) AwaitKey();
}

class Top {
 public:
  Top(Api api, std::unique_ptr<TopScreen> screen, const TopFlags& flags)
      : api_(std::move(api)), screen_(std::move(screen)), flags_(flags) {
    choice_ = FirstChoice();
  }

  int Run() {
    Refresh();
    while (true) {
      Draw();
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(next_ - SteadyClock::now());
      const TopEvent event = screen_->Wait(static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1000)));
      if (question_) OnAnswer(event);
      else if (event.key == TopKey::kCharacter && event.character == 'q') return 0;
      else if (event.key != TopKey::kNone) OnEvent(event);
      if (SteadyClock::now() >= next_) Refresh();
    }
  }

 private:
  void Refresh() {
    next_ = SteadyClock::now() + std::chrono::milliseconds(static_cast<int>(flags_.interval_s * 1000));
    facts_.now = NowSeconds();
    Status looked = Look(api_, facts_);
    if (!looked && looked.error().code == ErrorCode::kUnreachable) {
      // The daemon may have restarted.
      if (auto again = Api::Connect()) {
        api_ = *std::move(again);
        looked = Look(api_, facts_);
      }
    }
    facts_.trouble = looked ? "" : looked.error().message;
    if (!looked) return;
    if (!is_seeded_) SeedHistory(api_, flags_, facts_, history_);
    is_seeded_ = true;
    history_.Add(facts_.gpus);
    AskForStarts();
  }

  // Queries the waiting jobs on the screen whose answers are the oldest.
  void AskForStarts() {
    std::erase_if(asked_, [&](const auto& one) { return facts_.now - one.second > kStartsStayS; });
    std::size_t asked = 0;
    const auto until = SteadyClock::now() + kStartsTakeALook;
    for (const std::string& id : shown_) {
      if (asked >= kLeastStartsALook && SteadyClock::now() >= until) break;
      if (asked_.contains(id)) continue;
      const auto job = std::ranges::find(facts_.jobs, id, &wire::JobView::display_id);
      if (job == facts_.jobs.end() || job->state != "queued") continue;
      ++asked;
      asked_[id] = facts_.now;
      facts_.expected_starts.erase(id);
      const auto why = api_.Why(job->count > 1 ? ToString(job->id) : id);
      if (why && why->predicted_start) facts_.expected_starts[id] = *why->predicted_start;
    }
  }

  void Draw() {
    const std::size_t columns = std::max<std::size_t>(screen_->columns(), kSmallestColumns);
    const std::size_t room = Room();
    // Leave room for jobs on the first screen, however many GPUs there are.
    choice_.most_gpu_lines = shows_all_gpus_ ? 0 : std::max<std::size_t>(room / 2, 2);
    lines_ = TopLines(facts_, history_, choice_, columns);
    // Keep the selection on its job while lines come and go.
    if (const auto at = std::ranges::find(lines_, selected_, &TopLine::job); !selected_.empty() && at != lines_.end())
      cursor_ = static_cast<std::size_t>(at - lines_.begin());
    cursor_ = std::min(cursor_, lines_.empty() ? 0 : lines_.size() - 1);
    selected_ = lines_.empty() ? "" : lines_[cursor_].job;
    placed_ = view_.Rows(lines_, cursor_, room, choice_.is_ascii);
    std::vector<TopLine> rows = {TopTitle(facts_, choice_)};
    std::size_t selected = room + 2;  // None.
    shown_.clear();
    for (const TopView::Row& row : placed_) {
      if (row.index == cursor_ && !row.is_left_out) selected = rows.size();
      rows.push_back(row.line);
      if (!row.line.job.empty()) shown_.push_back(row.line.job);
    }
    rows.resize(room + 1);
    std::optional<std::size_t> typing;
    if (question_) {
      rows.push_back(question_->Shown(columns, choice_.is_ascii));
      typing = question_->Cursor(columns);
    } else {
      rows.push_back(said_.empty() ? TopKeys(columns) : TopLine{{{" " + said_, Colour::kYellow}}, "", "", false});
    }
    screen_->Draw(rows, selected, typing);
  }

  /// Lines between the title and the bottom line.
  std::size_t Room() const { return screen_->rows() > 2 ? screen_->rows() - 2 : 1; }

  TopChoice FirstChoice() const {
    TopChoice choice;
    choice.user = flags_.user;
    choice.is_ascii = screen_->is_ascii();
    return choice;
  }

  void Move(std::ptrdiff_t by) {
    const auto last = static_cast<std::ptrdiff_t>(lines_.empty() ? 0 : lines_.size() - 1);
    cursor_ = static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(cursor_) + by, 0, last));
    selected_ = lines_.empty() ? "" : lines_[cursor_].job;
  }

  /// Goes to the first job, or from there to the first line.
  void GoHome() {
    const auto job = std::ranges::find_if(lines_, [](const TopLine& line) { return !line.job.empty(); });
    const auto first = job == lines_.end() ? 0 : job - lines_.begin();
    const auto at = static_cast<std::ptrdiff_t>(cursor_);
    Move((at == first ? 0 : first) - at);
  }

  void OnEvent(const TopEvent& event) {
    said_.clear();
    const auto page = static_cast<std::ptrdiff_t>(view_.page());
    switch (event.key) {
      case TopKey::kUp:
        return Move(-1);
      case TopKey::kDown:
        return Move(1);
      case TopKey::kPageUp:
        return Move(-page);
      case TopKey::kPageDown:
        return Move(page);
      case TopKey::kHome:
        return GoHome();
      case TopKey::kEnd:
        return Move(static_cast<std::ptrdiff_t>(lines_.size()));
      case TopKey::kClick:
        if (event.row >= 1 && event.row <= placed_.size())
          Move(static_cast<std::ptrdiff_t>(placed_[event.row - 1].index) - static_cast<std::ptrdiff_t>(cursor_));
        return;
      case TopKey::kEscape:
        choice_ = FirstChoice();
        shows_all_gpus_ = false;
        return;
      case TopKey::kEnter:
        return OnCharacter('w');
      case TopKey::kCharacter:
        return OnCharacter(event.character);
      case TopKey::kNone:
      case TopKey::kBackspace:
      case TopKey::kResize:
        return;
    }
  }

  /// Opens a question. The screen keeps updating, but keys only go to the question until it is answered.
  void Ask(TopQuestion question, std::function<void(const std::string&)> then) {
    question_ = std::move(question);
    then_ = std::move(then);
  }

  void OnAnswer(const TopEvent& event) {
    const TopQuestion::State state = question_->On(event);
    if (state == TopQuestion::State::kOpen) return;
    const std::string typed = question_->typed();
    question_.reset();
    const auto then = std::exchange(then_, nullptr);
    if (state == TopQuestion::State::kAnswered) then(typed);
  }

  void OnCharacter(char32_t key) {
    switch (key) {
      case '/':
        return Ask(TopQuestion::Line("Show jobs with: ", "Enter shows them, Escape leaves it"),
                   [this](const std::string& typed) { choice_.filter = typed; });
      case 's':
        choice_.sort = static_cast<TopSort>((static_cast<std::size_t>(choice_.sort) + 1) % kTopSorts);
        return;
      case 't':
        choice_.is_tree = !choice_.is_tree;
        return;
      case 'g':
        choice_.hides_gpus = !choice_.hides_gpus;
        return;
      case 'a':
        shows_all_gpus_ = !shows_all_gpus_;
        choice_.hides_gpus = false;
        return;
      case 'u':
        choice_.user = choice_.user.empty() ? CallerParseContext().user : "";
        return;
      case 'k':
        return Move(-1);
      case 'j':
        return Move(1);
      case '?':
        return screen_->Aside([] { RunDivvy({"top", "--help"}, true); });
      case 'w':
      case 'l':
      case 'h':
      case 'c':
      case 'p':
        break;
      default:
        said_ = "no key '" + OneLine(Utf8(key)) + "'; press ? for a list of keys";
        return;
    }
    if (selected_.empty()) {
      const bool has_jobs = std::ranges::any_of(lines_, [](const TopLine& line) { return !line.job.empty(); });
      said_ = has_jobs ? "this key works on jobs, but a GPU is selected; Home goes to the jobs" : "there are no jobs";
      return;
    }
    OnJob(key, selected_);
  }

  void OnJob(char32_t key, const std::string& id) {
    const auto job = std::ranges::find(facts_.jobs, id, &wire::JobView::display_id);
    if (job == facts_.jobs.end()) return;
    // "17_[4-99]" is the rest of an array: actions use the array's number.
    const std::string name = job->count > 1 ? ToString(job->id) : id;
    if (key == 'w') return screen_->Aside([&] { RunDivvy({"why", name}, true); });
    if (key == 'l') return screen_->Aside([&] { RunDivvy({"logs", "-f", name}, true); });
    if (key == 'p') return AskForPriority(name);
    wire::ActionRequest request;
    request.select.ids = {name};
    if (key == 'c') {
      return Ask(TopQuestion::YesOrNo("Cancel " + name + " (", job->name, ")?"),
                 [this, request](const std::string&) { Say(api_.Cancel(request)); });
    }
    Say(job->state == "held" ? api_.Release(request) : api_.Hold(request));
  }

  void AskForPriority(const std::string& name) {
    Ask(TopQuestion::Line("Priority of job " + name + " (0 is usual): ", "Enter sets it, Escape leaves it"),
        [this, name](const std::string& typed) { SetPriority(name, typed); });
  }

  void SetPriority(const std::string& name, const std::string& typed) {
    if (typed.empty()) return;
    wire::JobUpdate update;
    update.select.ids = {name};
    update.priority = ParseInteger(typed);
    if (!update.priority) {
      said_ = "the priority must be a whole number, not '" + typed + "'";
      return;
    }
    Say(api_.Update(update));
  }

  void Say(const Result<wire::ActionAnswer>& answer) {
    if (!answer) said_ = answer.error().message;
    else if (!answer->results.empty())
      said_ = "job " + answer->results.front().display_id + ": " + answer->results.front().message;
    next_ = SteadyClock::now();
  }

  Api api_;
  std::unique_ptr<TopScreen> screen_;
  TopFlags flags_;
  TopFacts facts_;
  TopHistory history_;
  bool is_seeded_ = false;
  bool shows_all_gpus_ = false;
  TopChoice choice_;
  std::vector<TopLine> lines_;
  TopView view_;
  std::vector<TopView::Row> placed_;  // The visible lines.
  std::size_t cursor_ = 0;            // The selected line.
  std::string selected_;              // The job of that line.
  std::vector<std::string> shown_;
  std::map<std::string, double> asked_;           // When each job's expected start was queried.
  std::string said_;                              // Shown at the bottom until the next key.
  std::optional<TopQuestion> question_;           // Replaces said_ until it is answered.
  std::function<void(const std::string&)> then_;  // Called with the answer.
  SteadyClock::time_point next_;
};

/// One screen as text, as wide as the terminal.
int PrintOnce(Api& api, const TopFlags& flags) {
  TopFacts facts;
  facts.now = NowSeconds();
  if (const Status looked = Look(api, facts); !looked) return Fail(looked.error());
  LookAtStarts(api, facts);
  TopHistory history;
  SeedHistory(api, flags, facts, history);
  history.Add(facts.gpus);
  TopChoice choice;
  choice.user = flags.user;
  choice.is_ascii = IsAsciiLocale();
  choice.is_once = true;
  const auto width = static_cast<std::size_t>(TerminalWidth());
  const std::size_t columns = width == 0 ? kUsualColumns : std::max<std::size_t>(width, kSmallestColumns);
  std::vector<TopLine> lines = TopLines(facts, history, choice, columns);
  lines.insert(lines.begin(), TopTitle(facts, choice));
  for (const TopLine& line : lines) {
    std::string text;
    for (const Cell& span : line.spans) text += Paint(span.colour, span.text);
    while (text.ends_with(' ')) text.pop_back();
    std::printf("%s\n", text.c_str());
  }
  return 0;
}

}  // namespace

std::vector<Option> TopOptions() {
  static TopFlags scratch;
  return OptionTable(scratch);
}

int TopMain(const Words& words) {
  TopFlags flags;
  DIVVY_TRY_OR_FAIL(const auto parsed, dialect::ParseOptions(OptionTable(flags), words));
  if (!parsed.positional.empty())
    return Fail(InvalidArgument("divvy top takes only options, no argument '" + parsed.positional.front() + "'"));
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  if (flags.is_once) return PrintOnce(api, flags);
  DIVVY_TRY_OR_FAIL(auto screen, TopScreen::Take());
  return Top(std::move(api), std::move(screen), flags).Run();
}

}  // namespace divvy::cli
