// Measures the cost of energy accounting: a tick of the ledger by GPUs and open windows, and its
// commit to a state.db in the directory that TMPDIR names (else /tmp). Prints the results.
#include <cstdlib>
#include <filesystem>
#include <string>

#include <benchmark/benchmark.h>
#include <unistd.h>

#include "core/energy/ledger.h"
#include "core/energy/snapshots_for_tests.h"
#include "io/store/energy_db.h"
#include "io/store/migrations.h"
#include "io/store/state_db.h"

namespace gpuyard {
namespace {

using energy::Ledger;
using energy::TestGpu;

class Node {
 public:
  explicit Node(std::int64_t gpus) {
    for (std::int64_t i = 0; i < gpus; ++i) {
      gpus_.push_back({"GPU-00000000-0000-0000-0000-" + std::to_string(100'000'000'000 + i), 0});
    }
    now();
  }
  // The snapshot one second later.
  const Snapshot& now() {
    taken_ += std::chrono::seconds(1);
    for (TestGpu& gpu : gpus_) *gpu.counter_mj += 700'000;
    snapshot_ = energy::snapshot_of(gpus_, taken_, WallTime{});
    return snapshot_;
  }
  const Snapshot& last() const { return snapshot_; }

 private:
  std::vector<TestGpu> gpus_;
  TimePoint taken_{};
  Snapshot snapshot_;
};

void open_windows(Ledger& ledger, const Node& node, std::int64_t windows) {
  for (std::int64_t i = 0; i < windows; ++i) {
    energy::WindowRequest request;
    request.owner = static_cast<uid_t>(i);
    if (!ledger.begin(request, node.last())) std::abort();
  }
}

// Arguments: GPUs, windows over all GPUs.
void tick(benchmark::State& state) {
  Node node(state.range(0));
  Ledger ledger("boot");
  ledger.restore({}, {}, {});
  ledger.record(node.last());
  open_windows(ledger, node, state.range(1));
  for (auto _ : state) {
    state.PauseTiming();
    const Snapshot& now = node.now();
    state.ResumeTiming();
    ledger.record(now);
  }
}
BENCHMARK(tick)->Args({8, 0})->Args({64, 0})->Args({8, 16})->Args({64, 256});

class StateDirectory {
 public:
  StateDirectory() {
    path_ = std::filesystem::temp_directory_path() / "gpuyard-bench-XXXXXX";
    path_ = ::mkdtemp(path_.data());
  }
  ~StateDirectory() { std::filesystem::remove_all(path_); }
  StateDirectory(const StateDirectory&) = delete;
  StateDirectory& operator=(const StateDirectory&) = delete;
  std::string file() const { return path_ + "/state.db"; }

 private:
  std::string path_;
};

// The edge of a window: all accounts and one window of all GPUs, synced.
void commit(benchmark::State& state) {
  const StateDirectory directory;
  store::StateDb database(directory.file(), store::kStateMigrations);
  Node node(state.range(0));
  Ledger ledger("boot");
  ledger.record(node.last());
  for (auto _ : state) {
    state.PauseTiming();
    open_windows(ledger, node, 1);
    const energy::EnergyTransaction changes = ledger.take_transaction();
    const std::vector<store::StateDb::Work> works = {
        [&](store::Database& into) { return store::save_energy(into, changes); }};
    state.ResumeTiming();
    if (!database.commit(works)) std::abort();
    state.PauseTiming();
    if (!ledger.end(changes.state.windows[0].id, node.last().taken)) std::abort();
    state.ResumeTiming();
  }
}
BENCHMARK(commit)->Arg(8)->Arg(64)->UseRealTime();

}  // namespace
}  // namespace gpuyard

BENCHMARK_MAIN();
