#include "store/postgres/postgres_connection.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/text.h"
#include "base/utf8.h"
#include "store/postgres/postgres_url.h"

namespace divvy {
namespace {

constexpr unsigned kBigintType = 20;
constexpr unsigned kTextType = 25;
constexpr std::uint32_t kFirstEscape = 0x10FE00;  // Stands for the byte 0.
constexpr std::uint32_t kLastEscape = 0x10FEFF;
constexpr std::string_view kEscapeStart = "\xF4\x8F";  // The first two bytes of all of them.

bool IsEscape(std::uint32_t code) { return code >= kFirstEscape && code <= kLastEscape; }

std::array<char, 8> ToNetwork(std::int64_t value) {
  std::array<char, 8> out;
  auto bits = static_cast<std::uint64_t>(value);
  for (std::size_t i = 8; i-- > 0; bits >>= 8) out[i] = static_cast<char>(bits & 0xFF);
  return out;
}

std::int64_t FromNetwork(const char* bytes) {
  std::uint64_t bits = 0;
  for (int i = 0; i < 8; ++i) bits = bits << 8 | static_cast<unsigned char>(bytes[i]);
  return static_cast<std::int64_t>(bits);
}

std::string ToPostgres(std::string sql) {
  std::ranges::replace(sql, '?', '$');
  return sql;
}

std::vector<unsigned> TypesOf(const std::string& letters) {
  std::vector<unsigned> types;
  for (const char letter : letters) types.push_back(letter == 'n' ? kBigintType : kTextType);
  return types;
}

/// One row of a result.
class PgRow final : public Columns {
 public:
  PgRow(const LibPq& pq, const pg_result* result, int row) : pq_(pq), result_(result), row_(row) {}

  std::int64_t Integer(int column) const override {
    return pq_.getlength(result_, row_, column) == 8 ? FromNetwork(pq_.getvalue(result_, row_, column)) : 0;
  }
  std::string_view Text(int column) const override {
    const std::string_view text(pq_.getvalue(result_, row_, column),
                                static_cast<std::size_t>(pq_.getlength(result_, row_, column)));
    if (text.find(kEscapeStart) == std::string_view::npos) return text;
    return unescaped_.emplace_back(UnescapeText(text));
  }
  bool IsNull(int column) const override { return pq_.getisnull(result_, row_, column) != 0; }

 private:
  const LibPq& pq_;
  const pg_result* result_;
  int row_;
  mutable std::deque<std::string> unescaped_;
};

std::string FieldOf(const LibPq& pq, const pg_result* result, int field) {
  const char* const text = pq.resultErrorField(result, field);
  return text == nullptr ? std::string() : std::string(text);
}

/// libpq's messages end with a line feed and may have several lines.
std::string ErrorText(std::string_view text) {
  std::string out;
  for (const std::string_view line : Split(Trim(text), '\n'))
    out += (out.empty() ? "" : "; ") + std::string(Trim(line));
  return out;
}

}  // namespace

bool IsPlainText(std::string_view text) {
  while (!text.empty()) {
    if (const auto byte = static_cast<unsigned char>(text[0]); byte > 0 && byte < 0x80) {
      text.remove_prefix(1);
      continue;
    }
    const Utf8Character character = FirstCharacter(text);
    if (character.code == 0 || (character.code == 0xFFFD && character.length == 1) || IsEscape(character.code))
      return false;
    text.remove_prefix(character.length);
  }
  return true;
}

std::string EscapeText(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const Utf8Character character = FirstCharacter(text);
    const bool is_bad =
        character.code == 0 || (character.code == 0xFFFD && character.length == 1) || IsEscape(character.code);
    for (std::size_t i = 0; is_bad && i < character.length; ++i)
      out += Utf8(kFirstEscape + static_cast<unsigned char>(text[i]));
    if (!is_bad) out += text.substr(0, character.length);
    text.remove_prefix(character.length);
  }
  return out;
}

std::string UnescapeText(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const Utf8Character character = FirstCharacter(text);
    if (IsEscape(character.code)) out += static_cast<char>(character.code - kFirstEscape);
    else out += text.substr(0, character.length);
    text.remove_prefix(character.length);
  }
  return out;
}

PgParameters::Value& PgParameters::At(int parameter) {
  const auto number = static_cast<std::size_t>(parameter);
  if (values_.size() < number) values_.resize(number);
  return values_[number - 1];
}

void PgParameters::Bind(int parameter, std::int64_t value) {
  Value& slot = At(parameter);
  slot.kind = Kind::kNumber;
  slot.number = ToNetwork(value);
}

void PgParameters::Bind(int parameter, std::string_view text) {
  if (!IsPlainText(text)) return BindCopy(parameter, text);
  Value& slot = At(parameter);
  slot.kind = Kind::kText;
  slot.text = text;
}

void PgParameters::BindCopy(int parameter, std::string_view text) {
  Value& slot = At(parameter);
  slot.kind = Kind::kText;
  slot.text = copies_.emplace_back(IsPlainText(text) ? std::string(text) : EscapeText(text));
}

void PgParameters::BindNull(int parameter) { At(parameter).kind = Kind::kNull; }

void PgParameters::Clear() {
  values_.clear();
  copies_.clear();
}

std::string PgParameters::Types() const {
  std::string out;
  for (const Value& value : values_) out += value.kind == Kind::kNumber ? 'n' : 't';
  return out;
}

Error ErrorOfSqlState(std::string_view sql_state, const std::string& message, const std::string& shown_url) {
  const std::string cause = message + ", SQLSTATE " + std::string(sql_state);
  const auto is = [&](std::string_view start) { return sql_state.starts_with(start); };
  if (is("53100")) {
    return LimitExceeded("cannot write " + shown_url + ", the disk is full (" + cause +
                         "): nothing was saved; free space on the database server and try again");
  }
  if (is("25006")) {
    return LimitExceeded("cannot write " + shown_url + ", the database is read-only (" + cause +
                         "): nothing was saved; make the server writable, or promote the standby");
  }
  if (is("53") || is("40") || is("55") || is("57") || is("58") || is("08")) {
    return LimitExceeded("cannot write " + shown_url + " (" + cause + "): nothing was saved; try again");
  }
  if (is("XX001") || is("XX002")) {
    return CorruptData(shown_url + " is damaged (" + cause + "): restore it from a backup");
  }
  if (is("42501") || is("28")) {
    return PermissionDenied("cannot use " + shown_url + " (" + cause +
                            "): give divvy's database user the right to create and write tables");
  }
  return Internal("cannot use " + shown_url + " (" + cause + ")");
}

PgConnection::PgConnection(const LibPq& pq, const Options& options)
    : pq_(pq), url_(options.url), shown_url_(WithoutPassword(options.url)), timeout_(options.patience) {}

PgConnection::~PgConnection() {
  if (connection_ != nullptr) pq_.finish(connection_);
}

Result<std::unique_ptr<PgConnection>> PgConnection::Open(const Options& options) {
  DIVVY_TRY(const LibPq* pq, LoadLibPq());
  std::unique_ptr<PgConnection> out(new PgConnection(*pq, options));
  // libpq's messages about a malformed URL may quote its password.
  char* problem = nullptr;
  pq::Option* const parsed = pq->conninfoParse(options.url.c_str(), &problem);
  if (parsed == nullptr) {
    const std::string text = problem == nullptr ? "no memory" : ErrorText(problem);
    pq->freemem(problem);
    return InvalidArgument(out->shown_url_ + " is not a valid PostgreSQL URL (" + WithoutPasswordOf(options.url, text) +
                           ")");
  }
  pq->conninfoFree(parsed);
  // Parameters in the URL override the ones that are listed before it.
  const char* const keywords[] = {"connect_timeout",  "target_session_attrs",
                                  "keepalives_idle",  "keepalives_interval",
                                  "keepalives_count", "tcp_user_timeout",
                                  "dbname",           "application_name",
                                  "client_encoding",  nullptr};
  const char* const values[] = {
      options.connect_seconds,     "read-write", "5",    "5", "3", "20000", options.url.c_str(),
      options.application.c_str(), "UTF8",       nullptr};
  out->connection_ = pq->connectdbParams(keywords, values, 1);
  if (out->connection_ == nullptr) return Internal("no memory for a connection to " + out->shown_url_);
  if (pq->status(out->connection_) != pq::kConnectionOk) {
    const std::string why = WithoutPasswordOf(options.url, ErrorText(pq->errorMessage(out->connection_)));
    return Unreachable("cannot connect to " + out->shown_url_ + " (" + why +
                       "): check [store] url, and that the server runs and accepts this user");
  }
  pq->setNoticeProcessor(
      out->connection_, [](void*, const char*) {}, nullptr);
  pq->setnonblocking(out->connection_, 1);
  if (!options.settings.empty()) DIVVY_CHECK(out->Execute(options.settings));
  return out;
}

bool PgConnection::is_lost() const { return is_lost_ || pq_.status(connection_) != pq::kConnectionOk; }

bool PgConnection::NoticesEnd() {
  // If the connection is readable although no statement is running, the server has sent a notice, or has closed the
  // connection after sending the reason.
  constexpr int kMostReads = 10;
  for (int read = 0; read < kMostReads && !is_lost(); ++read) {
    struct pollfd now = {pq_.socket(connection_), POLLIN, 0};
    if (::poll(&now, 1, 0) <= 0) return false;
    if (pq_.consumeInput(connection_) == 0) is_lost_ = true;
    if (!is_lost_) static_cast<void>(pq_.isBusy(connection_));
  }
  return is_lost();
}

std::string PgConnection::Parameter(const char* name) const {
  const char* const value = pq_.parameterStatus(connection_, name);
  return value == nullptr ? "" : value;
}

Error PgConnection::Lost() const {
  std::string why = why_lost_.empty() ? ErrorText(pq_.errorMessage(connection_)) : why_lost_;
  return Unreachable("lost the connection to " + shown_url_ + " (" + WithoutPasswordOf(url_, std::move(why)) + ")");
}

Error PgConnection::ErrorOf(const pg_result* result) const {
  std::string text = FieldOf(pq_, result, pq::kPrimaryMessage);
  const std::string sql_state = FieldOf(pq_, result, pq::kSqlState);
  // The detail of a violated constraint is the row, which may hold an environment.
  const std::string detail = sql_state.starts_with("23") ? "" : FieldOf(pq_, result, pq::kDetail);
  if (!detail.empty()) text += ": " + detail;
  return ErrorOfSqlState(sql_state, ErrorText(text), shown_url_);
}

bool PgConnection::Wait() {
  using Steady = std::chrono::steady_clock;
  const Steady::time_point end = Steady::now() + timeout_;
  while (!is_lost()) {
    const int unsent = pq_.flush(connection_);
    if (unsent < 0) break;
    if (unsent == 0 && pq_.isBusy(connection_) == 0) return true;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Steady::now()).count();
    if (left <= 0) {
      why_lost_ = "no answer for " + std::to_string(std::chrono::ceil<std::chrono::seconds>(timeout_).count()) +
                  " s: the server or the network is too slow, or down";
      break;
    }
    struct pollfd wait = {pq_.socket(connection_), static_cast<short>(POLLIN | (unsent != 0 ? POLLOUT : 0)), 0};
    const int ready = ::poll(&wait, 1, static_cast<int>(std::min<std::int64_t>(left, 60'000)));
    if (ready < 0 && errno != EINTR) break;
    if (ready > 0 && (wait.revents & ~POLLOUT) != 0 && pq_.consumeInput(connection_) == 0) break;
  }
  is_lost_ = true;
  return false;
}

PgConnection::ResultPointer PgConnection::Next() {
  if (!Wait()) return {nullptr, Clear{&pq_}};
  return {pq_.getResult(connection_), Clear{&pq_}};
}

Status PgConnection::ReadAll(const OnRow& on_row) {
  Status done;
  while (ResultPointer result = Next()) {
    const int status = pq_.resultStatus(result.get());
    if (status == pq::kSingleTuple || status == pq::kTuplesOk) {
      const int rows = on_row ? pq_.ntuples(result.get()) : 0;
      for (int row = 0; row < rows && done; ++row) done = on_row(PgRow(pq_, result.get(), row));
    } else if (status != pq::kCommandOk && done) {
      done = ErrorOf(result.get());
    }
  }
  if (is_lost()) return Lost();
  return done;
}

Status PgConnection::Execute(const std::string& sql) {
  if (is_lost() || pq_.sendQuery(connection_, sql.c_str()) == 0) {
    is_lost_ = true;
    return Lost();
  }
  return ReadAll({});
}

Status PgConnection::Prepare(const std::vector<PgStatement>& statements) {
  pq_.enterPipelineMode(connection_);
  for (const PgStatement& statement : statements) {
    const std::vector<unsigned> types = TypesOf(statement.types);
    ++sent_;
    if (pq_.sendPrepare(connection_, statement.name.c_str(), ToPostgres(statement.sql).c_str(),
                        static_cast<int>(types.size()), types.data()) == 0)
      is_lost_ = true;
  }
  const Finished finished = Finish();
  if (finished.outcome == Outcome::kDone) return {};
  return finished.error;
}

bool PgConnection::SendPrepared(const std::string& statement, std::span<const PgParameters> rows) {
  values_.clear();
  lengths_.clear();
  for (const PgParameters& parameters : rows) {
    for (const PgParameters::Value& value : parameters.values_) {
      const bool is_number = value.kind == PgParameters::Kind::kNumber;
      const char* const text = value.text.data() == nullptr ? "" : value.text.data();
      values_.push_back(value.kind == PgParameters::Kind::kNull ? nullptr : is_number ? value.number.data() : text);
      lengths_.push_back(is_number ? 8 : static_cast<int>(value.text.size()));
    }
  }
  if (formats_.size() < values_.size()) formats_.resize(values_.size(), 1);
  return pq_.sendQueryPrepared(connection_, statement.c_str(), static_cast<int>(values_.size()), values_.data(),
                               lengths_.data(), formats_.data(), 1) != 0;
}

Status PgConnection::Query(const std::string& statement, const PgParameters& parameters, const OnRow& on_row) {
  if (is_lost() || !SendPrepared(statement, {&parameters, 1})) {
    is_lost_ = true;
    return Lost();
  }
  pq_.setSingleRowMode(connection_);
  return ReadAll(on_row);
}

Status PgConnection::QueryOnce(const std::string& sql, const PgParameters& parameters, const OnRow& on_row) {
  DIVVY_CHECK(Prepare({{"", sql, parameters.Types()}}));
  return Query("", parameters, on_row);
}

Result<std::int64_t> PgConnection::QueryInteger(const std::string& sql, const PgParameters& parameters) {
  std::int64_t value = 0;
  DIVVY_CHECK(QueryOnce(sql, parameters, [&value, is_first = true](const Columns& row) mutable -> Status {
    if (std::exchange(is_first, false)) value = row.Integer(0);
    return {};
  }));
  return value;
}

void PgConnection::Send(const std::string& statement, std::span<const PgParameters> rows) {
  if (sent_ == 0) pq_.enterPipelineMode(connection_);
  ++sent_;
  if (is_lost() || !SendPrepared(statement, rows)) is_lost_ = true;
}

PgConnection::Finished PgConnection::Finish(const OnSentRow& on_row) {
  const std::size_t count = std::exchange(sent_, 0);
  Finished out;
  bool has_failed = false;
  if (!is_lost() && pq_.pipelineSync(connection_) == 0) is_lost_ = true;
  // The results of one statement end with a null result.
  for (std::size_t number = 0; number < count && !is_lost(); ++number) {
    while (ResultPointer result = Next()) {
      const int status = pq_.resultStatus(result.get());
      if (status == pq::kTuplesOk) {
        const int rows = on_row ? pq_.ntuples(result.get()) : 0;
        for (int row = 0; row < rows; ++row) on_row(number, PgRow(pq_, result.get(), row));
      } else if (status != pq::kCommandOk && status != pq::kPipelineAborted && !has_failed) {
        has_failed = true;
        out.error = ErrorOf(result.get());
        out.sql_state = FieldOf(pq_, result.get(), pq::kSqlState);
        // With these codes a proxy or the server says that it does not know whether the statement was done.
        if (out.sql_state == "40003" || out.sql_state == "08007") is_lost_ = true;
        out.failed = number;
      }
    }
  }
  // If the connection was lost, a last error such as "terminating connection" says nothing about the statement. So an
  // error is trusted only if the answer is complete.
  if (!is_lost()) {
    const ResultPointer sync = Next();
    if (sync == nullptr || pq_.resultStatus(sync.get()) != pq::kPipelineSync) is_lost_ = true;
  }
  if (is_lost()) {
    out.outcome = Outcome::kUnknown;
    out.error = Lost();
    return out;
  }
  out.outcome = has_failed ? Outcome::kFailed : Outcome::kDone;
  pq_.exitPipelineMode(connection_);
  return out;
}

}  // namespace divvy
