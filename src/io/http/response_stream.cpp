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

void Channel::put(Render render) {
  render_ = std::move(render);
  rendered_.clear();
  ++number_;
  for (const Waiting& one : std::exchange(waiting_, {})) one.feed->told(one.ear);
}

Chunk Channel::piece(std::uint64_t skipped) {
  const auto known = std::ranges::find(rendered_, skipped, &std::pair<std::uint64_t, Chunk>::first);
  if (known != rendered_.end()) return known->second;
  constexpr std::size_t kMostKept = 16;
  if (rendered_.size() == kMostKept) rendered_.pop_back();
  return rendered_.emplace_back(skipped, render_(skipped)).second;
}

// A piece that is there already is told at once.
ChannelStream::ChannelStream(std::vector<std::shared_ptr<Channel>> channels, bool may_end)
    : may_end_(may_end) {
  for (auto& channel : channels) {
    const std::uint64_t number = channel->number_;
    ears_.push_back({std::move(channel), number == 0 ? 0 : number - 1});
  }
  wait_for_all();
}

ChannelStream::~ChannelStream() {
  for (const Ear& ear : ears_) {
    if (!ear.waits) continue;
    std::erase_if(ear.channel->waiting_,
                  [this](const Channel::Waiting& one) { return one.feed == this; });
  }
}

Chunk ChannelStream::next() {
  for (std::size_t tried = 0; tried < ears_.size(); ++tried) {
    Ear& ear = ears_[turn_];
    turn_ = (turn_ + 1) % ears_.size();
    const std::uint64_t number = ear.channel->number_;
    if (number == ear.heard) continue;
    const std::uint64_t heard = std::exchange(ear.heard, number);
    return ear.channel->piece(number - heard - 1);
  }
  wait_for_all();
  return {};
}

void ChannelStream::wait_for_all() {
  for (std::size_t i = 0; i < ears_.size(); ++i) {
    if (std::exchange(ears_[i].waits, true)) continue;
    ears_[i].channel->waiting_.push_back({this, i});
  }
}

void ChannelStream::told(std::size_t ear) {
  ears_[ear].waits = false;
  more();
}

}  // namespace gpuyard::http
