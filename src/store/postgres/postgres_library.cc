#include "store/postgres/postgres_library.h"

#include <dlfcn.h>

#include <string>

namespace divvy {
namespace {

constexpr int kFirstVersionWithPipelines = 140'000;

template <typename Function>
void FindSymbol(void* library, Function& function, const char* name, std::string& missing) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) missing = name;
}

Result<LibPq> Load() {
  void* const library = ::dlopen("libpq.so.5", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    return FailedPrecondition("cannot load PostgreSQL's client library (" +
                              std::string(why == nullptr ? "no reason given" : why) +
                              "): install it with \"apt install libpq5\"");
  }
  LibPq out{};
  std::string missing;
#define DIVVY_LIBPQ(name) FindSymbol(library, out.name, "PQ" #name, missing)
  DIVVY_LIBPQ(libVersion);
  DIVVY_LIBPQ(connectdbParams);
  DIVVY_LIBPQ(finish);
  DIVVY_LIBPQ(status);
  DIVVY_LIBPQ(errorMessage);
  DIVVY_LIBPQ(socket);
  DIVVY_LIBPQ(backendPID);
  DIVVY_LIBPQ(serverVersion);
  DIVVY_LIBPQ(parameterStatus);
  DIVVY_LIBPQ(setnonblocking);
  DIVVY_LIBPQ(setNoticeProcessor);
  DIVVY_LIBPQ(sendQuery);
  DIVVY_LIBPQ(sendPrepare);
  DIVVY_LIBPQ(sendQueryPrepared);
  DIVVY_LIBPQ(setSingleRowMode);
  DIVVY_LIBPQ(enterPipelineMode);
  DIVVY_LIBPQ(exitPipelineMode);
  DIVVY_LIBPQ(pipelineSync);
  DIVVY_LIBPQ(flush);
  DIVVY_LIBPQ(consumeInput);
  DIVVY_LIBPQ(isBusy);
  DIVVY_LIBPQ(getResult);
  DIVVY_LIBPQ(resultStatus);
  DIVVY_LIBPQ(resultErrorField);
  DIVVY_LIBPQ(ntuples);
  DIVVY_LIBPQ(getvalue);
  DIVVY_LIBPQ(getlength);
  DIVVY_LIBPQ(getisnull);
  DIVVY_LIBPQ(clear);
  DIVVY_LIBPQ(conninfoParse);
  DIVVY_LIBPQ(conninfoFree);
  DIVVY_LIBPQ(freemem);
#undef DIVVY_LIBPQ
  if (!missing.empty() || out.libVersion() < kFirstVersionWithPipelines) {
    return FailedPrecondition("PostgreSQL's client library libpq is too old" +
                              (missing.empty() ? std::string() : " (it lacks " + missing + ")") +
                              ": install version 14 or later (Debian: libpq5)");
  }
  return out;
}

}  // namespace

Result<const LibPq*> LoadLibPq() {
  static const Result<LibPq> library = Load();
  if (!library) return library.error();
  return &*library;
}

}  // namespace divvy
