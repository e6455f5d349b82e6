// Coroutines: one co_await per statement, its arguments named.
#include "io/http/turn_scheduler.h"

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

asio::awaitable<void> TurnScheduler::wait_for_turn(const QuotaGroup& group) {
  auto keep = [this, &group](Resume resume) { add(group, std::move(resume)); };
  co_await suspend(keep);
}

asio::awaitable<void> TurnScheduler::sleep(const void* key, const QuotaGroup& group) {
  auto keep = [this, key, &group](Resume resume) { sleepers_[key] = {group, std::move(resume)}; };
  co_await suspend(keep);
}

void TurnScheduler::wake(const void* key) {
  if (auto one = sleepers_.extract(key))
    add(one.mapped().quota_group, std::move(one.mapped().resume));
}

void TurnScheduler::add(const QuotaGroup& group, Resume resume) {
  waiting_.push(group, group.privileged, std::move(resume));
  if (!std::exchange(running_, true)) asio::post(io_, [this] { run_turns(); });
}

void TurnScheduler::run_turns() {
  const TimePoint end = BootClock::now() + budget_;
  do {
    const Resume resume = waiting_.pop();
    resume();
  } while (!waiting_.empty() && BootClock::now() < end);
  running_ = !waiting_.empty();
  if (running_) asio::post(io_, [this] { run_turns(); });
}

}  // namespace gpuyard::http
