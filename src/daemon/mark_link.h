// How the daemon and `gpuyard marks` find each other. A daemon that may read every environment
// itself, as root's may, starts a child for it before it listens; every other one connects to the
// socket of the service gpuyard-marks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/config/config.h"
#include "processes/mark_client.h"

namespace gpuyard::daemon {

inline constexpr std::string_view kMarksVerb = "marks";

std::shared_ptr<processes::MarkClient> connect_marks(const config::Config&);

// The hidden verb `marks`. `arguments`: none for the service, which reads root's configuration; the
// daemon's child gets the /proc with the driver's numbers.
[[noreturn]] void run_marks(const std::vector<std::string>& arguments);

}  // namespace gpuyard::daemon
