#include "launcher/supervisor/event_writer.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "launcher/clock.h"

namespace planwright::supervisor {
namespace {

constexpr std::size_t kKeptLimit = 1024 * 1024;

}  // namespace

EventWriter::EventWriter(int fd) : fd_(fd) {
  fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) | O_NONBLOCK);
}

void EventWriter::send(const launcher::GroupEvent& event) {
  const bool optional = std::holds_alternative<launcher::RankProgress>(event);
  if (optional && kept_.size() > kKeptLimit) return;
  // Output of programs may be no UTF-8; such bytes become U+FFFD.
  kept_ += launcher::to_json(event).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  flush();
}

void EventWriter::flush() {
  while (!kept_.empty() && !reader_gone_) {
    const ssize_t n = write(fd_, kept_.data(), kept_.size());
    if (n > 0) {
      kept_.erase(0, static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      return;
    } else if (errno != EINTR) {
      reader_gone_ = true;
    }
  }
}

void EventWriter::drain(double timeout_s) {
  const double until = launcher::monotonic_s() + timeout_s;
  while (pending() && !reader_gone_ && launcher::monotonic_s() < until) {
    pollfd ready{fd_, POLLOUT, 0};
    poll(&ready, 1, 50);
    flush();
  }
}

}  // namespace planwright::supervisor
