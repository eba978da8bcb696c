#include "launcher/logs/line_figures.h"

namespace planwright::launcher {
namespace {

Stated in_base_units(const Figure& figure, bool binary_units) {
  return {figure.number * unit_factor(figure.unit, binary_units), figure.number, figure.unit};
}

}  // namespace

void LineFigures::add(const Figure* figures, std::size_t count, bool binary_units) {
  auto& parts = values_[static_cast<std::size_t>(Field::part_time)];
  const bool parts_known = parts.has_value();
  for (std::size_t i = 0; i < count; ++i) {
    const Figure& figure = figures[i];
    auto& kept = values_[static_cast<std::size_t>(figure.field)];
    const Stated stated = in_base_units(figure, binary_units);
    if (!kept) {
      kept = stated;
    } else if (figure.field == Field::part_time && !parts_known) {
      kept->value += stated.value;
    }
    ++count_;
  }
}

}  // namespace planwright::launcher
