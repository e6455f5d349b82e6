// What GET /api/gpu/events tells of alerts - each change - and what the stream of a lease tells its
// holder: what is wrong with his own GPUs. Lives on the io thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "api/context.h"
#include "protocol/alerts.h"

namespace gpuyard::api {

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
  std::shared_ptr<AlertNews*> self_ = std::make_shared<AlertNews*>(this);
};

}  // namespace gpuyard::api
