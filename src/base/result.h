// Expected failures travel as Result<T>; bugs crash through DIVVY_ASSERT. Nothing in divvy throws across a folder
// boundary. The wrapper exists so that an ignored result warns, and so that a change to std::expected touches one file.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include <tl/expected.hpp>

namespace divvy {

/// The canonical codes of gRPC and abseil; names that would clash with scheduling terms are changed. Each code has one
/// HTTP status and one exit code of the command line.
enum class ErrorCode {
  kInvalidArgument,
  kNotFound,
  kAlreadyExists,
  kFailedPrecondition,
  kPermissionDenied,
  kLimitExceeded,
  kUnreachable,
  kTimedOut,
  kCorruptData,
  kInternal,
};

/// `message` says what is wrong, with which object, and what to do; one line, no trailing full stop.
struct [[nodiscard]] Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;

  friend bool operator==(const Error&, const Error&) = default;
};

inline Error InvalidArgument(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }
inline Error NotFound(std::string message) { return {ErrorCode::kNotFound, std::move(message)}; }
inline Error FailedPrecondition(std::string message) { return {ErrorCode::kFailedPrecondition, std::move(message)}; }
inline Error PermissionDenied(std::string message) { return {ErrorCode::kPermissionDenied, std::move(message)}; }
inline Error LimitExceeded(std::string message) { return {ErrorCode::kLimitExceeded, std::move(message)}; }
inline Error Unreachable(std::string message) { return {ErrorCode::kUnreachable, std::move(message)}; }
inline Error CorruptData(std::string message) { return {ErrorCode::kCorruptData, std::move(message)}; }
inline Error Internal(std::string message) { return {ErrorCode::kInternal, std::move(message)}; }

template <typename T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
  Result(Error error) : tl::expected<T, Error>(tl::unexpect, std::move(error)) {}  // NOLINT: implicit on purpose.
};

using Status = Result<void>;

}  // namespace divvy

/// DIVVY_TRY(auto config, ParseConfig(text)) declares `config` with the value of the result. If the result is an error,
/// the enclosing function returns that error.
#define DIVVY_TRY(declaration, expression) DIVVY_TRY_(declaration, expression, DIVVY_TRY_NAME_(__LINE__))
#define DIVVY_TRY_NAME__(line) try_result_##line
#define DIVVY_TRY_NAME_(line) DIVVY_TRY_NAME__(line)
#define DIVVY_TRY_(declaration, expression, name) \
  auto name = (expression);                       \
  if (!name) return std::move(name).error();      \
  declaration = *std::move(name)

/// DIVVY_CHECK(expression) evaluates a result without a value (Status). If it is an error, the enclosing function
/// returns that error.
#define DIVVY_CHECK(expression)                                                   \
  do {                                                                            \
    if (auto status_ = (expression); !status_) return std::move(status_).error(); \
  } while (false)

/// Checks an invariant, also in release builds. If it does not hold, the process aborts; a restarted daemon recovers
/// from the store. Never use it for conditions that a user, a file or a peer can cause.
#define DIVVY_ASSERT(condition)                                                                       \
  do {                                                                                                \
    if (!(condition)) [[unlikely]] {                                                                  \
      std::fprintf(stderr, "divvy: broken invariant at %s:%d: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                                   \
    }                                                                                                 \
  } while (false)
