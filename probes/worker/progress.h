#pragma once

#include <string_view>

namespace planwright::worker {

/// Signs of life to whoever started the rank (probes/protocol/probe_report.h). Make it before any
/// file is opened: a descriptor that is not open then is never written to.
class Progress {
 public:
  Progress();
  void step(int number) const;
  void alive() const;

 private:
  void line(std::string_view text) const;
  bool open_;
};

}  // namespace planwright::worker
