#include "estimator/spec/error.h"

#include <utility>

namespace planwright {
namespace {

std::string message(const InputFault& fault) {
  std::string text;
  if (!fault.file.empty()) text += fault.file + ": ";
  if (!fault.key.empty()) text += fault.key;
  if (!fault.value.empty()) text += (fault.key.empty() ? "" : " = ") + fault.value;
  if (!fault.key.empty() || !fault.value.empty()) text += ": ";
  text += fault.rule;
  if (!fault.nearest.empty()) text += "; did you mean " + fault.nearest + "?";
  return text;
}

}  // namespace

InputError::InputError(InputFault fault)
    : std::runtime_error(message(fault)), fault_(std::move(fault)) {}

}  // namespace planwright
