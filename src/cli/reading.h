// What the reading verbs share: where they ask, and what they say when there is nobody to ask.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/verbs.h"
#include "client/source.h"
#include "sim/keeper.h"

namespace gpuyard::cli {

// A simulated world for one command, in a directory of its own; both are gone with this.
class PrivateWorld {
 public:
  static Result<PrivateWorld> start(int gpus);

  PrivateWorld(PrivateWorld&&) noexcept = default;
  PrivateWorld& operator=(PrivateWorld&&) = delete;
  ~PrivateWorld();

 private:
  PrivateWorld(std::string directory, sim::RunningWorld world)
      : directory_(std::move(directory)), world_(std::move(world)) {}

  std::string directory_;  // empty: moved from
  sim::RunningWorld world_;
};

// The source, and for --simulate the world that it reads.
struct OpenSource {
  std::optional<PrivateWorld> world;
  std::unique_ptr<client::Source> source;  // ends before its world
};

Result<OpenSource> open_source(const SourceFlags&);

// Complains, with what to do next where there is no driver.
int complain_about_source(const Error&);

}  // namespace gpuyard::cli
