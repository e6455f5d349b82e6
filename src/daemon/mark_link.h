// The connection of the daemon and `gpuyard marks`. A daemon that may read every environment
// itself, as root's may, starts a child for it before it listens. Every other one connects to the
// socket of the service gpuyard-marks; without that, a user's daemon starts a child for the
// processes of this user.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/processes/mark_client.h"
#include "daemon/config/config.h"

namespace gpuyard::daemon {

inline constexpr std::string_view kMarksVerb = "marks";

// Returns a client that is not connected yet.
std::shared_ptr<processes::MarkClient> make_mark_client(const config::Config&);

// From now on the files that this process may not read, and that root's configuration names, are
// opened by the service gpuyard-marks. REQUIRES: no thread has started yet.
void open_files_by_marks(const std::string& marks_socket);

// The files that the service hands over: the configuration, certificates and keys, the secrets of
// alert sinks, the kernel log, and the counters of CPU energy. Files named in a file that others
// than root can change are left out.
std::vector<std::string> files_opened_by_marks(const Environment&);

// The hidden verb `marks`. `arguments`: none for the service, which reads root's configuration; the
// daemon's child gets the /proc with the driver's numbers.
[[noreturn]] void run_marks(const std::vector<std::string>& arguments);

}  // namespace gpuyard::daemon
