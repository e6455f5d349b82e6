// Queries many daemons at once: each by a thread, a bounded number at a time, each within its
// deadlines. The replies so far can be read at any time, so that no caller waits for the slowest.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/try.h"
#include "base/unique_fd.h"
#include "faces/client/daemon_address.h"
#include "faces/client/daemon_client.h"
#include "faces/fleet/host_list.h"
#include "faces/protocol/brief.h"
#include "io/http/resolver.h"

namespace gpuyard::fleet {

inline constexpr std::size_t kMaxWorkers = 64;
static_assert(kMaxWorkers <= http::kMaxLookups, "a host would be refused its look-up");
// Bytes of one daemon's answer; of its brief, which has 64 GPUs in 9 KB.
inline constexpr std::size_t kMaxReplyBytes = std::size_t{2} * 1024 * 1024;
inline constexpr std::size_t kMaxBriefBytes = std::size_t{256} * 1024;

// The options for reaching daemons, and their timeouts.
struct FanOutOptions {
  client::Credentials credentials = {};
  Duration reply_timeout = std::chrono::seconds(3);  // for each answer, once there is a connection
};

// The endpoint of a host's daemon, with the host's own token: that of hosts.toml, or of the file
// that GPUYARD_TOKEN_FILE names with {} for the host. A host from a list that others could have
// written has only the first.
Result<http::Endpoint> endpoint_of(const Host&, const FanOutOptions&);

// Adds the next step to the error if the daemon requires a token and the environment's was not
// sent.
Error add_token_hint(Error, const http::Endpoint&, const FanOutOptions&);

// Does `count` pieces of work, kMaxWorkers at a time, on threads of its own.
// Thread: any, one at a time.
class WorkerPool {
 public:
  // REQUIRES: all that `work` uses outlives the pool. `work` gets the number of the piece, and may
  // run on several threads at once.
  WorkerPool(std::size_t count, std::function<void(std::size_t)> work);
  // Begins no more, and waits for what is under way.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Readable once a piece is done, until completed_count() is called.
  int descriptor() const { return wakeup_.get(); }
  // Returns the number of pieces that are done.
  std::size_t completed_count();
  // Waits until all are.
  void finish() { threads_.clear(); }

 private:
  void run_worker();

  const std::size_t count_;
  const std::function<void(std::size_t)> work_;
  Mutex mutex_;
  std::size_t next_ GUARDED_BY(mutex_) = 0;
  std::size_t completed_ GUARDED_BY(mutex_) = 0;
  UniqueFd wakeup_;
  std::vector<std::jthread> threads_;
};

// The result of the query of one host.
template <class Answer>
struct HostReply {
  Host host;
  std::optional<Error> problem = Error{Errc::timed_out, "interrupted before it responded"};
  Duration took{};
  Answer answer = {};  // only where there is no problem
};

// Sends every host one query. Thread: any. `call` runs on several threads at once.
template <class Answer>
class FanOut {
 public:
  using Call = std::function<Result<Answer>(const http::Endpoint&)>;

  FanOut(const std::vector<Host>& hosts, FanOutOptions options, Call call)
      : options_(std::move(options)),
        call_(std::move(call)),
        hosts_(hosts),
        replies_([&] {
          std::vector<HostReply<Answer>> all;
          for (const Host& host : hosts) all.push_back({host});
          return all;
        }()),
        pool_(hosts.size(), [this](std::size_t i) { call_host(i); }) {}

  WorkerPool& pool() { return pool_; }
  // Returns the replies so far.
  std::vector<HostReply<Answer>> replies() const {
    const MutexLock lock(mutex_);
    return replies_;
  }

  // Returns the first hosts that have not answered yet.
  std::vector<std::string> pending_hosts(std::size_t most) const {
    std::vector<std::string> names;
    const MutexLock lock(mutex_);
    for (const HostReply<Answer>& one : replies_) {
      if (one.took == Duration::zero() && names.size() < most) names.push_back(one.host.name);
    }
    return names;
  }

 private:
  void call_host(std::size_t i) {
    const TimePoint begin = BootClock::now();
    const auto endpoint = endpoint_of(hosts_[i], options_);
    auto answer = endpoint ? call_(*endpoint) : Result<Answer>(endpoint.error());
    const MutexLock lock(mutex_);
    replies_[i].took = BootClock::now() - begin;
    replies_[i].problem =
        answer ? std::nullopt
               : std::optional(endpoint ? add_token_hint(answer.error(), *endpoint, options_)
                                        : answer.error());
    if (answer) replies_[i].answer = *std::move(answer);
  }

  const FanOutOptions options_;
  const Call call_;
  const std::vector<Host> hosts_;
  mutable Mutex mutex_;
  std::vector<HostReply<Answer>> replies_ GUARDED_BY(mutex_);
  WorkerPool pool_;  // ends before what it works on
};

// The query that every view begins with. Errc::unsupported: the daemon is too old for it.
Result<protocol::Brief> fetch_brief(const http::Endpoint&, const FanOutOptions&);

// A daemon's answer to something else, and its brief, which says whose answer it is.
template <class Answer>
struct ReplyWithBrief {
  protocol::Brief brief;
  Answer answer;
};

template <class Params, class Answer>
Result<ReplyWithBrief<Answer>> fetch_with_brief(const http::Endpoint& daemon,
                                                const FanOutOptions& options,
                                                const protocol::Route<Params, Answer>& route,
                                                const Params& parameters = {}) {
  auto brief = GPUYARD_TRY(fetch_brief(daemon, options));
  auto answer = client::call(daemon, route, parameters, {}, options.reply_timeout, kMaxReplyBytes);
  if (!answer) return std::move(answer).error();
  return ReplyWithBrief<Answer>{std::move(brief), *std::move(answer)};
}

}  // namespace gpuyard::fleet
