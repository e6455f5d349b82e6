// The source of what the screen shows: a daemon or the driver, of now or of a past moment, or a
// recording. The screen shows what a source returned last.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "cli/read/source_access.h"
#include "cli/top/screen_data.h"

namespace gpuyard::cli::top {

// Thread: the polling one.
class ScreenSource {
 public:
  virtual ~ScreenSource() = default;
  virtual Result<ScreenData> fetch(const ScreenQuery&) = 0;
  // The last minutes, with which the first screen begins.
  virtual UtilizationHistory recent_utilization() { return {}; }
  // Null: no daemon is asked.
  virtual const http::Endpoint* daemon() const { return nullptr; }
  virtual bool has_history() const { return daemon() != nullptr; }
  virtual bool is_replay() const { return false; }
};

// The source must outlive it.
std::unique_ptr<ScreenSource> make_screen_source(Source& source);
// Plays the file from `from` at this speed; 0: stands still there.
Result<std::unique_ptr<ScreenSource>> make_recording_source(const std::string& file, Duration from,
                                                            double speed);

}  // namespace gpuyard::cli::top
