// The streaming half of a daemon alone, to measure more than one snapshot a second:
//
//   event_stream HZ
//
// serves GET / as a stream of eight GPUs' summaries, about 2 KB each, HZ times a second, and prints
// its port.
#include <sys/resource.h>

#include <charconv>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>

#include "faces/api/event_hub.h"
#include "io/http/event_stream.h"
#include "io/http/limits.h"
#include "io/http/loop.h"
#include "io/http/server.h"

namespace gpuyard {
namespace {

constexpr std::uint32_t kGpus = 8;

std::shared_ptr<const Snapshot> snapshot(std::uint64_t generation) {
  constexpr std::int64_t kMemory = 85'520'809'984;
  auto made = std::make_shared<Snapshot>();
  made->generation = generation;
  made->wall = wall_now();
  made->driver.initialised = true;
  for (std::uint32_t index = 0; index < kGpus; ++index) {
    DeviceState device;
    device.info.index = index;
    device.info.id = device.info.uuid = fmt::format("GPU-{:032x}", index);
    device.health.verdict = Health::healthy;
    const auto changing = static_cast<std::int64_t>((generation + index) % 50);
    for (const auto& [metric, value] : {std::pair{Metric::utilization_gpu, changing},
                                        {Metric::temperature_core, changing},
                                        {Metric::power_draw, 600'000 + changing},
                                        {Metric::clock_sm, std::int64_t{1980}},
                                        {Metric::memory_used, kMemory / 2},
                                        {Metric::memory_total, kMemory}}) {
      device.sample.set({metric, 0, {}, value});
    }
    made->devices.push_back(std::move(device));
  }
  return made;
}

// Publishes a snapshot at each tick.
class Ticker {
 public:
  Ticker(Loop& loop, api::EventHub& hub, Duration period)
      : loop_(loop), hub_(hub), period_(period), next_(loop.now()) {
    tick();
  }

 private:
  void tick() {
    hub_.set_snapshot(snapshot(++generation_));
    next_ += period_;
    timer_ = loop_.call_at(next_, [this] { tick(); });
  }

  Loop& loop_;
  api::EventHub& hub_;
  Duration period_;
  TimePoint next_;
  std::uint64_t generation_ = 1;
  Subscription timer_;
};

int serve(double hz) {
  rlimit descriptors{};
  ::getrlimit(RLIMIT_NOFILE, &descriptors);
  descriptors.rlim_cur = descriptors.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &descriptors);
  http::IoLoop loop;
  api::EventHub hub("bench", snapshot(1));
  // All listeners have one address here.
  http::Limits limits;
  limits.connections_per_group = limits.connections;
  limits.streams_per_group = limits.streams;
  const auto answer = [&](const http::Request&, http::Reply reply) {
    reply(http::event_stream(hub.open_stream({})));
  };
  http::Server server(loop, answer, limits);
  const auto bound = server.listen_tcp("127.0.0.1", 0);
  if (!bound) return 1;
  std::puts(std::to_string(bound->port).c_str());
  std::fflush(stdout);
  const Ticker ticker(loop, hub,
                      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(1 / hz)));
  loop.run();
  return 0;
}

}  // namespace
}  // namespace gpuyard

int main(int argc, char** argv) {
  double hz = 0;
  if (argc == 2) std::from_chars(argv[1], argv[1] + std::strlen(argv[1]), hz);
  if (hz <= 0) {
    std::fputs("usage: event_stream HZ\n", stderr);
    return 2;
  }
  return gpuyard::serve(hz);
}
