#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/logs/failure_signs.h"
#include "launcher/logs/line_cutter.h"
#include "launcher/logs/line_figures.h"
#include "launcher/logs/log_books.h"
#include "launcher/logs/log_format.h"
#include "launcher/logs/log_summary.h"
#include "launcher/logs/pattern.h"
#include "launcher/logs/text_set.h"

namespace planwright::launcher {

/// Reads one log, of one rank or of several whose lines are mixed, as it comes: figures by the
/// formats given, the earlier first, and failures by failure_signs.h. However the bytes are cut
/// into chunks, the summary is the same. Colours, progress bars, bytes that are no text and endless
/// lines do no harm; memory does not grow with the log.
class LogReader {
 public:
  /// An InputError that names the format if a pattern of it is none.
  explicit LogReader(const std::vector<LogFormat>& formats);

  void append(std::string_view bytes);
  /// Bytes of the log are missing between what was appended and what will be: neither end of the
  /// gap is taken for a whole line.
  void gap();
  /// Takes what no line end followed as a line that was cut. The reader is used up.
  LogSummary finish();

 private:
  enum class Role : std::uint8_t { ignored, figures, sign, traceback, exception };
  /// What a text that is found in a line may be a part of.
  struct Search {
    Role role;
    std::size_t row = 0;   ///< in the table of its role
    std::size_t text = 0;  ///< its number
  };
  struct Text {
    std::vector<std::size_t> searches;
    std::int64_t found_in = 0;  ///< the line in which it was found last
    Places places;              ///< where it stands there
  };
  struct FigurePattern {
    Pattern pattern;
    FieldSet fields = 0;  ///< none if it is to be tried whatever is known already
    bool decimal_comma = false;
    bool binary_units = false;
  };
  struct Line {
    std::optional<int> rank;
    LineText text;
    std::size_t prefix = 0;  ///< what stands before `text`
  };

  void add_search(const std::string& text, Role role, std::size_t row);
  void read_line(std::string_view raw, bool cut);
  void look_for(std::string_view text);
  bool found(Role role) const { return (found_roles_ >> static_cast<unsigned>(role) & 1U) != 0; }
  bool matches(const Pattern& pattern, const Search& search, const Line& line, bool decimal_comma);
  bool is_ignored(const Line& line);
  void read_figures(const Line& line);
  void read_failure(const Line& line);
  bool in_traceback(const Line& line);
  bool read_sign(const Line& line, bool warning);
  void add_failure(const Line& line, std::optional<int> rank, const FailureSign& sign);
  LoggedOutOfMemory read_details(const Line& line);

  std::vector<FigurePattern> figure_patterns_;
  std::vector<Pattern> ignored_, signs_, details_;
  TextSet texts_;
  std::vector<Text> text_rows_;
  std::vector<Search> searches_;

  LineCutter cutter_;
  LogBooks books_;
  std::map<std::optional<int>, int> tracebacks_;  ///< lines since each rank's began
  std::int64_t lines_ = 0, bytes_ = 0;
  // Of one line, kept to spare allocations.
  std::string without_escapes_;
  std::vector<std::size_t> found_;  ///< searches
  unsigned found_roles_ = 0;        ///< a bit for each
  std::vector<Figure> figures_;
  LineFigures line_figures_;
};

}  // namespace planwright::launcher
