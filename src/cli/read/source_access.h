// Shared by the verbs that read: where they ask, and their errors if no daemon or driver answers.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "cli/screen/printable.h"
#include "cli/source.h"
#include "cli/verbs.h"
#include "faces/protocol/resources.h"
#include "sim/world_client.h"

namespace gpuyard::cli {

// A directory with an unpredictable name, removed with all that is in it.
class TemporaryDirectory {
 public:
  static Result<TemporaryDirectory> make();

  TemporaryDirectory(TemporaryDirectory&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  TemporaryDirectory& operator=(TemporaryDirectory&&) = delete;
  ~TemporaryDirectory();

  const std::string& path() const { return path_; }

 private:
  explicit TemporaryDirectory(std::string path) : path_(std::move(path)) {}

  std::string path_;  // empty after a move
};

// The load of the GPUs of --simulate. A command that runs until it is stopped shows a demo
// (sim/demo.h), from four GPUs on; one that ends at once starts no further process.
enum class SimulatedLoad { load, demo };

// A simulated world for one command, in a directory of its own; the destructor ends both. If the
// command ends without unwinding (Ctrl-C, a closed pipe, SIGKILL), the world server removes them.
class PrivateWorld {
 public:
  static Result<PrivateWorld> start(int gpus, SimulatedLoad what = SimulatedLoad::load);

 private:
  PrivateWorld(TemporaryDirectory directory, sim::RunningWorld world)
      : directory_(std::move(directory)), world_(std::move(world)) {}

  TemporaryDirectory directory_;
  sim::RunningWorld world_;  // ends before its directory
};

// The source, and the simulated world that it reads with --simulate.
struct OpenSource {
  std::optional<PrivateWorld> world;
  std::unique_ptr<Source> source;  // ends before its world
};

// Returns where the flags and the environment say to ask. With --simulate the world must run.
SourceOptions source_options(const SourceFlags&);

Result<OpenSource> open_source(const SourceFlags&, SimulatedLoad what = SimulatedLoad::load);

// Returns the daemon, if only a daemon will do: the one that `socket` or the environment names, or
// else the first that runs here. Errc::unavailable: none runs, which `what`, "leases need", names.
Result<http::Endpoint> require_daemon(const std::string& socket, std::string_view what = "");

// Returns "On ssh://lab:\n", which stands before what people read of another machine, because
// terminals look alike; "" if `socket` is one of this machine.
Printable host_heading(const std::string& socket);

// Returns " --simulate 4" or " -H ssh://lab", as another command for the same GPUs would have it.
std::string source_words(const SourceFlags&);

// Reads what `wanted` fills of the GPUs in `gpus`, or of all. Errors: no driver, or no GPU. Advice
// has `words` of the source.
Result<protocol::Snapshot> read_gpus(Source&, std::string_view gpus, ProbeSet wanted, OwnerLookup,
                                     std::string_view words = "");

// Returns the error for a snapshot whose driver could not be initialised.
Error no_driver_error(const protocol::Snapshot&);

// Returns whether an error, also one of a daemon, means that there is no driver.
bool is_driver_error(const Error&);

// Complains, with advice if the driver of this machine is the cause; returns the exit code.
int print_source_error(const Error&);

// Keeps the GPUs that `names` lists, in that order. Commas separate the names: an index, a UUID, or
// a PCI address in either spelling. Errc::not_found: a name fits no GPU; the advice has `words` of
// the source.
Result<void> keep_only(protocol::Snapshot&, std::string_view names, std::string_view words = "");

}  // namespace gpuyard::cli
