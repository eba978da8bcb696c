#pragma once

#include <string>

#include "launcher/group_protocol.h"

namespace planwright::supervisor {

/// Sends events without ever waiting for the reader: what does not fit the pipe is kept, and while
/// too much is kept, progress is dropped. A tuner that is stopped in a debugger so holds up neither
/// the ranks nor their end.
class EventWriter {
 public:
  explicit EventWriter(int fd);

  void send(const launcher::GroupEvent& event);
  /// Writes as much as the pipe takes.
  void flush();
  /// Waits for the reader, at most `timeout_s`, until everything is written.
  void drain(double timeout_s);

  bool pending() const { return !kept_.empty(); }
  bool reader_gone() const { return reader_gone_; }

 private:
  int fd_;
  std::string kept_;
  bool reader_gone_ = false;
};

}  // namespace planwright::supervisor
