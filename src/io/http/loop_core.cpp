// Coroutines: one co_await per statement, its arguments named.
#include "io/http/loop_core.h"

#include <memory>
#include <utility>

#include <boost/asio/async_result.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace gpuyard::http {

namespace {

// Suspends the coroutine; keep() gets the function that resumes it.
template <typename Keep>
asio::awaitable<void> suspend(Keep keep) {
  auto begin = [keep](auto resume) {
    // Shared, because a std::function must be copyable; called once all the same.
    const auto shared = std::make_shared<decltype(resume)>(std::move(resume));
    keep([shared] { std::move (*shared)(); });
  };
  const auto token = asio::use_awaitable;
  co_await asio::async_initiate<const asio::use_awaitable_t<>, void()>(begin, token);
}

}  // namespace

asio::awaitable<void> Turns::next(const Party& party) {
  auto keep = [this, &party](Resume resume) { add(party, std::move(resume)); };
  co_await suspend(keep);
}

asio::awaitable<void> Turns::sleep(const void* who, const Party& party) {
  auto keep = [this, who, &party](Resume resume) { asleep_[who] = {party, std::move(resume)}; };
  co_await suspend(keep);
}

void Turns::wake(const void* who) {
  if (auto one = asleep_.extract(who)) add(one.mapped().party, std::move(one.mapped().resume));
}

void Turns::add(const Party& party, Resume resume) {
  waiting_.push(party, party.privileged, std::move(resume));
  if (!std::exchange(giving_, true)) asio::post(io_, [this] { give(); });
}

void Turns::give() {
  const TimePoint end = BootClock::now() + together_;
  do {
    const Resume resume = waiting_.pop();
    resume();
  } while (!waiting_.empty() && BootClock::now() < end);
  giving_ = !waiting_.empty();
  if (giving_) asio::post(io_, [this] { give(); });
}

}  // namespace gpuyard::http
