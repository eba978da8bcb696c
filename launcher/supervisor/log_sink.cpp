#include "launcher/supervisor/log_sink.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "launcher/group_protocol.h"

namespace planwright::supervisor {

using launcher::kLogHead;
using launcher::kLogTail;

LogSink::LogSink(const std::string& path) {
  if (path.empty()) return;
  file_ = launcher::UniqueFd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
}

void LogSink::append(std::string_view bytes) {
  if (total_ < kLogHead) write_out(bytes.substr(0, kLogHead - total_));
  total_ += bytes.size();
  recent_ += bytes.substr(bytes.size() - std::min(bytes.size(), kLogTail));
  if (recent_.size() > 2 * kLogTail) recent_.erase(0, recent_.size() - kLogTail);
}

std::string_view LogSink::tail() const {
  const std::string_view all = recent_;
  return all.substr(all.size() - std::min(all.size(), kLogTail));
}

void LogSink::finish() {
  if (total_ <= kLogHead) return;
  const std::size_t missing = total_ - kLogHead;
  const std::string_view end = tail().substr(tail().size() - std::min(tail().size(), missing));
  if (missing > end.size()) {
    write_out("\n[" + std::to_string(missing - end.size()) + std::string(launcher::kLeftOut));
  }
  write_out(end);
}

void LogSink::write_out(std::string_view bytes) {
  while (file_ && !bytes.empty()) {
    const ssize_t n = write(file_.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      file_.reset();
    else
      bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace planwright::supervisor
