#include "faces/fleet/view.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <tuple>

namespace gpuyard::fleet {
namespace {

const Brief& brief_of(const HostReply<Brief>& reply) {
  return reply.answer;
}
template <class Answer>
const Brief& brief_of(const HostReply<ReplyWithBrief<Answer>>& reply) {
  return reply.answer.brief;
}

// The message without the URL in front, which people know by the host's name.
std::string problem_of(const Host& host, const Error& error) {
  constexpr std::size_t kMaxProblemBytes = 400;  // bytes: a proxy answers with a whole page
  const std::string url = host.url + ": ";
  std::string text = error.text();
  if (text.starts_with(url)) text.erase(0, url.size());
  return text.size() <= kMaxProblemBytes ? text : text.substr(0, kMaxProblemBytes) + "...";
}

// Fills what each view begins with, and calls visit(reply) for each machine once.
template <class Answer, class Visit>
void for_each_machine(const HostReplies<Answer>& all, FleetAnswer& view, Visit visit) {
  std::map<std::string, std::string> names;  // by instance
  for (const HostReply<Answer>& reply : all) {
    FleetHost host;
    host.host = reply.host.name;
    host.url = reply.host.url;
    host.took_s = std::chrono::duration<double>(reply.took).count();
    if (reply.problem) {
      host.problem = problem_of(reply.host, *reply.problem);
      view.hosts.push_back(std::move(host));
      continue;
    }
    const Brief& brief = brief_of(reply);
    const auto [first, is_new] = names.emplace(brief.instance, reply.host.name);
    if (!is_new) host.same_as = first->second;
    view.simulated = view.simulated || brief.simulated;
    view.hosts.push_back(std::move(host));
    if (is_new) visit(reply);
  }
}

// A hostile or broken answer may have columns of different lengths.
template <class Value>
Value at(const std::vector<Value>& column, std::size_t i) {
  return i < column.size() ? column[i] : Value{};
}

FleetGpu gpu_at(const std::string& host, const Brief& brief, std::size_t i) {
  const protocol::BriefGpus& gpus = brief.gpus;
  const protocol::BriefModel model = at(brief.models, at(gpus.model, i));
  return {host,
          at(gpus.index, i),
          at(gpus.uuid, i),
          model.name,
          at(gpus.use, i),
          at(gpus.user, i),
          at(gpus.why, i),
          at(gpus.health, i),
          at(gpus.utilization_percent, i),
          at(gpus.memory_free_mib, i),
          model.memory_mib,
          at(gpus.temperature_c, i),
          at(gpus.power_w, i),
          {}};
}

// A sum that would not fit stays as it is: a broken answer may hold any number.
void add(std::int64_t& sum, std::int64_t one) {
  std::int64_t both = 0;
  if (!__builtin_add_overflow(sum, one, &both)) sum = both;
}
void add(std::optional<std::int64_t>& sum, const std::optional<std::int64_t>& one) {
  if (!one) return;
  std::int64_t both = sum.value_or(0);
  add(both, *one);
  sum = both;
}

class Mean {
 public:
  void add(const std::optional<std::int64_t>& one) {
    if (!one) return;
    fleet::add(sum_, *one);
    ++count_;
  }
  std::optional<std::int64_t> get() const {
    return count_ == 0 ? std::nullopt : std::optional(sum_ / count_);
  }

 private:
  std::int64_t sum_ = 0;
  std::int64_t count_ = 0;
};

void count_use(FleetNode& node, protocol::GpuUse use) {
  using enum protocol::GpuUse;
  ++(use == free       ? node.free
     : use == outside  ? node.outside
     : use == withheld ? node.withheld
                       : node.leased);
}

void count_model(std::vector<FleetModel>& models, const std::string& name) {
  const auto known = std::ranges::find(models, name, &FleetModel::name);
  if (known == models.end()) {
    models.push_back({name, 1});
  } else {
    ++known->gpus;
  }
}

FleetNode node_of(const std::string& host, const Brief& brief) {
  FleetNode node;
  node.host = host;
  node.waiting = brief.waiting;
  node.alerts = brief.alerts;
  node.worst_alert = brief.worst_alert;
  node.version = brief.version;
  node.driver_version = brief.driver_version;
  node.driver_error = brief.driver_error;
  node.gpus = static_cast<std::int64_t>(brief.gpus.uuid.size());
  Mean load;
  for (std::size_t i = 0; i < brief.gpus.uuid.size(); ++i) {
    const FleetGpu gpu = gpu_at(host, brief, i);
    count_use(node, gpu.use);
    count_model(node.models, gpu.name);
    node.unwell += gpu.health && *gpu.health != Health::healthy ? 1 : 0;
    load.add(gpu.utilization_percent);
    add(node.memory_free_mib, gpu.memory_free_mib);
    add(node.memory_mib, gpu.memory_mib);
    add(node.power_w, gpu.power_w);
    node.power_unknown += gpu.power_w ? 0 : 1;
    node.memory_unknown += gpu.memory_free_mib ? 0 : 1;
    if (gpu.temperature_c) {
      node.hottest_c = std::max(node.hottest_c.value_or(INT64_MIN), *gpu.temperature_c);
    }
  }
  node.utilization_percent = load.get();
  return node;
}

// The least goes first.
auto rank_of(const FleetOffer& offer) {
  const auto unhealthy = std::ranges::count_if(
      offer.gpus, [](const protocol::FreeGpu& gpu) { return gpu.health != Health::healthy; });
  // An unknown value counts as the worst, so that a GPU that is known to be well goes first.
  std::int64_t hottest = 0;
  for (const auto& gpu : offer.gpus) {
    hottest = std::max(hottest, gpu.temperature_c.value_or(INT64_MAX));
  }
  const auto left = offer.free - static_cast<std::int64_t>(offer.gpus.size());
  return std::tuple(!offer.linked && offer.gpus.size() > 1, unhealthy, left, hottest,
                    std::string_view(offer.host));
}

FleetOffer offer_of(const Host& host, const protocol::FreeGpus& answer) {
  FleetOffer offer{
      host.name, host.url, static_cast<std::int64_t>(answer.gpus.size()), answer.linked, {}};
  std::ranges::copy_if(answer.gpus, std::back_inserter(offer.gpus), &protocol::FreeGpu::chosen);
  return offer;
}

void add(std::optional<double>& sum, const std::optional<double>& one) {
  if (one) sum = sum.value_or(0) + *one;
}

void add_row(protocol::UsageRow& sum, const protocol::UsageRow& row) {
  const double hours = sum.gpu_hours + row.gpu_hours;
  // The mean of two means, weighted by the time of each.
  if (sum.mean_utilization_percent && row.mean_utilization_percent && hours > 0) {
    sum.mean_utilization_percent = (*sum.mean_utilization_percent * sum.gpu_hours +
                                    *row.mean_utilization_percent * row.gpu_hours) /
                                   hours;
  } else if (row.mean_utilization_percent) {
    sum.mean_utilization_percent = row.mean_utilization_percent;
  }
  sum.gpu_hours = hours;
  add(sum.energy_kwh, row.energy_kwh);
  sum.energy_estimated = sum.energy_estimated || row.energy_estimated;
  if (row.peak_memory_bytes) {
    sum.peak_memory_bytes = std::max(sum.peak_memory_bytes.value_or(0), *row.peak_memory_bytes);
  }
  sum.leases += row.leases;
  sum.energy_unknown_gpu_hours += row.energy_unknown_gpu_hours;
}

}  // namespace

FleetGpus gpus_of(const HostReplies<Brief>& all) {
  FleetGpus view;
  std::map<std::string, std::size_t> indexes;  // in view.gpus, by UUID
  for_each_machine(all, view, [&](const HostReply<Brief>& reply) {
    for (std::size_t i = 0; i < reply.answer.gpus.uuid.size(); ++i) {
      FleetGpu gpu = gpu_at(reply.host.name, reply.answer, i);
      const auto [entry, is_new] = indexes.emplace(gpu.uuid, view.gpus.size());
      // A GPU that could not be opened has no UUID.
      if (is_new || gpu.uuid.empty()) {
        view.gpus.push_back(std::move(gpu));
      } else {
        view.gpus[entry->second].also_on.push_back(gpu.host);
      }
    }
  });
  return view;
}

FleetNodes nodes_of(const HostReplies<Brief>& all) {
  FleetNodes view;
  for_each_machine(all, view, [&](const HostReply<Brief>& reply) {
    view.nodes.push_back(node_of(reply.host.name, reply.answer));
  });
  for (const FleetGpu& gpu : gpus_of(all).gpus) {
    ++view.gpus;
    view.free += gpu.use == protocol::GpuUse::free ? 1 : 0;
    add(view.power_w, gpu.power_w);
    view.power_unknown += gpu.power_w ? 0 : 1;
  }
  return view;
}

FleetUsers users_of(const FleetGpus& gpus) {
  FleetUsers view{static_cast<const FleetAnswer&>(gpus), {}};
  std::map<std::string, std::pair<FleetUser, Mean>> users;
  for (const FleetGpu& gpu : gpus.gpus) {
    const bool used = gpu.use != protocol::GpuUse::free && gpu.use != protocol::GpuUse::withheld;
    if (!used) continue;
    auto& [user, load] = users[gpu.user.value_or("?")];
    ++user.gpus;
    user.outside += gpu.use == protocol::GpuUse::outside ? 1 : 0;
    load.add(gpu.utilization_percent);
    if (user.places.empty() || user.places.back().host != gpu.host) {
      user.places.push_back({gpu.host, {}});
    }
    user.places.back().indexes.push_back(gpu.index);
  }
  for (auto& [name, counted] : users) {
    FleetUser& user = counted.first;
    user.user = name;
    user.utilization_percent = counted.second.get();
    view.users.push_back(std::move(user));
  }
  std::ranges::sort(view.users, {}, [](const FleetUser& user) {
    return std::pair(-user.gpus, std::string_view(user.user));
  });
  return view;
}

FleetOffers offers_of(const HostReplies<ReplyWithBrief<protocol::FreeGpus>>& all) {
  FleetOffers view;
  for_each_machine(all, view, [&](const auto& reply) {
    const protocol::FreeGpus& answer = reply.answer.answer;
    if (answer.enough) view.offers.push_back(offer_of(reply.host, answer));
  });
  std::ranges::sort(view.offers, {}, rank_of);
  // If two machines list a GPU, the better offer counts.
  std::set<std::string> offered;
  std::erase_if(view.offers, [&](const FleetOffer& offer) {
    const auto taken = [&](const auto& gpu) { return offered.contains(gpu.uuid); };
    if (std::ranges::any_of(offer.gpus, taken)) return true;
    for (const protocol::FreeGpu& gpu : offer.gpus) offered.insert(gpu.uuid);
    return false;
  });
  return view;
}

FleetQueue queue_of(const HostReplies<ReplyWithBrief<protocol::Queue>>& all) {
  FleetQueue view;
  for_each_machine(all, view, [&](const auto& reply) {
    for (const protocol::Lease& lease : reply.answer.answer.waiting) {
      view.waiting.push_back({reply.host.name, lease});
    }
  });
  std::ranges::sort(view.waiting, {}, [](const FleetClaim& one) {
    return std::tuple(one.lease.requested_wall, std::string_view(one.host),
                      std::string_view(one.lease.id));
  });
  return view;
}

FleetAlerts alerts_of(const HostReplies<ReplyWithBrief<protocol::Alerts>>& all) {
  FleetAlerts view;
  for_each_machine(all, view, [&](const auto& reply) {
    for (const protocol::Alert& alert : reply.answer.answer.alerts) {
      view.alerts.push_back({reply.host.name, alert});
    }
  });
  std::ranges::sort(view.alerts, [](const FleetAlert& one, const FleetAlert& other) {
    return std::tie(other.alert.severity, one.host, one.alert.number) <
           std::tie(one.alert.severity, other.host, other.alert.number);
  });
  return view;
}

FleetUsage usage_of(const HostReplies<ReplyWithBrief<protocol::Usage>>& all, bool by_host) {
  FleetUsage view;
  std::map<std::string, protocol::UsageRow> rows;
  for_each_machine(all, view, [&](const auto& reply) {
    const protocol::Usage& usage = reply.answer.answer;
    view.usage.by = usage.by;
    view.usage.since = std::max(view.usage.since, usage.since);
    view.usage.rows_left_out += usage.rows_left_out;
    add_row(view.usage.unleased, usage.unleased);
    for (const protocol::UsageRow& row : usage.rows) {
      add_row(rows[by_host ? reply.host.name : row.key], row);
    }
    for (const std::string& note : usage.notes) {
      view.usage.notes.push_back(reply.host.name + ": " + note);
    }
  });
  if (by_host) view.usage.by = "host";
  for (auto& [key, row] : rows) {
    row.key = key;
    view.usage.rows.push_back(std::move(row));
  }
  if (view.usage.by != "day") {
    std::ranges::sort(view.usage.rows, {}, [](const protocol::UsageRow& row) {
      return std::pair(-row.gpu_hours, std::string_view(row.key));
    });
  }
  view.usage.simulated = view.simulated;
  return view;
}

}  // namespace gpuyard::fleet
