// The functions of PostgreSQL's client library libpq that divvy uses. The library is loaded when a store in PostgreSQL
// is opened, so divvy builds, starts and runs without it.
#pragma once

#include "base/result.h"

// libpq's own types, which callers only point to.
struct pg_conn;
struct pg_result;

namespace divvy {

// Values from libpq-fe.h; they never change.
namespace pq {
constexpr int kConnectionOk = 0;
constexpr int kCommandOk = 1;
constexpr int kTuplesOk = 2;
constexpr int kSingleTuple = 9;
constexpr int kPipelineSync = 10;
constexpr int kPipelineAborted = 11;
constexpr int kPrimaryMessage = 'M';
constexpr int kDetail = 'D';
constexpr int kSqlState = 'C';
/// One option of a parsed connection string.
struct Option {
  char* keyword;
  char* environment_variable;
  char* compiled_default;
  char* value;  // Null: not set.
  char* label;
  char* display;
  int display_size;
};
}  // namespace pq

/// Each member is the libpq function of the same name with "PQ" in front.
struct LibPq {
  int (*libVersion)();
  pg_conn* (*connectdbParams)(const char* const* keywords, const char* const* values, int expand_dbname);
  void (*finish)(pg_conn*);
  int (*status)(const pg_conn*);
  char* (*errorMessage)(const pg_conn*);
  int (*socket)(const pg_conn*);
  int (*backendPID)(const pg_conn*);
  int (*serverVersion)(const pg_conn*);
  const char* (*parameterStatus)(const pg_conn*, const char* name);
  int (*setnonblocking)(pg_conn*, int);
  void (*(*setNoticeProcessor)(pg_conn*, void (*)(void*, const char*), void*))(void*, const char*);
  int (*sendQuery)(pg_conn*, const char* sql);
  int (*sendPrepare)(pg_conn*, const char* name, const char* sql, int count, const unsigned* types);
  int (*sendQueryPrepared)(pg_conn*, const char* name, int count, const char* const* values, const int* lengths,
                           const int* formats, int result_format);
  int (*setSingleRowMode)(pg_conn*);
  int (*enterPipelineMode)(pg_conn*);
  int (*exitPipelineMode)(pg_conn*);
  int (*pipelineSync)(pg_conn*);
  int (*flush)(pg_conn*);
  int (*consumeInput)(pg_conn*);
  int (*isBusy)(pg_conn*);
  pg_result* (*getResult)(pg_conn*);
  int (*resultStatus)(const pg_result*);
  char* (*resultErrorField)(const pg_result*, int field);
  int (*ntuples)(const pg_result*);
  char* (*getvalue)(const pg_result*, int row, int column);
  int (*getlength)(const pg_result*, int row, int column);
  int (*getisnull)(const pg_result*, int row, int column);
  void (*clear)(pg_result*);
  pq::Option* (*conninfoParse)(const char* text, char** error);
  void (*conninfoFree)(pq::Option*);
  void (*freemem)(void*);
};

/// Loads the library once for the whole process. kFailedPrecondition if it is missing (with the Debian package that has
/// it) or older than version 14, the first with pipelines.
Result<const LibPq*> LoadLibPq();

}  // namespace divvy
