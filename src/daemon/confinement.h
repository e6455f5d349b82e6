// Denies the daemon system calls that it never makes and files that it never uses, before it opens
// a socket or starts a thread, because it parses what strangers send.
#pragma once

#include <string>
#include <vector>

#include "base/allowed_files.h"
#include "daemon/config/config.h"

namespace gpuyard::daemon {

// The files that a daemon with this configuration uses: its state and sockets, which it writes; the
// configuration, certificates and secrets; and what the C library and its name services read.
// `files`: those that the configuration was read from.
AllowedFiles files_of_daemon(const config::Config&, const std::vector<std::string>& files);

// Starts the process that starts commands, which stays free; then denies the system calls, and the
// files to a daemon without privileges. Root's daemon could change root's own files anyway. Logs
// and returns what this kernel or container does not support, in a sentence each.
std::vector<std::string> confine(const config::Config&, const std::vector<std::string>& files);

}  // namespace gpuyard::daemon
