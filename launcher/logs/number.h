#pragma once

#include <cstddef>
#include <string_view>

namespace planwright::launcher {

struct NumberInText {
  double value = 0;
  std::size_t length = 0;  ///< 0: there is none
};

/// The number at the beginning of `text`: sign, digits, fraction, exponent, or inf and nan in any
/// letters. Digits may stand in groups of three, parted by a comma, point, apostrophe, underscore
/// or a no-break blank. Of a comma and a point the later one begins the fraction. One comma alone
/// does if what follows is no group of three or if `decimal_comma`, under which one point alone
/// parts groups. Of what makes no such number, as "1,2,3", the beginning that does is read.
NumberInText number_at(std::string_view text, bool decimal_comma);

}  // namespace planwright::launcher
