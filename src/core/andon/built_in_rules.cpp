// The built-in rules, as the text that a user reads before they write their own.
#include "core/andon/rule_reader.h"

namespace gpuyard::andon {

std::string_view built_in_text() {
  return R"toml(# Built-in alert rules of gpuyard. Repeat a rule in your own file to change some of its keys
# or, with enabled = false, to disable it; any other name defines a new rule.
#
# A rule triggers when `at` has been reached for hold_s, and clears when its value has been beyond
# clear_at for clear_hold_s. Unknown values neither trigger nor clear a rule. Sinks are notified by
# alert level, unless the rule names its sinks: a busy GPU must not page anyone.

[rule.thermal]
on = "temperature_c"
at = 80
hold_s = 10
clear_at = 77
clear_hold_s = 30
curve = "thermal"
message = "GPU {gpu} is at {value} C; the threshold is {at} C"
advice = "Check fans and airflow, move work to another GPU, or lower the power limit."

[rule.slowdown-near]
on = "slowdown_margin_c"
below = true
at = 3
hold_s = 10
clear_at = 6
clear_hold_s = 30
severity = 80
message = "GPU {gpu} is {value} C below its slowdown temperature"
advice = "Lower its power limit or move work away now, before it throttles."

[rule.thermal-slowdown]
on = "thermal_slowdown"
at = 1
hold_s = 10
clear_hold_s = 60
severity = 75
message = "GPU {gpu} is throttled by its hardware because of heat"
advice = "Its cooling is insufficient: check for a blocked fan, dust or hot air from a neighbouring card."

[rule.fan-stopped]
on = "fan_stopped"
at = 1
hold_s = 30
clear_hold_s = 60
severity = 80
message = "A fan of GPU {gpu} has stopped although the GPU is hot"
advice = "Move work off the GPU and have the fan checked."

[rule.memory]
on = "memory_used_percent"
at = 90
hold_s = 60
clear_at = 87
clear_hold_s = 60
curve = "memory"
sinks = ["log"] # many programs take all of it on purpose
message = "GPU {gpu} has {value} % of its memory in use; the threshold is {at} %"
advice = "The next allocation may fail: use smaller batches, or run fewer programs on it."

[rule.power]
on = "power_used_percent"
at = 95
hold_s = 60
clear_at = 90
clear_hold_s = 60
curve = "power"
sinks = ["log"] # a busy GPU draws what it may
message = "GPU {gpu} draws {value} % of its power limit; the threshold is {at} %"
advice = "The limit may throttle it: raise the limit if power supply and cooling allow."

[rule.power-brake]
on = "power_brake"
at = 1
hold_s = 10
clear_hold_s = 60
severity = 75
message = "GPU {gpu} is throttled by the power brake, at the request of the power supply"
advice = "The machine draws more power than its supplies provide: check them and their limits."

[rule.idle]
on = "idle_s"
at = 300
severity = 40 # at any idle time: a notebook holds its GPU while its user thinks
message = "GPU {gpu} has been idle for {duration} although compute processes are on it (possible hang); the threshold is {limit_duration}"
advice = "Check whether the program is waiting for data, a lock or a peer that has exited."

[rule.reserved-idle]
on = "reserved_idle_s"
at = 1800
severity = 40
message = "GPU {gpu} is {leased} and has been idle for {duration}; the threshold is {limit_duration}"
advice = "Ask its holder whether the lease is still needed; others may be waiting."

[rule.gpu-lost]
on = "lost"
at = 1
clear_hold_s = 300
severity = 100
inhibits = ["*"]
quarantine = true
message = "GPU {gpu} is lost: the driver can no longer reach it"
advice = "Stop the processes that used it, then reset the GPU or reboot the machine; if it happens again, replace it."

[rule.gpu-missing]
on = "missing"
at = 1
clear_hold_s = 60
severity = 100
inhibits = ["*"]
quarantine = true
message = "GPU {gpu} is missing: {why}"
advice = "Check that the card is seated and powered, and see the kernel log. If it was removed for good, acknowledge this alert to end it."

[rule.gpu-unresponsive]
on = "unresponsive"
at = 1
hold_s = 10
clear_hold_s = 60
severity = 85
inhibits = ["gpu-stale"]
quarantine = true
message = "GPU {gpu} is not responding: {why}"
advice = "A driver call hangs: stop the processes on the GPU; if that does not help, reboot the machine."

[rule.gpu-unreadable]
on = "unreadable"
at = 1
hold_s = 5
clear_hold_s = 60
severity = 85
inhibits = ["gpu-stale"]
quarantine = true
message = "The driver reports no readings for GPU {gpu}: {why}"
advice = "Check the kernel log and run `gpuyard doctor`; reset the GPU or reload the driver. If every GPU is affected in a container, restart the container: it may have lost its device files."

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
message = "GPU {gpu} has reported no readings for {duration}: {why}"
advice = "Run `gpuyard doctor`. If every GPU is affected in a container, restart the container: it may have lost its device files."

[rule.gpu-unhealthy]
on = "health"
at = 2
hold_s = 2
clear_hold_s = 300
severity = 80
quarantine = true
message = "GPU {gpu} is unhealthy: {why}"
advice = "Do not use the GPU until this has been checked; for details, run `gpuyard devices {gpu}`."

[rule.pcie-degraded]
on = "pcie_degraded"
at = 1
hold_s = 60
clear_hold_s = 60
severity = 50
message = "GPU {gpu} uses a slower PCIe link than the card and slot support"
advice = "Reseat the card or its riser; until then, transfers to and from it are slow."

[rule.nvlink-down]
on = "nvlinks_down"
at = 1
hold_s = 5
clear_hold_s = 60
severity = 70
message = "NVLinks of GPU {gpu} went down: {value}"
advice = "Check its bridge or NVSwitch and the kernel log; programs that use several GPUs are slow or fail until a reset brings the links up."

[rule.readings-contradict]
on = "readings_contradict"
at = 1
clear_hold_s = 60
severity = 50
message = "GPU {gpu}: {why}"
advice = "Neither reading is used, and its energy counts as unknown: reset the GPU or update the driver."

[rule.ecc-uncorrected]
on = "ecc_uncorrected_volatile"
at = 1
over_s = 3600
severity = 85
message = "GPU {gpu} had {value} uncorrectable memory errors within an hour"
advice = "Jobs on it may have wrong results: rerun them on another GPU, and reset this one."

[rule.ecc-corrected]
on = "ecc_corrected_volatile"
at = 1000
over_s = 3600
severity = 40
message = "GPU {gpu} had {value} corrected memory errors within an hour"
advice = "No action is needed yet; a rising number means that its memory is wearing out."

[rule.row-remap-pending]
on = "row_remap_pending"
at = 1
severity = 55
message = "GPU {gpu} will remap a failing memory row at the next reset"
advice = "Reset the GPU when it is free: lease it with `gpuyard lease take --among {gpu} --for 10m`, then have it reset."

[rule.row-remap-failure]
on = "row_remap_failure"
at = 1
severity = 90
quarantine = true
message = "GPU {gpu} has no spare memory row left to replace a failing one"
advice = "Replace the card; run the field diagnostic for the warranty."

[rule.retired-pages-pending]
on = "retired_pages_pending"
at = 1
severity = 55
message = "GPU {gpu} will retire failing memory pages at the next reset"
advice = "Reset the GPU when it is free."

[rule.recovery-needed]
on = "recovery_needed"
at = 1
severity = 85
quarantine = true # NVIDIA asks for no new work on the GPU with each of these recoveries
message = "GPU {gpu} needs recovery: the driver requests {recovery}"
advice = "Let the work on the GPU finish, or stop it. For a reset, run `nvidia-smi --gpu-reset -i {gpu}`; for a reboot, run `reboot`. For peer-to-peer traffic, stop all programs that use several GPUs, then see what the driver requests next."

[rule.xid-fatal]
on = "xid"
xids = [46, 48, 54, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 151, 158, 167, 169]
at = 1
over_s = 600
severity = 90
quarantine = true
message = "GPU {gpu}: Xid {xid}. {meaning} {text}"
advice = "Work on it has failed or will fail: stop it, reset the GPU, and start again."

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
advice = "Work on it has failed or will fail: stop it, reset the GPU or do what the kernel log line says, and start again."

[rule.xid-nvlink]
on = "xid"
xids = [144, 145, 146, 147, 148, 149, 150]
event_severity = ["note", "warn"]
at = 1
over_s = 600
severity = 45
message = "GPU {gpu}: Xid {xid}. {meaning} {text}"
advice = "List the links with `gpuyard devices {gpu}`; if it happens again, reset the GPU."

[rule.xid-contained]
on = "xid"
xids = [94]
at = 1
over_s = 600
severity = 60
message = "GPU {gpu}: Xid {xid}. {meaning} {text}"
advice = "Restart the affected program; reset the GPU when it is free."

[rule.xid-program]
on = "xid"
xids = [13, 31, 43, 45]
at = 1
over_s = 300
severity = 30
message = "GPU {gpu}: Xid {xid}. {meaning} {text}"
advice = "The fault is in the program, not the GPU: check the program's log."

[rule.xid-other]
on = "xid"
at = 1
over_s = 600
severity = 45
message = "GPU {gpu}: Xid {xid}. {meaning} {text}"
advice = "Look it up in NVIDIA's list of Xid errors, and watch for repeats."

[rule.poison]
on = "fatal_poison"
at = 1
over_s = 600
severity = 90
quarantine = true
message = "GPU {gpu} has consumed poisoned data"
advice = "Jobs on it may have wrong results: rerun them on another GPU, and reset this one."

[rule.squatter]
on = "squatters"
at = 1
hold_s = 30
clear_hold_s = 10
severity = 45
message = "Processes without a lease on GPU {gpu}: {value} {processes}"
advice = "`gpuyard queue` lists the processes, each with the command that leases its GPU. Where Slurm or Kubernetes allocates the GPUs, the work needs a job or a pod of its own: ask its user to end it, or run `kill PID`; `scontrol pidinfo PID` names the Slurm job of a process."

[rule.plugin-disagrees]
on = "plugin_hides"
at = 1
hold_s = 300 # a plugin that notices a recovery offers the GPU again sooner
severity = 50
message = "GPU {gpu} is healthy, but Kubernetes' device plugin does not offer it to pods"
advice = "The plugin hides a GPU that had a fault until it restarts: run `kubectl delete pod --namespace gpu-operator --selector app=nvidia-device-plugin-daemonset --field-selector spec.nodeName=NODE` with the name of this node. A plugin that the GPU Operator did not install has another namespace and label."

[rule.driver-down]
on = "driver_down"
at = 1
hold_s = 30
severity = 95
message = "The NVIDIA driver is not available"
advice = "Find out what is missing with `gpuyard doctor`."

[rule.journal-down]
on = "journal_down"
at = 1
hold_s = 10
clear_hold_s = 30
severity = 85
message = "gpuyard cannot write its state to disk"
advice = "Free space or repair the disk. Until then no new lease is granted, and an expired setting stays in effect."

[rule.disk-full]
on = "disk_free_percent"
below = true
at = 5
hold_s = 60
clear_at = 8
clear_hold_s = 60
severity = 70
message = "The disk with gpuyard's state has {value} % free space; the threshold is {at} %"
advice = "Free disk space: without it, no leases are granted and no history is recorded."

[rule.sink-failing]
on = "sink_failing_s"
at = 300
severity = 70
message = "A notification sink has failed to deliver for {duration}"
advice = "See `gpuyard alerts sinks` for the sink and the error; its notifications are queued and not lost yet."

[rule.certificate-ends]
on = "certificate_days"
below = true
at = 14
hold_s = 60
severity = 70
message = "The daemon's TLS certificate expires in {value} days"
advice = "Replace the file that `gpuyard tls show` prints; a certificate made by gpuyard renews itself."

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
message = "A token expires in {value} days"
advice = "Find it with `gpuyard token list`, create a replacement, and revoke it."

[rule.slurm-hook]
on = "slurm_trouble"
at = 1
severity = 70
message = "A Slurm hook on this machine is failing"
advice = "See the error with `gpuyard slurm status`, and check the setup with `gpuyard slurm install`; jobs keep running."
)toml";
}

}  // namespace gpuyard::andon
