// What GET /api/gpu/events tells of leases: each change, as anybody may see it, and every five
// seconds the load. Lives on the io thread.
#pragma once

#include "api/context.h"

namespace gpuyard::api {

class LeaseNews {
 public:
  static constexpr Duration kLoadEvery = std::chrono::seconds(5);

  // The context outlives it, and has leases and a loop.
  explicit LeaseNews(Context& context) : context_(context) {}
  LeaseNews(const LeaseNews&) = delete;
  LeaseNews& operator=(const LeaseNews&) = delete;

  void start();
  // For lease::Leases::on_change().
  void on_change(const lease::Lease& now);

 private:
  void report();

  Context& context_;
  Subscription timer_;
};

}  // namespace gpuyard::api
