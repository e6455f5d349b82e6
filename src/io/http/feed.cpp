#include "http/feed.h"

#include <fmt/format.h>

namespace gpuyard::http {
namespace {

constexpr std::string_view kLineEnd = "\r\n";

}  // namespace

Chunk::Chunk(std::string_view text) {
  if (text.empty()) return;
  framed_ = std::make_shared<const std::string>(fmt::format("{:x}\r\n{}\r\n", text.size(), text));
}

std::string_view Chunk::framed() const {
  return framed_ ? std::string_view(*framed_) : std::string_view();
}

std::string_view Chunk::text() const {
  std::string_view inner = framed();
  if (inner.empty()) return inner;
  inner.remove_prefix(inner.find(kLineEnd) + kLineEnd.size());
  inner.remove_suffix(kLineEnd.size());
  return inner;
}

}  // namespace gpuyard::http
