#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/logs/field.h"

namespace planwright::launcher {

/// A number of a line, as stated.
struct Figure {
  Field field = Field::number;
  LogUnit unit = LogUnit::bare;
  double number = 0;
};

struct LineText {
  std::string_view text;
  bool cut = false;  ///< more may have followed; a number at its end may lack digits or its unit
  bool decimal_comma = false;
};

/// A pattern of log_format.h, ready to be found in lines.
class Pattern {
 public:
  /// An InputError with `file` and `key` if the text is no pattern.
  Pattern(std::string_view text, const std::string& file, const std::string& key);

  /// A piece of text without which it is not found.
  const std::string& anchor() const { return anchor_; }
  /// The fields that it has.
  const std::vector<Field>& fields() const { return fields_; }
  /// Adds its figures, in their order, if it is found. `anchor_at` is where the anchor stands
  /// first, if that is known.
  bool find(const LineText& line, std::vector<Figure>& figures,
            std::size_t anchor_at = std::string_view::npos) const;

 private:
  enum class Kind : std::uint8_t { text, blanks, any, equals, field };
  struct Token {
    Kind kind;
    std::string text{};
    FieldName field{};
    Quantity quantity = Quantity::plain;
  };
  struct Place {
    bool found = false;
    std::size_t end = 0;
  };

  void add_text(std::string_view text);
  void add_braces(std::string_view inside);
  std::string problem() const;
  void choose_anchor();
  bool match_leading_field(const LineText& line, std::size_t text_at,
                           std::vector<Figure>& figures) const;
  bool match_rest(const LineText& line, std::size_t token, std::size_t at,
                  std::vector<Figure>& figures) const;
  Place match_token(const LineText& line, std::size_t token, std::size_t at,
                    std::vector<Figure>& figures) const;
  Place match_field(const LineText& line, std::size_t token, std::size_t at,
                    std::vector<Figure>& figures) const;
  bool ends_well(std::string_view line, std::size_t end) const;
  bool text_follows(const LineText& line, std::size_t token, std::size_t at) const;

  std::vector<Token> tokens_;
  std::vector<Field> fields_;
  bool at_line_begin_ = false;
  std::string anchor_;
  std::size_t first_text_ = 0;  ///< of the tokens
  bool anchor_is_first_ = false;
};

}  // namespace planwright::launcher
