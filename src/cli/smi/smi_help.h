// nvidia-smi's lists of the fields that its queries take. Programs read the quoted names.
#pragma once

#include <span>
#include <string_view>

#include "cli/screen/printable.h"

namespace gpuyard::cli {

Printable smi_gpu_field_help();
Printable smi_process_field_help();
Printable smi_row_field_help();

// The fields of --query-remapped-rows, by nvidia-smi's names.
std::span<const std::string_view> smi_row_fields();

}  // namespace gpuyard::cli
