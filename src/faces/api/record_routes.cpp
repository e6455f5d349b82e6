// What is kept of the past but readings: the processes that were on GPUs, and why GPUs were slow.
// And a past moment: all GPUs as the history keeps them, with both.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "base/json_writer.h"
#include "base/record.h"
#include "core/bottleneck/bottleneck_spans.h"
#include "core/history/prepared_query.h"
#include "core/history/query.h"
#include "core/processes/process_spans.h"
#include "faces/api/context.h"
#include "faces/api/devices.h"
#include "faces/api/router.h"
#include "faces/protocol/history.h"

namespace gpuyard::api {
namespace {

using bottleneck::BottleneckRecorder;
using bottleneck::BottleneckSpanQuery;
using bottleneck::Spell;
using history::Answer;
using processes::ProcessSpanQuery;
using processes::Stay;

const Missing kNotKept{MissingReason::failed, "not recorded in the history"};
const Missing kNothingThen{MissingReason::failed, "no data for this time"};
constexpr const char* kNotJudged = "unknown: not assessed at this time";

// Lists are made this far apart: a process that was seen in one was there until the next.
constexpr std::chrono::milliseconds kBetweenLists = std::chrono::seconds(5);

// More spells than can be kept.
constexpr std::size_t kAllSpells = 1'000'000;

WallTime wall_at(std::int64_t ms) {
  return WallTime(std::chrono::milliseconds(ms));
}

// Answers with a text that is made on the worker.
template <class Record>
void respond_from_worker(Context& context, const Asked& asked,
                         const std::vector<history::Question>& questions,
                         const history::History::Render& render, const Responder<Record>& respond) {
  const auto ask = [&context, questions, render, respond](const std::function<void()>& ended) {
    context.history.ask(questions, render, [respond, ended](Result<std::string> text) {
      ended();
      if (!text) return respond(std::move(text).error());
      respond.rendered(std::make_shared<const std::string>(*std::move(text)));
    });
  };
  if (!context.questions.enter(requester_of(asked), ask)) respond(too_many_questions());
}

// What is asked of the past, and what is known without it.
struct Moment {
  WallTime at;
  std::shared_ptr<Snapshot> yard;  // the GPUs of now, without readings
  std::vector<history::Question> questions;
  std::vector<Stay> processes;
  std::vector<Spell> spells;
};

Moment moment_of(Context& context, const Snapshot& seen, std::int64_t at_ms) {
  Moment moment{wall_at(at_ms),
                std::make_shared<Snapshot>(),
                {},
                context.stays.here(),
                context.spells.here()};
  moment.yard->driver = seen.driver;
  moment.yard->driver.initialised = true;
  moment.yard->driver.why.clear();
  moment.yard->wall = moment.at;
  for (const DeviceState& device : seen.devices) {
    DeviceState& then = moment.yard->devices.emplace_back();
    then.info = device.info;
    then.sample = missing_sample(ProbeSet::all(), kNotKept, {});
    auto some = context.history.questions_at(device.info.id, device.sample, at_ms);
    moment.questions.insert(moment.questions.end(), some.begin(), some.end());
  }
  return moment;
}

protocol::PastResolution resolution_of(history::Resolution resolution) {
  return enum_from_name<protocol::PastResolution>(enum_name(resolution))
      .value_or(protocol::PastResolution::minute);
}

// Fills in the readings of the moment, and returns the coarsest of their resolutions.
protocol::PastResolution put_readings(Snapshot& yard, WallTime at,
                                      const std::vector<Answer>& answers) {
  std::map<DeviceId, DeviceState*> by_id;
  for (DeviceState& device : yard.devices) {
    by_id[device.info.id] = &device;
    device.condition = DeviceCondition::unresponsive;
    device.why = kNothingThen.detail;
  }
  auto coarsest = protocol::PastResolution::nothing;
  for (const Answer& answer : answers) {
    const auto value = history::value_at(answer, to_unix_ms(at));
    DeviceState& device = *by_id.at(answer.question.uuid);
    const Metric metric = answer.question.row->metric;
    if (!value) {
      device.sample.set({metric, answer.question.element, {}, kNothingThen});
      continue;
    }
    device.condition = DeviceCondition::responsive;
    device.why.clear();
    coarsest = std::max(coarsest, resolution_of(answer.resolution));
    device.sample.set({metric, answer.question.element, {}, *value});
  }
  return coarsest;
}

protocol::Process process_of(const Stay& stay) {
  protocol::Process process;
  process.pid = stay.pid;
  process.memory_bytes = stay.peak_memory_bytes;
  process.uid = stay.uid;
  if (!stay.user.empty()) process.user = stay.user;
  if (!stay.command.empty()) process.command = stay.command;
  if (stay.started) process.started_at = to_rfc3339(*stay.started);
  return process;
}

void put_processes(protocol::Device& device, const std::vector<Stay>& stays) {
  device.missing.erase("processes");
  auto& processes = device.processes.emplace();
  for (const Stay& stay : stays) {
    if (stay.gpu == device.uuid) processes.push_back(process_of(stay));
  }
}

void put_bottleneck(protocol::Device& device, const std::vector<Spell>& spells, WallTime at) {
  const Spell* const spell = spell_at(spells, device.uuid, at);
  if (spell == nullptr) {
    device.missing["bottleneck"] = kNotJudged;
  } else {
    device.bottleneck = spell->what;
  }
}

struct Archives {
  std::shared_ptr<processes::StayArchive> stays;
  std::shared_ptr<bottleneck::SpellArchive> spells;
};

// Runs on the worker.
Result<std::string> past_text(const Moment& moment, const std::vector<Answer>& answers,
                              const Archives& archives) {
  Snapshot yard = *moment.yard;
  protocol::Past past{to_rfc3339(moment.at), put_readings(yard, moment.at, answers), {}};
  for (const Answer& answer : answers) {
    for (const std::string& note : answer.notes) {
      const bool about_range = note.starts_with("no data before");
      const bool said = std::ranges::find(past.notes, note) != past.notes.end();
      if (!said && !about_range) past.notes.push_back(note);
    }
  }
  const WallTime until = moment.at + std::chrono::milliseconds(1);
  const ProcessSpanQuery of_stays{moment.at - kBetweenLists, until, {}, protocol::kMostStays};
  const auto stays = kept_and_here(of_stays, *archives.stays, moment.processes);
  if (!stays) past.notes.push_back("processes cannot be read: " + stays.error().text());
  const BottleneckSpanQuery of_spells{
      moment.at - BottleneckRecorder::kLongestGap, until, {}, kAllSpells};
  const auto spells = kept_and_here(of_spells, *archives.spells, moment.spells);
  if (!spells) past.notes.push_back("bottlenecks cannot be read: " + spells.error().text());
  protocol::Snapshot shown = protocol::snapshot_of(yard);
  for (protocol::Device& device : shown.devices) {
    device.age_ms.reset();
    const bool kept = device.condition == DeviceCondition::responsive;
    if (stays && kept) put_processes(device, *stays);
    put_bottleneck(device, spells ? *spells : std::vector<Spell>{}, moment.at);
  }
  shown.past = std::move(past);
  return json::to_json(shown);
}

// Returns a question for the GPUs and the time that the query names.
template <class Record, class Query>
Result<RecordQuery<Record>> question_for(const Context& context, const Asked& asked,
                                         const Snapshot& seen, const Query& query) {
  history::Question times;
  const history::Wish wish{query.since.value_or("1h"), query.until.value_or("0s"), {}, {}};
  if (auto set = history::set_times(times, wish, context.history.now_ms()); !set) {
    return std::move(set).error();
  }
  RecordQuery<Record> question{wall_at(times.from_ms), wall_at(times.until_ms + 1), {}, {}};
  if (!query.gpus && asked.principal.gpus.empty()) return question;  // also those that are gone
  const auto gpus = ids_named(seen, query.gpus.value_or(""));
  if (!gpus) return gpus.error();
  question.gpus = *gpus;
  if (gpus->empty()) question.gpus.emplace_back();  // a name that none has: no list means all
  return question;
}

// Answers with what `tell` makes of the records of a book; it runs on the worker.
template <class Record, class Book, class Answered>
void respond_with_records(Context& context, const Asked& asked, const Book& book,
                          const RecordQuery<Record>& question,
                          const std::function<Answered(const std::vector<Record>&)>& tell,
                          const Responder<Answered>& respond) {
  const auto render = [question, archive = book.archive(), here = book.here(),
                       tell](const std::vector<Answer>&) -> Result<std::string> {
    const auto records = kept_and_here(question, *archive, here);
    if (!records) return records.error();
    return json::to_json(tell(*records));
  };
  respond_from_worker(context, asked, {}, render, respond);
}

std::optional<std::uint32_t> index_of(const DeviceId& gpu, const Snapshot& seen) {
  const auto device = find_device(seen, gpu);
  return device ? std::optional((*device)->info.index) : std::nullopt;
}

protocol::Stay shown(const Stay& stay, const Snapshot& seen) {
  protocol::Stay out;
  out.index = index_of(stay.gpu, seen);
  out.uuid = stay.gpu;
  out.pid = stay.pid;
  if (stay.started) out.started_at = to_rfc3339(*stay.started);
  if (!stay.user.empty()) out.user = stay.user;
  out.uid = stay.uid;
  if (!stay.command.empty()) out.command = stay.command;
  if (!stay.lease.empty()) out.lease = stay.lease;
  out.peak_memory_bytes = stay.peak_memory_bytes;
  out.first_seen = to_rfc3339(stay.first_seen);
  out.last_seen = to_rfc3339(stay.last_seen);
  out.there = !stay.over;
  return out;
}

void get_stays(Context& context, const Asked& asked, const protocol::StaysQuery& query,
               const Responder<protocol::Stays>& respond) {
  const auto seen = seen_by(context, asked.principal);
  auto question = question_for<Stay>(context, asked, *seen, query);
  if (!question) return respond(std::move(question).error());
  question->most = query.limit.value_or(protocol::kDefaultStays);
  const std::function tell = [seen, question = *question](const std::vector<Stay>& stays) {
    protocol::Stays out;
    out.since = to_rfc3339(question.from);
    out.until = to_rfc3339(question.until);
    out.complete = stays.size() <= question.most;
    for (const Stay& stay : stays) {
      if (out.processes.size() == question.most) break;
      out.processes.push_back(shown(stay, *seen));
    }
    return out;
  };
  respond_with_records(context, asked, context.stays, *question, tell, respond);
}

double in_seconds(std::chrono::milliseconds length) {
  return std::chrono::duration<double>(length).count();
}

// Fills in what is known of all spells of this GPU.
void put_shares(protocol::GpuBottlenecks& gpu, const std::vector<Spell>& spells,
                const BottleneckSpanQuery& question) {
  auto lengths = lengths_of(spells, gpu.uuid, question.from, question.until);
  lengths.erase(BottleneckCause::not_known);
  for (const auto& [cause, length] : lengths) gpu.known_seconds += in_seconds(length);
  for (const auto& [cause, length] : lengths) {
    const double share = in_seconds(length) / gpu.known_seconds;
    gpu.shares.push_back({cause, in_seconds(length), std::round(share * 1000) / 10});
  }
  std::ranges::sort(gpu.shares, [](const auto& a, const auto& b) {
    return a.seconds != b.seconds ? a.seconds > b.seconds : a.cause < b.cause;
  });
}

// The GPUs that are there come first, also those without a spell.
protocol::Bottlenecks bottlenecks_of(const std::vector<Spell>& spells, const Snapshot& seen,
                                     const BottleneckSpanQuery& question, std::size_t most) {
  protocol::Bottlenecks out;
  out.simulated = seen.driver.info.simulated;
  out.since = to_rfc3339(question.from);
  out.until = to_rfc3339(question.until);
  out.seconds = in_seconds(question.until - question.from);
  out.complete = spells.size() <= most;
  std::map<DeviceId, std::size_t> places;
  const auto place_of = [&](const DeviceId& gpu) -> protocol::GpuBottlenecks& {
    const auto [place, is_new] = places.try_emplace(gpu, out.gpus.size());
    if (is_new) out.gpus.push_back({index_of(gpu, seen), gpu, 0, {}, {}});
    return out.gpus[place->second];
  };
  for (const DeviceState& device : seen.devices) {
    const auto& gpus = question.gpus;
    if (!gpus.empty() && std::ranges::find(gpus, device.info.id) == gpus.end()) continue;
    place_of(device.info.id);
  }
  std::size_t shown = 0;
  for (const Spell& spell : spells) {
    protocol::GpuBottlenecks& gpu = place_of(spell.gpu);
    if (shown++ >= most) continue;
    gpu.spells.push_back(
        {spell.what, to_rfc3339(spell.first_seen), to_rfc3339(spell.last_seen), !spell.over});
  }
  for (protocol::GpuBottlenecks& gpu : out.gpus) put_shares(gpu, spells, question);
  return out;
}

void get_bottlenecks(Context& context, const Asked& asked, const protocol::BottlenecksQuery& query,
                     const Responder<protocol::Bottlenecks>& respond) {
  const auto seen = seen_by(context, asked.principal);
  auto question = question_for<Spell>(context, asked, *seen, query);
  if (!question) return respond(std::move(question).error());
  question->most = kAllSpells;
  const std::size_t most = query.limit.value_or(protocol::kDefaultSpells);
  const std::function tell = [seen, question = *question, most](const std::vector<Spell>& spells) {
    return bottlenecks_of(spells, *seen, question, most);
  };
  respond_with_records(context, asked, context.spells, *question, tell, respond);
}

}  // namespace

void respond_with_past(Context& context, const Asked& asked, std::string_view at,
                       const Responder<protocol::Snapshot>& respond) {
  const std::int64_t now_ms = context.history.now_ms();
  const auto at_ms = history::parse_moment(at, "at", now_ms);
  if (!at_ms) return respond(at_ms.error());
  if (*at_ms > now_ms) return respond(Error{Errc::invalid, "at must be in the past"});
  const auto seen = seen_by(context, asked.principal);
  const auto moment = std::make_shared<const Moment>(moment_of(context, *seen, *at_ms));
  const auto render =
      [moment, archives = Archives{context.stays.archive(), context.spells.archive()}](
          const std::vector<Answer>& answers) { return past_text(*moment, answers, archives); };
  respond_from_worker(context, asked, moment->questions, render, respond);
}

std::vector<BoundRoute> past_routes() {
  return {bind(protocol::kStays, &get_stays), bind(protocol::kBottlenecks, &get_bottlenecks)};
}

}  // namespace gpuyard::api
