#include "launcher/logs/line_figures.h"

namespace planwright::launcher {
namespace {

Stated in_base_units(const Figure& figure, bool binary_units) {
  return {figure.number * unit_factor(figure.unit, binary_units), figure.number, figure.unit};
}

}  // namespace

void LineFigures::add(const Figure* figures, std::size_t count, bool binary_units) {
  const FieldSet known = known_;
  for (std::size_t i = 0; i < count; ++i) {
    const Figure& figure = figures[i];
    const FieldSet bit = field_bit(figure.field);
    Stated& kept = values_[static_cast<std::size_t>(figure.field)];
    if ((known_ & bit) == 0) {
      kept = in_base_units(figure, binary_units);
      known_ |= bit;
    } else if (figure.field == Field::part_time && (known & bit) == 0) {
      kept.value += in_base_units(figure, binary_units).value;
    }
  }
}

}  // namespace planwright::launcher
