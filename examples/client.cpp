// Asks a daemon, here or elsewhere: what there is, a lease of a GPU and the energy used under it,
// and what happens.
//   client [HOST]    as -H: ssh://lab, https://lab, unix:///path or a name in hosts.toml
#include <gpuyard/client.h>

#include <chrono>
#include <cstdio>
#include <string>

namespace {

using namespace std::chrono_literals;

int failed(const char* what, const gpuyard::Error& error) {
  std::fprintf(stderr, "%s: %s (%s)\n", what, error.text().c_str(),
               std::string(name_of(error.code)).c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const auto daemon = gpuyard::Client::open({.host = argc > 1 ? argv[1] : ""});
  if (!daemon) return failed("no daemon", daemon.error());
  const auto gpus = daemon->inventory();
  if (!gpus) return failed("the GPUs", gpus.error());
  for (const gpuyard::Device& gpu : *gpus) {
    std::printf("GPU %u: %s, %.0f W\n", gpu.index, gpu.name.c_str(),
                gpu.number("power_draw_w").value_or(0));
  }

  auto events = daemon->events();
  if (const auto begun = events.next(0ms); !begun) return failed("events", begun.error());

  // With a time it may also be asked for from afar; without, it would last as long as this process.
  const auto lease = daemon->claim({.gpus = 1, .ttl = 60s, .note = "example"}, 10s);
  if (!lease) return failed("no GPU", lease.error());
  std::printf("held: GPU %u with fence %llu\n", lease->gpus.front().index.value_or(0),
              static_cast<unsigned long long>(lease->fence.value_or(0)));
  const auto window = daemon->begin_energy_window({lease->gpus.front().uuid});
  if (!window) return failed("the window", window.error());
  const auto used = daemon->end_energy_window(*window);
  if (!used) return failed("the window", used.error());
  std::printf("used: %zu GPU\n", used->gpus.size());
  const auto released = daemon->release(*lease);
  if (!released) return failed("the release", released.error());

  for (;;) {
    const auto event = events.next(5s);
    if (!event) return failed("events", event.error());
    if (!*event) return 1;
    if ((*event)->name != "lease") continue;
    std::printf("event: lease\n");
    return 0;
  }
}
