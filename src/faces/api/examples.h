// Answers and bodies as the API's description shows them: two simulated H100 at one moment. An
// answer type with no overload here has no example, and a test says so.
#pragma once

#include <string_view>
#include <type_traits>

#include "protocol/alerts.h"
#include "protocol/control.h"
#include "protocol/energy.h"
#include "protocol/history.h"
#include "protocol/leases.h"
#include "protocol/resources.h"
#include "protocol/route.h"

namespace gpuyard::api {

protocol::GPUDevicesResponse example_of(std::type_identity<protocol::GPUDevicesResponse>);
protocol::Device example_of(std::type_identity<protocol::Device>);
protocol::DeviceProcesses example_of(std::type_identity<protocol::DeviceProcesses>);
protocol::History example_of(std::type_identity<protocol::History>);
protocol::DriverInfo example_of(std::type_identity<protocol::DriverInfo>);
protocol::Snapshot example_of(std::type_identity<protocol::Snapshot>);
protocol::EnergyReport example_of(std::type_identity<protocol::EnergyReport>);
protocol::EnergyWindowWish example_of(std::type_identity<protocol::EnergyWindowWish>);
protocol::EnergyWindow example_of(std::type_identity<protocol::EnergyWindow>);
protocol::EnergyWindows example_of(std::type_identity<protocol::EnergyWindows>);
protocol::PowerLimitWish example_of(std::type_identity<protocol::PowerLimitWish>);
protocol::ClocksWish example_of(std::type_identity<protocol::ClocksWish>);
protocol::EnabledWish example_of(std::type_identity<protocol::EnabledWish>);
protocol::ComputeModeWish example_of(std::type_identity<protocol::ComputeModeWish>);
protocol::ClearEccWish example_of(std::type_identity<protocol::ClearEccWish>);
protocol::ChangeWish example_of(std::type_identity<protocol::ChangeWish>);
protocol::Changes example_of(std::type_identity<protocol::Changes>);
protocol::Management example_of(std::type_identity<protocol::Management>);
protocol::Operation example_of(std::type_identity<protocol::Operation>);
protocol::Operations example_of(std::type_identity<protocol::Operations>);
protocol::Audit example_of(std::type_identity<protocol::Audit>);
protocol::LeaseWish example_of(std::type_identity<protocol::LeaseWish>);
protocol::LeaseAnswer example_of(std::type_identity<protocol::LeaseAnswer>);
protocol::Leases example_of(std::type_identity<protocol::Leases>);
protocol::Queue example_of(std::type_identity<protocol::Queue>);
protocol::RenewWish example_of(std::type_identity<protocol::RenewWish>);
protocol::MemberWish example_of(std::type_identity<protocol::MemberWish>);
protocol::AdoptWish example_of(std::type_identity<protocol::AdoptWish>);
protocol::CordonWish example_of(std::type_identity<protocol::CordonWish>);
protocol::Cordoned example_of(std::type_identity<protocol::Cordoned>);
protocol::Load example_of(std::type_identity<protocol::Load>);
protocol::Usage example_of(std::type_identity<protocol::Usage>);
protocol::Alerts example_of(std::type_identity<protocol::Alerts>);
protocol::AlertHistory example_of(std::type_identity<protocol::AlertHistory>);
protocol::AcknowledgeWish example_of(std::type_identity<protocol::AcknowledgeWish>);
protocol::AlertAnswer example_of(std::type_identity<protocol::AlertAnswer>);
protocol::SinkTestWish example_of(std::type_identity<protocol::SinkTestWish>);
protocol::SinkTests example_of(std::type_identity<protocol::SinkTests>);
protocol::Silences example_of(std::type_identity<protocol::Silences>);
protocol::SilenceWish example_of(std::type_identity<protocol::SilenceWish>);
protocol::Silence example_of(std::type_identity<protocol::Silence>);
protocol::Rules example_of(std::type_identity<protocol::Rules>);
protocol::Sinks example_of(std::type_identity<protocol::Sinks>);
protocol::Health example_of(std::type_identity<protocol::Health>);
protocol::Readiness example_of(std::type_identity<protocol::Readiness>);

template <class Answer>
concept HasExample = requires { example_of(std::type_identity<Answer>{}); };

inline constexpr const char* kBusyGpu = "GPU-ce751ccb-2c51-4ca8-8a5f-e1cbf99717fc";
inline constexpr const char* kIdleGpu = "GPU-605b2143-4b29-4751-859c-a43e91df2009";
inline constexpr const char* kGpuName = "NVIDIA H100 80GB HBM3";
inline constexpr const char* kAskedAt = "2026-01-01T00:05:00.118Z";
inline constexpr std::string_view kWindowExample = "5d0c3bfa91e2764e";
inline constexpr std::string_view kOperationExample = "11";
inline constexpr std::string_view kSilenceExample = "3bb01fd2a95c77e0";
inline constexpr const char* kLeaseExample = "9f2c41d07be3a865";

// Of an answer that is text; "" where none would help.
std::string_view text_example(const protocol::RouteInfo&);

// Of the parameter of this name.
std::string_view parameter_example(const protocol::RouteInfo&, std::string_view name);

// What an error of this kind says.
Error error_example(Errc, const protocol::RouteInfo&);

}  // namespace gpuyard::api
