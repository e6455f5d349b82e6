// Alerts as the API shows them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "andon/board.h"
#include "base/result.h"
#include "protocol/alerts.h"

namespace gpuyard::api {

struct Context;

protocol::Alert alert_view(const andon::Board&, const andon::Alert&);
protocol::Silence silence_view(const andon::Silence&);
protocol::Rule rule_view(const andon::Rule&);
protocol::Silences silences_of(const Context&);

// What GET /api/gpu/events tells of alerts - each change - and what the stream of a lease tells its
// holder: what is wrong with his own GPUs. Lives on the io thread.

class AlertNews {
 public:
  using Told = std::function<void(const protocol::Alert&)>;

  // The context outlives it, and has alerts.
  explicit AlertNews(Context& context) : context_(context) {}
  AlertNews(const AlertNews&) = delete;
  AlertNews& operator=(const AlertNews&) = delete;

  // For andon::Board::on_change().
  void on_change(const andon::Alert&);
  // Told of each change of any alert.
  Subscription follow(Told);

 private:
  Context& context_;
  std::map<std::uint64_t, Told> followers_;
  std::uint64_t next_ = 0;
  // A stream may outlive this.
  Lifetime here_;
};

// What the API asks of whoever carries alerts to people.

class AlertSinks {
 public:
  using Tested = std::function<void(Result<std::vector<protocol::SinkTest>>)>;

  virtual ~AlertSinks() = default;
  virtual std::vector<protocol::Sink> sinks() const = 0;
  // The file that rules and sinks were read from; "": there is none.
  virtual std::string file() const = 0;
  // Says something to one sink, or to all ("") that it is a test, and answers within
  // protocol::kSinkTestPatience, never inside the call. Errors: not_found, busy.
  virtual void test(const std::string& sink, const std::string& by, Tested) = 0;
};

}  // namespace gpuyard::api
