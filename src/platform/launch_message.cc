#include "platform/launch_message.h"

#include <cstring>
#include <type_traits>

namespace divvy {
namespace {

// One list of the fields serves both directions, so that they cannot differ.
template <typename Archive, typename Launch>
void Visit(Archive& archive, Launch& request) {
  archive(request.job);
  archive(request.attempt);
  archive(request.argv);
  archive(request.script);
  archive(request.script_name);
  archive(request.arguments);
  archive(request.environment);
  archive(request.directory);
  archive(request.umask);
  archive(request.limits);
  archive(request.input);
  archive(request.output);
  archive(request.error);
  archive(request.appends_output);
  archive(request.is_own_log);
  archive(request.uid);
  archive(request.gid);
  archive(request.wants_pty);
  archive(request.window);
  archive(request.time_limit);
  archive(request.started);
  archive(request.warn);
  archive(request.stop_signal);
  archive(request.grace);
  archive(request.leftover_grace);
  archive(request.memory_limit);
  archive(request.streams);
}

class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  template <typename Value>
  void operator()(const Value& value) {
    static_assert(std::is_trivially_copyable_v<Value>);
    out_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void operator()(const std::string& text) {
    (*this)(static_cast<std::uint32_t>(text.size()));
    out_.append(text);
  }
  void operator()(const std::vector<std::string>& texts) {
    (*this)(static_cast<std::uint32_t>(texts.size()));
    for (const std::string& text : texts) (*this)(text);
  }
  void operator()(const std::map<std::string, std::int64_t>& numbers) {
    (*this)(static_cast<std::uint32_t>(numbers.size()));
    for (const auto& [name, number] : numbers) {
      (*this)(name);
      (*this)(number);
    }
  }

 private:
  std::string& out_;
};

class Reader {
 public:
  explicit Reader(std::string_view in) : in_(in) {}

  template <typename Value>
  void operator()(Value& value) {
    static_assert(std::is_trivially_copyable_v<Value>);
    DIVVY_ASSERT(in_.size() >= sizeof value);
    std::memcpy(static_cast<void*>(&value), in_.data(), sizeof value);
    in_.remove_prefix(sizeof value);
  }
  void operator()(std::string& text) {
    const std::uint32_t size = Count();
    DIVVY_ASSERT(in_.size() >= size);
    text.assign(in_.substr(0, size));
    in_.remove_prefix(size);
  }
  void operator()(std::vector<std::string>& texts) {
    texts.resize(Count());
    for (std::string& text : texts) (*this)(text);
  }
  void operator()(std::map<std::string, std::int64_t>& numbers) {
    for (std::uint32_t left = Count(); left > 0; --left) {
      std::string name;
      (*this)(name);
      (*this)(numbers[name]);
    }
  }

 private:
  std::uint32_t Count() {
    std::uint32_t count = 0;
    (*this)(count);
    return count;
  }

  std::string_view in_;
};

}  // namespace

std::string EncodeLaunch(const LaunchRequest& request) {
  FrameHeader header = {.uid = request.uid, .gid = request.gid};
  for (const int stream : request.streams) header.stream_count += stream >= 0 ? 1 : 0;
  std::size_t size = 1024 + request.script.size();
  for (const std::string& text : request.environment) size += text.size() + sizeof(std::uint32_t);
  std::string frame;
  frame.reserve(size);
  frame.assign(sizeof header, '\0');
  Writer writer(frame);
  Visit(writer, request);
  header.body_size = static_cast<std::uint32_t>(frame.size() - sizeof header);
  std::memcpy(frame.data(), &header, sizeof header);
  return frame;
}

LaunchRequest DecodeLaunch(std::string_view body, const std::vector<int>& streams) {
  LaunchRequest request;
  Reader reader(body);
  Visit(reader, request);
  std::size_t next = 0;
  for (int& stream : request.streams) {
    if (stream < 0) continue;
    DIVVY_ASSERT(next < streams.size());
    stream = streams[next++];
  }
  return request;
}

}  // namespace divvy
