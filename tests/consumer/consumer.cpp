// Uses libgpuyard beside an fmt and an SQLite of its own: writes every GPU's readings to a database
// in memory, and prints the rows from there.
//   consumer fake    a fake fleet of 3
//   consumer         the GPUs of this machine, or of the simulated world in the environment
#include <fmt/format.h>
#include <gpuyard/gpuyard.h>
#include <sqlite3.h>

#include <memory>
#include <optional>
#include <string_view>

namespace {

using Database = std::unique_ptr<sqlite3, decltype(&sqlite3_close)>;

int run(sqlite3* database, const char* sql) {
  return sqlite3_exec(database, sql, nullptr, nullptr, nullptr);
}

Database open_database() {
  sqlite3* opened = nullptr;
  sqlite3_open(":memory:", &opened);
  run(opened, "CREATE TABLE reading (gpu INTEGER, key TEXT, value REAL, why TEXT)");
  return {opened, &sqlite3_close};
}

void store(sqlite3* database, const gpuyard::Device& gpu) {
  for (const gpuyard::Device::Reading& reading : gpu.readings) {
    const double* number = reading.number();
    const gpuyard::Missing* missing = reading.missing();
    if (number == nullptr && missing == nullptr) continue;
    const std::string sql =
        fmt::format("INSERT INTO reading VALUES ({}, '{}', {}, '{}')", gpu.index, reading.key,
                    number != nullptr ? fmt::format("{}", *number) : "NULL",
                    missing != nullptr ? describe(*missing) : "");
    if (run(database, sql.c_str()) != SQLITE_OK) {
      fmt::print(stderr, "{}: {}\n", sql, sqlite3_errmsg(database));
    }
  }
}

int print_row(void*, int columns, char** values, char**) {
  for (int i = 0; i < columns; ++i) fmt::print("{} ", values[i] != nullptr ? values[i] : "-");
  fmt::print("\n");
  return 0;
}

gpuyard::Result<gpuyard::Monitor> open_monitor(bool fake) {
  if (!fake) return gpuyard::Monitor::open();
  return gpuyard::Monitor::open(gpuyard::FakeFleet::with_healthy_gpus(3, 80'000'000'000));
}

// Changes a setting of a fake fleet's GPU, and prints the writes that reached its driver.
void control_a_fake() {
  gpuyard::set_log_sink([](gpuyard::LogLevel, std::string_view line) {
    fmt::print("log: {}\n", line.substr(0, line.find(" [")));
  });
  const auto fleet = gpuyard::FakeFleet::with_healthy_gpus(1, 80'000'000'000);
  const auto control = gpuyard::Control::open(fleet);
  if (!control || !control->set_power_management_limit(0, 250'000)) return;
  for (const auto& write : fleet.writes()) {
    fmt::print("written: {} mW\n", write.value ? write.value->lowest : 0);
  }
}

// Two leases of one GPU, one after the other.
void share_a_gpu() {
  const auto pool = gpuyard::Pool::of({{7, "NVIDIA", "NVIDIA H100"}});
  if (!pool) return;
  auto lease = pool->try_claim();
  const auto pending = pool->claim([](std::optional<gpuyard::Pool::Lease> next) {
    if (next) fmt::print("leased: GPU {} with fence {}\n", next->index(), next->fence());
  });
  fmt::print("waiting: {} for {}\n", pool->pending_claimers(), pool->capacity());
  lease.reset();
}

// A daemon that is away is an error of the question.
void ask_a_daemon() {
  const auto daemon = gpuyard::Client::open({.host = "unix:///nonexistent/gpuyard.sock"});
  if (!daemon) return;
  const auto gpus = daemon->inventory();
  if (!gpus) fmt::print("asked {}: {}\n", daemon->name(), name_of(gpus.error().code));
}

}  // namespace

int main(int argc, char** argv) {
  const bool fake = argc > 1 && std::string_view(argv[1]) == "fake";
  if (fake) control_a_fake();
  if (fake) share_a_gpu();
  if (fake) ask_a_daemon();
  const auto monitor = open_monitor(fake);
  if (!monitor) {
    fmt::print(stderr, "{}\n{}\n", monitor.error().message, advice_on(monitor.error()));
    return 5;
  }
  const auto driver = monitor->get_driver_info();
  fmt::print("libgpuyard {}, simulated {}\n", gpuyard::version(), driver && driver->simulated);
  const Database database = open_database();
  for (const gpuyard::Device& gpu : monitor->inventory()) store(database.get(), gpu);
  for (const gpuyard::GpuSnapshot& gpu : monitor->snapshot()) fmt::print("{}\n", to_string(gpu));
  sqlite3_exec(database.get(),
               "SELECT gpu, value FROM reading WHERE key = 'memory_total_bytes' ORDER BY gpu",
               &print_row, nullptr, nullptr);
  return 0;
}
