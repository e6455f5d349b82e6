// The built-in rules, as the text that a user reads before he writes his own.
#include "andon/rule_reader.h"

namespace gpuyard::andon {

std::string_view built_in_text() {
  return R"toml(# The built-in rules of gpuyard. Name one in your own file to change some of its keys
# or, with enabled = false, to switch it off; any other name makes a new rule.
#
# A rule trips when `at` is reached for hold_s, and clears when its value was beyond clear_at for
# clear_hold_s. What is not known trips nothing, and clears nothing. Sinks hear of it by its
# level, unless it names them: a busy GPU is to page nobody.

[rule.thermal]
on = "temperature_c"
at = 80
hold_s = 10
clear_at = 77
clear_hold_s = 30
curve = "thermal"
message = "GPU {gpu} is at {value} C; the threshold is {at} C"
advice = "Look at the fans and the air flow, move work elsewhere, or lower the power limit."

[rule.slowdown-near]
on = "slowdown_margin_c"
below = true
at = 3
hold_s = 10
clear_at = 6
clear_hold_s = 30
severity = 80
message = "GPU {gpu} is {value} C from the temperature at which it slows itself down"
advice = "Lower its power limit or move work away now; it is about to lose speed."

[rule.thermal-slowdown]
on = "thermal_slowdown"
at = 1
hold_s = 10
clear_hold_s = 60
severity = 75
message = "GPU {gpu} is being slowed down by its hardware because of heat"
advice = "Its cooling does not keep up: look for a blocked fan, dust or hot air from a neighbour."

[rule.fan-stopped]
on = "fan_stopped"
at = 1
hold_s = 30
clear_hold_s = 60
severity = 80
message = "A fan of GPU {gpu} stands still although the GPU is hot"
advice = "Take work off the GPU and have the fan looked at."

[rule.memory]
on = "memory_used_percent"
at = 90
hold_s = 60
clear_at = 87
clear_hold_s = 60
curve = "memory"
sinks = ["log"] # many programs take all of it on purpose
message = "GPU {gpu} has {value} % of its memory in use; the threshold is {at} %"
advice = "The next allocation may fail: make batches smaller, or let fewer programs share it."

[rule.power]
on = "power_used_percent"
at = 95
hold_s = 60
clear_at = 90
clear_hold_s = 60
curve = "power"
sinks = ["log"] # a busy GPU draws what it may
message = "GPU {gpu} draws {value} % of its power limit; the threshold is {at} %"
advice = "It may be slowed down by its limit: raise the limit if supply and cooling allow it."

[rule.power-brake]
on = "power_brake"
at = 1
hold_s = 10
clear_hold_s = 60
severity = 75
message = "GPU {gpu} is being slowed down because the power supply asks for it"
advice = "The machine draws more than it is given: look at its power supplies and their limits."

[rule.idle]
on = "idle_s"
at = 300
severity = 40 # whatever the time: a notebook holds its GPU while its user thinks
message = "GPU {gpu} has been idle for {duration} though processes compute on it (possible hang); the threshold is {limit_duration}"
advice = "Look whether the program waits for data, for a lock or for a peer that is gone."

[rule.reserved-idle]
on = "reserved_idle_s"
at = 1800
severity = 40
message = "GPU {gpu} is leased and has been idle for {duration}; the threshold is {limit_duration}"
advice = "Ask its holder whether the lease is still needed; others may be waiting."

[rule.gpu-lost]
on = "lost"
at = 1
clear_hold_s = 300
severity = 100
inhibits = ["*"]
quarantine = true
message = "GPU {gpu} is lost: the driver says that it is gone"
advice = "End what used it, then reset the GPU or restart the machine; if it happens again, have it replaced."

[rule.gpu-missing]
on = "missing"
at = 1
clear_hold_s = 60
severity = 100
inhibits = ["*"]
quarantine = true
message = "GPU {gpu} is missing: {why}"
advice = "Check its seat, its power and the kernel's log. If it was removed for good, acknowledge this alert: that ends it."

[rule.gpu-unresponsive]
on = "unresponsive"
at = 1
hold_s = 10
clear_hold_s = 60
severity = 85
inhibits = ["gpu-stale"]
quarantine = true
message = "GPU {gpu} does not answer: {why}"
advice = "A driver call hangs: end what uses the GPU; if it stays like that, restart the machine."

[rule.gpu-unreadable]
on = "unreadable"
at = 1
hold_s = 5
clear_hold_s = 60
severity = 85
inhibits = ["gpu-stale"]
quarantine = true
message = "The driver gives no reading of GPU {gpu}: {why}"
advice = "See the kernel's log and `gpuyard doctor`; reset the GPU or load the driver again. If every GPU is affected in a container, restart the container: it may have lost its device files."

[rule.inforom-corrupted]
on = "inforom_corrupted"
at = 1
hold_s = 5
clear_hold_s = 60
severity = 70
inhibits = ["gpu-stale"]
message = "The infoROM of GPU {gpu} is corrupted"
advice = "Update the firmware of the board and reset the GPU; if that does not help, return the board (RMA). Its limits and its record of memory errors may be wrong."

[rule.gpu-stale]
on = "stale_s"
at = 30
clear_at = 5
clear_hold_s = 30
severity = 60
message = "GPU {gpu} has given no reading for {duration}: {why}"
advice = "See `gpuyard doctor`. If every GPU is affected in a container, restart the container: it may have lost its device files."

[rule.gpu-unhealthy]
on = "health"
at = 2
hold_s = 2
clear_hold_s = 300
severity = 80
quarantine = true
message = "GPU {gpu} is unhealthy: {why}"
advice = "Give it no work before that is looked at; `gpuyard devices GPU` shows all of it."

[rule.pcie-degraded]
on = "pcie_degraded"
at = 1
hold_s = 60
clear_hold_s = 60
severity = 50
message = "GPU {gpu} works over a slower PCIe link than it and its slot could"
advice = "Reseat the card or its riser; until then copies to and from it are slow."

[rule.nvlink-down]
on = "nvlinks_down"
at = 1
hold_s = 5
clear_hold_s = 60
severity = 70
message = "NVLinks of GPU {gpu} are down that were up: {value}"
advice = "Look at its bridge or NVSwitch and at the kernel's log; programs that use several GPUs are slow or fail until a reset brings the links up."

[rule.readings-contradict]
on = "readings_contradict"
at = 1
clear_hold_s = 60
severity = 50
message = "GPU {gpu}: {why}"
advice = "Neither is used, and its energy counts as unknown: reset the GPU or update its driver."

[rule.ecc-uncorrected]
on = "ecc_uncorrected_volatile"
at = 1
over_s = 3600
severity = 85
message = "GPU {gpu} had {value} memory errors beyond correction within the hour"
advice = "What ran on it may have wrong results: run it again elsewhere, and reset the GPU."

[rule.ecc-corrected]
on = "ecc_corrected_volatile"
at = 1000
over_s = 3600
severity = 40
message = "GPU {gpu} had {value} corrected memory errors within the hour"
advice = "Nothing is wrong yet; a rising number says that its memory wears out."

[rule.row-remap-pending]
on = "row_remap_pending"
at = 1
severity = 55
message = "GPU {gpu} replaces a failing row of its memory at the next reset"
advice = "Reset it when it is free: `gpuyard lease` it, then have it reset."

[rule.row-remap-failure]
on = "row_remap_failure"
at = 1
severity = 90
quarantine = true
message = "GPU {gpu} has no spare left for a failing row of its memory"
advice = "Have the card replaced; run a field diagnosis for the warranty."

[rule.retired-pages-pending]
on = "retired_pages_pending"
at = 1
severity = 55
message = "GPU {gpu} takes failing pages of its memory out of use at the next reset"
advice = "Reset it when it is free."

[rule.xid-fatal]
on = "xid"
xids = [46, 48, 54, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 151, 158, 167, 169]
at = 1
over_s = 600
severity = 90
quarantine = true
message = "GPU {gpu}: Xid {xid}. {meaning} {text}"
advice = "Work on it has failed or will: end it, reset the GPU, and start again."

[rule.xid-declared-fatal]
on = "xid"
xids = [144, 145, 146, 147, 148, 149, 150, 154]
event_severity = ["stop"] # the kernel's line says so
at = 1
over_s = 600
severity = 90
inhibits = ["xid-nvlink"]
quarantine = true
message = "GPU {gpu}: Xid {xid}. {meaning} {text}"
advice = "Work on it has failed or will: end it, reset the GPU, or do what the line says, and start again."

[rule.xid-nvlink]
on = "xid"
xids = [144, 145, 146, 147, 148, 149, 150]
event_severity = ["note", "warn"]
at = 1
over_s = 600
severity = 45
message = "GPU {gpu}: Xid {xid}. {meaning} {text}"
advice = "See `gpuyard devices GPU` for its links, and watch whether it comes again: then reset the GPU."

[rule.xid-contained]
on = "xid"
xids = [94]
at = 1
over_s = 600
severity = 60
message = "GPU {gpu}: Xid {xid}. {meaning} {text}"
advice = "Start the program that was hit again; reset the GPU when it is free."

[rule.xid-program]
on = "xid"
xids = [13, 31, 43, 45]
at = 1
over_s = 300
severity = 30
message = "GPU {gpu}: Xid {xid}. {meaning} {text}"
advice = "The program has an error, not the GPU: look at its own log."

[rule.xid-other]
on = "xid"
at = 1
over_s = 600
severity = 45
message = "GPU {gpu}: Xid {xid}. {meaning} {text}"
advice = "Look it up in NVIDIA's list of Xid errors, and watch whether it comes again."

[rule.poison]
on = "fatal_poison"
at = 1
over_s = 600
severity = 90
quarantine = true
message = "GPU {gpu} has used poisoned data"
advice = "What ran on it may have wrong results: run it again elsewhere, and reset the GPU."

[rule.squatter]
on = "squatters"
at = 1
hold_s = 30
clear_hold_s = 10
severity = 45
message = "GPU {gpu} is used by {value} processes outside any lease"
advice = "`gpuyard queue` says by whom; `gpuyard lease adopt --pid PID` makes a lease of it."

[rule.driver-down]
on = "driver_down"
at = 1
hold_s = 30
severity = 95
message = "There is no NVIDIA driver to ask"
advice = "`gpuyard doctor` says what is missing."

[rule.journal-down]
on = "journal_down"
at = 1
hold_s = 10
clear_hold_s = 30
severity = 85
message = "What must survive gpuyard cannot be written to its disk"
advice = "Free space or repair the disk. Until then no new lease is granted, and an expired setting stays in effect."

[rule.disk-full]
on = "disk_free_percent"
below = true
at = 5
hold_s = 60
clear_at = 8
clear_hold_s = 60
severity = 70
message = "The disk of gpuyard's state has {value} % left; the threshold is {at} %"
advice = "Make room: without it no lease is granted and no history is kept."

[rule.sink-failing]
on = "sink_failing_s"
at = 300
severity = 70
message = "Alerts have not reached one of their sinks for {duration}"
advice = "`gpuyard alerts sinks` says which and why; alerts wait for it, and are not lost yet."

[rule.certificate-ends]
on = "certificate_days"
below = true
at = 14
hold_s = 60
severity = 70
message = "The certificate of the daemon ends in {value} days"
advice = "Put a new one in its place, `gpuyard tls show` says where; one of gpuyard's own making renews itself."

[rule.certificate-refused]
on = "certificate_refused"
at = 1
hold_s = 10
severity = 70
message = "The daemon's certificate cannot be used; the previous one stays in use, or TLS is unavailable"
advice = "Run `gpuyard doctor` to see what is wrong with its files. Fixed files are picked up within seconds."

[rule.listener-closed]
on = "listeners_closed"
at = 1
hold_s = 10
severity = 70
message = "{value} of the configured addresses and sockets cannot be opened"
advice = "Run `gpuyard doctor` to see which and why. Each is retried every few seconds."

[rule.token-ends]
on = "token_days"
below = true
at = 14
hold_s = 60
severity = 40
message = "A token ends in {value} days"
advice = "`gpuyard token list` says which; make another for what uses it, and revoke this one."

[rule.slurm-hook]
on = "slurm_trouble"
at = 1
severity = 70
message = "A hook of Slurm on this machine cannot do its work"
advice = "`gpuyard slurm status` has its own words, and `gpuyard slurm install` checks the setting; jobs go on meanwhile."
)toml";
}

}  // namespace gpuyard::andon
