// A past moment: all GPUs as the history keeps them, and the processes that were on them.
#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "api/context.h"
#include "api/devices.h"
#include "api/table.h"
#include "base/json_writer.h"
#include "base/record.h"
#include "history/lookup.h"
#include "history/question.h"
#include "processes/stays.h"
#include "protocol/history.h"

namespace gpuyard::api {
namespace {

using history::Answer;
using processes::Stay;
using processes::StayBook;
using processes::StaysQuestion;

const Missing kNotKept{MissingReason::failed, "the history does not keep it"};
const Missing kNothingThen{MissingReason::failed, "nothing is kept of this moment"};

// Lists are made this far apart: a process that was seen in one was there until the next.
constexpr std::chrono::milliseconds kBetweenLists = std::chrono::seconds(5);

WallTime wall_at(std::int64_t ms) {
  return WallTime(std::chrono::milliseconds(ms));
}

// What is asked of the past, and what is known without it.
struct Moment {
  WallTime at;
  std::shared_ptr<Snapshot> yard;  // the GPUs of now, without readings
  std::vector<history::Question> questions;
  std::vector<Stay> here;
};

Moment moment_of(Context& context, const Snapshot& seen, std::int64_t at_ms) {
  Moment moment{wall_at(at_ms), std::make_shared<Snapshot>(), {}, context.stays.here()};
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

// Runs on the worker.
Result<std::string> past_text(const Moment& moment, const std::vector<Answer>& answers,
                              processes::StayArchive& archive) {
  Snapshot yard = *moment.yard;
  protocol::Past past{to_rfc3339(moment.at), put_readings(yard, moment.at, answers), {}};
  for (const Answer& answer : answers) {
    for (const std::string& note : answer.notes) {
      const bool about_range = note.starts_with("nothing is kept before");
      const bool said = std::ranges::find(past.notes, note) != past.notes.end();
      if (!said && !about_range) past.notes.push_back(note);
    }
  }
  const StaysQuestion question{moment.at - kBetweenLists,
                               moment.at + std::chrono::milliseconds(1),
                               {},
                               protocol::kMostStays};
  const auto stays = StayBook::answer(question, archive, moment.here);
  if (!stays) past.notes.push_back("the processes cannot be read: " + stays.error().message);
  protocol::Snapshot shown = protocol::snapshot_of(yard);
  for (protocol::Device& device : shown.devices) {
    device.age_ms.reset();
    if (!stays || device.condition != DeviceCondition::responsive) continue;
    device.missing.erase("processes");
    auto& processes = device.processes.emplace();
    for (const Stay& stay : *stays) {
      if (stay.gpu == device.uuid) processes.push_back(process_of(stay));
    }
  }
  shown.past = std::move(past);
  return json::to_json(shown);
}

protocol::Stay shown(const Stay& stay, const Snapshot& seen) {
  protocol::Stay out;
  const auto device = find_device(seen, stay.gpu);
  if (device) out.index = (*device)->info.index;
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
  return out;
}

void get_stays(Context& context, const Asked& asked, const protocol::StaysQuery& query,
               const Responder<protocol::Stays>& respond) {
  history::Question times;
  const history::Wish wish{query.since.value_or("1h"), query.until.value_or("0s"), {}, {}};
  if (auto set = history::set_times(times, wish, context.history.now_ms()); !set) {
    return respond(std::move(set).error());
  }
  const auto seen = seen_by(context, asked.principal);
  StaysQuestion question{wall_at(times.from_ms), wall_at(times.until_ms + 1), {}, {}};
  question.most = query.limit.value_or(protocol::kDefaultStays);
  const bool some = query.gpus.has_value() || !asked.principal.gpus.empty();
  if (some) {
    const auto gpus = ids_named(*seen, query.gpus.value_or(""));
    if (!gpus) return respond(gpus.error());
    if (gpus->empty()) return respond(protocol::Stays{});
    question.gpus = *gpus;
  }
  const auto ask = [&context, seen, question, respond](const std::function<void()>& ended) {
    const auto tell = [seen, question, respond, ended](const Result<std::vector<Stay>>& stays) {
      ended();
      if (!stays) return respond(stays.error());
      protocol::Stays out;
      out.since = to_rfc3339(question.from);
      out.until = to_rfc3339(question.until);
      out.complete = stays->size() <= question.most;
      for (const Stay& stay : *stays) {
        if (out.processes.size() == question.most) break;
        out.processes.push_back(shown(stay, *seen));
        out.processes.back().there = !stay.over;
      }
      respond(std::move(out));
    };
    context.stays.ask(question, tell);
  };
  if (!context.questions.enter(asked.peer.party, ask)) respond(too_many_questions());
}

}  // namespace

void respond_with_past(Context& context, const Asked& asked, std::string_view at,
                       const Responder<protocol::Snapshot>& respond) {
  const std::int64_t now_ms = context.history.now_ms();
  const auto at_ms = history::parse_moment(at, "at", now_ms);
  if (!at_ms) return respond(at_ms.error());
  if (*at_ms > now_ms)
    return respond(Error{Errc::invalid, "at is a past moment, not a coming one"});
  const auto seen = seen_by(context, asked.principal);
  const auto moment = std::make_shared<const Moment>(moment_of(context, *seen, *at_ms));
  const auto ask = [&context, moment, respond](const std::function<void()>& ended) {
    const auto render = [moment,
                         archive = context.stays.archive()](const std::vector<Answer>& answers) {
      return past_text(*moment, answers, *archive);
    };
    context.history.ask(moment->questions, render, [respond, ended](Result<std::string> text) {
      ended();
      if (!text) return respond(std::move(text).error());
      respond.rendered(std::make_shared<const std::string>(*std::move(text)));
    });
  };
  if (!context.questions.enter(asked.peer.party, ask)) respond(too_many_questions());
}

std::vector<BoundRoute> past_routes() {
  return {bind(protocol::kStays, &get_stays)};
}

}  // namespace gpuyard::api
