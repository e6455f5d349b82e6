// What the reading verbs share: where they ask, and what they say when there is nobody to ask.
#pragma once

#include <memory>

#include "cli/verbs.h"
#include "client/source.h"
#include "sim/keeper.h"

namespace gpuyard::cli {

// The source, and for --simulate the world that lives as long as it is read.
struct OpenSource {
  std::optional<sim::RunningWorld> world;
  std::unique_ptr<client::Source> source;
};

Result<OpenSource> open_source(const SourceFlags&);

// Complains, with what to do next where there is no driver.
int complain_about_source(const Error&);

}  // namespace gpuyard::cli
