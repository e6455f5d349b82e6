// What the reading verbs share: where they ask, and what they say when there is nobody to ask.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "cli/client/source.h"
#include "cli/verbs.h"
#include "protocol/resources.h"
#include "sim/keeper.h"

namespace gpuyard::cli {

// A directory with a name nobody could foresee, removed with all that is in it.
class TemporaryDirectory {
 public:
  static Result<TemporaryDirectory> make();

  TemporaryDirectory(TemporaryDirectory&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  TemporaryDirectory& operator=(TemporaryDirectory&&) = delete;
  ~TemporaryDirectory();

  const std::string& path() const { return path_; }

 private:
  explicit TemporaryDirectory(std::string path) : path_(std::move(path)) {}

  std::string path_;  // empty: moved from
};

// A simulated world for one command, in a directory of its own; both are gone with this. Where the
// command ends without unwinding (Ctrl-C, a closed pipe, SIGKILL), the world's keeper sees to it.
class PrivateWorld {
 public:
  static Result<PrivateWorld> start(int gpus);

 private:
  PrivateWorld(TemporaryDirectory directory, sim::RunningWorld world)
      : directory_(std::move(directory)), world_(std::move(world)) {}

  TemporaryDirectory directory_;
  sim::RunningWorld world_;  // ends before its directory
};

// The source, and for --simulate the world that it reads.
struct OpenSource {
  std::optional<PrivateWorld> world;
  std::unique_ptr<client::Source> source;  // ends before its world
};

// Where the flags and the environment say to ask. Of a simulated world that runs already.
client::SourceOptions source_options(const SourceFlags&);

Result<OpenSource> open_source(const SourceFlags&);

// The daemon, where nobody else will do: that which `socket` or the environment names, or the first
// that runs here. Errc::unavailable, in the words of `if_none`: none does.
Result<http::Endpoint> daemon_at(const std::string& socket, std::string_view if_none);

// What `wanted` fills of the GPUs that `gpus` names, or of all. Without a driver or a GPU an error.
Result<protocol::Snapshot> look_at(client::Source&, std::string_view gpus, ProbeSet wanted,
                                   client::Owners);

// Of a snapshot whose driver could not be initialised.
Error no_driver(const protocol::Snapshot&);

// Complains, with `advice` where there is no daemon; returns the exit code.
int complain_about_daemon(
    const Error&,
    std::string_view advice = "  `gpuyard serve` starts one; `gpuyard doctor` looks closer.");

// Complains, with what to do next where there is no driver.
int complain_about_source(const Error&);

// Which GPUs the user named.

// Keeps the GPUs that `names` lists, separated by commas, each an index, a UUID, or a PCI address
// in either spelling; in the order of the names. Errc::not_found for a name that is none.
Result<void> keep_only(protocol::Snapshot&, std::string_view names);

}  // namespace gpuyard::cli
