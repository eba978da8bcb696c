#include "launcher/logs/pattern.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "estimator/spec/error.h"
#include "estimator/spec/words.h"
#include "launcher/logs/number.h"
#include "launcher/logs/text_set.h"

namespace planwright::launcher {
namespace {

/// A line that begins like the pattern this often and never goes on like it is made to cost time.
constexpr int kMostTries = 32;
constexpr double kMostWhole = 9007199254740992.0;  // 2^53
/// A smaller size without a unit may be in any.
constexpr double kLeastBareBytes = 65536;

bool is_blank(char c) { return c == ' ' || c == '\t'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '_'; }
bool is_quote(char c) { return c == '"' || c == '\''; }

std::size_t skip_blanks(std::string_view text, std::size_t at) {
  while (at < text.size() && is_blank(text[at])) ++at;
  return at;
}

/// One blank between two words stands for itself.
bool parts_words(std::string_view text, std::size_t at) {
  return at > 0 && at + 1 < text.size() && is_word(text[at - 1]) && is_word(text[at + 1]);
}

/// Without a call for the few bytes that it mostly is.
bool stands_at(std::string_view line, std::size_t at, std::string_view text) {
  if (at > line.size() || line.size() - at < text.size()) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (line[at + i] != text[i]) return false;
  }
  return true;
}

bool begins_word_inside(std::string_view text, std::size_t at) {
  return at > 0 && is_word(text[at]) && is_word(text[at - 1]);
}

/// Behind `'key': '` or `key =`; nullopt if no sign of equality is there.
std::optional<std::size_t> behind_equals(std::string_view text, std::size_t at) {
  while (at < text.size() && is_quote(text[at])) ++at;
  at = skip_blanks(text, at);
  if (at >= text.size() || (text[at] != ':' && text[at] != '=')) return std::nullopt;
  at = skip_blanks(text, at + 1);
  if (at < text.size() && is_quote(text[at])) ++at;
  return at;
}

/// 1000 for the k of "12.3k"; 1 if no such letter stands alone.
double scale_at(std::string_view text, std::size_t at) {
  if (at >= text.size() || (at + 1 < text.size() && is_word(text[at + 1]))) return 1;
  switch (text[at]) {
    case 'k':
    case 'K':
      return 1e3;
    case 'M':
      return 1e6;
    case 'G':
    case 'B':
      return 1e9;
    default:
      return 1;
  }
}

/// The number goes on in a way that makes it something else: a version, a word, a time of day.
bool goes_on(std::string_view text, std::size_t at, Quantity quantity) {
  if (at >= text.size()) return false;
  if (is_word(text[at])) return true;
  const bool digit_next = at + 1 < text.size() && is_digit(text[at + 1]);
  return digit_next && (text[at] == '.' || (text[at] == ':' && quantity == Quantity::seconds));
}

/// Nothing follows the number that could not be the beginning of more of it.
bool may_go_on(std::string_view rest) {
  return rest.find_first_not_of(" \t.,'_eE+-\xC2\xA0\xE2\x80\xAF\x89") == rest.npos;
}

bool fits(const Figure& figure, Quantity quantity) {
  switch (quantity) {
    case Quantity::whole:
      return figure.number >= 0 && figure.number < kMostWhole &&
             figure.number == std::floor(figure.number);
    case Quantity::bytes: {
      if (!std::isfinite(figure.number)) return false;
      if (figure.field == Field::allocated_peak_part) return true;
      const bool whole = figure.number == std::floor(figure.number);
      return figure.number >= 0 &&
             (figure.unit != LogUnit::bare || (whole && figure.number >= kLeastBareBytes));
    }
    case Quantity::seconds:
      return figure.number >= 0 && std::isfinite(figure.number);
    case Quantity::plain:
      return true;
  }
  return false;
}

/// Where the characters of a number, with a unit if `with_unit`, begin that end before `end`.
std::size_t begin_of_number(std::string_view text, std::size_t end, bool with_unit) {
  const auto back = [&](std::size_t at, const auto& belongs) {
    while (at > 0 && belongs(text[at - 1])) --at;
    return at;
  };
  std::size_t at = back(end, is_blank);
  if (with_unit) at = back(back(at, is_letter), is_blank);
  at = back(at, [](char c) {
    return is_digit(c) || c == '.' || c == ',' || c == '\'' || c == '_' || c == 'e' || c == 'E' ||
           c == '+' || c == '-' || static_cast<unsigned char>(c) >= 0x80 || c == 'k' || c == 'K' ||
           c == 'M';
  });
  while (at < end && !is_digit(text[at]) && text[at] != '-') ++at;
  return at;
}

}  // namespace

Pattern::Pattern(std::string_view text, const std::string& file, const std::string& key) {
  std::string piece;
  const auto refuse = [&](const std::string& rule, const std::string& nearest = "") {
    throw InputError({file, key, std::string(text), rule, nearest});
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if ((c == '{' || c == '}') && i + 1 < text.size() && text[i + 1] == c) {
      piece += text[i++];
    } else if (c == '{') {
      const std::size_t end = text.find('}', i);
      if (end == text.npos) refuse("has a brace that is not closed; a brace itself is {{");
      const std::string inside(text.substr(i + 1, end - i - 1));
      const bool known = inside == "*" || inside == "=" || inside == "^" || field_of_name(inside);
      if (!known) {
        refuse("has a field in braces that is none", nearest_word(inside, field_names(), "{", "}"));
      }
      add_text(piece);
      piece.clear();
      if (inside == "^" && !tokens_.empty()) refuse("may have {^} only at its beginning");
      add_braces(inside);
      i = end;
    } else if (c == '}') {
      refuse("has a closing brace without an opening one; a brace itself is }}");
    } else {
      piece += c;
    }
  }
  add_text(piece);
  const bool blanks_first = !tokens_.empty() && tokens_[0].kind == Kind::blanks;
  if (blanks_first && !at_line_begin_) tokens_.erase(tokens_.begin());
  choose_anchor();
  if (const std::string rule = problem(); !rule.empty()) refuse(rule);
  fold_blanks();
}

void Pattern::add_text(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t begin = at;
    if (is_blank(text[at])) {
      at = skip_blanks(text, at);
      tokens_.push_back({Kind::blanks});
    } else {
      while (at < text.size() && (!is_blank(text[at]) || parts_words(text, at))) ++at;
      tokens_.push_back({Kind::text, std::string(text.substr(begin, at - begin))});
    }
  }
}

void Pattern::add_braces(std::string_view inside) {
  if (inside == "^") {
    at_line_begin_ = true;
  } else if (inside == "*") {
    tokens_.push_back({Kind::any});
  } else if (inside == "=") {
    tokens_.push_back({Kind::equals});
  } else {
    const FieldName name = field_of_name(inside).value_or(FieldName{});
    tokens_.push_back({Kind::field, "", name, quantity(name.field)});
    fields_.push_back(name.field);
  }
}

std::string Pattern::problem() const {
  if (anchor_.size() < 2) return "needs two characters of text that stand together in the line";
  for (std::size_t i = 0; i + 1 < tokens_.size(); ++i) {
    std::size_t next = i + 1;
    if (tokens_[next].kind == Kind::blanks && next + 1 < tokens_.size()) ++next;
    const bool text = tokens_[next].kind == Kind::text;
    if (tokens_[i].kind == Kind::any && !text) return "needs text behind {*}";
    const bool field_next = tokens_[next].kind == Kind::field;
    if (tokens_[i].kind == Kind::field && field_next) return "needs text between two fields";
    if (i == 0 && tokens_[i].kind == Kind::field && !at_line_begin_ && !text) {
      return "needs text behind the field at its beginning";
    }
  }
  if (!tokens_.empty() && tokens_[0].kind == Kind::any) return "begins anywhere without {*}";
  if (!tokens_.empty() && tokens_[0].kind == Kind::equals) return "needs a key before {=}";
  return "";
}

void Pattern::choose_anchor() {
  for (const Token& each : tokens_) {
    if (each.kind != Kind::text) continue;
    if (anchor_.empty() || commonness(each.text) < commonness(anchor_)) anchor_ = each.text;
  }
}

/// They are no tokens any more, but a mark of the one behind them.
void Pattern::fold_blanks() {
  std::vector<Token> folded;
  bool blanks = false;
  for (Token& each : tokens_) {
    const bool behind = std::exchange(blanks, each.kind == Kind::blanks);
    if (blanks) continue;
    each.behind_blanks = behind;
    folded.push_back(std::move(each));
  }
  tokens_ = std::move(folded);
  while (tokens_[first_text_].kind != Kind::text) ++first_text_;
  anchor_is_first_ = tokens_[first_text_].text == anchor_;
}

bool Pattern::find(const LineText& line, std::vector<Figure>& figures, Places anchors) const {
  const std::size_t known = figures.size();
  if (at_line_begin_) {
    const bool found = match_rest(line, begin(), 0, figures);
    if (!found) figures.resize(known);
    return found;
  }
  const std::string& text = tokens_[first_text_].text;
  std::size_t at = anchor_is_first_ ? anchors.first : 0;
  if (!stands_at(line.text, at, text)) at = line.text.find(text, at);
  for (int tries = 0; at != line.text.npos && tries < kMostTries; ++tries) {
    if (at > anchors.last) return false;  // it is the first text, or stands behind it
    const bool found =
        tokens_[0].kind == Kind::field
            ? match_leading_field(line, at, figures)
            : !begins_word_inside(line.text, at) &&
                  match_rest(line, begin() + first_text_ + 1, at + text.size(), figures);
    if (found) return true;
    figures.resize(known);
    if (at == anchors.last) return false;
    at = line.text.find(text, at + 1);
  }
  return false;
}

bool Pattern::match_leading_field(const LineText& line, std::size_t text_at,
                                  std::vector<Figure>& figures) const {
  const Quantity its = tokens_[0].quantity;
  const bool with_unit = tokens_[0].field.unit == LogUnit::bare &&
                         (its == Quantity::seconds || its == Quantity::bytes);
  const std::size_t begin = begin_of_number(line.text, text_at, with_unit);
  if (begin >= text_at || begins_word_inside(line.text, begin)) return false;
  const Place field = match_field(line, tokens_.data(), begin, figures);
  const bool ends_here = field.found && skip_blanks(line.text, field.end) == text_at;
  return ends_here && match_rest(line, tokens_.data() + first_text_, text_at, figures);
}

bool Pattern::match_rest(const LineText& line, const Token* token, std::size_t at,
                         std::vector<Figure>& figures) const {
  const Token* star = nullptr;
  std::size_t star_at = 0, star_figures = 0;
  int tries = 0;
  for (const Token* const last = end(); token != last;) {
    if (token->kind == Kind::any) {
      star = token++;
      star_at = at;
      star_figures = figures.size();
      continue;
    }
    const Place place = match_token(line, token, at, figures);
    if (place.found) {
      at = place.end;
      ++token;
      continue;
    }
    if (star == nullptr || ++tries > kMostTries) return false;
    figures.resize(star_figures);
    const Token* const text = star + 1;
    star_at = line.text.find(text->text, token == text ? star_at : star_at + 1);
    if (star_at == line.text.npos) return false;
    at = star_at;
    token = text;
  }
  return ends_well(line.text, at);
}

/// Not inside a word. And if a number stood before the text, the text is not the key of the next
/// one, as in "time 0.5 tokens/s: 800".
bool Pattern::ends_well(std::string_view line, std::size_t end) const {
  if (tokens_.back().kind == Kind::text && end < line.size() && begins_word_inside(line, end)) {
    return false;
  }
  return tokens_[0].kind != Kind::field || !behind_equals(line, end);
}

inline Pattern::Place Pattern::match_token(const LineText& line, const Token* token, std::size_t at,
                                           std::vector<Figure>& figures) const {
  if (token->kind == Kind::field) return match_field(line, token, at, figures);
  if (token->behind_blanks) at = skip_blanks(line.text, at);
  if (token->kind == Kind::text) {
    return {stands_at(line.text, at, token->text), at + token->text.size()};
  }
  const auto behind = behind_equals(line.text, at);
  return {behind.has_value(), behind.value_or(at)};
}

Pattern::Place Pattern::match_field(const LineText& line, const Token* token, std::size_t at,
                                    std::vector<Figure>& figures) const {
  const FieldName& name = token->field;
  const Quantity its = token->quantity;
  at = skip_blanks(line.text, at);
  const NumberInText number =
      number_at(line.text.substr(std::min(at, line.text.size())), line.decimal_comma);
  if (number.length == 0) return {};
  const std::string_view digits = line.text.substr(at, number.length);
  const char point = line.decimal_comma ? ',' : '.';
  if (its == Quantity::whole && std::count(digits.begin(), digits.end(), point) > 0) return {};
  Figure figure{name.field, name.unit, number.value};
  at += number.length;
  std::size_t end = at;  // of all that belongs to the number
  if (name.unit == LogUnit::bare && (its == Quantity::seconds || its == Quantity::bytes)) {
    const std::size_t letters = skip_blanks(line.text, at);
    const UnitInText unit = unit_at(line.text.substr(letters), its);
    figure.unit = unit.unit;
    end = std::max(letters, at);
    if (unit.length > 0) at = end = letters + unit.length;
  } else if (its != Quantity::whole && scale_at(line.text, at) != 1) {
    figure.number *= scale_at(line.text, at);
    end = ++at;
  }
  if (line.cut && may_go_on(line.text.substr(std::min(end, line.text.size())))) return {};
  if (goes_on(line.text, at, its) && !text_follows(line, token, at)) return {};
  if (!fits(figure, its)) return {};
  figures.push_back(figure);
  return {true, at};
}

bool Pattern::text_follows(const LineText& line, const Token* token, std::size_t at) const {
  const Token* const next = token + 1;
  return next != end() && next->kind == Kind::text && !next->behind_blanks &&
         stands_at(line.text, at, next->text);
}

}  // namespace planwright::launcher
