#include "store/sample_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>

namespace divvy {
namespace {

constexpr std::int64_t kLayout = 1;

// WAL without syncs: commits only append, a crash of the machine may lose them, and readers never wait.
constexpr const char* kOpen =
    "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA cache_size = -4096;";
constexpr const char* kSchema =
    "CREATE TABLE IF NOT EXISTS subject (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);"
    "CREATE TABLE IF NOT EXISTS block ("
    "  subject INTEGER NOT NULL, step INTEGER NOT NULL, begin INTEGER NOT NULL, end INTEGER NOT NULL,"
    "  bytes BLOB NOT NULL, UNIQUE (subject, step, begin));"
    "CREATE INDEX IF NOT EXISTS block_by_age ON block (step, end);";

}  // namespace

Result<std::unique_ptr<SampleFile>> SampleFile::Open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return FailedPrecondition("cannot open " + path + ": " + std::strerror(errno));
  ::close(fd);
  Error error = Internal("");
  for (const bool is_new : {false, true}) {
    std::unique_ptr<SampleFile> file(new SampleFile(path));
    const Status prepared = file->Prepare();
    if (prepared) return file;
    error = prepared.error();
    if (is_new || error.code != ErrorCode::kCorruptData) break;
    file.reset();
    for (const char* end : {"", "-wal", "-shm"}) ::rename((path + end).c_str(), (path + ".damaged" + end).c_str());
    const int again = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (again >= 0) ::close(again);
  }
  return error;
}

Status SampleFile::Prepare() {
  DIVVY_CHECK(connection_.Open());
  DIVVY_CHECK(connection_.Execute(kOpen));
  DIVVY_TRY(const std::int64_t layout, connection_.QueryInteger("PRAGMA user_version"));
  if (layout != 0 && layout != kLayout)
    return CorruptData(connection_.path() + " is from another release (layout " + std::to_string(layout) + ")");
  DIVVY_CHECK(connection_.Execute(kSchema));
  DIVVY_CHECK(connection_.Execute("PRAGMA user_version = 1"));
  DIVVY_TRY(put_, connection_.Prepare("INSERT OR REPLACE INTO block VALUES (?, ?, ?, ?, ?)"));
  DIVVY_TRY(find_subject_, connection_.Prepare("SELECT id FROM subject WHERE name = ?"));
  DIVVY_TRY(add_subject_, connection_.Prepare("INSERT INTO subject (name) VALUES (?) RETURNING id"));
  DIVVY_TRY(read_, connection_.Prepare("SELECT begin, end, bytes FROM block WHERE subject = ? AND step = ? AND "
                                       "begin < ? AND end > ? ORDER BY begin"));
  DIVVY_TRY(each_, connection_.Prepare("SELECT name, begin, end, bytes FROM block JOIN subject ON subject.id = "
                                       "block.subject WHERE step = ? AND end > ?"));
  DIVVY_TRY(subjects_, connection_.Prepare("SELECT name FROM subject WHERE name >= ? AND name < ? ORDER BY name"));
  DIVVY_TRY(drop_older_, connection_.Prepare("DELETE FROM block WHERE step = ? AND end < ?"));
  DIVVY_TRY(oldest_, connection_.Prepare("SELECT min(end), max(end) FROM block WHERE step = ?"));
  return {};
}

Result<std::int64_t> SampleFile::IdOf(const std::string& subject, bool makes) {
  find_subject_.Bind(1, subject);
  DIVVY_TRY(const bool is_known, find_subject_.Next());
  if (is_known) {
    const std::int64_t id = find_subject_.Integer(0);
    find_subject_.Reset();
    return id;
  }
  if (!makes) return 0;
  add_subject_.Bind(1, subject);
  DIVVY_TRY(const bool has_row, add_subject_.Next());
  const std::int64_t id = has_row ? add_subject_.Integer(0) : 0;
  add_subject_.Reset();
  return id;
}

Status SampleFile::Put(const std::vector<SampleBlock>& blocks) {
  if (blocks.empty()) return {};
  DIVVY_CHECK(connection_.Execute("BEGIN IMMEDIATE"));
  const auto put_all = [&]() -> Status {
    for (const SampleBlock& block : blocks) {
      DIVVY_TRY(const std::int64_t subject, IdOf(block.subject, true));
      put_.Bind(1, subject);
      put_.Bind(2, block.step);
      put_.Bind(3, block.begin);
      put_.Bind(4, block.end);
      put_.Bind(5, block.bytes);
      DIVVY_CHECK(put_.Run());
    }
    return connection_.Execute("COMMIT");
  };
  Status done = put_all();
  if (!done && connection_.is_in_transaction()) static_cast<void>(connection_.Execute("ROLLBACK"));
  return done;
}

Result<std::vector<SampleBlock>> SampleFile::Read(const std::string& subject, std::int64_t step, std::int64_t since,
                                                  std::int64_t until) {
  std::vector<SampleBlock> blocks;
  DIVVY_TRY(const std::int64_t id, IdOf(subject, false));
  if (id == 0) return blocks;
  read_.Bind(1, id);
  read_.Bind(2, step);
  read_.Bind(3, until);
  read_.Bind(4, since);
  while (true) {
    DIVVY_TRY(const bool has_row, read_.Next());
    if (!has_row) return blocks;
    blocks.push_back({subject, step, read_.Integer(0), read_.Integer(1), std::string(read_.Text(2))});
  }
}

Status SampleFile::ForEach(std::int64_t step, std::int64_t since,
                           const std::function<void(const SampleBlock& block)>& take) {
  each_.Bind(1, step);
  each_.Bind(2, since);
  while (true) {
    DIVVY_TRY(const bool has_row, each_.Next());
    if (!has_row) return {};
    take({std::string(each_.Text(0)), step, each_.Integer(1), each_.Integer(2), std::string(each_.Text(3))});
  }
}

Result<std::vector<std::string>> SampleFile::Subjects(std::string_view prefix) {
  std::vector<std::string> names;
  std::string behind(prefix);
  behind.push_back('\x7f');  // Subjects start with ASCII characters.
  subjects_.Bind(1, prefix);
  subjects_.Bind(2, behind);
  while (true) {
    DIVVY_TRY(const bool has_row, subjects_.Next());
    if (!has_row) return names;
    names.emplace_back(subjects_.Text(0));
  }
}

Status SampleFile::DropOlder(std::int64_t step, std::int64_t before) {
  drop_older_.Bind(1, step);
  drop_older_.Bind(2, before);
  DIVVY_CHECK(drop_older_.Run());
  return connection_.rows_changed() > 0 ? DropUnused() : Status();
}

Status SampleFile::DropUnused() {
  return connection_.Execute("DELETE FROM subject WHERE id NOT IN (SELECT DISTINCT subject FROM block)");
}

Result<Bytes> SampleFile::Size() {
  DIVVY_TRY(const std::int64_t pages, connection_.QueryInteger("PRAGMA page_count"));
  DIVVY_TRY(const std::int64_t unused, connection_.QueryInteger("PRAGMA freelist_count"));
  DIVVY_TRY(const std::int64_t size, connection_.QueryInteger("PRAGMA page_size"));
  return Bytes((pages - unused) * size);
}

// Each round drops an eighth of the time range of one step, so that there are few rounds.
Status SampleFile::Bound(Bytes most) {
  DIVVY_TRY(Bytes size, Size());
  const bool was_too_large = size > most;
  constexpr int kMostRounds = 64;
  for (int round = 0; size > most && round < kMostRounds; ++round) {
    // Blocks with the finest step are dropped first, and blocks of whole jobs (step 0) last.
    DIVVY_TRY(const std::int64_t step, connection_.QueryInteger("SELECT coalesce(min(nullif(step, 0)), 0) FROM block"));
    oldest_.Bind(1, step);
    DIVVY_TRY(const bool has_row, oldest_.Next());
    if (!has_row || oldest_.IsNull(0)) break;
    const std::int64_t oldest = oldest_.Integer(0);
    const std::int64_t newest = oldest_.Integer(1);
    oldest_.Reset();
    DIVVY_CHECK(DropOlder(step, oldest + (newest - oldest) / 8 + 1));
    DIVVY_TRY(size, Size());
  }
  if (!was_too_large) return {};
  return connection_.Execute("PRAGMA incremental_vacuum");
}

}  // namespace divvy
