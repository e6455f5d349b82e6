// Asks many daemons at once: each by a thread, a bounded number at a time, each within its
// deadlines. What has come can be read at any time, so that nobody waits for the slowest.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "faces/client/daemon_address.h"
#include "faces/client/daemon_client.h"
#include "faces/fleet/host_list.h"
#include "faces/protocol/brief.h"
#include "io/http/origin.h"

namespace gpuyard::fleet {

inline constexpr std::size_t kAtOnce = 64;
static_assert(kAtOnce <= http::kMostLookUps, "a host would be refused its look-up");
// Bytes of one daemon's answer; of its brief, which has 64 GPUs in 9 KB.
inline constexpr std::size_t kMostAnswer = std::size_t{2} * 1024 * 1024;
inline constexpr std::size_t kMostBrief = std::size_t{256} * 1024;

// How daemons are reached, and how long one may take.
struct Manner {
  client::Keys keys = {};
  Duration answer = std::chrono::seconds(3);  // for each answer, once there is a connection
};

// The way to a host's daemon, with the host's own token: that of hosts.toml, or of the file that
// GPUYARD_TOKEN_FILE names with {} for the host. A host from a list that others could have written
// has only the first.
Result<http::Endpoint> way_to(const Host&, const Manner&);

// Adds the next step to the error if the daemon requires a token and the environment's was not
// sent.
Error with_audience(Error, const http::Endpoint&, const Manner&);

// Does `count` pieces of work, kAtOnce at a time, on threads of its own.
class Crew {
 public:
  // `work` gets the number of the piece, and may run on several threads at once.
  Crew(std::size_t count, std::function<void(std::size_t)> work);
  // Begins no more, and waits for what is under way.
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // Readable once a piece is done, until done() is called.
  int bell() const { return bell_.get(); }
  // How many pieces are done.
  std::size_t done();
  // Waits until all are.
  void finish() { threads_.clear(); }

 private:
  void work_off();

  const std::size_t count_;
  const std::function<void(std::size_t)> work_;
  std::mutex mutex_;  // guards the two that follow
  std::size_t next_ = 0;
  std::size_t done_ = 0;
  UniqueFd bell_;
  std::vector<std::jthread> threads_;
};

// How asking one host went.
template <class Answer>
struct Heard {
  Host host;
  std::optional<Error> problem = Error{Errc::timed_out, "interrupted before it responded"};
  Duration took{};
  Answer answer = {};  // only where there is no problem
};

// Asks every host one question.
template <class Answer>
class Survey {
 public:
  using Question = std::function<Result<Answer>(const http::Endpoint&)>;

  Survey(const std::vector<Host>& hosts, Manner manner, Question question)
      : manner_(std::move(manner)),
        question_(std::move(question)),
        heard_([&] {
          std::vector<Heard<Answer>> all;
          for (const Host& host : hosts) all.push_back({host});
          return all;
        }()),
        crew_(hosts.size(), [this](std::size_t i) { ask(i); }) {}

  Crew& crew() { return crew_; }
  // What has come so far.
  std::vector<Heard<Answer>> heard() const {
    const std::scoped_lock lock(mutex_);
    return heard_;
  }

  // The first of those that have not answered yet.
  std::vector<std::string> waited_for(std::size_t most) const {
    std::vector<std::string> names;
    const std::scoped_lock lock(mutex_);
    for (const Heard<Answer>& one : heard_) {
      if (one.took == Duration::zero() && names.size() < most) names.push_back(one.host.name);
    }
    return names;
  }

 private:
  void ask(std::size_t i) {
    const TimePoint begin = BootClock::now();
    const auto way = way_to(heard_[i].host, manner_);
    auto answer = way ? question_(*way) : Result<Answer>(way.error());
    const std::scoped_lock lock(mutex_);
    heard_[i].took = BootClock::now() - begin;
    heard_[i].problem =
        answer ? std::nullopt
               : std::optional(way ? with_audience(answer.error(), *way, manner_) : answer.error());
    if (answer) heard_[i].answer = *std::move(answer);
  }

  const Manner manner_;
  const Question question_;
  mutable std::mutex mutex_;  // guards heard_, but for the hosts, which stay as they are
  std::vector<Heard<Answer>> heard_;
  Crew crew_;  // ends before what it works on
};

// The question that every view begins with. Errc::unsupported: the daemon is too old for it.
Result<protocol::Brief> ask_brief(const http::Endpoint&, const Manner&);

// A daemon's answer to something else, and its brief, which says whose answer it is.
template <class Answer>
struct WithBrief {
  protocol::Brief brief;
  Answer answer;
};

template <class Params, class Answer>
Result<WithBrief<Answer>> ask_with_brief(const http::Endpoint& daemon, const Manner& manner,
                                         const protocol::Route<Params, Answer>& route,
                                         const Params& parameters = {}) {
  auto brief = ask_brief(daemon, manner);
  if (!brief) return std::move(brief).error();
  auto answer = client::call(daemon, route, parameters, {}, manner.answer, kMostAnswer);
  if (!answer) return std::move(answer).error();
  return WithBrief<Answer>{*std::move(brief), *std::move(answer)};
}

}  // namespace gpuyard::fleet
