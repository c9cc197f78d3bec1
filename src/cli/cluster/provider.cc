// divvy provider: the entry point of the providers that are part of divvy.
#include <array>
#include <cstdio>
#include <string>

#include "base/text.h"
#include "cli/client/command.h"
#include "cli/client/commands.h"
#include "cli/cluster/provider_calls.h"
#include "wire/messages/codec.h"

namespace divvy::cli {
namespace {

Result<std::string> ReadOrder() {
  std::string text;
  std::array<char, 65'536> buffer;
  for (std::size_t size = 0; (size = std::fread(buffer.data(), 1, buffer.size(), stdin)) > 0;) {
    if (text.size() + size > (std::size_t{1} << 20)) return InvalidArgument("the order is longer than 1 MiB");
    text.append(buffer.data(), size);
  }
  return text;
}

}  // namespace

int ProviderMain(const Words& words) {
  const bool is_whole = words.size() == 2 && (words[0] == "slurm" || words[0] == "kubernetes") &&
                        (words[1] == "create" || words[1] == "list" || words[1] == "destroy");
  if (!is_whole)
    return Fail(
        InvalidArgument("write divvy provider slurm|kubernetes create|list|destroy, with an order on standard input"));
  DIVVY_TRY_OR_FAIL(const auto text, ReadOrder());
  DIVVY_TRY_OR_FAIL(const auto order, wire::Decode<wire::ProviderOrder>(text));
  if (order.cluster.empty() || SplitWords(order.cluster).size() != 1)
    return Fail(InvalidArgument("the order has no cluster of one word"));
  DIVVY_TRY_OR_FAIL(const auto answer,
                    words[0] == "slurm" ? CallSlurm(words[1], order) : CallKubernetes(words[1], order));
  std::printf("%s\n", answer.c_str());
  return 0;
}

}  // namespace divvy::cli
