// The prose of docs/andon.md, between the tables that reference_for_tests.cpp writes.
#pragma once

namespace gpuyard::andon::prose {

inline constexpr const char* kBeginning = R"(# Alerts on GPUs (andon)

Written from the tables of the program by `GPUYARD_WRITE_GOLDEN=1 core_test`; the test compares this file with it.

    gpuyard alerts                               list firing and pending alerts
    gpuyard alerts history --gpu 3              list alerts that have fired
    gpuyard alerts ack 17 --note "fan ordered"   acknowledge an alert
    gpuyard alerts silence --gpu 3 --for 2h      mute notifications of a GPU
    gpuyard alerts rules                         list the rules; --toml prints the built-in ones as a file
    gpuyard alerts sinks                         list the sinks and their delivery status
    gpuyard alerts test                          send a test notification

In a factory, an andon is the lamp above a workplace that calls for help when something is wrong. gpuyard hangs one above each
GPU. A **rule** has a quantity to watch, a threshold, a severity, a message and actions. An **alert** is one firing of a rule,
for one GPU or for the machine.

The daemon evaluates all rules with each sample, once a second. The built-in rules need no configuration. The sink `log`
always exists and receives every notification, unless `[sink.log]` changes that. [alerts_sinks.md](alerts_sinks.md) describes
Slack, PagerDuty, Alertmanager, webhooks and commands; [prometheus.md](prometheus.md) describes alerts as metrics.

## The life of an alert

1. **Pending.** The value has reached `at`. It must stay there for `hold_s`; if it leaves, the time starts again.
2. **Firing.** The alert is stored on disk, then sinks are notified: when it fires, each time its level rises, and when it is
   resolved. In between there are no notifications, however the value moves.
3. **Resolved.** The value has been beyond `clear_at` for `clear_hold_s`. Between `at` and `clear_at` nothing changes, so a GPU
   that hovers around a threshold causes one alert, not forty.

The identity of an alert is its rule and the GPU's UUID, never a value: `thermal/GPU-5f3c...`. PagerDuty and other receivers
get it as their key. Each alert has its own number. The exception is an alert that a full or broken disk did not store before the
daemon exited: its number may be used again after the restart.

**Unknown values neither trigger nor clear a rule.** A missing reading is not 0: it restarts the time of a pending rule, and an
alert keeps firing until its value is known to be good. A GPU that is no longer listed keeps its alerts until its alert
`gpu-missing` or `gpu-lost` is acknowledged; then they end, with the reason. `gpuyard alerts` names each GPU that it cannot
judge now. For a GPU whose readings all fail, `gpu-unreadable` fires, or `gpu-stale` after half a minute.

**Inhibition.** While a rule with `inhibits` fires, the rules that it names neither trigger nor clear for that GPU: a lost GPU
causes one page, not nine. If rules inhibit each other, the one that fired first stays active.

**Acknowledge** (`gpuyard alerts ack NUMBER`): you are working on it. Notifications stop until the alert is resolved, and its
quarantine ends. A cap stays. If the rule fires again later, that is a new alert with new notifications. A later Xid or other
event of the same rule undoes the acknowledgement.

**Silence** (`gpuyard alerts silence`): mutes notifications of a rule, a GPU or both, for at most 30 days. Alerts still fire, and
quarantine, caps and the `command` of a rule still work. An alert that still fires when the silence ends is notified then.
Sinks that were notified of the start of an alert are notified of its end, silenced or not.

Acknowledging, silencing and testing need permission to change GPUs: administrators and the group of `[control]`,
over the Unix socket. Every user can list alerts.

## Severity

Each alert has a severity from 0 to 100. The severity determines its level; sinks have a `min_level`.

)";

inline constexpr const char* kCurves = R"(
A rule has a fixed `severity`, or a `curve`, which derives the severity from the current value.

)";

inline constexpr const char* kRules = R"(
The level of an alert with a `curve` rises while it fires: a GPU at 80 °C is a warning, and the same alert at 110 °C is critical.

No built-in rule uses the curve `idle`. A notebook holds its GPU while its user thinks, and the curve would page for that. Where
only batch jobs run, an idle GPU is probably hanging, and the curve fits:

```toml
[rule.idle]
curve = "idle"
```

## The built-in rules

`gpuyard alerts rules --toml` prints them in the format of your own file.

)";

inline constexpr const char* kMessages = R"(
`memory` and `power` only go to the log: a busy GPU must not page anyone.

Their messages and advice:

)";

inline constexpr const char* kXids = R"(
## Xids

Xids are the driver's numbers for errors. The table has those whose meaning is public. *note* is for the record, *warn* needs a
check, *stop* means that work on this GPU has failed or will fail. A rule counts each Xid once, from the time at which it
occurred, although both the driver and the kernel log report it. A rule without `xids` gets those that no other rule names, and
all numbers that are not in this table.

For some Xids, only the line in the kernel log has the severity, and `event_severity` divides them between rules. If the driver
reports such an Xid before the line is there, it counts as *warn*; a line with *stop* then counts as an event of its own.
`{text}` in a message is replaced with the words of the line.

If too many events arrive at once, some are dropped: beyond a burst of 128 for a GPU, more than 32 a second. All notes of a GPU
share that limit. Each Xid that is more severe than a note has its own, so a flood of notes never hides an Xid that stops work.
`gpuyard_events_dropped_total` counts dropped events.

)";

inline constexpr const char* kSources = R"(
## What a rule can watch

)";

inline constexpr const char* kKeys = R"(
If a metric has several elements (fans, links, locations of memory errors), the worst one counts. Text and lists of flags cannot
be watched; signals such as `thermal_slowdown` and `power_brake` cover those that matter.

## Your own rules

Rules and sinks are in `alerts.toml` beside the configuration (`/etc/gpuyard/alerts.toml`), or in the file that `[alerts] file`
names. A table `[rule.NAME]` with a built-in name changes only the keys in it; any other name makes a new rule. Names consist of
a-z, 0-9, `-` and `_`.

)";

// Arguments: the default severity, and the limits of rules, characters and list elements.
inline constexpr const char* kLimits = R"(
A new rule needs `on`, `at` and `message`, and `over_s` if it watches events. The defaults of the other keys: no hold time, clear
as soon as `at` is no longer reached, severity {}, all sinks whose `min_level` is reached, no other action. The limits are {}
rules, {} characters for a string and {} elements for a list. A file with an error is refused as a whole; the message has the
line and the allowed values.

)";

inline constexpr const char* kExamples = R"(
A built-in rule with a lower threshold and a longer hold time:

```toml
[rule.thermal]
at = 75
clear_at = 70
hold_s = 30
```

A new rule. If the memory is at 95 °C for half a minute, the GPU is limited to 300 W and withheld from new leases, until its
memory has been below 88 °C for two minutes. `cap_w` needs `[control] enabled = true` in the configuration:

```toml
[rule.memory-hot]
on = "temperature_memory_celsius"
at = 95
hold_s = 30
clear_at = 88
clear_hold_s = 120
severity = 75
cap_w = 300
quarantine = true
message = "The memory of GPU {gpu} is at {value} C; the threshold is {at} C"
advice = "Check the airflow; the power of the GPU is limited until its memory has cooled."
```

One rule disabled, and one that only notifies the night shift. A rule that names sinks notifies them whatever its level:

```toml
[rule.reserved-idle]
enabled = false

[rule.gpu-lost]
sinks = ["night"]

[sink.night]
kind = "pagerduty"
routing_key_file = "/etc/gpuyard/night-key"
```

)";

inline constexpr const char* kActions = R"(## Actions

**Notify** is the default; `notify = false` turns it off. Each sink has its own queue, so a sink that hangs delays no other.
[alerts_sinks.md](alerts_sinks.md) has the contents of notifications and the retries.

**Quarantine** withholds the GPU from new leases, starting with the reading that triggers the rule. An existing lease continues.
`gpuyard queue` lists the GPU as withheld, with the number and message of the alert, and waiting users see the reason. The
quarantine ends with the alert, or with the next reading after the alert is acknowledged: an acknowledgement says that the GPU can
be used. The holder of the GPU is notified, too: `gpuyard run` prints each alert of its GPUs with the advice on stderr, and prints
when it is acknowledged and when it is resolved; the command itself keeps running. To withhold a GPU by hand, use
`gpuyard cordon`.

A GPU that is unhealthy because of uncorrectable memory errors is withheld by that verdict, too. The verdict ends when the GPU
is reset, when the machine is rebooted, when the error counters are cleared, or when an alert about the errors or the health of
the GPU is acknowledged: `gpu-unhealthy`, `ecc-uncorrected`, or an Xid of a memory error. A restart of the daemon ends no verdict.

An alert belongs to a UUID. If the driver gives the index of a GPU to another one, the alert names the GPU by its UUID and its
former index. `gpu-missing` fires for a GPU that the driver no longer lists, even if it disappeared while no daemon was running.
It ends when the GPU is back or the alert is acknowledged. After the acknowledgement the daemon forgets the GPU.

**Cap** is a claim on the GPU's power limit with the owner `andon:RULE`, for as long as the alert fires, acknowledged or not. The
lowest of all requested limits is in effect, and `gpuyard power` shows its owner; when the alert ends, so does the claim, and the
next limit is in effect ([control.md](control.md)). If the GPU refuses the limit, that is logged and retried: after ten seconds,
then after twice as long each time, up to ten minutes; a different limit is tried at once. While control is disabled, a file with
a `cap_w` is refused as a whole. If you disable control and restart the daemon, all settings stay on the GPUs, caps included:
`gpuyard restore --all --force` before that restores everything.

**Command** is a program with its arguments, run without a shell when the alert fires and when it is resolved. The notice is in
its environment. It runs whatever the sinks are, silenced or not. It is a sink of its own: it has a deadline, and is retried if it
fails.

)";

inline constexpr const char* kReloadAndRestart = R"(## Change rules while the daemon runs

`kill -HUP` makes the daemon read its configuration again. If a file has an error, or if the next start would refuse anything,
nothing changes, and the log has the file, the line and what to do. Rules, sinks, the log level and `tls.revoked` apply at once.
Other keys that differ are named in the log and apply at the next start.

New rules restart the times of pending alerts. A firing alert keeps firing under the new rule, and its time to clear starts
again. An alert whose rule was removed or disabled ends, and sinks that were notified of it are notified of that. Notices that wait
for a sink stay queued if the sink keeps its name and kind.

## What survives a restart

| | after a restart, a crash or a power failure |
|---|---|
| firing alerts with their numbers, acknowledgements and notifications | keep firing, without new notifications; their time to clear starts again |
| silences | continue until their end |
| notices that sinks have not accepted yet | are delivered |
| the last 10,000 alerts | are in `gpuyard alerts history` |
| pending alerts | start again |
| alerts of events (Xids and others) | fire for `over_s` from the restart on; events while no daemon was running are not counted |
| values that the daemon counts or times: growth (`over_s` of a metric), `idle_s`, `reserved_idle_s`, `sink_failing_s` | start again, so the alert ends, and fires again if the condition still holds |
| quarantine and caps | follow from the firing alerts |
| the boards of the machine, their indexes, and which of their memory errors are new | are compared with the driver's list: a board that is missing is an alert, and a GPU that was unhealthy because of errors still is |

An alert and its notices are one entry on disk, and no sink is notified before that entry is synced. If the daemon is killed,
either the whole entry is there after the restart and its notices are delivered, or none of it is and the rule triggers again.
So no notice is lost, and none is repeated, except one that a receiver may have accepted at the moment of the crash. That one has
the same id both times ([alerts_sinks.md](alerts_sinks.md)).

If the disk fails, notifications are sent at once, and `journal-down` reports that they are not stored.
)";

}  // namespace gpuyard::andon::prose
