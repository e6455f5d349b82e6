// The prose of docs/andon.md, between the tables that reference.cpp writes.
#pragma once

namespace gpuyard::andon::prose {

inline constexpr const char* kBeginning = R"(# Andon: what is wrong

Written from the tables of the program by `GPUYARD_WRITE_GOLDEN=1 core_test`; the test compares this file with it.

In a factory an andon is the lamp over a workplace that says: something is wrong here, come and look. gpuyard hangs one over
each GPU. A **rule** says what is looked at, from when on that is wrong, how bad it is, what is said and what is done. An
**alert** is one time that a rule fired for one GPU, or for the machine.

    gpuyard alerts                               what is wrong now, and what is about to be
    gpuyard alerts history --gpu 3              what was wrong
    gpuyard alerts ack 17 --note "fan ordered"   I look after it
    gpuyard alerts silence --gpu 3 --for 2h      I work on it, tell nobody
    gpuyard alerts rules                         what would be an alert; with --toml the built-in rules as a file
    gpuyard alerts sinks                         where alerts go, and whether they arrive
    gpuyard alerts test                          sends a test there

The daemon looks at all rules with each reading, once a second. The built-in rules work without any configuration. The sink
`log` is always there, and hears of everything unless `[sink.log]` says otherwise. [alerts_sinks.md](alerts_sinks.md) is about
Slack, PagerDuty, Alertmanager, webhooks and commands; [prometheus.md](prometheus.md) about alerts as metrics.

## The life of an alert

1. **Pending.** The value has reached `at`. It has to stay there for `hold_s`; once below, the time begins anew.
2. **Firing.** It is put on the disk, then sinks hear of it: once when it begins, once more each time its level rises, and
   once when it is over. In between it costs nobody's attention, however its value moves.
3. **Resolved.** The value was beyond `clear_at` for `clear_hold_s`. Between `at` and `clear_at` nothing changes, so that a
   GPU that wavers about a threshold is one alert and not forty.

An alert is the rule and the GPU's UUID, never a value: `thermal/GPU-5f3c...`. That is its key at PagerDuty and the like.
Numbers are given once, but for an alert that a full or broken disk did not take before the daemon ended: the next life may give
its number to another.

**What is not known trips nothing, and clears nothing.** A reading that is missing is no 0: a rule that was pending begins anew
after it, and an alert goes on firing until its value is seen to be well. A GPU that is no longer listed keeps its alerts
until its alert `gpu-missing` or `gpu-lost` is acknowledged; then they end, and say why.
`gpuyard alerts` names each GPU that cannot be judged now, and says "Nothing is wrong" only if
there is none. A GPU of which every reading fails is sick: `gpu-unreadable` fires, or `gpu-stale` after half a minute.

**Inhibition.** A GPU that is lost has no temperature to speak of. While a rule with `inhibits` fires, the rules that it names
neither trip nor clear for that GPU: one page, not nine. Of rules that inhibit each other the first to fire goes on.

**Acknowledge** (`gpuyard alerts ack NUMBER`): somebody looks after it. Nobody is told again until it is over, and it keeps its
GPU in quarantine no longer. A cap stays. When the same rule fires again later, that is another alert, and told. An Xid or
another event that comes after the acknowledgement undoes it: that is news.

**Silence** (`gpuyard alerts silence`): nobody is told of a rule, a GPU or both, for 30 days at most. Alerts fire all the same,
and quarantine, caps and a rule's `command` do what they do. What still fires when the silence ends is told then.
Who heard the beginning of an alert hears its end, silence or not.

Acknowledging, silencing and testing is for those who may change GPUs: root, the daemon's own user and the group of `[control]`,
over the Unix socket. Everybody may look.

## How bad it is

Every alert has a severity from 0 to 100. Its level follows from it, everywhere the same; sinks have a `min_level`.

)";

inline constexpr const char* kCurves = R"(
A rule has a fixed `severity`, or a `curve`: then it depends on the value now.

)";

inline constexpr const char* kRules = R"(
The levels of `curve` alerts rise while they fire: a GPU at 80 °C is a warning, and the same alert at 110 °C is critical.

No built-in rule uses the curve `idle`. A notebook holds its GPU while its user thinks, and time alone would make a page of
that. Where only batch jobs run, an idle GPU is most likely a hang, and the curve is right:

```toml
[rule.idle]
curve = "idle"
```

## The built-in rules

`gpuyard alerts rules --toml` prints them as the file that you would write.

)";

inline constexpr const char* kSayings = R"(
`memory` and `power` go to the log alone: a busy GPU is to page nobody.

What they say, and what they advise:

)";

inline constexpr const char* kXids = R"(
## Xids

The driver's numbers for what went wrong, as far as their meaning is public. *note* is for the record, *warn*: somebody should
look, *stop*: work on this GPU has failed or will. A rule counts Xids from the moment at which they came, each once, although
the driver and the kernel's log both tell of it. A rule without `xids` gets those that no other rule names; any number that
is not in this table, too.

Of some Xids only the line in the kernel's log says how bad they are, and `event_severity` divides them between rules. If the
driver reports such an Xid before the line is there, it counts as *warn*, and the line as an event of its own if it says *stop*.
`{text}` in a message has the line's own words.

Too many events at once are dropped: beyond 128 of a GPU, 32 a second. All notes of a GPU share that limit, and each Xid that is
more than a note has one of its own, so a flood of notes never hides an Xid that stops work. `gpuyard_events_dropped_total`
counts what was dropped.

)";

inline constexpr const char* kSources = R"(
## What a rule may look at

)";

inline constexpr const char* kKeys = R"(
Of a metric with several elements - fans, links, places of memory errors - the worst counts. Text and lists of flags cannot be
looked at; what of them matters is a signal: `thermal_slowdown`, `power_brake`.

## Rules of your own

They stand in `alerts.toml` beside the configuration - `/etc/gpuyard/alerts.toml` - or in the file that `[alerts] file` names,
together with the sinks. A table `[rule.NAME]` with a built-in name changes only the keys that it says; any other name makes a
new rule. Names are of a-z, 0-9, `-` and `_`.

)";

// Of: the severity of a rule that says none, rules, the length of texts, elements of lists.
inline constexpr const char* kLimits = R"(
A new rule says `on`, `at` and `message`, and `over_s` where it looks at events. What else it does not say is: no hold, clear
as soon as `at` is not reached, severity {}, told to all sinks that want its level, nothing else done. There are at most {}
rules, texts have at most {} characters and lists {} elements. What is misspelt or cannot be is refused with its line and with
what is known or allowed; then nothing of the file is taken.

)";

inline constexpr const char* kExamples = R"(
A built-in rule that is hot earlier, and takes longer to believe it:

```toml
[rule.thermal]
at = 75
clear_at = 70
hold_s = 30
```

A rule of one's own. From 95 °C of memory for half a minute on, its GPU may draw 300 W at most and is given to nobody, until
its memory was below 88 °C for two minutes. `cap_w` needs `[control] enabled = true` in the configuration:

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
advice = "Look at the air flow; the GPU is slowed down until its memory has cooled."
```

One rule off, another to the night shift alone. A rule that names sinks is told there whatever its level:

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

inline constexpr const char* kActions = R"(## What is done

**Notify** is what happens unless `notify = false`: each sink has its own queue, so that one that hangs holds up no other.
[alerts_sinks.md](alerts_sinks.md) says what each is told, and what is tried again.

**Quarantine** stops the line. From the very reading that trips the rule on, the GPU is handed out to nobody; a lease that
somebody has goes on. `gpuyard queue` shows the GPU among those that are not handed out, with the number and the words of the
alert, and who waits sees why. It ends with the alert, or with the next reading after somebody has acknowledged it: that says
"I have seen it, and it may be used". Whoever holds the GPU is told, too: `gpuyard run` prints each alert of its GPUs with the
advice on stderr, when somebody acknowledges it and when it is over; the command itself is left alone. To keep a GPU out by
hand: `gpuyard cordon`.

A GPU that is unhealthy because of uncorrectable memory errors is withheld by that verdict, too. The verdict ends when the GPU
is reset or the machine restarted, when its error counters are cleared, or when an alert about the errors or about its health is
acknowledged: `gpu-unhealthy`, `ecc-uncorrected`, or an Xid of a memory error. A restart of the daemon ends no verdict.

An alert is about a UUID. Where the driver gives a GPU's index to another one, the alert names it by its UUID and the index that
it had. `gpu-missing` fires for a GPU that the driver no longer lists, also if it disappeared while no daemon was running, until
the GPU is back or the alert is acknowledged. Acknowledging it says that the GPU was removed, and the daemon forgets it.

**Cap** is a claim on the GPU's power limit under the name `andon:RULE`, as long as the alert fires, acknowledged or not. Of
all who want a limit the lowest is in force, and `gpuyard power` shows whose it is; when the alert is over, the claim goes and
the next one's is in force ([control.md](control.md)). A limit that the GPU does not take is refused, said in the log and
tried again: after ten seconds, then after twice as long each time, up to ten minutes; another limit at once. While control is
off, a file with a `cap_w` is refused as a whole. Who switches control off at a restart leaves what is set as it is, caps
included: `gpuyard restore --all --force` before that gives everything back.

**Command** is a program with its arguments, without a shell, run with the notice in its environment when the alert begins and
when it is over, whoever else is told, silence or not. It is a sink of its own: it has a deadline, and is run again if it fails.

)";

inline constexpr const char* kLater = R"(## Changing rules while it runs

`kill -HUP` of the daemon reads the configuration again. All of it is right, or nothing is taken: the log then says the file,
the line and what to do, and everything stays as it is; so it does if the next start would refuse anything. Of the
configuration the rules, the sinks, the log's level and `tls.revoked` apply at once; other keys that differ are named in the log,
and wait for the next start.

With new rules, what is pending begins anew. An alert goes on firing, by the new rule, and its time to clear begins anew. An
alert whose rule is gone or switched off ends, and who heard of it is told so. Notices that wait for a sink which keeps its name
and kind are kept.

## What survives a restart

| | after a restart, a crash or a power cut |
|---|---|
| alerts that fire, with their numbers, acknowledgements and what was told | go on, and nobody is told again; their rules look anew whether they are over |
| silences | go on until the time that was said |
| what sinks have not taken yet | is told |
| the last 10,000 alerts | are there: `gpuyard alerts history` |
| what is pending | begins anew |
| alerts of events (Xids and the like) | fire for `over_s` from the restart on; events while no daemon was there are not counted |
| what is counted or timed by the daemon: growth (`over_s` of a metric), `idle_s`, `reserved_idle_s`, `sink_failing_s` | begins anew, so that such an alert ends, and comes again if it is still so |
| quarantine and caps | follow from the alerts that fire |
| the boards of the machine, their indexes, and which of their memory errors are new | are compared with what the driver reports: a board that is missing is an alert, and a GPU that was unhealthy because of errors still is |

An alert and the words about it are one entry on the disk, and nobody hears of it before that entry is synced. A daemon that is
killed in between has said nothing that it does not remember: after the restart either all of it is there and is told, or
nothing is and the rule trips again. So nothing is forgotten, and nothing is told twice but a notice whose receiver may
have taken it at the moment of the crash; it then has the same id ([alerts_sinks.md](alerts_sinks.md)).

A disk that fails keeps nobody from hearing: words then go out at once, and `journal-down` says that they would not survive.
)";

}  // namespace gpuyard::andon::prose
