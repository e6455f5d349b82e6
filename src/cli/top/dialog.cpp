#include "cli/top/dialog.h"

#include <fmt/format.h>

namespace gpuyard::cli::top {

void edit_text(std::string& text, const Stroke& stroke) {
  constexpr std::size_t kMaxTextBytes = 1000;  // bytes
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; };
  if (stroke.what == Stroke::Kind::backspace) {
    while (!text.empty() && continues(text.back())) text.pop_back();
    if (!text.empty()) text.pop_back();
  }
  if (stroke.what != Stroke::Kind::sign) return;
  if (stroke.sign == "\x15") text.clear();  // Ctrl-U
  const bool shown = static_cast<unsigned char>(stroke.sign.front()) >= ' ';
  if (shown && text.size() < kMaxTextBytes) text += stroke.sign;
}

bool handle_stroke(Dialog& dialog, const Stroke& stroke) {
  using Kind = Stroke::Kind;
  Action& action = dialog.action;
  const std::size_t places = action.fields.size() + (action.confirmation.empty() ? 0 : 1);
  dialog.error.clear();
  if (places > 0) {
    if (stroke.what == Kind::tab || stroke.what == Kind::down) {
      dialog.field = (dialog.field + 1) % places;
    }
    if (stroke.what == Kind::up) dialog.field = (dialog.field + places - 1) % places;
    std::string& text = dialog.field < action.fields.size() ? action.fields[dialog.field].value
                                                            : dialog.typed_confirmation;
    edit_text(text, stroke);
  }
  if (stroke.what != Kind::enter) return false;
  for (const DialogField& field : action.fields) {
    if (field.value.empty() && !field.optional) dialog.error = field.label + " is required";
  }
  if (dialog.error.empty() && dialog.typed_confirmation != action.confirmation) {
    dialog.error = fmt::format("enter {}: this affects other users", action.confirmation);
    dialog.field = action.fields.size();
  }
  return dialog.error.empty();
}

}  // namespace gpuyard::cli::top
