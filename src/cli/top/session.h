// The screen and its user: a terminal, keys and a mouse on one side, a source (screen_source.h) on
// the other. A thread polls the source; keys are answered from what it returned last, however long
// it takes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/screen/live_screen.h"
#include "cli/screen/screen.h"
#include "cli/top/model.h"
#include "cli/top/render.h"
#include "cli/top/screen_source.h"

namespace gpuyard::cli::top {

struct DisplayOptions {
  Charset charset = Charset::block;
  Palette palette = Palette::mono;
  ColorMode color = ColorMode::automatic;
  std::optional<Size> size = {};  // nothing: the terminal's
};

// Shows the model until the user leaves or a signal ends it. The source may be inside a call that
// never returns: the polling thread is left behind, and keeps the source.
void run_interactive(SignalWaiter&, std::shared_ptr<ScreenSource>, Model, const DisplayOptions&);

// Prints the lines of the model, and then those that change in words, until a signal ends it.
void run_plain(SignalWaiter&, ScreenSource&, Model);

// The size of the terminal, within bounds.
Size size_of(const Screen&);

}  // namespace gpuyard::cli::top
