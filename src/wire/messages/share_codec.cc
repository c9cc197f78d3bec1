#include "wire/messages/share_codec.h"

#include "wire/json/json.h"
#include "wire/messages/share_messages_describe.h"

namespace divvy::wire {

template <typename Message>
std::string EncodeShare(const Message& message) {
  return ToJson(message, Fields::kChanged);
}

template <typename Message>
Result<Message> DecodeShare(std::string_view text) {
  return FromJson<Message>(text, Unknown::kIgnore, {kKeeperLineBytes, 16, std::size_t{1} << 16});
}

template std::string EncodeShare(const KeeperRequest& message);
template std::string EncodeShare(const KeeperLine& message);
template Result<KeeperRequest> DecodeShare<KeeperRequest>(std::string_view text);
template Result<KeeperLine> DecodeShare<KeeperLine>(std::string_view text);

}  // namespace divvy::wire
