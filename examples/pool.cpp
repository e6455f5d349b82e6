// Six jobs share two GPUs, and a helper uses spare GPUs: example_pool.
#include <chrono>
#include <iostream>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gpuyard/gpuyard.h>

namespace {

using namespace std::chrono_literals;

void say(const std::string& line) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::cout << line << std::endl;
}

void job(const gpuyard::Pool& pool, int number) {
  const auto lease = pool.claim(60s);
  if (!lease) return say("job " + std::to_string(number) + ": no GPU");
  say("job " + std::to_string(number) + ": on GPU " + std::to_string(lease->index()));
  std::this_thread::sleep_for(20ms);  // your work
}

// Asks before each piece of work, so that a waiting job is delayed by one piece at most.
void help(const gpuyard::Pool& pool, const std::stop_token& stop) {
  const gpuyard::HelperArbiter arbiter(pool);
  std::optional<gpuyard::Pool::Lease> lease;
  int pieces = 0;
  while (!stop.stop_requested()) {
    lease = arbiter.decide(std::move(lease));
    if (lease) ++pieces;
    std::this_thread::sleep_for(1ms);  // a piece of work, or a pause
  }
  lease.reset();
  say("helper: " + std::to_string(pieces) + " pieces of work");
}

}  // namespace

int main() {
  const auto pool = gpuyard::Pool::of({{0, "NVIDIA", "a GPU"}, {1, "NVIDIA", "another"}});
  if (!pool) return 1;
  {
    const std::jthread helper([&](const std::stop_token& stop) { help(*pool, stop); });
    std::vector<std::jthread> jobs;
    for (int i = 0; i < 6; ++i) jobs.emplace_back([&pool, i] { job(*pool, i); });
  }
  std::string all;
  for (const auto& gpu : pool->snapshot_leases()) {
    all += (all.empty() ? "GPU " : ", GPU ") + std::to_string(gpu.index) +
           (gpu.leased ? " leased" : " free");
  }
  say(all + (pool->pending_claimers() == 0 ? "; no claims are waiting" : "; claims are waiting"));
  return 0;
}
