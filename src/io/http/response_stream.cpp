#include "io/http/response_stream.h"

#include <algorithm>

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

void Channel::publish(Render render) {
  render_ = std::move(render);
  rendered_.clear();
  ++number_;
  for (const Waiter& one : std::exchange(waiters_, {})) one.stream->on_chunk(one.cursor);
}

Chunk Channel::render_chunk(std::uint64_t skipped) {
  const auto known = std::ranges::find(rendered_, skipped, &std::pair<std::uint64_t, Chunk>::first);
  if (known != rendered_.end()) return known->second;
  constexpr std::size_t kMaxRendered = 16;
  if (rendered_.size() == kMaxRendered) rendered_.pop_back();
  return rendered_.emplace_back(skipped, render_(skipped)).second;
}

// The present chunk of each channel comes first, at once.
ChannelStream::ChannelStream(std::vector<std::shared_ptr<Channel>> channels, bool may_end)
    : can_end_(may_end) {
  for (auto& channel : channels) {
    const std::uint64_t number = channel->number_;
    cursors_.push_back({std::move(channel), number == 0 ? 0 : number - 1});
  }
  wait_for_all();
}

ChannelStream::~ChannelStream() {
  for (const Cursor& cursor : cursors_) {
    if (!cursor.waiting) continue;
    std::erase_if(cursor.channel->waiters_,
                  [this](const Channel::Waiter& one) { return one.stream == this; });
  }
}

Chunk ChannelStream::next() {
  for (std::size_t tried = 0; tried < cursors_.size(); ++tried) {
    Cursor& cursor = cursors_[turn_];
    turn_ = (turn_ + 1) % cursors_.size();
    const std::uint64_t number = cursor.channel->number_;
    if (number == cursor.position) continue;
    const std::uint64_t previous = std::exchange(cursor.position, number);
    return cursor.channel->render_chunk(number - previous - 1);
  }
  wait_for_all();
  return {};
}

void ChannelStream::wait_for_all() {
  for (std::size_t i = 0; i < cursors_.size(); ++i) {
    if (std::exchange(cursors_[i].waiting, true)) continue;
    cursors_[i].channel->waiters_.push_back({this, i});
  }
}

void ChannelStream::on_chunk(std::size_t index) {
  cursors_[index].waiting = false;
  notify_more();
}

}  // namespace gpuyard::http
