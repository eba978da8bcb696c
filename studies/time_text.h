#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace planwright::studies {

/// `YYYY-MM-DD HH:MM:SS.ffffff` in UTC: the only form that every Optuna reads right. Up to 4.9 it
/// means local time there, from 5.0 on UTC; nothing in a file says which, and we follow 5.0.
std::string time_text(double unix_s);

/// The reverse, for this form with or without a fraction; nullopt for any other text.
std::optional<double> unix_time(std::string_view text);

}  // namespace planwright::studies
