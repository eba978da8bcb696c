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

/// Where a text may stand in a line: neither before nor behind these places.
struct Places {
  std::size_t first = 0;
  std::size_t last = std::string_view::npos;
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
  /// Adds its figures, in their order, if it is found. `anchors` is what is known of the anchor.
  bool find(const LineText& line, std::vector<Figure>& figures, Places anchors = {}) const;

 private:
  enum class Kind : std::uint8_t { text, blanks, any, equals, field };
  struct Token {
    Kind kind;
    std::string text{};
    FieldName field{};
    Quantity quantity = Quantity::plain;
    bool behind_blanks = false;  ///< any number of them; so is every field
  };
  struct Place {
    bool found = false;
    std::size_t end = 0;
  };

  const Token* begin() const { return tokens_.data(); }
  const Token* end() const { return tokens_.data() + tokens_.size(); }
  void add_text(std::string_view text);
  void add_braces(std::string_view inside);
  std::string problem() const;
  void choose_anchor();
  void fold_blanks();
  bool match_leading_field(const LineText& line, std::size_t text_at,
                           std::vector<Figure>& figures) const;
  bool match_rest(const LineText& line, const Token* token, std::size_t at,
                  std::vector<Figure>& figures) const;
  Place match_token(const LineText& line, const Token* token, std::size_t at,
                    std::vector<Figure>& figures) const;
  Place match_field(const LineText& line, const Token* token, std::size_t at,
                    std::vector<Figure>& figures) const;
  bool ends_well(std::string_view line, std::size_t end) const;
  bool text_follows(const LineText& line, const Token* token, std::size_t at) const;

  std::vector<Token> tokens_;
  std::vector<Field> fields_;
  bool at_line_begin_ = false;
  std::string anchor_;
  std::size_t first_text_ = 0;  ///< of the tokens
  bool anchor_is_first_ = false;
};

}  // namespace planwright::launcher
