#include "store/row.h"

#include <algorithm>
#include <array>
#include <bit>
#include <type_traits>

#include "base/text.h"
#include "wire/json/json.h"
#include "wire/messages/messages_describe.h"

namespace divvy {
namespace {

// Enumerators are stored as numbers, so these may never change. Add new ones at the end. A new state that is not final
// needs a migration, because the indices contain kSucceeded's number.
static_assert(static_cast<int>(JobState::kHeld) == 0 && static_cast<int>(JobState::kQueued) == 1);
static_assert(static_cast<int>(JobState::kStarting) == 2 && static_cast<int>(JobState::kRunning) == 3);
static_assert(static_cast<int>(JobState::kPaused) == 4 && static_cast<int>(JobState::kStopping) == 5);
static_assert(static_cast<int>(JobState::kSucceeded) == 6 && static_cast<int>(JobState::kFailed) == 7);
static_assert(static_cast<int>(JobState::kCancelled) == 8 && static_cast<int>(JobState::kTimedOut) == 9);
static_assert(static_cast<int>(JobState::kLost) == 10);
static_assert(static_cast<int>(Dialect::kNative) == 0 && static_cast<int>(Dialect::kSlurm) == 1);
static_assert(static_cast<int>(Dialect::kGflow) == 2 && static_cast<int>(Dialect::kValohai) == 3);
static_assert(static_cast<int>(PlacementStrategy::kSequential) == 0 &&
              static_cast<int>(PlacementStrategy::kRandom) == 1);
static_assert(static_cast<int>(PlacementStrategy::kPack) == 2 && static_cast<int>(PlacementStrategy::kSpread) == 3);
static_assert(static_cast<int>(PlacementStrategy::kBest) == 4);
static_assert(static_cast<int>(TopologyNeed::kNuma) == 1 && static_cast<int>(TopologyNeed::kNvlink) == 2);
static_assert(static_cast<int>(TopologyNeed::kRack) == 3 && static_cast<int>(TopologyNeed::kBlock) == 4);
static_assert(static_cast<int>(Preemptible::kPause) == 1 && static_cast<int>(Preemptible::kRequeue) == 2);

// The highest number that the store may have for each enum; a larger one is invalid. Update these functions when an
// enumerator is added at the end. The contract test covers all values.
constexpr std::int64_t Highest(JobState) { return static_cast<std::int64_t>(JobState::kLost); }
constexpr std::int64_t Highest(StopIntent) { return static_cast<std::int64_t>(StopIntent::kRequeue); }
constexpr std::int64_t Highest(Dialect) { return static_cast<std::int64_t>(Dialect::kValohai); }
constexpr std::int64_t Highest(PlacementStrategy) { return static_cast<std::int64_t>(PlacementStrategy::kBest); }
constexpr std::int64_t Highest(TopologyNeed) { return static_cast<std::int64_t>(TopologyNeed::kBlock); }
constexpr std::int64_t Highest(Preemptible) { return static_cast<std::int64_t>(Preemptible::kRequeue); }

constexpr std::array<std::string_view, 5> kDependencyNames = {"after", "after_ok", "after_not_ok", "after_any",
                                                              "singleton"};
constexpr std::array<std::string_view, 3> kDependencyStatuses = {"", "=satisfied", "=impossible"};

constexpr std::array<std::string_view, 13> kRunColumns = {
    "attempt", "state",     "waits_since", "begin_at",  "started",     "ended", "node",
    "gang",    "gpu_model", "gpu_parts",   "gpu_slice", "pool_of_run", "gpus"};

// Calls `walk` with the name and the field of each column. Record is JobRecord or const JobRecord.
template <typename Walk, typename Record>
void WalkColumns(Walk& walk, Record& record) {
  walk("id", record.id);
  walk("spec_of", record.spec_of);
  walk("state", record.state);
  walk("user", record.user.name);
  walk("uid", record.user.uid);
  walk("gid", record.user.gid);
  walk("name", record.name);
  walk("request_gpus", record.request.gpus);
  walk("gpu_type", record.request.gpu_type);
  walk("gpu_memory", record.request.gpu_memory);
  walk("cpus", record.request.cpus);
  walk("memory", record.request.memory);
  walk("tasks", record.request.tasks);
  walk("priority", record.priority);
  walk("submitted", record.submitted);
  walk("queued_at", record.queued_at);
  walk("waits_since", record.waits_since);
  walk("begin_at", record.begin);
  walk("started", record.started);
  walk("ended", record.ended);
  walk("time_limit", record.time_limit);
  walk("end_by", record.end_by);
  walk("full_limit", record.full_limit);
  walk("gpus", record.gpus);
  walk("attempt", record.attempt);
  walk("restarts", record.restarts);
  walk("retries_used", record.retries_used);
  walk.WalkExit(record.exit);
  walk("reason", record.reason);
  walk("start_reason", record.start_reason);
  walk("project", record.project);
  walk("comment", record.comment);
  walk("job_group", record.group);
  walk("dialect", record.dialect);
  walk("dependencies", record.dependencies);
  walk("needs_any_dependency", record.needs_any_dependency);
  walk("keeps_waiting", record.keeps_waiting);
  walk("is_held", record.is_held);
  walk("stop_intent", record.stop_intent);
  walk("is_foreground", record.is_foreground);
  walk("wants_pty", record.wants_pty);
  walk("requeues_after_reboot", record.requeues_after_reboot);
  walk("retries", record.retries);
  walk("retry_delay", record.retry_delay);
  walk("placement", record.placement);
  walk("is_placement_set", record.is_placement_set);
  walk("array_id", record.array);
  walk("array_index", record.array_index);
  walk("array_ordinal", record.array_ordinal);
  walk("array_count", record.array_count);
  walk("array_at_once", record.array_at_once);
  walk("array_succeeded", record.array_succeeded);
  walk("array_failed", record.array_failed);
  walk("array_cancelled", record.array_cancelled);
  walk("array_exit_code", record.array_exit_code);
  walk("array_waiting", record.array_waiting);
  walk("array_indices", record.array_indices);
  walk("team", record.team);
  walk("preemptible", record.preemptible);
  walk("is_preemptible_set", record.is_preemptible_set);
  walk("gpus_most", record.request.max_gpus);
  walk("topology", record.request.topology);
  walk("requires_topology", record.request.requires_topology);
  walk("takes_resizes", record.takes_resizes);
  walk("gpus_asked_back", record.gpus_asked_back);
  walk("asked_back_at", record.asked_back_at);
  walk("gpus_used", record.gpus_used);
  walk("gpus_since", record.gpus_since);
  walk("grown_at", record.grown_at);
  walk("shape", record.shape);
  walk("gpu_model", record.gpu_model);
  walk("progress_at", record.progress.at);
  walk("progress_done", record.progress.done);
  walk("progress_step", record.progress.step);
  walk("progress_steps", record.progress.steps);
  walk("progress_since", record.progress.since);
  walk("progress_done_since", record.progress.done_since);
  walk("node", record.node);
  walk("gang", record.gang);
  walk("was_let_go", record.was_let_go);
  walk("pool", record.pool);
  walk("nodes", record.request.nodes);
  walk("spreads_tasks", record.request.spreads_tasks);
  walk("node_constraint", record.request.constraint);
  walk("node_list", record.request.node_list);
  walk("excluded_nodes", record.request.excluded_nodes);
  walk("pool_of_run", record.pool_of_run);
  walk("others", record.request.others);
  walk("portion", record.request.portion);
  walk("slice", record.request.slice);
  walk("gpu_parts", record.gpu_parts);
  walk("gpu_slice", record.gpu_slice);
  walk("is_run_once", record.is_run_once);
  walk("stale_grace", record.stale_grace);
  walk("short_nodes", record.request.short_nodes);
}

template <typename Walk, typename ExitOfRecord>
void WalkExitColumns(Walk& walk, ExitOfRecord& exit) {
  walk("exit_code", exit.code);
  walk("exit_signal", exit.signal);
  walk("exit_oom_killed", exit.was_oom_killed);
  walk("exit_hit_time_limit", exit.hit_time_limit);
  walk("exit_is_known", exit.is_known);
  walk("exit_failure", exit.failure);
  walk("exit_cpu_time", exit.cpu_time);
  walk("exit_memory_peak", exit.memory_peak);
  walk("exit_steps", exit.steps);
}

struct NameWalk {
  std::vector<std::string> names;

  template <typename T>
  void operator()(const char* name, const T&) {
    names.emplace_back(name);
  }
  void WalkExit(const std::optional<Exit>&) {
    const Exit exit;
    WalkExitColumns(*this, exit);
  }
};

const std::vector<std::string>& ColumnNames() {
  static const std::vector<std::string> names = [] {
    NameWalk walk;
    const JobRecord record;
    WalkColumns(walk, record);
    return walk.names;
  }();
  return names;
}

// Returns the column's name as SQL. PostgreSQL reads an unquoted "user" as the name of the connected user.
std::string SqlName(const std::string& column) { return column == "user" ? "\"user\"" : column; }

std::vector<std::string> SqlNames() {
  std::vector<std::string> names;
  for (const std::string& name : ColumnNames()) names.push_back(SqlName(name));
  return names;
}

int ExitColumnCount() {
  static const int count = [] {
    NameWalk walk;
    walk.WalkExit(std::nullopt);
    return static_cast<int>(walk.names.size());
  }();
  return count;
}

struct BindWalk {
  Parameters& statement;
  int parameter = 0;

  template <typename T>
  void operator()(const char*, const T& value) {
    Bind(value);
  }
  void WalkExit(const std::optional<Exit>& exit) {
    if (exit) return WalkExitColumns(*this, *exit);
    for (int i = 0; i < ExitColumnCount(); ++i) statement.BindNull(++parameter);
  }

  template <typename T>
  requires(std::is_integral_v<T> || std::is_enum_v<T>) void Bind(T value) {
    statement.Bind(++parameter, static_cast<std::int64_t>(value));
  }
  void Bind(const std::string& text) { statement.Bind(++parameter, std::string_view(text)); }
  void Bind(JobId id) { Bind(id.value()); }
  void Bind(Bytes bytes) { Bind(bytes.count()); }
  void Bind(Time time) { Bind(time.time_since_epoch().count()); }
  void Bind(Duration duration) { Bind(duration.count()); }
  void Bind(GpuSet set) { Bind(std::bit_cast<std::int64_t>(set.bits())); }
  void Bind(const std::vector<Dependency>& list) { BindList(list.empty() ? "" : DependenciesToText(list)); }
  void Bind(const std::vector<NodeAllocation>& allocations) {
    BindList(allocations.empty() ? "" : ToJson(allocations, Fields::kChanged));
  }
  void Bind(const std::vector<Component>& others) { BindList(others.empty() ? "" : ToJson(others, Fields::kChanged)); }
  void Bind(const GpuPortion& portion) { BindList(portion == GpuPortion() ? "" : ToJson(portion, Fields::kChanged)); }
  void Bind(const GpuSlice& slice) { BindList(slice.any() ? ToJson(slice, Fields::kChanged) : ""); }
  void Bind(GpuShare share) { Bind(share.ten_thousandths()); }
  void Bind(const std::vector<std::string>& names) { BindList(Join(names, ",")); }
  void Bind(const IndexRanges& ranges) { BindList(ranges.empty() ? "" : RangesToText(ranges)); }
  void BindList(const std::string& text) { statement.BindCopy(++parameter, text); }
};

struct ReadWalk {
  const Columns& statement;
  int column = 0;
  const char* damaged = nullptr;  // The first column that cannot be parsed.

  template <typename T>
  void operator()(const char* name, T& value) {
    if (!Read(value) && damaged == nullptr) damaged = name;
    ++column;
  }
  void WalkExit(std::optional<Exit>& exit) {
    const bool has_exit = !statement.IsNull(column);
    Exit read;
    WalkExitColumns(*this, read);
    if (has_exit) exit = std::move(read);
  }

  template <typename T>
  requires(std::is_integral_v<T>) bool Read(T& value) {
    const std::int64_t number = statement.Integer(column);
    value = static_cast<T>(number);
    return static_cast<std::int64_t>(value) == number;
  }
  template <typename T>
  requires(std::is_enum_v<T>) bool Read(T& value) {
    const std::int64_t number = statement.Integer(column);
    if (number < 0 || number > Highest(T())) return false;
    value = static_cast<T>(number);
    return true;
  }
  bool Read(std::string& value) {
    value = statement.Text(column);
    return true;
  }
  bool Read(JobId& id) {
    id = JobId(static_cast<std::uint64_t>(statement.Integer(column)));
    return true;
  }
  bool Read(Bytes& bytes) {
    bytes = Bytes(statement.Integer(column));
    return true;
  }
  bool Read(Time& time) {
    time = Time(Duration(statement.Integer(column)));
    return true;
  }
  bool Read(Duration& duration) {
    duration = Duration(statement.Integer(column));
    return true;
  }
  bool Read(GpuSet& set) {
    set = GpuSet::FromBits(std::bit_cast<std::uint64_t>(statement.Integer(column)));
    return true;
  }
  bool Read(std::vector<Dependency>& list) {
    const std::string_view text = statement.Text(column);
    if (text.empty()) return true;
    auto read = DependenciesFromText(text);
    if (read) list = std::move(*read);
    return read.has_value();
  }
  bool Read(GpuShare& share) {
    share = GpuShare(static_cast<std::int32_t>(statement.Integer(column)));
    return share.ten_thousandths() == statement.Integer(column);
  }
  bool Read(std::vector<NodeAllocation>& allocations) { return ReadJson(allocations); }
  bool Read(std::vector<Component>& others) { return ReadJson(others); }
  bool Read(GpuPortion& portion) { return ReadJson(portion); }
  bool Read(GpuSlice& slice) { return ReadJson(slice); }
  template <typename T>
  bool ReadJson(T& value) {
    const std::string_view text = statement.Text(column);
    if (text.empty()) return true;
    auto read = FromJson<T>(text);
    if (read) value = std::move(*read);
    return read.has_value();
  }
  bool Read(std::vector<std::string>& names) {
    const std::string_view text = statement.Text(column);
    for (const std::string_view name : Split(text, ',')) {
      if (!name.empty()) names.emplace_back(name);
    }
    return true;
  }
  bool Read(IndexRanges& ranges) {
    const std::string_view text = statement.Text(column);
    if (text.empty()) return true;
    auto read = IndexRanges::Parse(text, "");
    if (read) ranges = std::move(*read);
    return read.has_value();
  }
};

std::optional<std::uint64_t> ParseCount(std::string_view text) {
  const auto value = ParseInteger(text);
  if (!value || *value < 0) return std::nullopt;
  return static_cast<std::uint64_t>(*value);
}

std::optional<Dependency> DependencyFromText(std::string_view text) {
  Dependency out;
  const auto colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  std::size_t number = 0;
  while (number < kDependencyNames.size() && kDependencyNames[number] != kind) ++number;
  if (number == kDependencyNames.size()) return std::nullopt;
  out.kind = static_cast<DependencyKind>(number);
  if (colon == std::string_view::npos) return out;
  text.remove_prefix(colon + 1);
  for (std::size_t status = 1; status < kDependencyStatuses.size(); ++status) {
    if (!text.ends_with(kDependencyStatuses[status])) continue;
    out.status = static_cast<DependencyStatus>(status);
    text.remove_suffix(kDependencyStatuses[status].size());
  }
  if (const auto plus = text.find('+'); plus != std::string_view::npos) {
    const auto delay = ParseInteger(text.substr(plus + 1));
    if (!delay) return std::nullopt;
    out.delay = Duration(*delay);
    text = text.substr(0, plus);
  }
  if (const auto underscore = text.find('_'); underscore != std::string_view::npos) {
    const auto element = ParseCount(text.substr(underscore + 1));
    if (!element || *element > UINT32_MAX) return std::nullopt;
    out.element = static_cast<std::uint32_t>(*element);
    text = text.substr(0, underscore);
  }
  const auto job = ParseCount(text);
  if (!job) return std::nullopt;
  out.job = JobId(*job);
  return out;
}

}  // namespace

const std::string& RowColumns() {
  static const std::string text = Join(SqlNames(), ", ");
  return text;
}

const std::string& RowParameters() {
  static const std::string text = [] {
    std::vector<std::string> parameters;
    for (std::size_t i = 1; i <= ColumnNames().size(); ++i) parameters.push_back("?" + std::to_string(i));
    return Join(parameters, ", ");
  }();
  return text;
}

const std::string& RowAliases() {
  static const std::string text = [] {
    std::vector<std::string> aliases;
    for (std::size_t i = 0; i < ColumnNames().size(); ++i)
      aliases.push_back("?" + std::to_string(i + 1) + " AS " + SqlName(ColumnNames()[i]));
    return Join(aliases, ", ");
  }();
  return text;
}

const std::string& RowAssignments() {
  static const std::string text = [] {
    std::vector<std::string> assignments;
    for (std::size_t i = 1; i < ColumnNames().size(); ++i) {
      assignments.push_back(SqlName(ColumnNames()[i]) + " = ?" + std::to_string(i + 1));
    }
    return Join(assignments, ", ");
  }();
  return text;
}

const std::string& RunColumns() {
  static const std::string text = Join(std::vector<std::string>(kRunColumns.begin(), kRunColumns.end()), ", ");
  return text;
}

const std::string& ColumnsOfRuns() {
  static const std::string text = [] {
    std::vector<std::string> columns;
    for (const std::string& name : ColumnNames())
      columns.push_back((std::ranges::find(kRunColumns, name) == kRunColumns.end() ? "jobs." : "runs.") +
                        SqlName(name));
    return Join(columns, ", ");
  }();
  return text;
}

std::string RowParameter(std::string_view column) {
  for (std::size_t i = 0; i < ColumnNames().size(); ++i) {
    if (ColumnNames()[i] == column) return "?" + std::to_string(i + 1);
  }
  DIVVY_ASSERT(!"a column of this name exists");
  return {};
}

void BindRow(Parameters& statement, const JobRecord& record) {
  BindWalk walk{statement};
  WalkColumns(walk, record);
}

Result<JobRecord> ReadRow(const Columns& row) {
  JobRecord record;
  ReadWalk walk{row};
  WalkColumns(walk, record);
  if (walk.damaged == nullptr) return record;
  return CorruptData("job " + ToString(record.id) + ": column " + walk.damaged +
                     " holds an invalid value; restore the database from a backup");
}

std::string DependenciesToText(const std::vector<Dependency>& dependencies) {
  std::string out;
  for (const Dependency& dependency : dependencies) {
    if (!out.empty()) out += ',';
    out += kDependencyNames.at(static_cast<std::size_t>(dependency.kind));
    if (!dependency.job.is_set() && !dependency.element && dependency.delay == Duration(0)) continue;
    out += ':' + ToString(dependency.job);
    if (dependency.element) out += '_' + std::to_string(*dependency.element);
    if (dependency.delay != Duration(0)) out += '+' + std::to_string(dependency.delay.count());
    out += kDependencyStatuses.at(static_cast<std::size_t>(dependency.status));
  }
  return out;
}

std::optional<std::vector<Dependency>> DependenciesFromText(std::string_view text) {
  std::vector<Dependency> out;
  if (text.empty()) return out;
  for (std::string_view part : Split(text, ',')) {
    auto dependency = DependencyFromText(part);
    if (!dependency) return std::nullopt;
    out.push_back(*dependency);
  }
  return out;
}

std::string RangesToText(const IndexRanges& ranges) {
  // IndexRanges::Parse accepts at most 100,000 members in one stepped range.
  constexpr std::size_t kLongestRun = 100'000;
  const auto& all = ranges.ranges();
  const auto is_single = [&](std::size_t i) { return i < all.size() && all[i].first == all[i].last; };
  std::string out;
  for (std::size_t i = 0; i < all.size();) {
    std::size_t run = 1;  // Number of single members from i on with the same step between them.
    if (is_single(i) && is_single(i + 1)) {
      const std::uint32_t step = all[i + 1].first - all[i].first;
      while (run < kLongestRun && is_single(i + run) && all[i + run].first - all[i + run - 1].first == step) ++run;
    }
    if (!out.empty()) out += ',';
    out += std::to_string(all[i].first);
    if (run >= 3) {
      out += '-' + std::to_string(all[i + run - 1].first) + ':' + std::to_string(all[i + 1].first - all[i].first);
      i += run;
      continue;
    }
    if (!is_single(i)) out += '-' + std::to_string(all[i].last);
    ++i;
  }
  return out;
}

}  // namespace divvy
